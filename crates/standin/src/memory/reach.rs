//! Which memory a launch can reach: what its parameters point to, what stands there, and so on.
//!
//! Only that memory is copied for the launch. A word is taken for an address if it lies in an allocation; one that
//! only looks like an address costs a copy and changes nothing.

use super::{Kind, Memory};
use crate::result::Outcome;
use std::collections::BTreeMap;

/// A copy of an allocation that a launch can reach.
pub struct Reached {
    /// Where it starts.
    pub base: u64,
    /// What it is called in reports.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Whether kernels may only read it.
    pub read_only: bool,
    /// Whether anything was ever put there.
    pub written: bool,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// Copies the memory that parameters and variables lead to, by address.
///
/// # Safety
/// Registered memory must still be memory of the program.
pub unsafe fn reach(
    memory: &Memory,
    params: &[Vec<u8>],
    variables: impl Iterator<Item = u64>,
) -> Outcome<Vec<Reached>> {
    let mut found: BTreeMap<u64, Reached> = BTreeMap::new();
    let mut next: Vec<(u64, Option<usize>)> = variables.map(|address| (address, None)).collect();
    for (number, param) in params.iter().enumerate() {
        next.extend(addresses(param, memory).map(|address| (address, Some(number))));
    }
    // The first parameter that leads somewhere gives the name.
    next.reverse();
    while let Some((address, param)) = next.pop() {
        let Some((base, allocation)) = memory.find(address) else { continue };
        if found.contains_key(&base) {
            continue;
        }
        // SAFETY: an allocation is memory of ours; the caller vouches for registered memory.
        let bytes = unsafe { memory.read(base, allocation.bytes)? };
        next.extend(addresses(&bytes, memory).map(|address| (address, None)));
        let number = allocation.number;
        let name = match (&allocation.name, param) {
            (Some(name), _) => name.clone(),
            (None, Some(param)) => format!("argument {param}"),
            (None, None) => format!("allocation {number}"),
        };
        let (kind, read_only, written) =
            (allocation.kind, allocation.read_only, allocation.written);
        found.insert(base, Reached { base, name, kind, read_only, written, bytes });
    }
    Ok(found.into_values().collect())
}

/// The words of `bytes` that may be addresses of memory.
fn addresses<'a>(bytes: &'a [u8], memory: &'a Memory) -> impl Iterator<Item = u64> + 'a {
    let (first, end) = memory.bounds();
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.filter(move |word| (first..end).contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_behind_memory_is_reached_and_no_other() {
        let mut memory = Memory::new();
        let mut allocate = || memory.allocate(64, 1, Kind::Device).unwrap();
        let (table, data, other) = (allocate(), allocate(), allocate());
        // SAFETY: device addresses are looked up, not followed.
        let reached = unsafe {
            memory.write(table + 8, &(data + 63).to_le_bytes()).unwrap();
            let params = [vec![0; 4], (table + 8).to_le_bytes().to_vec()];
            reach(&memory, &params, std::iter::empty()).unwrap()
        };
        let names: Vec<(u64, &str)> = reached.iter().map(|r| (r.base, r.name.as_str())).collect();
        assert_eq!(names, [(table, "argument 1"), (data, "allocation 1")]);
        assert!(reached.iter().all(|r| r.base != other));
    }
}

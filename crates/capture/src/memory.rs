//! The memory of the program that kernels can reach, and what a launch can reach of it.

use crate::real;
use std::collections::{BTreeMap, HashSet};

/// What a piece of memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory of the device, or managed memory.
    Device,
    /// Memory of the host, at the same address.
    Host,
    /// Mapped by `cuMemMap`: pieces that touch each other are one.
    Mapped,
}

/// A piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Where it starts.
    pub base: u64,
    /// Its size.
    pub bytes: u64,
    /// What it is.
    pub kind: Kind,
}

/// All memory that is known, by address.
#[derive(Debug, Default)]
pub struct Memory(BTreeMap<u64, (u64, Kind)>);

impl Memory {
    /// Takes note of memory.
    pub fn add(&mut self, base: u64, bytes: u64, kind: Kind) {
        if base != 0 && bytes != 0 {
            self.0.insert(base, (bytes, kind));
        }
    }

    /// Forgets memory that was given back.
    pub fn remove(&mut self, base: u64) {
        self.0.remove(&base);
    }

    /// Forgets every piece of a range.
    pub fn remove_range(&mut self, base: u64, bytes: u64) {
        self.0.retain(|start, _| !(base..base.saturating_add(bytes)).contains(start));
    }

    /// The piece that an address lies in.
    pub fn find(&self, address: u64) -> Option<Allocation> {
        let (base, (bytes, kind)) = self.0.range(..=address).next_back()?;
        let found = Allocation { base: *base, bytes: *bytes, kind: *kind };
        if address - base >= *bytes {
            return None;
        }
        Some(if *kind == Kind::Mapped { self.joined(found) } else { found })
    }

    /// A mapped piece with those that touch it.
    fn joined(&self, mut piece: Allocation) -> Allocation {
        let mapped = |(_, (_, kind)): &(&u64, &(u64, Kind))| *kind == Kind::Mapped;
        for (base, (bytes, _)) in self.0.range(..piece.base).rev().take_while(mapped) {
            if base + bytes != piece.base {
                break;
            }
            (piece.base, piece.bytes) = (*base, piece.bytes + bytes);
        }
        for (base, (bytes, _)) in self.0.range(piece.base + piece.bytes..).take_while(mapped) {
            if *base != piece.base + piece.bytes {
                break;
            }
            piece.bytes += bytes;
        }
        piece
    }
}

/// A copy of memory that a launch can reach.
pub struct Reached {
    /// Where it is.
    pub allocation: Allocation,
    /// What it is called in reports.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// Why memory was not copied.
#[derive(Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// It takes more bytes than are wanted.
    TooMuch(u64),
    /// The driver does not give it out.
    Refused(i32),
}

/// Copies the memory that parameters lead to, what stands there, and so on, by address.
///
/// A word is taken for an address if it lies in known memory. Words of parameters are also looked up by the driver, which
/// knows of memory that this library has not seen allocated.
pub fn reach(
    memory: &mut Memory,
    params: &[Vec<u8>],
    most: u64,
) -> Result<Vec<Reached>, Unreachable> {
    let mut next: Vec<(u64, Option<usize>)> = Vec::new();
    for (number, param) in params.iter().enumerate() {
        next.extend(words(param).map(|word| (word, Some(number))));
    }
    next.iter().for_each(|(word, _)| ask_driver(memory, *word));
    // The first parameter that leads somewhere gives the name.
    next.reverse();
    let (mut found, mut known, mut total) = (Vec::new(), HashSet::new(), 0);
    while let Some((address, param)) = next.pop() {
        let Some(allocation) = memory.find(address) else { continue };
        if !known.insert(allocation.base) {
            continue;
        }
        total += allocation.bytes;
        if total > most {
            return Err(Unreachable::TooMuch(total));
        }
        let bytes = read(&allocation)?;
        next.extend(words(&bytes).filter(|word| memory.find(*word).is_some()).map(|w| (w, None)));
        let name = match param {
            Some(param) => format!("argument {param}"),
            None => format!("memory at {:#x}", allocation.base),
        };
        found.push(Reached { allocation, name, bytes });
    }
    found.sort_by_key(|reached| reached.allocation.base);
    tell_apart(&mut found);
    Ok(found)
}

/// A parameter may lead to several pieces, which must not have one name.
fn tell_apart(found: &mut [Reached]) {
    let mut names = HashSet::new();
    for reached in found {
        if !names.insert(reached.name.clone()) {
            reached.name += &format!(" at {:#x}", reached.allocation.base);
            names.insert(reached.name.clone());
        }
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Lower words are no addresses, and the driver need not be asked.
const LOWEST: u64 = 1 << 16;

/// Takes note of the memory at an address, if the driver knows it.
fn ask_driver(memory: &mut Memory, address: u64) {
    if address < LOWEST || memory.find(address).is_some() {
        return;
    }
    let (mut base, mut bytes) = (0, 0);
    // SAFETY: places for two results; a wrong address is an error of the driver.
    let result = unsafe { real::address_range(&mut base, &mut bytes, address) };
    if result == Some(real::SUCCESS) && address.wrapping_sub(base) < bytes as u64 {
        memory.add(base, bytes as u64, Kind::Device);
    }
}

/// What a piece of memory holds now.
pub fn read(allocation: &Allocation) -> Result<Vec<u8>, Unreachable> {
    let mut copy = vec![0; allocation.bytes as usize];
    if allocation.kind == Kind::Host {
        let from: *const u8 = std::ptr::with_exposed_provenance(allocation.base as usize);
        // SAFETY: the program keeps page-locked memory until it gives it back, which is noted before it happens.
        unsafe { from.copy_to_nonoverlapping(copy.as_mut_ptr(), copy.len()) };
        return Ok(copy);
    }
    // SAFETY: the copy was just made, of that size; the driver looks at the address.
    match unsafe { real::copy_to_host(copy.as_mut_ptr(), allocation.base, copy.len()) } {
        Some(real::SUCCESS) => Ok(copy),
        other => Err(Unreachable::Refused(other.unwrap_or(-1))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_pieces_that_touch_are_one() {
        let mut memory = Memory::default();
        for base in [0x20_0000u64, 0x22_0000, 0x26_0000] {
            memory.add(base, 0x2_0000, Kind::Mapped);
        }
        memory.add(0x24_0000, 0x2_0000, Kind::Device);
        let found = memory.find(0x23_0000).unwrap();
        assert_eq!((found.base, found.bytes), (0x20_0000, 0x4_0000));
        assert_eq!(memory.find(0x24_0000).unwrap().bytes, 0x2_0000);
        memory.remove_range(0x20_0000, 0x4_0000);
        assert_eq!(memory.find(0x23_0000), None);
        assert!(memory.find(0x27_0000).is_some());
    }

    #[test]
    fn memory_behind_memory_is_reached_up_to_a_limit() {
        let data = vec![5u8; 64];
        let address = |bytes: &[u8]| bytes.as_ptr().expose_provenance() as u64;
        let table: Vec<u8> = [[0; 8], (address(&data) + 8).to_le_bytes()].concat();
        let mut memory = Memory::default();
        memory.add(address(&data), 64, Kind::Host);
        memory.add(address(&table), 16, Kind::Host);
        let params = [vec![1, 0, 0, 0], address(&table).to_le_bytes().to_vec()];
        let reached = reach(&mut memory, &params, 80).unwrap();
        let mut names: Vec<&str> = reached.iter().map(|r| r.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["argument 1", &format!("memory at {:#x}", address(&data))]);
        assert!(reached.iter().any(|reached| reached.bytes == data));
        assert_eq!(reach(&mut memory, &params, 79).err(), Some(Unreachable::TooMuch(80)));
    }
}

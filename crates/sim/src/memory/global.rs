//! Global memory: named allocations with gaps between them.
//!
//! CTAs run on several host threads and may touch the same bytes, so every access is a relaxed
//! atomic one. A simulated race is then a simulated race, never undefined behaviour of the host.

use super::address::{GLOBAL_BASE, Window, window};
use crate::error::Error;
use crate::limits::{Limits, Tally};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Unmapped bytes between allocations.
const GUARD: u64 = 1 << 20;
/// Alignment of every allocation, at least.
const ALIGN: u64 = 512;

/// Allocations start below this address.
const MOST_ADDRESS: u64 = 1 << 56;

/// What an allocation holds before the kernel runs.
#[derive(Clone, Copy, Debug)]
pub enum Contents<'a> {
    /// These bytes; the rest of the allocation is zero.
    Bytes(&'a [u8]),
    /// Nothing: reading a byte before it is written is an error.
    Poison,
}

/// What to allocate.
pub struct Request<'a> {
    /// Name.
    pub name: &'a str,
    /// Size.
    pub bytes: u64,
    /// Alignment, a power of two.
    pub align: u64,
    /// What it holds before the kernel runs.
    pub contents: Contents<'a>,
    /// Whether stores are errors.
    pub read_only: bool,
}

/// A named piece of global memory.
pub struct Allocation {
    /// Name.
    pub name: String,
    /// First address.
    pub base: u64,
    /// Bytes.
    pub len: u64,
    /// Whether stores are errors.
    pub read_only: bool,
    words: Box<[AtomicU64]>,
    written: Option<Box<[AtomicU64]>>,
}

/// An access outside every allocation, or to the wrong one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalError {
    /// First byte of the access.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// The allocation before it: name, length, and the access's offset from its start.
    pub near: Option<(String, u64, i64)>,
}

impl fmt::Display for GlobalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.near {
            Some((name, len, offset)) => write!(
                f,
                "{} bytes at offset {offset} of `{name}`, which has {len} bytes (address {:#x})",
                self.bytes, self.address
            ),
            None => write!(f, "{} bytes at {:#x}, where no buffer is", self.bytes, self.address),
        }
    }
}

/// Bytes of poison: a NaN in every float format.
const POISON: u64 = u64::MAX;

impl Allocation {
    fn new(request: &Request, base: u64) -> Allocation {
        let &Request { name, bytes: len, contents, read_only, .. } = request;
        let count = len.div_ceil(8) as usize;
        let (words, written) = match contents {
            Contents::Poison => {
                let bits = (0..len.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
                ((0..count).map(|_| AtomicU64::new(POISON)).collect(), Some(bits))
            }
            Contents::Bytes(bytes) => {
                let word = |i: usize| {
                    let mut word = [0; 8];
                    let from = bytes.get(8 * i..).unwrap_or_default();
                    let n = from.len().min(8);
                    word[..n].copy_from_slice(&from[..n]);
                    AtomicU64::new(u64::from_le_bytes(word))
                };
                ((0..count).map(word).collect(), None)
            }
        };
        Allocation { name: name.into(), base, len, read_only, words, written }
    }

    /// The whole contents.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            self.words.iter().flat_map(|w| w.load(Relaxed).to_le_bytes()).collect();
        bytes.truncate(self.len as usize);
        bytes
    }

    /// The ranges of bytes that nobody wrote, for allocations that began as poison.
    pub fn unwritten(&self) -> Vec<Range<usize>> {
        let Some(written) = &self.written else { return Vec::new() };
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (i, word) in written.iter().enumerate() {
            let missing = !word.load(Relaxed);
            let bytes = (0..64).filter(|bit| missing >> bit & 1 == 1).map(|bit| 64 * i + bit);
            for byte in bytes.take_while(|byte| (*byte as u64) < self.len) {
                match ranges.last_mut() {
                    Some(last) if last.end == byte => last.end += 1,
                    _ => ranges.push(byte..byte + 1),
                }
            }
        }
        ranges
    }

    /// A bit for each byte that was written, for allocations that began as poison; else nothing.
    pub fn written(&self) -> Vec<u64> {
        self.written.iter().flatten().map(|word| word.load(Relaxed)).collect()
    }

    fn byte_ptr(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset < self.len);
        self.words.as_ptr().cast::<u8>().cast_mut().wrapping_add(offset as usize)
    }

    /// Reads 1, 2, 4 or 8 naturally aligned bytes.
    #[inline(always)]
    pub fn load(&self, offset: u64, bytes: u64) -> u64 {
        let ptr = self.byte_ptr(offset);
        // SAFETY: `offset + bytes <= len` was checked by `Global::find`, the pointer is aligned to
        // `bytes` (also checked), lies in `words`, and every access to `words` is atomic.
        unsafe {
            match bytes {
                1 => u64::from(AtomicU8::from_ptr(ptr).load(Relaxed)),
                2 => u64::from(AtomicU16::from_ptr(ptr.cast()).load(Relaxed)),
                4 => u64::from(AtomicU32::from_ptr(ptr.cast()).load(Relaxed)),
                _ => AtomicU64::from_ptr(ptr.cast()).load(Relaxed),
            }
        }
    }

    /// Writes 1, 2, 4 or 8 naturally aligned bytes.
    #[inline(always)]
    pub fn store(&self, offset: u64, bytes: u64, value: u64) {
        let ptr = self.byte_ptr(offset);
        // SAFETY: as for `load`.
        unsafe {
            match bytes {
                1 => AtomicU8::from_ptr(ptr).store(value as u8, Relaxed),
                2 => AtomicU16::from_ptr(ptr.cast()).store(value as u16, Relaxed),
                4 => AtomicU32::from_ptr(ptr.cast()).store(value as u32, Relaxed),
                _ => AtomicU64::from_ptr(ptr.cast()).store(value, Relaxed),
            }
        }
        self.mark(offset, bytes);
    }

    /// Replaces 2, 4 or 8 aligned bytes by a function of them; the old value.
    pub fn update(&self, offset: u64, bytes: u64, f: impl Fn(u64) -> u64) -> u64 {
        let word = &self.words[(offset / 8) as usize];
        let shift = 8 * (offset % 8);
        let mask = if bytes == 8 { u64::MAX } else { ((1 << (8 * bytes)) - 1) << shift };
        let old = word.fetch_update(Relaxed, Relaxed, |old| {
            let value = f((old & mask) >> shift);
            Some(old & !mask | value << shift & mask)
        });
        self.mark(offset, bytes);
        (old.unwrap_or_else(|x| x) & mask) >> shift
    }

    /// Copies bytes out.
    pub fn read_into(&self, offset: u64, out: &mut [u8]) {
        let mut at = 0;
        while at < out.len() {
            let from = offset + at as u64;
            if from.is_multiple_of(8) && out.len() - at >= 8 {
                out[at..at + 8].copy_from_slice(&self.load(from, 8).to_le_bytes());
                at += 8;
            } else {
                out[at] = self.load(from, 1) as u8;
                at += 1;
            }
        }
    }

    /// Copies bytes in.
    pub fn write_from(&self, offset: u64, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let to = offset + at as u64;
            match bytes[at..].first_chunk::<8>() {
                Some(word) if to.is_multiple_of(8) => {
                    self.store(to, 8, u64::from_le_bytes(*word));
                    at += 8;
                }
                _ => {
                    self.store(to, 1, bytes[at].into());
                    at += 1;
                }
            }
        }
    }

    #[inline(always)]
    fn mark(&self, offset: u64, bytes: u64) {
        let Some(written) = &self.written else { return };
        let ones = (1u64 << bytes) - 1;
        let bits = ones << (offset % 64);
        let word = &written[(offset / 64) as usize];
        if word.load(Relaxed) & bits != bits {
            word.fetch_or(bits, Relaxed);
        }
    }

    /// The first byte of a range that nobody wrote, for allocations that began as poison.
    #[inline(always)]
    pub fn first_unwritten(&self, offset: u64, bytes: u64) -> Option<u64> {
        let written = self.written.as_ref()?;
        (offset..offset + bytes)
            .find(|at| written[(at / 64) as usize].load(Relaxed) >> (at % 64) & 1 == 0)
    }
}

/// All global memory of a run.
pub struct Global {
    allocations: Vec<Allocation>,
    tally: Tally,
}

impl Global {
    /// No allocations yet.
    pub fn new(limits: &Limits) -> Global {
        Global { allocations: Vec::new(), tally: Tally::new(limits) }
    }

    /// Adds an allocation behind the others, if the limit of memory allows; its index.
    pub fn allocate(&mut self, request: &Request) -> Result<usize, Error> {
        let &Request { name, align, .. } = request;
        let end = self.allocations.last().map_or(GLOBAL_BASE, |a| a.base + a.len);
        let base = (end.max(GLOBAL_BASE) + GUARD).checked_next_multiple_of(align.max(ALIGN));
        let base = base.filter(|base| *base < MOST_ADDRESS).ok_or_else(|| {
            Error::Load(format!("`{name}`: alignment {align} leaves no address for it"))
        })?;
        self.push(request, base)
    }

    /// Adds an allocation at an address behind all others; its index.
    pub fn allocate_at(&mut self, request: &Request, base: u64) -> Result<usize, Error> {
        let &Request { name, bytes, .. } = request;
        let end = self.allocations.last().map_or(0, |a| a.base + a.len);
        let last = base.checked_add(bytes).filter(|end| *end <= MOST_ADDRESS);
        let is_global = |at: u64| matches!(window(at), Window::Global(_));
        match last {
            Some(last) if base >= end && is_global(base) && is_global(last) => {
                self.push(request, base)
            }
            _ => Err(Error::Load(format!(
                "`{name}`: {bytes} bytes at {base:#x} overlap other memory, or do not follow it"
            ))),
        }
    }

    fn push(&mut self, request: &Request, base: u64) -> Result<usize, Error> {
        let &Request { name, bytes, contents, .. } = request;
        let marks = if matches!(contents, Contents::Poison) { bytes.div_ceil(8) } else { 0 };
        self.tally.take(format_args!("`{name}`"), bytes.saturating_add(marks))?;
        self.allocations.push(Allocation::new(request, base));
        Ok(self.allocations.len() - 1)
    }

    /// What memory of all kinds is counted in.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// All allocations, in the order of their indices.
    pub fn allocations(&self) -> impl Iterator<Item = &Allocation> {
        self.allocations.iter()
    }

    /// The allocation of an index.
    pub fn get(&self, index: usize) -> &Allocation {
        &self.allocations[index]
    }

    /// The allocation that holds all of a range, and the offset in it; `hint` is tried first.
    #[inline(always)]
    pub fn find(
        &self,
        address: u64,
        bytes: u64,
        hint: &mut usize,
    ) -> Result<(&Allocation, u64), Box<GlobalError>> {
        if let Some(allocation) = self.allocations.get(*hint) {
            let offset = address.wrapping_sub(allocation.base);
            if offset < allocation.len && bytes <= allocation.len - offset {
                return Ok((allocation, offset));
            }
        }
        self.search(address, bytes, hint)
    }

    fn search(
        &self,
        address: u64,
        bytes: u64,
        hint: &mut usize,
    ) -> Result<(&Allocation, u64), Box<GlobalError>> {
        let index = self.allocations.partition_point(|a| a.base <= address);
        let before = index.checked_sub(1).map(|i| (i, &self.allocations[i]));
        if let Some((i, allocation)) = before {
            let offset = address - allocation.base;
            if offset < allocation.len && bytes <= allocation.len - offset {
                *hint = i;
                return Ok((allocation, offset));
            }
        }
        Err(Box::new(GlobalError { address, bytes, near: self.near(address, before.map(|b| b.1)) }))
    }

    /// The closest allocation within the guard gap.
    fn near(&self, address: u64, before: Option<&Allocation>) -> Option<(String, u64, i64)> {
        if let Some(a) = before.filter(|a| address - a.base < a.len + GUARD / 2) {
            return Some((a.name.clone(), a.len, (address - a.base) as i64));
        }
        let after = self.allocations.iter().find(|a| a.base > address)?;
        let gap = after.base - address;
        (gap < GUARD / 2).then(|| (after.name.clone(), after.len, -(gap as i64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_find_their_allocation_or_its_neighbour() {
        let mut global = Global::new(&Limits::default());
        let (sevens, read_only) = ([7; 100], false);
        let mut allocate = |name, bytes, align, contents| {
            global.allocate(&Request { name, bytes, align, contents, read_only }).unwrap()
        };
        let a = allocate("a", 100, 1, Contents::Bytes(&sevens));
        let b = allocate("b", 64, 4096, Contents::Poison);
        let (base_a, base_b) = (global.get(a).base, global.get(b).base);
        assert!(base_b.is_multiple_of(4096));
        let mut hint = 0;
        assert_eq!(global.find(base_a + 96, 4, &mut hint).unwrap().1, 96);
        let error = global.find(base_a + 98, 4, &mut hint).err().unwrap();
        assert_eq!(error.near, Some(("a".into(), 100, 98)));
        let (b, offset) = global.find(base_b + 8, 8, &mut hint).unwrap();
        assert_eq!(b.first_unwritten(offset, 8), Some(8));
        b.store(offset, 4, 5);
        assert_eq!(b.first_unwritten(8, 8), Some(12));
        assert_eq!(b.update(8, 4, |x| x + 1), 5);
        assert_eq!(b.load(8, 4), 6);
        assert!(global.find(base_b - 4, 4, &mut hint).err().unwrap().near.unwrap().2 < 0);
    }

    #[test]
    fn chosen_addresses_grow_and_stay_out_of_windows() {
        let mut global = Global::new(&Limits::default());
        let mut place = |base| {
            let (contents, read_only) = (Contents::Bytes(&[]), false);
            let request = Request { name: "a", bytes: 64, align: 1, contents, read_only };
            global.allocate_at(&request, base).map(|index| global.get(index).base)
        };
        assert_eq!(place(0x1000), Ok(0x1000));
        assert_eq!(place(0x1040), Ok(0x1040));
        let refusal = place(0x1060).unwrap_err().to_string();
        assert!(refusal.contains("`a`: 64 bytes at 0x1060"), "{refusal}");
        assert!(place(super::super::address::SHARED_WINDOW - 1).is_err());
        assert!(place(u64::MAX - 8).is_err());
        // What the simulator places itself comes behind.
        let request =
            Request { name: "b", bytes: 8, align: 8, contents: Contents::Poison, read_only: false };
        let behind = global.allocate(&request).unwrap();
        assert!(global.get(behind).base > GLOBAL_BASE);
    }
}

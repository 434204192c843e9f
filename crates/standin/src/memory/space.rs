//! Addresses of device memory: a range that is reserved and never backed.
//!
//! A device pointer must be an address that no host memory has. A host program that follows one gets the fault that
//! it gets with a GPU. Addresses are not used twice, so that memory that was freed is never taken for new memory.

use std::ffi::{c_int, c_void};

/// Bytes that are reserved; less where the host refuses so much.
const MOST: u64 = 1 << 44;
const LEAST: u64 = 1 << 36;
/// Where the range should start, so that addresses are the same in every run.
const WANTED: u64 = 0x2000_0000_0000;
/// Between allocations, so that an access beyond an end is outside everything.
const GUARD: u64 = 1 << 20;
/// What the driver promises of every allocation.
const ALIGN: u64 = 512;

unsafe extern "C" {
    fn mmap(
        address: *mut c_void,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
}

/// `PROT_NONE`.
const NO_ACCESS: c_int = 0;
/// `MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE`.
const RESERVE_ONLY: c_int = 0x2 | 0x20 | 0x4000;

/// The reserved range and how much of it is given out.
pub struct AddressSpace {
    start: u64,
    end: u64,
    next: u64,
}

impl AddressSpace {
    /// Reserves addresses.
    pub fn reserve() -> AddressSpace {
        let mut bytes = MOST;
        while bytes >= LEAST {
            let wanted = std::ptr::without_provenance_mut(WANTED as usize);
            // SAFETY: asks for fresh pages wherever there is room; no mapping is replaced without MAP_FIXED.
            let start = unsafe { mmap(wanted, bytes as usize, NO_ACCESS, RESERVE_ONLY, -1, 0) };
            if start.addr() != usize::MAX {
                let start = start.addr() as u64;
                return AddressSpace { start, end: start + bytes, next: start };
            }
            bytes /= 2;
        }
        AddressSpace { start: 0, end: 0, next: 0 }
    }

    /// Whether an address is one of device memory, given out or not.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The address of a new allocation.
    pub fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let base = self.next.checked_add(GUARD)?.checked_next_multiple_of(align.max(ALIGN))?;
        let end = base.checked_add(bytes)?.checked_add(GUARD)?;
        if end > self.end {
            return None;
        }
        self.next = end;
        Some(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_apart_aligned_and_never_the_same() {
        let mut space = AddressSpace::reserve();
        let first = space.take(100, 1).unwrap();
        let second = space.take(100, 4096).unwrap();
        assert!(first.is_multiple_of(512) && second.is_multiple_of(4096));
        assert!(second - first > 100 + GUARD);
        assert!(space.contains(first) && space.contains(second));
        assert!(!space.contains(&raw const first as u64), "host memory is not device memory");
        assert_eq!(space.take(1 << 60, 1), None);
    }
}

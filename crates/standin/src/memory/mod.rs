//! Memory that kernels can reach: of the device, and of the host where it was registered or allocated for it.

mod reach;
mod space;

pub use reach::{Reached, reach};

use crate::result::{CudaResult, Outcome};
use space::AddressSpace;
use std::collections::BTreeMap;

/// What an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory of the device.
    Device,
    /// A variable of a module.
    Variable,
    /// Page-locked memory of the host.
    Pinned,
    /// Managed memory, which both sides use.
    Managed,
    /// Memory of the host that the program has registered.
    Registered,
}

impl Kind {
    /// Whether the host uses it at the same address, without a call in between.
    pub fn is_host(self) -> bool {
        !matches!(self, Kind::Device | Kind::Variable)
    }
}

/// A piece of memory.
pub struct Allocation {
    /// Its size.
    pub bytes: u64,
    /// What it is.
    pub kind: Kind,
    /// A number that says which allocation of the process it is.
    pub number: u64,
    /// What it is called in reports, if not by its number.
    pub name: Option<String>,
    /// Whether kernels may only read it.
    pub read_only: bool,
    /// Whether anything was ever put there.
    pub written: bool,
    /// Contents, where the host has no memory at the address; of pinned and managed memory, the memory itself.
    contents: Box<[u8]>,
}

/// All memory, by address.
pub struct Memory {
    space: AddressSpace,
    allocations: BTreeMap<u64, Allocation>,
    count: u64,
    used: u64,
}

/// Bytes that the device says it has.
pub const TOTAL: u64 = 8 << 30;

/// Alignment of pinned and managed memory.
const HOST_ALIGN: usize = 4096;

impl Memory {
    /// No memory yet.
    pub fn new() -> Memory {
        Memory { space: AddressSpace::reserve(), allocations: BTreeMap::new(), count: 0, used: 0 }
    }

    /// Bytes that are not allocated.
    pub fn free_bytes(&self) -> u64 {
        TOTAL - self.used
    }

    /// Allocates memory that only the device sees.
    pub fn allocate(&mut self, bytes: u64, align: u64, kind: Kind) -> Outcome<u64> {
        if bytes == 0 {
            return Err(CudaResult::INVALID_VALUE);
        }
        if bytes > self.free_bytes() {
            return Err(CudaResult::OUT_OF_MEMORY);
        }
        let base = self.space.take(bytes, align).ok_or(CudaResult::OUT_OF_MEMORY)?;
        self.used += bytes;
        self.insert(base, bytes, kind, vec![0; bytes as usize].into());
        Ok(base)
    }

    /// Allocates memory of the host that the device sees at the same address.
    pub fn allocate_host(&mut self, bytes: u64, kind: Kind) -> Outcome<u64> {
        if bytes == 0 {
            return Err(CudaResult::INVALID_VALUE);
        }
        if bytes > self.free_bytes() {
            return Err(CudaResult::OUT_OF_MEMORY);
        }
        let memory: Box<[u8]> = vec![0; bytes as usize + HOST_ALIGN].into();
        let base = (memory.as_ptr().expose_provenance() as u64).next_multiple_of(HOST_ALIGN as u64);
        self.used += bytes;
        self.insert(base, bytes, kind, memory);
        Ok(base)
    }

    /// Makes memory of the host visible to the device.
    pub fn register(&mut self, base: u64, bytes: u64) -> Outcome {
        if base == 0 || bytes == 0 || base.checked_add(bytes).is_none() {
            return Err(CudaResult::INVALID_VALUE);
        }
        let before = self.allocations.range(..base + bytes).next_back();
        if before.is_some_and(|(start, a)| start + a.bytes > base) {
            return Err(CudaResult::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.insert(base, bytes, Kind::Registered, Box::default());
        Ok(())
    }

    fn insert(&mut self, base: u64, bytes: u64, kind: Kind, contents: Box<[u8]>) {
        let number = self.count;
        self.count += 1;
        let written = kind == Kind::Registered;
        let allocation =
            Allocation { bytes, kind, number, name: None, read_only: false, written, contents };
        self.allocations.insert(base, allocation);
    }

    /// Gives an allocation of one of these kinds back.
    pub fn release(&mut self, base: u64, kinds: &[Kind]) -> Outcome {
        match self.allocations.get(&base) {
            Some(allocation) if kinds.contains(&allocation.kind) => {
                if allocation.kind != Kind::Registered {
                    self.used -= allocation.bytes;
                }
                self.allocations.remove(&base);
                Ok(())
            }
            _ => Err(CudaResult::INVALID_VALUE),
        }
    }

    /// The allocation that an address lies in, and where that starts.
    pub fn find(&self, address: u64) -> Option<(u64, &Allocation)> {
        let (base, allocation) = self.allocations.range(..=address).next_back()?;
        (address - base < allocation.bytes).then_some((*base, allocation))
    }

    /// The allocation that starts at an address.
    pub fn get_mut(&mut self, base: u64) -> Option<&mut Allocation> {
        self.allocations.get_mut(&base)
    }

    /// All allocations by address.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Allocation)> {
        self.allocations.iter().map(|(base, allocation)| (*base, allocation))
    }

    /// Whether the program has registered memory of its own, which it may look at without a call in between.
    pub fn has_registered(&self) -> bool {
        self.allocations.values().any(|allocation| allocation.kind == Kind::Registered)
    }

    /// The lowest and the highest address of an allocation.
    pub fn bounds(&self) -> (u64, u64) {
        let first = self.allocations.keys().next().copied().unwrap_or(u64::MAX);
        let last = self.allocations.iter().next_back();
        (first, last.map_or(0, |(base, allocation)| base + allocation.bytes))
    }

    /// Copies bytes from an address, of the device or of the host.
    ///
    /// # Safety
    /// Where the address is not one of device memory, the program must be able to read that many bytes there.
    pub unsafe fn read(&self, address: u64, bytes: u64) -> Outcome<Vec<u8>> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        if self.space.contains(address) {
            let (offset, allocation) = self.inside(address, bytes)?;
            return Ok(allocation.contents[offset..offset + bytes as usize].to_vec());
        }
        let from: *const u8 = std::ptr::with_exposed_provenance(address as usize);
        if from.is_null() {
            return Err(CudaResult::INVALID_VALUE);
        }
        let mut copy = vec![0; bytes as usize];
        // SAFETY: the caller vouches for the source; the copy was just made, of that size.
        unsafe { from.copy_to_nonoverlapping(copy.as_mut_ptr(), copy.len()) };
        Ok(copy)
    }

    /// Copies bytes to an address, of the device or of the host.
    ///
    /// # Safety
    /// Where the address is not one of device memory, the program must be able to write that many bytes there.
    pub unsafe fn write(&mut self, address: u64, bytes: &[u8]) -> Outcome {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.space.contains(address) {
            let (offset, _) = self.inside(address, bytes.len() as u64)?;
            let base = address - offset as u64;
            let allocation = self.allocations.get_mut(&base).ok_or(CudaResult::INVALID_VALUE)?;
            allocation.contents[offset..offset + bytes.len()].copy_from_slice(bytes);
            allocation.written = true;
            return Ok(());
        }
        if let Some(base) = self.find(address).map(|(base, _)| base)
            && let Some(allocation) = self.allocations.get_mut(&base)
        {
            allocation.written = true;
        }
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(address as usize);
        if to.is_null() {
            return Err(CudaResult::INVALID_VALUE);
        }
        // SAFETY: the caller vouches for the destination.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// The allocation that holds all of a range, and the range's offset in it.
    fn inside(&self, address: u64, bytes: u64) -> Outcome<(usize, &Allocation)> {
        let (base, allocation) = self.find(address).ok_or(CudaResult::INVALID_VALUE)?;
        let offset = address - base;
        if bytes > allocation.bytes - offset {
            return Err(CudaResult::INVALID_VALUE);
        }
        Ok((offset as usize, allocation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_memory_is_found_by_any_address_inside() {
        let mut memory = Memory::new();
        let base = memory.allocate(100, 1, Kind::Device).unwrap();
        assert_eq!(memory.find(base + 99).map(|found| found.0), Some(base));
        assert!(memory.find(base + 100).is_none());
        // SAFETY: device addresses are looked up, not followed.
        unsafe {
            memory.write(base + 4, &[1, 2, 3]).unwrap();
            assert_eq!(memory.read(base + 3, 5).unwrap(), [0, 1, 2, 3, 0]);
            assert_eq!(memory.read(base + 98, 3), Err(CudaResult::INVALID_VALUE));
        }
        memory.release(base, &[Kind::Device]).unwrap();
        assert_eq!(memory.release(base, &[Kind::Device]), Err(CudaResult::INVALID_VALUE));
        assert_eq!(memory.free_bytes(), TOTAL);
    }

    #[test]
    fn host_memory_is_registered_once_and_used_in_place() {
        let mut memory = Memory::new();
        let mut host = [7u8; 64];
        let base = host.as_mut_ptr().expose_provenance() as u64;
        memory.register(base, 64).unwrap();
        assert_eq!(memory.register(base + 8, 8), Err(CudaResult::HOST_MEMORY_ALREADY_REGISTERED));
        // SAFETY: 64 bytes of this function.
        unsafe {
            memory.write(base + 1, &[9]).unwrap();
            assert_eq!(memory.read(base, 3).unwrap(), [7, 9, 7]);
        }
        memory.release(base, &[Kind::Registered]).unwrap();
        assert!(memory.find(base).is_none());
    }

    #[test]
    fn more_than_the_device_has_is_refused() {
        let mut memory = Memory::new();
        assert_eq!(memory.allocate(TOTAL + 1, 1, Kind::Device), Err(CudaResult::OUT_OF_MEMORY));
        assert_eq!(memory.allocate(0, 1, Kind::Device), Err(CudaResult::INVALID_VALUE));
    }
}

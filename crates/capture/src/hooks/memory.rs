//! Memory: allocated, mapped, registered, and given back.

use super::{given, interpose};
use crate::memory::Kind;
use crate::state::{noted, noted_before};
use std::ffi::{c_int, c_uint, c_void};

/// Takes note of memory whose address a call has written.
///
/// # Safety
/// `place` is null or readable once the call has succeeded.
unsafe fn allocated(
    call: impl FnOnce() -> c_int,
    place: *const u64,
    bytes: usize,
    kind: Kind,
) -> c_int {
    noted(call, |state| {
        // SAFETY: the caller's contract.
        if let Some(base) = unsafe { given(place) } {
            state.memory.add(base, bytes as u64, kind);
        }
    })
}

interpose! {
    /// Allocates memory of the device.
    fn [cuMemAlloc_v2](address: *mut u64, bytes: usize) |call| {
        // SAFETY: the program's place.
        unsafe { allocated(call, address, bytes, Kind::Device) }
    }

    /// Allocates memory that both sides use.
    fn [cuMemAllocManaged](address: *mut u64, bytes: usize, flags: c_uint) |call| {
        // SAFETY: the program's place.
        unsafe { allocated(call, address, bytes, Kind::Device) }
    }

    /// Allocates rows.
    fn [cuMemAllocPitch_v2](
        address: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint
    ) |call| {
        noted(call, |state| {
            // SAFETY: the program's places.
            if let (Some(base), Some(pitch)) = unsafe { (given(address), given(pitch)) } {
                state.memory.add(base, (pitch as u64).saturating_mul(height as u64), Kind::Device);
            }
        })
    }

    /// Allocates in the order of a stream.
    fn [cuMemAllocAsync, cuMemAllocAsync_ptsz](address: *mut u64, bytes: usize, stream: usize) |call| {
        // SAFETY: the program's place.
        unsafe { allocated(call, address, bytes, Kind::Device) }
    }

    /// Allocates from a pool in the order of a stream.
    fn [cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz](
        address: *mut u64, bytes: usize, pool: usize, stream: usize
    ) |call| {
        // SAFETY: the program's place.
        unsafe { allocated(call, address, bytes, Kind::Device) }
    }

    /// Gives memory back.
    fn [cuMemFree_v2](address: u64) |call| {
        noted_before(call, |state| state.memory.remove(address))
    }

    /// Gives memory back in the order of a stream.
    fn [cuMemFreeAsync, cuMemFreeAsync_ptsz](address: u64, stream: usize) |call| {
        noted_before(call, |state| state.memory.remove(address))
    }

    /// Allocates page-locked memory.
    fn [cuMemAllocHost_v2](address: *mut u64, bytes: usize) |call| {
        // SAFETY: the program's place.
        unsafe { allocated(call, address, bytes, Kind::Host) }
    }

    /// Allocates page-locked memory with flags.
    fn [cuMemHostAlloc](address: *mut u64, bytes: usize, flags: c_uint) |call| {
        // SAFETY: the program's place.
        unsafe { allocated(call, address, bytes, Kind::Host) }
    }

    /// Gives page-locked memory back.
    fn [cuMemFreeHost](address: *mut c_void) |call| {
        noted_before(call, |state| state.memory.remove(address.addr() as u64))
    }

    /// Makes memory of the host visible to the device.
    fn [cuMemHostRegister_v2](address: *mut c_void, bytes: usize, flags: c_uint) |call| {
        noted(call, |state| {
            state.memory.add(address.expose_provenance() as u64, bytes as u64, Kind::Host);
        })
    }

    /// Ends that.
    fn [cuMemHostUnregister](address: *mut c_void) |call| {
        noted_before(call, |state| state.memory.remove(address.addr() as u64))
    }

    /// Maps memory at an address.
    fn [cuMemMap](address: u64, bytes: usize, offset: usize, handle: u64, flags: u64) |call| {
        noted(call, |state| state.memory.add(address, bytes as u64, Kind::Mapped))
    }

    /// Ends mappings.
    fn [cuMemUnmap](address: u64, bytes: usize) |call| {
        noted_before(call, |state| state.memory.remove_range(address, bytes as u64))
    }
}

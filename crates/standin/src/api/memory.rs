//! Memory: allocation, copies, fills.

use super::context::ensure_current;
use crate::driver::driver;
use crate::guard::{driver, give, give_if_wanted};
use crate::job::{Extent, Job, Rows};
use crate::memory::{Kind, TOTAL};
use crate::result::{CudaResult, Outcome};
use std::ffi::{c_int, c_uint, c_void};

/// An address of the host as a number. The program gave it to the driver, which follows it later.
fn host(pointer: *const c_void) -> u64 {
    pointer.expose_provenance() as u64
}

/// Copies bytes on a stream.
fn copy(to: u64, from: u64, bytes: usize, stream: usize) -> Outcome {
    ensure_current()?;
    let extent = Extent { bytes: bytes as u64, rows: 1 };
    driver()?.complete(stream, Job::Copy(Rows::one(to), Rows::one(from), extent))
}

/// Fills `count` elements on a stream.
fn fill(to: u64, pattern: &[u8], count: usize, stream: usize) -> Outcome {
    ensure_current()?;
    let bytes =
        (count as u64).checked_mul(pattern.len() as u64).ok_or(CudaResult::INVALID_VALUE)?;
    if bytes > TOTAL {
        return Err(CudaResult::INVALID_VALUE);
    }
    let extent = Extent { bytes, rows: 1 };
    driver()?.complete(stream, Job::Fill(Rows::one(to), pattern.to_vec(), extent))
}

/// Fills rows on a stream.
fn fill_rows(
    to: u64,
    pitch: usize,
    pattern: &[u8],
    width: usize,
    rows: usize,
    stream: usize,
) -> Outcome {
    ensure_current()?;
    let bytes =
        (width as u64).checked_mul(pattern.len() as u64).ok_or(CudaResult::INVALID_VALUE)?;
    let to = Rows { start: to, pitch: pitch as u64 };
    driver()?.complete(stream, Job::Fill(to, pattern.to_vec(), Extent { bytes, rows: rows as u64 }))
}

/// Frees memory when no queued work can use it any more.
fn free(address: u64, kinds: &[Kind]) -> Outcome {
    let driver = driver()?;
    if address == 0 {
        return Ok(());
    }
    // After an error nothing is queued, and what the program frees is free.
    let _ = driver.synchronize();
    driver.state().memory.release(address, kinds)
}

/// A copy of rows, as the header has it.
#[repr(C)]
pub struct Copy2D {
    source_x: usize,
    source_y: usize,
    source_kind: c_uint,
    source_host: *const c_void,
    source_device: u64,
    source_array: usize,
    source_pitch: usize,
    to_x: usize,
    to_y: usize,
    to_kind: c_uint,
    to_host: *mut c_void,
    to_device: u64,
    to_array: usize,
    to_pitch: usize,
    width: usize,
    height: usize,
}

impl Copy2D {
    /// Rows between any two places: start and pitch of each.
    pub fn between(to: (u64, usize), from: (u64, usize), width: usize, height: usize) -> Copy2D {
        const UNIFIED: c_uint = 4;
        Copy2D {
            source_x: 0,
            source_y: 0,
            source_kind: UNIFIED,
            source_host: std::ptr::null(),
            source_device: from.0,
            source_array: 0,
            source_pitch: from.1,
            to_x: 0,
            to_y: 0,
            to_kind: UNIFIED,
            to_host: std::ptr::null_mut(),
            to_device: to.0,
            to_array: 0,
            to_pitch: to.1,
            width,
            height,
        }
    }

    fn start(
        kind: c_uint,
        host_side: *const c_void,
        device: u64,
        (x, y, pitch): (usize, usize, usize),
    ) -> Outcome<Rows> {
        // Memory kinds: host 1, device 2, array 3, unified 4.
        let base = match kind {
            1 => host(host_side),
            2 | 4 => device,
            _ => return Err(CudaResult::NOT_SUPPORTED),
        };
        let start = base.wrapping_add((y.wrapping_mul(pitch).wrapping_add(x)) as u64);
        Ok(Rows { start, pitch: pitch as u64 })
    }

    fn job(&self) -> Outcome<Job> {
        let at = (self.to_x, self.to_y, self.to_pitch);
        let to = Copy2D::start(self.to_kind, self.to_host, self.to_device, at)?;
        let at = (self.source_x, self.source_y, self.source_pitch);
        let from = Copy2D::start(self.source_kind, self.source_host, self.source_device, at)?;
        Ok(Job::Copy(to, from, Extent { bytes: self.width as u64, rows: self.height as u64 }))
    }
}

driver! {
    /// Allocates memory of the device.
    fn [cuMemAlloc_v2, cuMemAlloc](address: *mut u64, bytes: usize) {
        ensure_current()?;
        let base = driver()?.state().memory.allocate(bytes as u64, 1, Kind::Device)?;
        // SAFETY: the program's pointer.
        unsafe { give(address, base) }
    }

    /// Allocates memory in the order of a stream, which is the order of the calls.
    fn [cuMemAllocAsync, cuMemAllocAsync_ptsz](address: *mut u64, bytes: usize, stream: usize) {
        let _ = stream;
        ensure_current()?;
        let base = driver()?.state().memory.allocate(bytes as u64, 1, Kind::Device)?;
        // SAFETY: the program's pointer.
        unsafe { give(address, base) }
    }

    /// Allocates rows whose starts are aligned.
    fn [cuMemAllocPitch_v2, cuMemAllocPitch](
        address: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint,
    ) {
        ensure_current()?;
        let _ = element;
        let padded = width.checked_next_multiple_of(512).ok_or(CudaResult::INVALID_VALUE)?;
        let bytes = (padded as u64).checked_mul(height as u64).ok_or(CudaResult::INVALID_VALUE)?;
        let base = driver()?.state().memory.allocate(bytes, 1, Kind::Device)?;
        // SAFETY: the program's pointers.
        unsafe {
            give(pitch, padded)?;
            give(address, base)
        }
    }

    /// Allocates memory that host and device share.
    fn [cuMemAllocManaged](address: *mut u64, bytes: usize, flags: c_uint) {
        let _ = flags;
        ensure_current()?;
        let base = driver()?.state().memory.allocate_host(bytes as u64, Kind::Managed)?;
        // SAFETY: the program's pointer.
        unsafe { give(address, base) }
    }

    /// Allocates page-locked memory.
    fn [cuMemHostAlloc](pointer: *mut *mut c_void, bytes: usize, flags: c_uint) {
        let _ = flags;
        ensure_current()?;
        let base = driver()?.state().memory.allocate_host(bytes as u64, Kind::Pinned)?;
        // SAFETY: the program's pointer.
        unsafe { give(pointer, std::ptr::with_exposed_provenance_mut(base as usize)) }
    }

    /// Allocates page-locked memory.
    fn [cuMemAllocHost_v2, cuMemAllocHost](pointer: *mut *mut c_void, bytes: usize) {
        ensure_current()?;
        let base = driver()?.state().memory.allocate_host(bytes as u64, Kind::Pinned)?;
        // SAFETY: the program's pointer.
        unsafe { give(pointer, std::ptr::with_exposed_provenance_mut(base as usize)) }
    }

    /// Frees memory of the device or shared memory.
    fn [cuMemFree_v2, cuMemFree](address: u64) {
        free(address, &[Kind::Device, Kind::Managed])
    }

    /// Frees memory when the work before has ended.
    fn [cuMemFreeAsync, cuMemFreeAsync_ptsz](address: u64, stream: usize) {
        let _ = stream;
        free(address, &[Kind::Device, Kind::Managed])
    }

    /// Frees page-locked memory.
    fn [cuMemFreeHost](pointer: *mut c_void) {
        free(host(pointer), &[Kind::Pinned])
    }

    /// Lets kernels use memory of the program, at its own address.
    fn [cuMemHostRegister_v2, cuMemHostRegister](pointer: *mut c_void, bytes: usize, flags: c_uint) {
        let _ = flags;
        ensure_current()?;
        driver()?.state().memory.register(host(pointer), bytes as u64)
    }

    /// Ends what `cuMemHostRegister` began.
    fn [cuMemHostUnregister](pointer: *mut c_void) {
        free(host(pointer), &[Kind::Registered])
            .map_err(|_| CudaResult::HOST_MEMORY_NOT_REGISTERED)
    }

    /// The address at which kernels find memory of the host.
    fn [cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer](
        address: *mut u64, pointer: *mut c_void, flags: c_uint,
    ) {
        let _ = flags;
        let state = driver()?.state();
        state.memory.find(host(pointer)).ok_or(CudaResult::INVALID_VALUE)?;
        // SAFETY: the program's pointer.
        unsafe { give(address, host(pointer)) }
    }

    /// Memory that is free, and all memory.
    fn [cuMemGetInfo_v2, cuMemGetInfo](free: *mut usize, total: *mut usize) {
        ensure_current()?;
        let left = driver()?.state().memory.free_bytes();
        // SAFETY: the program's pointers.
        unsafe {
            give(free, left as usize)?;
            give(total, TOTAL as usize)
        }
    }

    /// The allocation that an address lies in.
    fn [cuMemGetAddressRange_v2, cuMemGetAddressRange](base: *mut u64, bytes: *mut usize, address: u64) {
        let state = driver()?.state();
        let (start, allocation) = state.memory.find(address).ok_or(CudaResult::NOT_FOUND)?;
        // SAFETY: the program's pointers.
        unsafe {
            give_if_wanted(base, start);
            give_if_wanted(bytes, allocation.bytes as usize);
        }
        Ok(())
    }

    /// Copies between any two addresses.
    fn [cuMemcpy, cuMemcpy_ptds](to: u64, from: u64, bytes: usize) {
        copy(to, from, bytes, 0)
    }

    /// Copies between any two addresses.
    fn [cuMemcpyAsync, cuMemcpyAsync_ptsz](to: u64, from: u64, bytes: usize, stream: usize) {
        copy(to, from, bytes, stream)
    }

    /// Copies to the device.
    fn [cuMemcpyHtoD_v2, cuMemcpyHtoD, cuMemcpyHtoD_v2_ptds](to: u64, from: *const c_void, bytes: usize) {
        copy(to, host(from), bytes, 0)
    }

    /// Copies to the device.
    fn [cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2_ptsz](
        to: u64, from: *const c_void, bytes: usize, stream: usize,
    ) {
        copy(to, host(from), bytes, stream)
    }

    /// Copies from the device.
    fn [cuMemcpyDtoH_v2, cuMemcpyDtoH, cuMemcpyDtoH_v2_ptds](to: *mut c_void, from: u64, bytes: usize) {
        copy(host(to), from, bytes, 0)
    }

    /// Copies from the device.
    fn [cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2_ptsz](
        to: *mut c_void, from: u64, bytes: usize, stream: usize,
    ) {
        copy(host(to), from, bytes, stream)
    }

    /// Copies on the device.
    fn [cuMemcpyDtoD_v2, cuMemcpyDtoD, cuMemcpyDtoD_v2_ptds](to: u64, from: u64, bytes: usize) {
        copy(to, from, bytes, 0)
    }

    /// Copies on the device.
    fn [cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2_ptsz](
        to: u64, from: u64, bytes: usize, stream: usize,
    ) {
        copy(to, from, bytes, stream)
    }

    /// Copies between contexts, which share all memory here.
    fn [cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz](
        to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize, stream: usize,
    ) {
        let _ = (to_context, from_context);
        copy(to, from, bytes, stream)
    }

    /// Copies rows.
    fn [cuMemcpy2D_v2, cuMemcpy2D, cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2](copy: *const Copy2D) {
        // SAFETY: the program's pointer.
        let copy = unsafe { copy.as_ref() }.ok_or(CudaResult::INVALID_VALUE)?;
        ensure_current()?;
        driver()?.complete(0, copy.job()?)
    }

    /// Copies rows.
    fn [cuMemcpy2DAsync_v2, cuMemcpy2DAsync, cuMemcpy2DAsync_v2_ptsz](copy: *const Copy2D, stream: usize) {
        // SAFETY: the program's pointer.
        let copy = unsafe { copy.as_ref() }.ok_or(CudaResult::INVALID_VALUE)?;
        ensure_current()?;
        driver()?.complete(stream, copy.job()?)
    }

    /// Fills bytes.
    fn [cuMemsetD8_v2, cuMemsetD8, cuMemsetD8_v2_ptds](to: u64, value: u8, count: usize) {
        fill(to, &[value], count, 0)
    }

    /// Fills bytes.
    fn [cuMemsetD8Async, cuMemsetD8Async_ptsz](to: u64, value: u8, count: usize, stream: usize) {
        fill(to, &[value], count, stream)
    }

    /// Fills 16-bit words.
    fn [cuMemsetD16_v2, cuMemsetD16, cuMemsetD16_v2_ptds](to: u64, value: u16, count: usize) {
        fill(to, &value.to_le_bytes(), count, 0)
    }

    /// Fills 16-bit words.
    fn [cuMemsetD16Async, cuMemsetD16Async_ptsz](to: u64, value: u16, count: usize, stream: usize) {
        fill(to, &value.to_le_bytes(), count, stream)
    }

    /// Fills 32-bit words.
    fn [cuMemsetD32_v2, cuMemsetD32, cuMemsetD32_v2_ptds](to: u64, value: c_uint, count: usize) {
        fill(to, &value.to_le_bytes(), count, 0)
    }

    /// Fills 32-bit words.
    fn [cuMemsetD32Async, cuMemsetD32Async_ptsz](to: u64, value: c_uint, count: usize, stream: usize) {
        fill(to, &value.to_le_bytes(), count, stream)
    }

    /// Fills rows of bytes.
    fn [cuMemsetD2D8_v2, cuMemsetD2D8](to: u64, pitch: usize, value: u8, width: usize, height: usize) {
        fill_rows(to, pitch, &[value], width, height, 0)
    }

    /// Fills rows of 32-bit words.
    fn [cuMemsetD2D32_v2, cuMemsetD2D32](to: u64, pitch: usize, value: c_uint, width: usize, height: usize) {
        fill_rows(to, pitch, &value.to_le_bytes(), width, height, 0)
    }

    /// Advice changes nothing here.
    fn [cuMemAdvise](address: u64, bytes: usize, advice: c_uint, device: c_int) {
        let _ = (bytes, advice, device);
        driver()?.state().memory.find(address).map(|_| ()).ok_or(CudaResult::INVALID_VALUE)
    }

    /// Managed memory is where it is needed.
    fn [cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz](address: u64, bytes: usize, device: c_int, stream: usize) {
        let _ = (bytes, device, stream);
        driver()?.state().memory.find(address).map(|_| ()).ok_or(CudaResult::INVALID_VALUE)
    }
}

//! Memory: allocation, copies, fills.

use super::error::INVALID_DIRECTION;
use super::runtime;
use crate::api::memory as cu;
use crate::driver::driver;
use crate::guard::give;
use crate::result::{CudaResult, Outcome};
use std::ffi::{c_int, c_uint, c_void};

/// A pointer of the program as a number. It gave it away, and it is followed later.
pub fn address(pointer: *const c_void) -> u64 {
    pointer.expose_provenance() as u64
}

/// That what a copy calls memory of the device is memory that the device knows.
///
/// Kinds of copies: from host to host 0, to the device 1, from the device 2, on the device 3, by the addresses 4.
pub fn check_direction(to: u64, from: u64, kind: c_uint) -> Outcome {
    let (to_device, from_device) = match kind {
        0 | 4 => (false, false),
        1 => (true, false),
        2 => (false, true),
        3 => (true, true),
        _ => return Err(INVALID_DIRECTION),
    };
    let state = driver()?.state();
    let known = |wanted: bool, address: u64| !wanted || state.memory.find(address).is_some();
    match known(to_device, to) && known(from_device, from) {
        true => Ok(()),
        false => Err(CudaResult::INVALID_VALUE),
    }
}

/// # Safety
/// The program has both sides, as the manual demands.
unsafe fn copy(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_uint,
    stream: usize,
) -> Outcome {
    if bytes == 0 {
        return Ok(());
    }
    let (to, from) = (address(to), address(from));
    check_direction(to, from, kind)?;
    // SAFETY: the caller's contract.
    unsafe { cu::cuMemcpyAsync(to, from, bytes, stream) }.outcome()
}

/// # Safety
/// As for [`copy`].
unsafe fn copy_rows(
    (to, to_pitch): (*mut c_void, usize),
    (from, from_pitch): (*const c_void, usize),
    (width, height): (usize, usize),
    kind: c_uint,
    stream: usize,
) -> Outcome {
    if width == 0 || height == 0 {
        return Ok(());
    }
    check_direction(address(to), address(from), kind)?;
    let copy =
        cu::Copy2D::between((address(to), to_pitch), (address(from), from_pitch), width, height);
    // SAFETY: the caller's contract; the description is a local.
    unsafe { cu::cuMemcpy2DAsync_v2(&copy, stream) }.outcome()
}

/// An allocation of no bytes is none.
unsafe fn allocate(pointer: *mut u64, bytes: usize) -> Outcome {
    // SAFETY: the program's pointer.
    unsafe {
        match bytes {
            0 => give(pointer, 0),
            _ => cu::cuMemAlloc_v2(pointer, bytes).outcome(),
        }
    }
}

runtime! {
    /// Allocates memory of the device.
    fn [cudaMalloc](pointer: *mut u64, bytes: usize) {
        // SAFETY: the program's pointer.
        unsafe { allocate(pointer, bytes) }
    }

    /// Allocates memory in the order of a stream, which is the order of the calls.
    fn [cudaMallocAsync, cudaMallocAsync_ptsz](pointer: *mut u64, bytes: usize, stream: usize) {
        let _ = stream;
        // SAFETY: the program's pointer.
        unsafe { allocate(pointer, bytes) }
    }

    /// Allocates rows whose starts are aligned.
    fn [cudaMallocPitch](pointer: *mut u64, pitch: *mut usize, width: usize, height: usize) {
        // SAFETY: the program's pointers.
        unsafe { cu::cuMemAllocPitch_v2(pointer, pitch, width, height, 4) }.outcome()
    }

    /// Allocates memory that host and device share.
    fn [cudaMallocManaged](pointer: *mut u64, bytes: usize, flags: c_uint) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuMemAllocManaged(pointer, bytes, flags) }.outcome()
    }

    /// Allocates page-locked memory.
    fn [cudaMallocHost](pointer: *mut *mut c_void, bytes: usize) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuMemHostAlloc(pointer, bytes, 0) }.outcome()
    }

    /// Allocates page-locked memory.
    fn [cudaHostAlloc](pointer: *mut *mut c_void, bytes: usize, flags: c_uint) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuMemHostAlloc(pointer, bytes, flags) }.outcome()
    }

    /// Frees memory of the device or shared memory.
    fn [cudaFree](pointer: u64) {
        // SAFETY: an address is looked up, not followed.
        unsafe { cu::cuMemFree_v2(pointer) }.outcome()
    }

    /// Frees memory when the work before has ended.
    fn [cudaFreeAsync, cudaFreeAsync_ptsz](pointer: u64, stream: usize) {
        let _ = stream;
        // SAFETY: as above.
        unsafe { cu::cuMemFree_v2(pointer) }.outcome()
    }

    /// Frees page-locked memory.
    fn [cudaFreeHost](pointer: *mut c_void) {
        // SAFETY: as above.
        unsafe { cu::cuMemFreeHost(pointer) }.outcome()
    }

    /// Lets kernels use memory of the program, at its own address.
    fn [cudaHostRegister](pointer: *mut c_void, bytes: usize, flags: c_uint) {
        // SAFETY: the program's memory.
        unsafe { cu::cuMemHostRegister_v2(pointer, bytes, flags) }.outcome()
    }

    /// Ends what `cudaHostRegister` began.
    fn [cudaHostUnregister](pointer: *mut c_void) {
        // SAFETY: an address is looked up, not followed.
        unsafe { cu::cuMemHostUnregister(pointer) }.outcome()
    }

    /// The address at which kernels find memory of the host.
    fn [cudaHostGetDevicePointer](device: *mut u64, pointer: *mut c_void, flags: c_uint) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuMemHostGetDevicePointer_v2(device, pointer, flags) }.outcome()
    }

    /// Memory that is free, and all memory.
    fn [cudaMemGetInfo](free: *mut usize, total: *mut usize) {
        // SAFETY: the program's pointers.
        unsafe { cu::cuMemGetInfo_v2(free, total) }.outcome()
    }

    /// Copies bytes.
    fn [cudaMemcpy, cudaMemcpy_ptds](to: *mut c_void, from: *const c_void, bytes: usize, kind: c_uint) {
        // SAFETY: the program's memory.
        unsafe { copy(to, from, bytes, kind, 0) }
    }

    /// Copies bytes on a stream.
    fn [cudaMemcpyAsync, cudaMemcpyAsync_ptsz](
        to: *mut c_void, from: *const c_void, bytes: usize, kind: c_uint, stream: usize,
    ) {
        // SAFETY: the program's memory.
        unsafe { copy(to, from, bytes, kind, stream) }
    }

    /// Copies between devices, of which there is one.
    fn [cudaMemcpyPeer](to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, bytes: usize) {
        super::check_device(to_device)?;
        super::check_device(from_device)?;
        // SAFETY: the program's memory.
        unsafe { copy(to, from, bytes, 3, 0) }
    }

    /// Copies rows.
    fn [cudaMemcpy2D, cudaMemcpy2D_ptds](
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
        kind: c_uint,
    ) {
        // SAFETY: the program's memory.
        unsafe { copy_rows((to, to_pitch), (from, from_pitch), (width, height), kind, 0) }
    }

    /// Copies rows on a stream.
    fn [cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz](
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
        kind: c_uint, stream: usize,
    ) {
        // SAFETY: the program's memory.
        unsafe { copy_rows((to, to_pitch), (from, from_pitch), (width, height), kind, stream) }
    }

    /// Fills bytes.
    fn [cudaMemset, cudaMemset_ptds](to: u64, value: c_int, bytes: usize) {
        // SAFETY: the program's memory.
        unsafe { cu::cuMemsetD8_v2(to, value as u8, bytes) }.outcome()
    }

    /// Fills bytes on a stream.
    fn [cudaMemsetAsync, cudaMemsetAsync_ptsz](to: u64, value: c_int, bytes: usize, stream: usize) {
        // SAFETY: the program's memory.
        unsafe { cu::cuMemsetD8Async(to, value as u8, bytes, stream) }.outcome()
    }

    /// Fills rows of bytes.
    fn [cudaMemset2D, cudaMemset2D_ptds](to: u64, pitch: usize, value: c_int, width: usize, height: usize) {
        // SAFETY: the program's memory.
        unsafe { cu::cuMemsetD2D8_v2(to, pitch, value as u8, width, height) }.outcome()
    }

    /// Advice changes nothing here. What follows the advice has another type in each release, and is not looked at.
    fn [cudaMemAdvise](pointer: u64, bytes: usize, advice: c_uint) {
        // SAFETY: an address is looked up, not followed.
        unsafe { cu::cuMemAdvise(pointer, bytes, advice, 0) }.outcome()
    }

    /// Managed memory is where it is needed. What follows the size has other types in each release, and is not looked
    /// at.
    fn [cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz](pointer: u64, bytes: usize) {
        // SAFETY: an address is looked up, not followed.
        unsafe { cu::cuMemPrefetchAsync(pointer, bytes, 0, 0) }.outcome()
    }
}

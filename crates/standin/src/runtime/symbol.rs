//! Variables of the device, by the addresses of their namesakes in the program.

use super::memory::{address, check_direction};
use super::register::symbol;
use super::runtime;
use crate::api::memory::cuMemcpyAsync;
use crate::guard::give;
use crate::result::{CudaResult, Outcome};
use std::ffi::{c_uint, c_void};

/// Where `bytes` bytes at `offset` of a variable are, if it has them.
fn part(variable: *const c_void, bytes: usize, offset: usize) -> Outcome<u64> {
    let (start, size) = symbol(variable)?;
    let end = offset.checked_add(bytes).ok_or(CudaResult::INVALID_VALUE)?;
    if end > size { Err(CudaResult::INVALID_VALUE) } else { Ok(start + offset as u64) }
}

/// # Safety
/// The program has the side that is its own.
unsafe fn copy(to: u64, from: u64, bytes: usize, kind: c_uint, stream: usize) -> Outcome {
    check_direction(to, from, kind)?;
    // SAFETY: the caller's contract.
    unsafe { cuMemcpyAsync(to, from, bytes, stream) }.outcome()
}

runtime! {
    /// Where a variable is.
    fn [cudaGetSymbolAddress](pointer: *mut u64, variable: *const c_void) {
        // SAFETY: the program's pointer.
        unsafe { give(pointer, symbol(variable)?.0) }
    }

    /// Bytes of a variable.
    fn [cudaGetSymbolSize](bytes: *mut usize, variable: *const c_void) {
        // SAFETY: the program's pointer.
        unsafe { give(bytes, symbol(variable)?.1) }
    }

    /// Copies to a variable.
    fn [cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds](
        variable: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: c_uint,
    ) {
        // SAFETY: the program's memory.
        unsafe { copy(part(variable, bytes, offset)?, address(from), bytes, kind, 0) }
    }

    /// Copies to a variable on a stream.
    fn [cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz](
        variable: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: c_uint, stream: usize,
    ) {
        // SAFETY: the program's memory.
        unsafe { copy(part(variable, bytes, offset)?, address(from), bytes, kind, stream) }
    }

    /// Copies from a variable.
    fn [cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds](
        to: *mut c_void, variable: *const c_void, bytes: usize, offset: usize, kind: c_uint,
    ) {
        // SAFETY: the program's memory.
        unsafe { copy(address(to), part(variable, bytes, offset)?, bytes, kind, 0) }
    }

    /// Copies from a variable on a stream.
    fn [cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz](
        to: *mut c_void, variable: *const c_void, bytes: usize, offset: usize, kind: c_uint, stream: usize,
    ) {
        // SAFETY: the program's memory.
        unsafe { copy(address(to), part(variable, bytes, offset)?, bytes, kind, stream) }
    }
}

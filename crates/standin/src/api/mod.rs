//! The functions of the driver API, by their names in C.
//!
//! Handles are `usize` here: contexts, modules, functions, streams, events and graphs. Where a function takes a
//! stream, the variants for the per-thread default stream (`_ptsz`, `_ptds`) are the same function, because all
//! streams share one queue.

pub mod context;
pub mod device;
pub mod event;
pub mod function;
pub mod graph;
pub mod info;
pub mod launch;
pub mod library;
pub mod link;
pub mod memory;
pub mod module;
pub mod occupancy;
pub mod pointer;
pub mod proc_address;
pub mod stream;
pub mod tensor_map;

use crate::result::{CudaResult, Outcome};
use std::ffi::{CStr, c_char};

/// Text that a program passes.
///
/// # Safety
/// `text` is null or ends with a zero.
unsafe fn text<'a>(text: *const c_char) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(CudaResult::INVALID_VALUE);
    }
    // SAFETY: not null; the caller vouches for the zero.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| CudaResult::INVALID_VALUE)
}

//! Start, versions and errors.

use crate::driver::{driver, initialise};
use crate::guard::{driver, give};
use crate::result::CudaResult;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The version of the driver API that is told: CUDA 13.0.
pub const VERSION: c_int = 13000;

driver! {
    /// Makes the driver ready.
    fn [cuInit](flags: c_uint) {
        if flags != 0 {
            return Err(CudaResult::INVALID_VALUE);
        }
        initialise();
        // A process that was forked after its parent had begun cannot begin again.
        driver().map(|_| ())
    }

    /// The version of the driver API.
    fn [cuDriverGetVersion](version: *mut c_int) {
        // SAFETY: the program's pointer.
        unsafe { give(version, VERSION) }
    }

    /// The name of a result.
    fn [cuGetErrorName](error: u32, name: *mut *const c_char) {
        let known = CudaResult(error).describe().map(|(name, _)| name.as_ptr());
        // SAFETY: the program's pointer.
        unsafe { give(name, known.unwrap_or(std::ptr::null()))? };
        known.map(|_| ()).ok_or(CudaResult::INVALID_VALUE)
    }

    /// A sentence about a result.
    fn [cuGetErrorString](error: u32, text: *mut *const c_char) {
        let known = CudaResult(error).describe().map(|(_, text)| text.as_ptr());
        // SAFETY: the program's pointer.
        unsafe { give(text, known.unwrap_or(std::ptr::null()))? };
        known.map(|_| ()).ok_or(CudaResult::INVALID_VALUE)
    }

    /// Modules are read when they are loaded, and kernels are decoded when they are launched: lazily (2).
    fn [cuModuleGetLoadingMode](mode: *mut c_uint) {
        // SAFETY: the program's pointer.
        unsafe { give(mode, 2) }
    }

    /// There is no profiler.
    fn [cuProfilerStart]() {
        Ok(())
    }

    /// There is no profiler.
    fn [cuProfilerStop]() {
        Ok(())
    }

    /// Private tables are not here, on purpose: programs that need NVIDIA's runtime library find out at once.
    fn [cuGetExportTable](table: *mut *const c_void, id: *const [u8; 16]) {
        let _ = id;
        // SAFETY: the program's pointer.
        unsafe { give(table, std::ptr::null())? };
        Err(CudaResult::NOT_FOUND)
    }
}

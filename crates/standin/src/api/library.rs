//! Libraries: modules that belong to no context, and their kernels.

use super::module::{Log, function, load, unload, variable};
use super::text;
use crate::driver::driver;
use crate::guard::{driver, give, give_if_wanted};
use crate::result::CudaResult;
use std::ffi::{c_char, c_int, c_uint, c_void};

driver! {
    /// Loads a library from memory.
    fn [cuLibraryLoadData](
        library: *mut usize, image: *const c_void, options: *const c_uint, values: *const *mut c_void,
        count: c_uint, library_options: *const c_uint, library_values: *const *mut c_void,
        library_count: c_uint,
    ) {
        let _ = (library_options, library_values, library_count);
        // SAFETY: the program's image, options and pointer.
        unsafe {
            let log = Log::of(count, options, values);
            give(library, load(image, &log)?)
        }
    }

    /// Unloads a library.
    fn [cuLibraryUnload](library: usize) {
        unload(library)
    }

    /// A kernel.
    fn [cuLibraryGetKernel](kernel: *mut usize, library: usize, name: *const c_char) {
        // SAFETY: the program's text and pointer.
        unsafe { give(kernel, function(library, text(name)?)?) }
    }

    /// The module of a library: the same handle.
    fn [cuLibraryGetModule](module: *mut usize, library: usize) {
        driver()?.state().modules.get(library)?;
        // SAFETY: the program's pointer.
        unsafe { give(module, library) }
    }

    /// A variable.
    fn [cuLibraryGetGlobal](address: *mut u64, bytes: *mut usize, library: usize, name: *const c_char) {
        // SAFETY: the program's text and pointers.
        unsafe {
            let (start, size) = variable(library, text(name)?)?;
            give_if_wanted(address, start);
            give_if_wanted(bytes, size);
        }
        Ok(())
    }

    /// The function of a kernel: the same handle.
    fn [cuKernelGetFunction](function: *mut usize, kernel: usize) {
        driver()?.state().functions.get(kernel)?;
        // SAFETY: the program's pointer.
        unsafe { give(function, kernel) }
    }

    /// An attribute of a kernel.
    fn [cuKernelGetAttribute](value: *mut c_int, attribute: c_uint, kernel: usize, device: c_int) {
        let _ = device;
        // SAFETY: the same contract.
        match unsafe { super::function::cuFuncGetAttribute(value, attribute, kernel) } {
            CudaResult::SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    /// Sets an attribute of a kernel.
    fn [cuKernelSetAttribute](attribute: c_uint, value: c_int, kernel: usize, device: c_int) {
        let _ = device;
        // SAFETY: the same contract.
        match unsafe { super::function::cuFuncSetAttribute(kernel, attribute, value) } {
            CudaResult::SUCCESS => Ok(()),
            error => Err(error),
        }
    }
}

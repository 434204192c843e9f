//! Functions of the driver by name, as programs without a link to the driver find them.

use super::runtime;
use crate::api::info::VERSION;
use crate::api::proc_address::cuGetProcAddress_v2;
use crate::guard::give_if_wanted;
use crate::result::{CudaResult, Outcome};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// Looks a function up. One that is not there is no error where its absence can be told.
///
/// # Safety
/// `name` ends with a zero; the pointers are the program's.
unsafe fn find(
    name: *const c_char,
    address: *mut *const c_void,
    version: c_int,
    status: *mut c_int,
) -> Outcome {
    let mut told = 0;
    // SAFETY: the caller's contract; the last pointer is to a local.
    let found = unsafe { cuGetProcAddress_v2(name, address, version, 0, &mut told) };
    // SAFETY: the caller's contract.
    unsafe { give_if_wanted(status, told) };
    match found {
        CudaResult::NOT_FOUND if !status.is_null() => Ok(()),
        other => other.outcome(),
    }
}

runtime! {
    /// A function of the driver.
    fn [cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz](
        name: *const c_char, address: *mut *const c_void, flags: c_ulonglong, status: *mut c_int,
    ) {
        let _ = flags;
        // SAFETY: the program's text and pointers.
        unsafe { find(name, address, VERSION, status) }
    }

    /// A function of the driver as a version of its API has it.
    fn [cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion_ptsz](
        name: *const c_char, address: *mut *const c_void, version: c_uint, flags: c_ulonglong, status: *mut c_int,
    ) {
        let _ = flags;
        let version = version.try_into().map_err(|_| CudaResult::INVALID_VALUE)?;
        // SAFETY: the program's text and pointers.
        unsafe { find(name, address, version, status) }
    }
}

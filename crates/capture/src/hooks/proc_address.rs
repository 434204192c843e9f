//! Functions by name and version.

use super::{given, interpose};
use crate::inside::Inside;
use crate::{real, table};
use std::ffi::{CStr, c_char, c_int, c_void};

/// The flag that asks for the form with the per-thread default stream.
const PER_THREAD: u64 = 2;

/// Lets the driver look a function up, and puts the one here in its place if there is one.
///
/// # Safety
/// Pointers are as `cuGetProcAddress` takes them.
unsafe fn looked_up(
    call: impl FnOnce() -> c_int,
    name: *const c_char,
    place: *mut *const c_void,
    version: c_int,
    flags: u64,
) -> c_int {
    let Some(_inside) = Inside::enter() else { return call() };
    let result = call();
    // SAFETY: the caller's contract.
    let found = unsafe { given(place) }.is_some_and(|address| !address.is_null());
    if result != real::SUCCESS || !found || name.is_null() {
        return result;
    }
    // SAFETY: not null, and text that ends with a zero.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    if let Some(ours) = table::by_name(name, version, flags & PER_THREAD != 0) {
        // SAFETY: the driver has just written there.
        unsafe { place.write_unaligned(ours) };
    }
    result
}

interpose! {
    /// The address of a function.
    fn [cuGetProcAddress](name: *const c_char, address: *mut *const c_void, version: c_int, flags: u64) |call| {
        // SAFETY: the program's pointers.
        unsafe { looked_up(call, name, address, version, flags) }
    }

    /// The address of a function, and whether it is there.
    fn [cuGetProcAddress_v2](
        name: *const c_char, address: *mut *const c_void, version: c_int, flags: u64, status: *mut c_int
    ) |call| {
        // SAFETY: the program's pointers.
        unsafe { looked_up(call, name, address, version, flags) }
    }
}

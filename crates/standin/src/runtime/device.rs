//! The one device, its limits, and versions.

use super::{check_device, runtime};
use crate::api::info::VERSION;
use crate::api::{context, device as cu};
use crate::driver::driver;
use crate::guard::give;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
}

/// Asks for a library that is loaded already, and loads none.
const IF_LOADED: c_int = 1 | 4;

fn is_loaded(library: &CStr) -> bool {
    // SAFETY: the name ends with a zero; a library that is loaded already runs nothing more.
    !unsafe { dlopen(library.as_ptr(), IF_LOADED) }.is_null()
}

runtime! {
    /// How many devices there are.
    fn [cudaGetDeviceCount](count: *mut c_int) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuDeviceGetCount(count) }.outcome()
    }

    /// The device of this thread.
    fn [cudaGetDevice](device: *mut c_int) {
        // SAFETY: the program's pointer.
        unsafe { give(device, 0) }
    }

    /// Chooses the device of this thread.
    fn [cudaSetDevice](device: c_int) {
        check_device(device)
    }

    /// Makes a device ready; flags mean nothing here.
    fn [cudaInitDevice](device: c_int, device_flags: c_uint, flags: c_uint) {
        let _ = (device_flags, flags);
        check_device(device)
    }

    /// Flags mean nothing here.
    fn [cudaSetDeviceFlags](flags: c_uint) {
        let _ = flags;
        Ok(())
    }

    /// Flags mean nothing here.
    fn [cudaGetDeviceFlags](flags: *mut c_uint) {
        // SAFETY: the program's pointer.
        unsafe { give(flags, 0) }
    }

    /// Waits for everything.
    fn [cudaDeviceSynchronize, cudaThreadSynchronize]() {
        driver()?.synchronize()
    }

    /// Waits for everything; what the program has stays.
    fn [cudaDeviceReset]() {
        driver()?.synchronize()
    }

    /// An attribute; both headers number them alike.
    fn [cudaDeviceGetAttribute](value: *mut c_int, attribute: c_uint, device: c_int) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuDeviceGetAttribute(value, attribute, device) }.outcome()
    }

    /// Where the device is: nowhere.
    fn [cudaDeviceGetPCIBusId](name: *mut c_char, length: c_int, device: c_int) {
        // SAFETY: the program's buffer.
        unsafe { cu::cuDeviceGetPCIBusId(name, length, device) }.outcome()
    }

    /// There is no other device to reach.
    fn [cudaDeviceCanAccessPeer](can: *mut c_int, device: c_int, peer: c_int) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuDeviceCanAccessPeer(can, device, peer) }.outcome()
    }

    /// Remembers a limit.
    fn [cudaDeviceSetLimit](limit: c_uint, value: usize) {
        // SAFETY: numbers alone.
        unsafe { context::cuCtxSetLimit(limit, value) }.outcome()
    }

    /// A limit.
    fn [cudaDeviceGetLimit](value: *mut usize, limit: c_uint) {
        // SAFETY: the program's pointer.
        unsafe { context::cuCtxGetLimit(value, limit) }.outcome()
    }

    /// Caches are not simulated.
    fn [cudaDeviceSetCacheConfig](config: c_uint) {
        // SAFETY: numbers alone.
        unsafe { context::cuCtxSetCacheConfig(config) }.outcome()
    }

    /// Caches are not simulated.
    fn [cudaDeviceGetCacheConfig](config: *mut c_uint) {
        // SAFETY: the program's pointer.
        unsafe { context::cuCtxGetCacheConfig(config) }.outcome()
    }

    /// Priorities mean nothing here, but there are some.
    fn [cudaDeviceGetStreamPriorityRange](least: *mut c_int, greatest: *mut c_int) {
        // SAFETY: the program's pointers.
        unsafe { context::cuCtxGetStreamPriorityRange(least, greatest) }.outcome()
    }

    /// The version of the driver API.
    fn [cudaDriverGetVersion](version: *mut c_int) {
        // SAFETY: the program's pointer.
        unsafe { give(version, VERSION) }
    }

    /// The version of the runtime API: of the library that the program was linked with.
    fn [cudaRuntimeGetVersion](version: *mut c_int) {
        let known = if is_loaded(c"libcudart.so.12") { 12090 } else { VERSION };
        // SAFETY: the program's pointer.
        unsafe { give(version, known) }
    }

    /// There is no profiler.
    fn [cudaProfilerStart]() {
        Ok(())
    }

    /// There is no profiler.
    fn [cudaProfilerStop]() {
        Ok(())
    }
}

//! Attributes of kernels.

use super::register::kernel;
use super::runtime;
use crate::api::function as cu;
use crate::guard::give;
use crate::result::Outcome;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// Attributes of a kernel, as the header has them; what a release has behind them is not written.
#[repr(C)]
pub struct Attributes {
    shared: usize,
    constant: usize,
    local: usize,
    threads: c_int,
    registers: c_int,
    ptx_version: c_int,
    binary_version: c_int,
    caches_globals: c_int,
    dynamic_shared: c_int,
    carveout: c_int,
    needs_cluster: c_int,
    cluster: [c_int; 3],
    cluster_scheduling: c_int,
    any_cluster: c_int,
}

fn attribute(kernel: usize, number: c_uint) -> Outcome<c_int> {
    let mut value = 0;
    // SAFETY: the pointer is to a local.
    unsafe { cu::cuFuncGetAttribute(&mut value, number, kernel) }.outcome().map(|()| value)
}

impl Attributes {
    fn of(kernel: usize) -> Outcome<Attributes> {
        let get = |number| attribute(kernel, number);
        Ok(Attributes {
            threads: get(0)?,
            shared: get(1)? as usize,
            constant: get(2)? as usize,
            local: get(3)? as usize,
            registers: get(4)?,
            ptx_version: get(5)?,
            binary_version: get(6)?,
            caches_globals: get(7)?,
            dynamic_shared: get(8)?,
            carveout: get(9)?,
            needs_cluster: get(10)?,
            cluster: [get(11)?, get(12)?, get(13)?],
            any_cluster: get(14)?,
            cluster_scheduling: get(15)?,
        })
    }
}

runtime! {
    /// All attributes of a kernel.
    fn [cudaFuncGetAttributes](attributes: *mut Attributes, symbol: *const c_void) {
        let known = Attributes::of(kernel(symbol)?)?;
        // SAFETY: the program's pointer.
        unsafe { give(attributes, known) }
    }

    /// Sets an attribute of a kernel; both headers number them alike.
    fn [cudaFuncSetAttribute](symbol: *const c_void, attribute: c_uint, value: c_int) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuFuncSetAttribute(kernel(symbol)?, attribute, value) }.outcome()
    }

    /// Caches are not simulated.
    fn [cudaFuncSetCacheConfig](symbol: *const c_void, config: c_uint) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuFuncSetCacheConfig(kernel(symbol)?, config) }.outcome()
    }

    /// Banks are as they are.
    fn [cudaFuncSetSharedMemConfig](symbol: *const c_void, config: c_uint) {
        // SAFETY: a handle is looked up.
        unsafe { cu::cuFuncSetSharedMemConfig(kernel(symbol)?, config) }.outcome()
    }

    /// The name of a kernel.
    fn [cudaFuncGetName](name: *mut *const c_char, symbol: *const c_void) {
        // SAFETY: the program's pointer.
        unsafe { cu::cuFuncGetName(name, kernel(symbol)?) }.outcome()
    }

    /// The driver's handle of a kernel.
    fn [cudaGetFuncBySymbol, cudaGetKernel](handle: *mut usize, symbol: *const c_void) {
        // SAFETY: the program's pointer.
        unsafe { give(handle, kernel(symbol)?) }
    }
}

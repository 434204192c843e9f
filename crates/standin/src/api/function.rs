//! Attributes of kernels.

use crate::device::shared_of_cta;
use crate::driver::driver;
use crate::guard::{driver, give};
use crate::module::{most_threads, registers};
use crate::result::CudaResult;
use crate::settings::settings;
use program::check::{static_shared_bytes, variable_bytes};
use ptx::ast::FunctionDirective;
use std::ffi::{c_char, c_int, c_uint};

/// A number of a directive, by its position.
fn number(directives: &[FunctionDirective], name: &str, index: usize) -> c_int {
    let directive = directives.iter().find(|directive| directive.name == name);
    let values = directive.map(|directive| directive.values.as_slice());
    values.map_or(0, |values| values.get(index).map_or(1, |value| *value as c_int))
}

driver! {
    /// An attribute of a kernel.
    fn [cuFuncGetAttribute](value: *mut c_int, attribute: c_uint, function: usize) {
        let state = driver()?.state();
        let (function, module) = state.function(function)?;
        let kernel = module.kernel(&function.name).ok_or(CudaResult::NOT_FOUND)?;
        let directives = &kernel.directives;
        let (major, minor) = module.ptx.version;
        let known = match attribute {
            0 => most_threads(kernel) as c_int,
            1 => static_shared_bytes(&module.ptx, kernel) as c_int,
            2 | 3 | 7 | 14 | 15 => 0,
            4 => registers(kernel) as c_int,
            5 => (10 * major + minor) as c_int,
            6 => settings().sm as c_int,
            8 => function.dynamic_shared as c_int,
            9 => -1,
            10 => c_int::from(directives.iter().any(|d| d.name == "explicitcluster")),
            11..=13 => number(directives, "reqnctapercluster", attribute as usize - 11),
            _ => return Err(CudaResult::INVALID_VALUE),
        };
        // SAFETY: the program's pointer.
        unsafe { give(value, known) }
    }

    /// Sets an attribute of a kernel.
    fn [cuFuncSetAttribute](function: usize, attribute: c_uint, value: c_int) {
        let mut state = driver()?.state();
        let (known, module) = state.function(function)?;
        let kernel = module.kernel(&known.name).ok_or(CudaResult::NOT_FOUND)?;
        let fixed = static_shared_bytes(&module.ptx, kernel);
        match attribute {
            8 if value < 0 || value as u64 + fixed > u64::from(shared_of_cta()) => {
                Err(CudaResult::INVALID_VALUE)
            }
            8 => {
                state.functions.get_mut(function)?.dynamic_shared = value as u32;
                Ok(())
            }
            // The share of L1, required clusters, clusters of any size.
            9 | 11..=15 => Ok(()),
            _ => Err(CudaResult::INVALID_VALUE),
        }
    }

    /// Caches are not simulated.
    fn [cuFuncSetCacheConfig](function: usize, config: c_uint) {
        let _ = config;
        driver()?.state().functions.get(function).map(|_| ())
    }

    /// Banks are as they are.
    fn [cuFuncSetSharedMemConfig](function: usize, config: c_uint) {
        let _ = config;
        driver()?.state().functions.get(function).map(|_| ())
    }

    /// The module of a kernel.
    fn [cuFuncGetModule](module: *mut usize, function: usize) {
        let of = driver()?.state().functions.get(function)?.module;
        // SAFETY: the program's pointer.
        unsafe { give(module, of) }
    }

    /// The name of a kernel.
    fn [cuFuncGetName](name: *mut *const c_char, function: usize) {
        let kernel = driver()?.state().functions.get(function)?.name.clone();
        // Names are few, and the program may keep the pointer as long as it likes.
        let text = std::ffi::CString::new(kernel).map_err(|_| CudaResult::INVALID_VALUE)?.into_raw();
        // SAFETY: the program's pointer.
        unsafe { give(name, text.cast_const()) }
    }

    /// Kernels are decoded when they are launched.
    fn [cuFuncLoad](function: usize) {
        driver()?.state().functions.get(function).map(|_| ())
    }

    /// Where a parameter lies among all, and its size.
    fn [cuFuncGetParamInfo](function: usize, index: usize, offset: *mut usize, bytes: *mut usize) {
        let state = driver()?.state();
        let (known, module) = state.function(function)?;
        let kernel = module.kernel(&known.name).ok_or(CudaResult::NOT_FOUND)?;
        let places = launches::places(&kernel.params);
        let place = *places.get(index).ok_or(CudaResult::INVALID_VALUE)?;
        // SAFETY: the program's pointers.
        unsafe {
            give(offset, place)?;
            crate::guard::give_if_wanted(bytes, variable_bytes(&kernel.params[index]) as usize);
        }
        Ok(())
    }
}

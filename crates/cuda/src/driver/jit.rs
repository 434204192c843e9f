//! From machine code or PTX to a loaded module.

use super::{Context, Function, Result};
use crate::error::{DriverError, check};
use cudarc::driver::sys;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// What the JIT compiler printed.
#[derive(Default)]
pub(crate) struct JitLog {
    pub(crate) info: String,
    pub(crate) errors: String,
}

/// Buffers and options that make the JIT compiler talk.
struct JitOptions {
    info: Vec<u8>,
    errors: Vec<u8>,
    names: Vec<sys::CUjit_option>,
    values: Vec<*mut c_void>,
}

impl JitOptions {
    fn new() -> Self {
        use sys::CUjit_option_enum::*;
        let (mut info, mut errors) = (vec![0u8; 64 << 10], vec![0u8; 64 << 10]);
        let names = vec![
            CU_JIT_INFO_LOG_BUFFER,
            CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
            CU_JIT_ERROR_LOG_BUFFER,
            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            CU_JIT_LOG_VERBOSE,
        ];
        let values: Vec<*mut c_void> = vec![
            info.as_mut_ptr().cast(),
            number(info.len()),
            errors.as_mut_ptr().cast(),
            number(errors.len()),
            number(1),
        ];
        JitOptions { info, errors, names, values }
    }

    fn log(&self) -> JitLog {
        let text = |bytes: &[u8]| {
            let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        JitLog { info: text(&self.info), errors: text(&self.errors) }
    }
}

/// A number where the driver's options want it in place of a pointer.
fn number(value: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(value)
}

/// A loaded module.
pub(crate) struct Module {
    context: Arc<Context>,
    handle: usize,
}

impl Module {
    /// Loads a cubin, or PTX text with a final zero, which the driver then compiles.
    pub(crate) fn load(
        context: &Arc<Context>,
        image: &[u8],
    ) -> std::result::Result<(Module, JitLog), (DriverError, JitLog)> {
        context.bind().map_err(|error| (error, JitLog::default()))?;
        let mut options = JitOptions::new();
        let mut module = null_mut();
        // SAFETY: an ELF image carries its own size and PTX text ends with a zero (both are made by
        // this crate); the option arrays have the stated length and their buffers outlive the call.
        let result = unsafe {
            sys::cuModuleLoadDataEx(
                &mut module,
                image.as_ptr().cast(),
                options.names.len() as u32,
                options.names.as_mut_ptr(),
                options.values.as_mut_ptr(),
            )
        };
        match check("cuModuleLoadDataEx", result) {
            Ok(()) => {
                Ok((Module { context: context.clone(), handle: module as usize }, options.log()))
            }
            Err(error) => Err((error, options.log())),
        }
    }

    /// The kernel called `name`.
    pub(crate) fn function(&self, name: &str) -> Result<Function> {
        let name = CString::new(name).unwrap_or_default();
        let mut function = null_mut();
        let module = self.handle as sys::CUmodule;
        // SAFETY: the module is loaded and the name ends with a zero.
        let result = unsafe { sys::cuModuleGetFunction(&mut function, module, name.as_ptr()) };
        check("cuModuleGetFunction", result)?;
        Ok(Function(function as usize))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: loaded once; no `Function` outlives the `Loaded` that owns the module.
            let _ = unsafe { sys::cuModuleUnload(self.handle as sys::CUmodule) };
        }
    }
}

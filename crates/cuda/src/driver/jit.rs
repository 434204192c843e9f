//! From PTX to a loaded module.

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
    fn new(target: Option<u32>) -> Self {
        use sys::CUjit_option_enum::*;
        let (mut info, mut errors) = (vec![0u8; 64 << 10], vec![0u8; 64 << 10]);
        let mut names = vec![
            CU_JIT_INFO_LOG_BUFFER,
            CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
            CU_JIT_ERROR_LOG_BUFFER,
            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            CU_JIT_LOG_VERBOSE,
        ];
        let mut values: Vec<*mut c_void> = vec![
            info.as_mut_ptr().cast(),
            number(info.len()),
            errors.as_mut_ptr().cast(),
            number(errors.len()),
            number(1),
        ];
        if let Some(target) = target {
            names.push(CU_JIT_TARGET);
            values.push(number(target as usize));
        }
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

/// Compiles PTX with the driver for `target` (a `CUjit_target` number) and gives the cubin.
pub(crate) fn compile(
    context: &Context,
    ptx: &CString,
    target: u32,
) -> std::result::Result<(Vec<u8>, JitLog), (DriverError, JitLog)> {
    let mut options = JitOptions::new(Some(target));
    let result = context.bind().and_then(|()| link(ptx, &mut options));
    let log = options.log();
    result.map_or_else(|error| Err((error, options.log())), |cubin| Ok((cubin, log)))
}

fn link(ptx: &CString, options: &mut JitOptions) -> Result<Vec<u8>> {
    let mut state = null_mut();
    let (count, names, values) =
        (options.names.len() as u32, options.names.as_mut_ptr(), options.values.as_mut_ptr());
    // SAFETY: both arrays have `count` entries; the log buffers they name outlive the linker, which
    // is destroyed below.
    let result = unsafe { sys::cuLinkCreate_v2(count, names, values, &mut state) };
    check("cuLinkCreate", result)?;
    let bytes = ptx.as_bytes_with_nul();
    // SAFETY: the text is read during the call only; its length counts the final zero, as wanted.
    let added = unsafe {
        sys::cuLinkAddData_v2(
            state,
            sys::CUjitInputType::CU_JIT_INPUT_PTX,
            bytes.as_ptr() as *mut c_void,
            bytes.len(),
            c"kernel.ptx".as_ptr(),
            0,
            null_mut(),
            null_mut(),
        )
    };
    let cubin = check("cuLinkAddData", added).and_then(|()| {
        let (mut data, mut size) = (null_mut(), 0);
        // SAFETY: the state is complete after this; the cubin belongs to it.
        let result = unsafe { sys::cuLinkComplete(state, &mut data, &mut size) };
        check("cuLinkComplete", result)?;
        // SAFETY: the driver gives `size` bytes that live until the state is destroyed.
        Ok(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }.to_vec())
    });
    // SAFETY: destroyed once, after the cubin was copied.
    let _ = unsafe { sys::cuLinkDestroy(state) };
    cubin
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
        let mut options = JitOptions::new(None);
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

//! Modules.

use super::context::ensure_current;
use super::text;
use crate::driver::{Function, driver};
use crate::guard::{driver, give, give_if_wanted};
use crate::module::{Module, Refusal};
use crate::result::{CudaResult, Outcome};
use crate::settings::settings;
use launches::{MACHINE_CODE, ptx_of};
use ptx::Symbol;
use std::ffi::{c_char, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Loads a module; its handle.
///
/// # Safety
/// `image` is as `cuModuleLoadData` takes it.
pub unsafe fn load(image: *const c_void, log: &Log) -> Outcome<usize> {
    ensure_current()?;
    let sm = settings().sm;
    // SAFETY: the caller's contract.
    let text = unsafe { ptx_of(image.cast(), sm) }.map_err(Refusal::from);
    let module = text.and_then(|text| Module::parse(text, sm));
    let mut module = module.map_err(|refusal| {
        log.refuse(&refusal);
        refusal.result
    })?;
    let mut state = driver()?.state();
    module.place_variables(&mut state.memory)?;
    Ok(state.modules.add(Arc::new(module)))
}

/// A kernel of a module; its handle, the same each time.
pub fn function(module: usize, name: &str) -> Outcome<usize> {
    let mut state = driver()?.state();
    state.modules.get(module)?.kernel(name).ok_or(CudaResult::NOT_FOUND)?;
    let known = state.functions.find(|f| f.module == module && f.name == name);
    Ok(known.unwrap_or_else(|| {
        state.functions.add(Function { module, name: name.to_owned(), dynamic_shared: 48 << 10 })
    }))
}

/// Unloads a module when no queued work can use it any more.
pub fn unload(module: usize) -> Outcome {
    let driver = driver()?;
    let _ = driver.synchronize();
    let mut state = driver.state();
    let removed = state.modules.remove(module)?;
    removed.release_variables(&mut state.memory);
    state.functions.retain(|function| function.module != module);
    Ok(())
}

/// Where a variable of a module is, and how many bytes it has.
pub fn variable(module: usize, name: &str) -> Outcome<(u64, usize)> {
    let state = driver()?.state();
    let module = state.modules.get(module)?;
    let symbol = Symbol::new(name);
    let address = *module.variables.get(&symbol).ok_or(CudaResult::NOT_FOUND)?;
    let described = module.described.iter().find(|variable| variable.name == symbol);
    Ok((address, described.map_or(0, |variable| variable.bytes as usize)))
}

/// The buffer for errors among the options of the compiler, if there is one.
pub struct Log {
    buffer: *mut u8,
    bytes: usize,
}

impl Log {
    /// None.
    pub const NONE: Log = Log { buffer: std::ptr::null_mut(), bytes: 0 };

    /// Looks for the buffer.
    ///
    /// # Safety
    /// There are `count` options and values, as the manual describes them.
    pub unsafe fn of(count: c_uint, options: *const c_uint, values: *const *mut c_void) -> Log {
        let mut log = Log::NONE;
        if options.is_null() || values.is_null() {
            return log;
        }
        for i in 0..count as usize {
            // SAFETY: there are `count` of both.
            match unsafe { (*options.add(i), *values.add(i)) } {
                // The buffer for errors and its size; 3 and 4 are those for information.
                (5, buffer) => log.buffer = buffer.cast(),
                (6, bytes) => log.bytes = bytes.addr() & u32::MAX as usize,
                _ => {}
            }
        }
        log
    }

    /// Tells the program why, in its buffer; without one, on the terminal, machine code only once.
    fn refuse(&self, refusal: &Refusal) {
        if self.buffer.is_null() || self.bytes == 0 {
            static TOLD: AtomicBool = AtomicBool::new(false);
            if refusal.text != MACHINE_CODE || !TOLD.swap(true, Ordering::Relaxed) {
                eprintln!("sixwarp: {}", refusal.text);
            }
            return;
        }
        let text = refusal.text.as_bytes();
        let length = text.len().min(self.bytes - 1);
        // SAFETY: the program's buffer has `bytes` bytes, and these are no more.
        unsafe {
            self.buffer.copy_from_nonoverlapping(text.as_ptr(), length);
            self.buffer.add(length).write(0);
        }
    }
}

driver! {
    /// Loads a module from memory.
    fn [cuModuleLoadData](module: *mut usize, image: *const c_void) {
        // SAFETY: the program's image and pointer.
        unsafe { give(module, load(image, &Log::NONE)?) }
    }

    /// Loads a module from memory, with options for the compiler.
    fn [cuModuleLoadDataEx](
        module: *mut usize, image: *const c_void, count: c_uint, options: *const c_uint,
        values: *const *mut c_void,
    ) {
        // SAFETY: the program's image, options and pointer.
        unsafe {
            let log = Log::of(count, options, values);
            give(module, load(image, &log)?)
        }
    }

    /// Loads a module from a fat binary.
    fn [cuModuleLoadFatBinary](module: *mut usize, image: *const c_void) {
        // SAFETY: the program's image and pointer.
        unsafe { give(module, load(image, &Log::NONE)?) }
    }

    /// Loads a module from a file.
    fn [cuModuleLoad](module: *mut usize, path: *const c_char) {
        // SAFETY: the program's text.
        let path = unsafe { text(path)? };
        let mut image = std::fs::read(path).map_err(|_| CudaResult::FILE_NOT_FOUND)?;
        image.push(0);
        // SAFETY: text ends with the zero; the program's pointer.
        unsafe { give(module, load(image.as_ptr().cast(), &Log::NONE)?) }
    }

    /// Unloads a module.
    fn [cuModuleUnload](module: usize) {
        unload(module)
    }

    /// A kernel.
    fn [cuModuleGetFunction](handle: *mut usize, module: usize, name: *const c_char) {
        // SAFETY: the program's text and pointer.
        unsafe { give(handle, function(module, text(name)?)?) }
    }

    /// How many kernels there are.
    fn [cuModuleGetFunctionCount](count: *mut c_uint, module: usize) {
        let state = driver()?.state();
        let kernels = state.modules.get(module)?.ptx.functions().filter(|f| f.entry && f.body.is_some());
        // SAFETY: the program's pointer.
        unsafe { give(count, kernels.count() as c_uint) }
    }

    /// A variable.
    fn [cuModuleGetGlobal_v2, cuModuleGetGlobal](
        address: *mut u64, bytes: *mut usize, module: usize, name: *const c_char,
    ) {
        // SAFETY: the program's text and pointers.
        unsafe {
            let (start, size) = variable(module, text(name)?)?;
            give_if_wanted(address, start);
            give_if_wanted(bytes, size);
        }
        Ok(())
    }
}

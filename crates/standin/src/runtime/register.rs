//! What the compiler registers before `main`: fat binaries, and which address of the host stands for which kernel or
//! variable in them. A binary is loaded when the first of its kernels or variables is used.

use super::error::{INVALID_FUNCTION, INVALID_SYMBOL, remember};
use super::start;
use crate::api::module::{Log, function, load, unload, variable};
use crate::driver::driver;
use crate::guard::guarded;
use crate::result::{CudaResult, Outcome};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard};

/// Everything that is registered. Keys are addresses of the program, which are compared and not followed.
#[derive(Default)]
struct Registry {
    /// Modules of fat binaries, once they are loaded or refused.
    binaries: HashMap<usize, Option<Outcome<usize>>>,
    kernels: HashMap<usize, Kernel>,
    variables: HashMap<usize, Variable>,
    /// Managed variables: where the program keeps their addresses.
    managed: HashMap<usize, Variable>,
}

struct Kernel {
    binary: usize,
    name: String,
    /// The driver's handle, once it was asked for.
    handle: Option<usize>,
}

struct Variable {
    binary: usize,
    name: String,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Registry {
    /// The module of a fat binary; one that was refused once is not read again.
    fn module(&mut self, binary: usize) -> Outcome<usize> {
        let known = self.binaries.get(&binary).ok_or(CudaResult::INVALID_HANDLE)?;
        if let Some(module) = known {
            return *module;
        }
        let image: *const c_void = std::ptr::with_exposed_provenance(binary);
        // SAFETY: the compiler registered the address of a fat binary's wrapper, which is a constant of the program.
        let module = unsafe { load(image, &Log::NONE) };
        self.binaries.insert(binary, Some(module));
        self.tell_managed(binary, module?);
        module
    }

    /// Tells the program where the managed variables of a module are.
    fn tell_managed(&self, binary: usize, module: usize) {
        for (host, found) in self.managed.iter().filter(|(_, found)| found.binary == binary) {
            let Ok((address, _)) = variable(module, &found.name) else { continue };
            let host: *mut u64 = std::ptr::with_exposed_provenance_mut(*host);
            // SAFETY: the compiler registered a pointer of the program, and asks for the module before it reads it.
            unsafe { host.write(address) };
        }
    }

    fn kernel(&mut self, symbol: usize) -> Outcome<Option<usize>> {
        let Some(kernel) = self.kernels.get(&symbol) else { return Ok(None) };
        if kernel.handle.is_some() {
            return Ok(kernel.handle);
        }
        let (binary, name) = (kernel.binary, kernel.name.clone());
        let module = self.module(binary)?;
        let handle = function(module, &name).map_err(|_| INVALID_FUNCTION)?;
        if let Some(kernel) = self.kernels.get_mut(&symbol) {
            kernel.handle = Some(handle);
        }
        Ok(Some(handle))
    }
}

/// The driver's handle of the kernel that an address of the host stands for; such a handle stands for itself.
pub fn kernel(symbol: *const c_void) -> Outcome<usize> {
    if let Some(handle) = registry().kernel(symbol.addr())? {
        return Ok(handle);
    }
    let known = driver()?.state().functions.get(symbol.addr()).is_ok();
    known.then_some(symbol.addr()).ok_or(INVALID_FUNCTION)
}

/// Where the variable that an address of the host stands for is on the device, and its bytes.
pub fn symbol(symbol: *const c_void) -> Outcome<(u64, usize)> {
    let mut registry = registry();
    let found = registry.variables.get(&symbol.addr()).ok_or(INVALID_SYMBOL)?;
    let (binary, name) = (found.binary, found.name.clone());
    let module = registry.module(binary)?;
    variable(module, &name).map_err(|_| INVALID_SYMBOL)
}

/// # Safety
/// `name` is null or ends with a zero.
unsafe fn owned(name: *const c_char) -> String {
    if name.is_null() {
        return String::new();
    }
    // SAFETY: not null; the caller vouches for the zero.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Registers a fat binary; its handle is its address.
///
/// # Safety
/// `wrapper` is the structure that the compiler puts around a fat binary, and stays until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: *const c_void) -> *mut *mut c_void {
    let address = wrapper.expose_provenance();
    registry().binaries.insert(address, None);
    std::ptr::with_exposed_provenance_mut(address)
}

/// All kernels and variables of a fat binary are registered.
///
/// # Safety
/// None: the handle is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinaryEnd(handle: *mut *mut c_void) {
    let _ = handle;
}

/// Loads a module whose managed variables the program is about to use; whether that worked.
///
/// # Safety
/// None: the handle is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaInitModule(handle: *mut *mut c_void) -> c_char {
    let body = || start().and_then(|()| registry().module(handle.addr())).map(|_| ());
    let result = remember(guarded("__cudaInitModule", body));
    c_char::from(result == CudaResult::SUCCESS)
}

/// Forgets a fat binary, its kernels and its variables.
///
/// # Safety
/// None: the handle is not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    let binary = handle.addr();
    let mut registry = registry();
    registry.kernels.retain(|_, kernel| kernel.binary != binary);
    registry.variables.retain(|_, variable| variable.binary != binary);
    registry.managed.retain(|_, variable| variable.binary != binary);
    if let Some(Some(Ok(module))) = registry.binaries.remove(&binary) {
        // What is queued at the end of the process is not waited for a second time.
        if driver().is_ok_and(|driver| driver.queue.is_idle()) {
            let _ = unload(module);
        }
    }
}

/// Registers a kernel.
///
/// # Safety
/// `name` ends with a zero; the other pointers are not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    host: *const c_void,
    device: *mut c_char,
    name: *const c_char,
    thread_limit: c_int,
    thread: *mut c_void,
    block: *mut c_void,
    block_dim: *mut c_void,
    grid_dim: *mut c_void,
    warp_size: *mut c_int,
) {
    let _ = (device, thread_limit, thread, block, block_dim, grid_dim, warp_size);
    // SAFETY: the compiler's text.
    let name = unsafe { owned(name) };
    registry().kernels.insert(host.addr(), Kernel { binary: handle.addr(), name, handle: None });
}

/// Registers a variable.
///
/// # Safety
/// `name` ends with a zero; the other pointers are not followed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    host: *const c_void,
    device: *mut c_char,
    name: *const c_char,
    external: c_int,
    bytes: usize,
    constant: c_int,
    global: c_int,
) {
    let _ = (device, external, bytes, constant, global);
    // SAFETY: the compiler's text.
    let name = unsafe { owned(name) };
    registry().variables.insert(host.addr(), Variable { binary: handle.addr(), name });
}

/// Registers a variable that the host shares.
///
/// # Safety
/// `name` ends with a zero, and `host` is a pointer of the program that stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    host: *mut *mut c_void,
    device: *mut c_char,
    name: *const c_char,
    external: c_int,
    bytes: usize,
    constant: c_int,
    global: c_int,
) {
    let _ = (device, external, bytes, constant, global);
    // SAFETY: the compiler's text.
    let name = unsafe { owned(name) };
    let (host, binary) = (host.expose_provenance(), handle.addr());
    let mut registry = registry();
    registry.variables.insert(host, Variable { binary, name: name.clone() });
    registry.managed.insert(host, Variable { binary, name });
}

//! The driver's own functions.

use crate::symbols::real_dlsym;
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// What functions of the driver give when all went well.
pub const SUCCESS: c_int = 0;
/// "The loaded driver is a stub": there is none behind this library.
const STUB_LIBRARY: c_int = 34;
/// The driver does not have the function.
const NOT_SUPPORTED: c_int = 801;

const RTLD_LAZY: c_int = 1;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
}

/// The handle of `libcuda.so.1`, as an address; 0 if it cannot be loaded.
fn library() -> usize {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    *LIBRARY.get_or_init(|| {
        // SAFETY: the driver's library has no preconditions, and the program wants it loaded: it calls it.
        unsafe { dlopen(c"libcuda.so.1".as_ptr(), RTLD_LAZY) }.expose_provenance()
    })
}

/// A function of the driver, looked up when it is first called.
pub struct Real {
    /// With a zero at the end.
    name: &'static str,
    address: AtomicPtr<c_void>,
}

impl Real {
    /// The function of a name, which must end with a zero.
    pub const fn new(name: &'static str) -> Real {
        assert!(matches!(name.as_bytes().last(), Some(0)));
        Real { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Where it is; nothing if the driver does not have it.
    pub fn address(&self) -> Option<*mut c_void> {
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            let handle: *mut c_void = match library() {
                0 => return None,
                handle => std::ptr::with_exposed_provenance_mut(handle),
            };
            // SAFETY: a handle of `dlopen`, which is never closed, and a name.
            address = unsafe { real_dlsym(handle, self.name.as_ptr().cast()) };
            self.address.store(address, Ordering::Relaxed);
        }
        (!address.is_null()).then_some(address)
    }
}

/// What a program gets that calls a function which the driver does not have.
pub fn missing(name: &str) -> c_int {
    if library() != 0 {
        return NOT_SUPPORTED;
    }
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        let text = "there is no libcuda.so.1 to call: capturing needs NVIDIA's driver, or run the command under `sixwarp check`";
        eprintln!("sixwarp: {name}: {text}");
    }
    STUB_LIBRARY
}

/// Declares functions of the driver that this library calls itself: each gives nothing where the driver does not have
/// it, and otherwise its result.
macro_rules! driver_calls {
    ($($(#[$doc:meta])* fn $call:ident = $name:ident ($($arg:ident: $ty:ty),*);)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// Pointers must be as the manual of the CUDA driver API asks.
            pub unsafe fn $call($($arg: $ty),*) -> Option<c_int> {
                type Function = unsafe extern "C" fn($($ty),*) -> c_int;
                static REAL: Real = Real::new(concat!(stringify!($name), "\0"));
                let address = REAL.address()?;
                // SAFETY: the driver's function of this name has this type.
                let real = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
                // SAFETY: the caller's contract.
                Some(unsafe { real($($arg),*) })
            }
        )*
    };
}

driver_calls! {
    /// Waits for all work of the current context.
    fn synchronize = cuCtxSynchronize ();
    /// Copies memory of the device.
    fn copy_to_host = cuMemcpyDtoH_v2 (to: *mut u8, from: u64, bytes: usize);
    /// The allocation that an address lies in.
    fn address_range = cuMemGetAddressRange_v2 (base: *mut u64, bytes: *mut usize, address: u64);
    /// Whether a stream is being captured: 0 if not.
    fn is_capturing = cuStreamIsCapturing (stream: usize, status: *mut c_int);
    /// The name of a kernel.
    fn function_name = cuFuncGetName (name: *mut *const c_char, function: usize);
    /// The module of a kernel.
    fn function_module = cuFuncGetModule (module: *mut usize, function: usize);
    /// An attribute of a device.
    fn device_attribute = cuDeviceGetAttribute (value: *mut c_int, attribute: c_int, device: c_int);
}

/// The architecture of the first device: 90 for sm_90.
pub fn architecture() -> u32 {
    static SM: OnceLock<u32> = OnceLock::new();
    *SM.get_or_init(|| {
        let attribute = |number| {
            let mut value = 0;
            // SAFETY: a place for the value.
            let result = unsafe { device_attribute(&mut value, number, 0) };
            if result == Some(SUCCESS) { value.unsigned_abs() } else { 0 }
        };
        10 * attribute(75) + attribute(76)
    })
}

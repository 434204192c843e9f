//! The driver's functions that this crate uses, and all of its `unsafe`.
//!
//! Each function here is safe to call with any arguments its types allow: handles are only made by
//! the functions below, keep alive what they belong to, and are closed once, when dropped. What a
//! kernel does with device memory is the business of those who write kernels.

use crate::Error;
use crate::error::{DriverError, check};
use cudarc::driver::sys;
use std::ffi::{CStr, c_int};
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod foreign;
mod jit;
mod launch;
mod memory;
mod stream;
mod symbols;
mod tensor_map;

pub(crate) use jit::{JitLog, Module};
pub(crate) use launch::{Arguments, Function, Geometry, Slot};
pub(crate) use memory::Memory;
pub(crate) use stream::{Event, Graph, Stream};
pub(crate) use sys::CUdevice_attribute as DeviceAttribute;
pub(crate) use sys::CUfunction_attribute as FunctionAttribute;
pub(crate) use tensor_map::{encode_tensor_map, replace_map_address};

type Result<T> = std::result::Result<T, DriverError>;

/// Ensures that the driver can be asked for its version and its devices.
///
/// A library that is missing, or a function in it, makes the functions below panic: this is asked
/// before them.
pub(crate) fn ensure_present() -> std::result::Result<(), Error> {
    if !symbols::is_present() {
        return Err(Error::NoDriver);
    }
    ensure_has(symbols::FIRST)
}

/// Ensures that the driver has everything that is called on a device.
pub(crate) fn ensure_complete() -> std::result::Result<(), Error> {
    ensure_has(symbols::FURTHER)
}

fn ensure_has(functions: &[&'static str]) -> std::result::Result<(), Error> {
    symbols::missing(functions).map_or(Ok(()), |function| Err(Error::BrokenDriver { function }))
}

/// Prepares the driver.
pub(crate) fn init() -> Result<()> {
    // SAFETY: no preconditions; flags must be 0.
    check("cuInit", unsafe { sys::cuInit(0) })
}

/// The CUDA version the driver supports: `(13, 0)`.
pub(crate) fn version() -> Result<(u32, u32)> {
    let mut version = 0;
    // SAFETY: writes one integer.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
    Ok((version as u32 / 1000, version as u32 % 1000 / 10))
}

/// Devices the driver sees.
pub(crate) fn device_count() -> Result<u32> {
    let mut count = 0;
    // SAFETY: writes one integer.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
    Ok(count as u32)
}

/// The name of a driver error and the driver's sentence about it.
pub(crate) fn describe(result: sys::CUresult) -> (String, String) {
    let text = |call: unsafe fn(sys::CUresult, *mut *const std::ffi::c_char) -> sys::CUresult| {
        let mut text = null();
        // SAFETY: on success the driver sets a pointer to a string of its own that is never freed;
        // otherwise to null.
        unsafe {
            call(result, &mut text);
            if text.is_null() {
                return format!("error {}", result as u32);
            }
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    };
    (text(sys::cuGetErrorName), text(sys::cuGetErrorString))
}

/// A device's primary context, shared with everyone else in the process (cudarc, PyTorch).
pub(crate) struct Context {
    device: sys::CUdevice,
    handle: usize,
    /// A kernel did not end: every further call would wait for it, so none is made.
    lost: AtomicBool,
}

impl Context {
    pub(crate) fn retain(ordinal: u32) -> Result<Arc<Context>> {
        let (mut device, mut context) = (0, null_mut());
        // SAFETY: writes one integer; an ordinal out of range is an error.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal as c_int) })?;
        // SAFETY: the device is valid; released once, in `drop`.
        let result = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) };
        check("cuDevicePrimaryCtxRetain", result)?;
        Ok(Arc::new(Context { device, handle: context as usize, lost: AtomicBool::new(false) }))
    }

    /// Gives the device up: nothing is called on it again, not even to free what is on it.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Makes the context current on this thread, as every call below needs.
    pub(crate) fn bind(&self) -> Result<()> {
        self.ensure_not_lost()?;
        // SAFETY: the context is retained while `self` lives.
        let result = unsafe { sys::cuCtxSetCurrent(self.handle as sys::CUcontext) };
        check("cuCtxSetCurrent", result)
    }

    /// Makes the context current on this thread until the result is dropped: others (PyTorch) take a
    /// thread's context for the device they have chosen.
    pub(crate) fn enter(&self) -> Result<Entered> {
        self.ensure_not_lost()?;
        let mut before = null_mut();
        // SAFETY: writes one pointer.
        check("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&mut before) })?;
        let before = before as usize;
        if before != self.handle {
            self.bind()?;
        }
        // A thread without a context keeps this one: nobody counts on there being none.
        let back = Some(before).filter(|before| *before != self.handle && *before != 0);
        Ok(Entered { back })
    }

    fn ensure_not_lost(&self) -> Result<()> {
        if !self.lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(DriverError {
            call: "nothing was called",
            name: "the device is lost to this process".into(),
            description: "an earlier kernel did not end".into(),
        })
    }

    pub(crate) fn attribute(&self, attribute: DeviceAttribute) -> Result<u32> {
        let mut value = 0;
        // SAFETY: writes one integer.
        let result = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, self.device) };
        check("cuDeviceGetAttribute", result)?;
        Ok(value as u32)
    }

    pub(crate) fn name(&self) -> Result<String> {
        let mut name = [0u8; 256];
        // SAFETY: the length given is the buffer's; the driver ends the name with a zero.
        let result = unsafe {
            sys::cuDeviceGetName(name.as_mut_ptr().cast(), name.len() as c_int, self.device)
        };
        check("cuDeviceGetName", result)?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    pub(crate) fn memory_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: writes one integer.
        check("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&mut bytes, self.device) })?;
        Ok(bytes as u64)
    }
}

/// A thread's stay in a context; see [`Context::enter`].
pub(crate) struct Entered {
    /// The context to go back to.
    back: Option<usize>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.back {
            // SAFETY: it was this thread's context a moment ago; if its owner has destroyed it since,
            // setting it is an error that changes nothing.
            let _ = unsafe { sys::cuCtxSetCurrent(before as sys::CUcontext) };
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.lost.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: retained once in `retain`. An error (the driver is shutting down) changes nothing.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

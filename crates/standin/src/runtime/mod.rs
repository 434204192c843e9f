//! The functions of the runtime API, over those of the driver API.
//!
//! `nvcc -cudart shared` links a program with `libcudart.so.12` or `.13`. The functions here are what such a program
//! calls: the public ones, and those that the compiler itself puts in front of `main` and around a launch. A file of
//! either name that asks for this library is all that the program needs; `sixwarp check` writes both.
//!
//! The device's context is made by the first call that needs it. Results are the driver's numbers, because both
//! headers number errors alike; what only the runtime has is in [`error`].

pub mod device;
pub mod entry_point;
pub mod error;
pub mod event;
pub mod function;
pub mod graph;
pub mod launch;
pub mod memory;
pub mod occupancy;
pub mod pointer;
pub mod properties;
pub mod register;
pub mod stream;
pub mod symbol;

use crate::api::context::{cuCtxSetCurrent, cuDevicePrimaryCtxRetain, ensure_current};
use crate::driver::{driver, initialise};
use crate::result::{CudaResult, Outcome};

/// Makes the driver ready, and the device's context this thread's, unless it has one.
pub(crate) fn start() -> Outcome {
    initialise();
    driver()?;
    if ensure_current() == Err(CudaResult::INVALID_CONTEXT) {
        let mut context = 0;
        // SAFETY: the pointer is to a local.
        unsafe {
            cuDevicePrimaryCtxRetain(&mut context, 0).outcome()?;
            cuCtxSetCurrent(context).outcome()?;
        }
    }
    Ok(())
}

/// That a device is the one there is.
fn check_device(device: std::ffi::c_int) -> Outcome {
    if device == 0 { Ok(()) } else { Err(CudaResult::INVALID_DEVICE) }
}

/// Declares runtime functions as [`crate::guard::driver`] declares those of the driver. Each starts the runtime, and
/// its error is remembered for `cudaGetLastError`.
macro_rules! runtime {
    ($($(#[$doc:meta])* fn [$first:ident $(, $alias:ident)*] $arguments:tt $body:block)*) => {
        $(
            $crate::runtime::runtime_function! { $(#[$doc])* $first $arguments $body }
            $($crate::guard::driver_alias! { $alias = $first $arguments })*
        )*
    };
}
use runtime;

/// One function of [`runtime`].
macro_rules! runtime_function {
    ($(#[$doc:meta])* $name:ident ($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Pointers must be as the manual of the CUDA runtime API asks.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::result::CudaResult {
            let body = || $crate::runtime::start().and_then(|()| $body);
            $crate::runtime::error::remember($crate::guard::guarded(stringify!($name), body))
        }
    };
}
use runtime_function;

//! The border to C: results as numbers, and no panic beyond it.

use crate::result::{CudaResult, Outcome};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a driver function. A panic is a bug here; the program gets an error instead.
pub fn guarded(name: &str, body: impl FnOnce() -> Outcome) -> CudaResult {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => CudaResult::SUCCESS,
        Ok(Err(error)) => error,
        Err(_) => {
            eprintln!(
                "sixwarp: {name} failed inside the stand-in driver: this is a bug of sixwarp"
            );
            CudaResult::UNKNOWN
        }
    }
}

/// Writes a result where the caller wants it.
///
/// # Safety
/// `to` is null or points to writable memory for a `T`.
pub unsafe fn give<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(CudaResult::INVALID_VALUE);
    }
    // SAFETY: not null; the caller vouches for the rest.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// As [`give`], for results that the caller may not want.
///
/// # Safety
/// As for [`give`].
pub unsafe fn give_if_wanted<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: not null; the caller vouches for the rest.
        unsafe { to.write_unaligned(value) };
    }
}

/// Declares driver functions. Each has one or more names in C, in brackets, and a body that gives an [`Outcome`].
///
/// The caller in C vouches for every pointer, as the manual of the driver API demands of it; that is the safety
/// contract of all functions declared so.
macro_rules! driver {
    ($($(#[$doc:meta])* fn [$first:ident $(, $alias:ident)*] $arguments:tt $body:block)*) => {
        $(
            $crate::guard::driver_function! { $(#[$doc])* $first $arguments $body }
            $($crate::guard::driver_alias! { $alias = $first $arguments })*
        )*
    };
}
pub(crate) use driver;

/// One function of [`driver`].
macro_rules! driver_function {
    ($(#[$doc:meta])* $name:ident ($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Pointers must be as the manual of the CUDA driver API asks.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> $crate::result::CudaResult {
            $crate::guard::guarded(stringify!($name), || $body)
        }
    };
}
pub(crate) use driver_function;

/// Another name of a function of [`driver`].
macro_rules! driver_alias {
    ($alias:ident = $name:ident ($($arg:ident: $ty:ty),* $(,)?)) => {
        #[doc = concat!("Another name of [`", stringify!($name), "`].")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $alias($($arg: $ty),*) -> $crate::result::CudaResult {
            // SAFETY: the same function under another name.
            unsafe { $name($($arg),*) }
        }
    };
}
pub(crate) use driver_alias;

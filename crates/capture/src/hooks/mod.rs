//! Functions of the driver API that programs call here instead, by their names in C.
//!
//! Each calls the driver's function of the same name, with the same arguments, and gives what that gives. The caller in
//! C vouches for every pointer, as the manual of the driver API demands of it; that is the safety contract of all of
//! them.

pub mod launch;
pub mod memory;
pub mod module;
pub mod proc_address;

/// Declares functions. Each has one or more names in C, in brackets, and a body that is given the driver's function of
/// the name, ready to be called.
macro_rules! interpose {
    ($(#[$doc:meta] fn [$($name:ident),+] $arguments:tt |$call:ident| $body:block)*) => {
        $($(
            $crate::hooks::interposed! { #[$doc] $name $arguments |$call| $body }
        )+)*
    };
}
use interpose;

/// One function of [`interpose`].
macro_rules! interposed {
    (#[$doc:meta] $name:ident ($($arg:ident: $ty:ty),* $(,)?) |$call:ident| $body:block) => {
        #[$doc]
        ///
        /// # Safety
        /// Pointers must be as the manual of the CUDA driver API asks.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> std::ffi::c_int {
            type Function = unsafe extern "C" fn($($ty),*) -> std::ffi::c_int;
            static REAL: $crate::real::Real =
                $crate::real::Real::new(concat!(stringify!($name), "\0"));
            let Some(address) = REAL.address() else {
                return $crate::real::missing(stringify!($name));
            };
            // SAFETY: the driver's function of this name has this type.
            let real = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(address) };
            // SAFETY: the program's arguments.
            let $call = || unsafe { real($($arg),*) };
            $body
        }
    };
}
use interposed;

/// What a call has written to a place of the program; nothing for null.
///
/// # Safety
/// `place` is null or readable.
unsafe fn given<T: Copy>(place: *const T) -> Option<T> {
    // SAFETY: the caller vouches for it, and a place in a structure may be unaligned.
    (!place.is_null()).then(|| unsafe { place.read_unaligned() })
}

//! A program that takes every function of the driver from `cuGetProcAddress`, as NVIDIA's runtime does.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

type GetProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;

/// Both warps write a word.
pub const RACY: &CStr = c".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 words)
{
    .reg .b32 %r; .reg .b64 %rd;
    ld.param.u64 %rd, [words];
    mov.u32 %r, %tid.x;
    st.global.u32 [%rd], %r;
    ret;
}";

/// Does not end while a word is not zero. It counts meanwhile, so that the simulator does not see a deadlock.
pub const ENDLESS: &CStr = c".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 words)
{
    .reg .pred %p; .reg .b32 %r; .reg .b32 %count; .reg .b64 %rd;
    ld.param.u64 %rd, [words];
    mov.u32 %count, 0;
again:
    add.u32 %count, %count, 1;
    st.volatile.global.u32 [%rd+128], %count;
    ld.volatile.global.u32 %r, [%rd];
    setp.ne.u32 %p, %r, 0;
    @%p bra again;
    ret;
}";

/// Calls a function of the driver that was looked up; it must succeed.
macro_rules! call {
    ($look:ident, $name:literal, ($($ty:ty),*), $($arg:expr),*) => {
        // SAFETY: that is the function's type, and the arguments are as the manual asks.
        unsafe {
            let function: unsafe extern "C" fn($($ty),*) -> c_int = std::mem::transmute($look($name));
            assert_eq!(function($($arg),*), 0, "{:?}", $name);
        }
    };
}

/// Loads a kernel `k` as a library, and launches 64 threads of it on memory that holds `word`.
pub fn run(text: &CStr, word: u32) {
    // SAFETY: the stand-in is loaded, and has this function.
    let get: GetProcAddress = unsafe {
        let library = dlopen(c"libcuda.so.1".as_ptr(), 2);
        std::mem::transmute(dlsym(library, c"cuGetProcAddress_v2".as_ptr()))
    };
    let look = |name: &CStr| {
        let (mut address, mut status) = (null_mut(), 0);
        // SAFETY: places for the results.
        let result = unsafe { get(name.as_ptr(), &mut address, 12080, 0, &mut status) };
        assert_eq!((result, status), (0, 0), "{name:?}");
        address
    };
    let (mut context, mut library, mut kernel, mut memory) = (0usize, 0usize, 0usize, 0u64);
    call!(look, c"cuInit", (u32), 0);
    call!(look, c"cuDevicePrimaryCtxRetain", (*mut usize, c_int), &mut context, 0);
    call!(look, c"cuCtxSetCurrent", (usize), context);
    type Options = *mut c_void;
    call!(
        look,
        c"cuLibraryLoadData",
        (*mut usize, *const c_char, Options, Options, u32, Options, Options, u32),
        &mut library,
        text.as_ptr(),
        null_mut(),
        null_mut(),
        0,
        null_mut(),
        null_mut(),
        0
    );
    call!(
        look,
        c"cuLibraryGetKernel",
        (*mut usize, usize, *const c_char),
        &mut kernel,
        library,
        c"k".as_ptr()
    );
    call!(look, c"cuMemAlloc", (*mut u64, usize), &mut memory, 256);
    call!(look, c"cuMemcpyHtoD", (u64, *const u32, usize), memory, &word, 4);
    let params = [(&raw const memory).cast::<c_void>()];
    call!(
        look,
        c"cuLaunchKernel",
        (usize, u32, u32, u32, u32, u32, u32, u32, usize, *const *const c_void, *const c_void),
        kernel,
        1,
        1,
        1,
        64,
        1,
        1,
        0,
        0,
        params.as_ptr(),
        null()
    );
    call!(look, c"cuCtxSynchronize", (),);
}

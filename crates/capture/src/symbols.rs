//! `dlsym`, so that programs which look functions of the driver up find the ones here.
//!
//! What `dlsym` finds can depend on its caller: `RTLD_NEXT` means "behind the library that asks". So the function here
//! does not call the real one for a program. It jumps there with the caller's return address still in place, unless the
//! name is one of the table's.

use crate::table;
use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The handle that means "behind the library that asks".
const RTLD_NEXT: usize = usize::MAX;

/// The version under which the C library has had `dlsym` from the start.
#[cfg(target_arch = "x86_64")]
const VERSION: &CStr = c"GLIBC_2.2.5";
#[cfg(target_arch = "aarch64")]
const VERSION: &CStr = c"GLIBC_2.17";

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// The C library's `dlsym`.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

fn find_real() -> *mut c_void {
    let known = REAL.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let next = std::ptr::without_provenance_mut(RTLD_NEXT);
    // SAFETY: a special handle, a name and a version.
    let found = unsafe { dlvsym(next, c"dlsym".as_ptr(), VERSION.as_ptr()) };
    REAL.store(found, Ordering::Relaxed);
    found
}

/// The C library's `dlsym`, called by this library.
///
/// # Safety
/// As for `dlsym`.
pub unsafe fn real_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let real = find_real();
    if real.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: that is the type of `dlsym`, and the caller vouches for the arguments.
    unsafe { std::mem::transmute::<*mut c_void, Dlsym>(real)(handle, name) }
}

/// The function here that a program gets instead of the driver's; null if it gets what it asks for. The real `dlsym` is
/// known afterwards.
///
/// # Safety
/// As for `dlsym`.
unsafe extern "C" fn replacement(handle: *mut c_void, name: *const c_char) -> *const c_void {
    find_real();
    if name.is_null() || handle.addr() == RTLD_NEXT {
        return std::ptr::null();
    }
    // SAFETY: not null, and `dlsym` takes text that ends with a zero.
    let text = unsafe { CStr::from_ptr(name) };
    let Some(ours) = table::by_symbol(text.to_bytes()) else { return std::ptr::null() };
    // SAFETY: the caller's arguments. What the library that is asked does not have is not there.
    match unsafe { real_dlsym(handle, name) }.is_null() {
        true => std::ptr::null(),
        false => ours,
    }
}

/// `dlsym` as programs call it.
///
/// # Safety
/// As for the C library's.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {replacement}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jne 2f",
        "mov rax, qword ptr [rip + {real}]",
        "jmp rax",
        "2: ret",
        replacement = sym replacement,
        real = sym REAL,
    )
}

/// `dlsym` as programs call it.
///
/// # Safety
/// As for the C library's.
#[cfg(target_arch = "aarch64")]
#[cfg_attr(not(test), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        "stp x0, x1, [sp, #-32]!",
        "str x30, [sp, #16]",
        "bl {replacement}",
        "mov x9, x0",
        "ldr x30, [sp, #16]",
        "ldp x0, x1, [sp], #32",
        "cbnz x9, 2f",
        "adrp x9, {real}",
        "ldr x9, [x9, :lo12:{real}]",
        "br x9",
        "2: mov x0, x9",
        "ret",
        replacement = sym replacement,
        real = sym REAL,
    )
}

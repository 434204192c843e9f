//! One empty function of three tensors, for three ways of calling it from Python; see `calls.py`.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// For `ctypes`: addresses that Python has read.
#[unsafe(no_mangle)]
pub extern "C" fn nothing(addresses: *const u64, _stream: usize) -> i32 {
    (addresses as usize & 1) as i32
}

/// A value of the TVM FFI: a tag and eight bytes.
#[repr(C)]
pub struct Any {
    tag: i32,
    _small: u32,
    value: *const c_void,
}

/// For the TVM FFI: tensors arrive as `DLTensor *` (tag 7) or objects of its own.
#[unsafe(no_mangle)]
pub extern "C" fn __tvm_ffi_nothing(
    _: *const c_void,
    args: *const Any,
    n: i32,
    result: *mut Any,
) -> i32 {
    // SAFETY: the caller gives `n` values and room for one.
    unsafe {
        let args = std::slice::from_raw_parts(args, n as usize);
        result.write(Any { tag: 0, _small: 0, value: std::ptr::null() });
        i32::from(args.iter().any(|any| any.value.is_null() && any.tag != 0))
    }
}

#[repr(C)]
pub struct Method {
    name: *const c_char,
    function: unsafe extern "C" fn(*mut c_void, *const *mut c_void, isize) -> *mut c_void,
    flags: c_int,
    documentation: *const c_char,
}
// SAFETY: the pointers are to static text.
unsafe impl Sync for Method {}
static METHOD: Method = Method {
    name: c"nothing".as_ptr(),
    function: builtin,
    flags: 0x80,
    documentation: std::ptr::null(),
};

/// `PyCFunction_NewEx`, `Py_IncRef`, `Py_DecRef`, `PyObject_Type`, `None`, the tensor type, and
/// `dltensor_from_py_object_no_sync` of its exchange interface.
static WORDS: [AtomicUsize; 7] = [const { AtomicUsize::new(0) }; 7];

/// A builtin function, as the package makes them.
///
/// # Safety
/// `words` must be the seven words named above, and Python's lock be held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn make(words: *const usize) -> *mut c_void {
    // SAFETY: as the caller says.
    unsafe {
        WORDS.iter().enumerate().for_each(|(i, word)| word.store(*words.add(i), Relaxed));
        type New = unsafe extern "C" fn(*const Method, *mut c_void, *mut c_void) -> *mut c_void;
        let new = std::mem::transmute::<usize, New>(*words);
        new(&METHOD, std::ptr::null_mut(), std::ptr::null_mut())
    }
}

unsafe extern "C" fn builtin(_: *mut c_void, args: *const *mut c_void, n: isize) -> *mut c_void {
    type Unary = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
    type Borrow = unsafe extern "C" fn(*mut c_void, *mut u64) -> c_int;
    let word = |i: usize| WORDS[i].load(Relaxed);
    // SAFETY: Python gives `n` objects; the words are what `make` was given. A `DLTensor` is six words.
    unsafe {
        let [increment, decrement, kind] =
            [1, 2, 3].map(|i| std::mem::transmute::<usize, Unary>(word(i)));
        let borrow = std::mem::transmute::<usize, Borrow>(word(6));
        for &object in std::slice::from_raw_parts(args, n as usize) {
            let found = kind(object);
            decrement(found);
            let mut tensor = [0; 6];
            if found as usize == word(5) {
                borrow(object, tensor.as_mut_ptr());
            }
            std::hint::black_box(tensor);
        }
        let none = word(4) as *mut c_void;
        increment(none);
        none
    }
}

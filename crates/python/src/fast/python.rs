//! The few functions of CPython that are called, by addresses the package finds with `ctypes`: the
//! library is linked with no Python and serves every one.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// A Python object.
#[repr(C)]
pub struct Object {
    _private: [u8; 0],
}

type Fastcall = unsafe extern "C" fn(
    capsule: *mut Object,
    arguments: *const *mut Object,
    count: isize,
) -> *mut Object;
type FastcallWithKeywords = unsafe extern "C" fn(
    capsule: *mut Object,
    arguments: *const *mut Object,
    count: isize,
    names: *mut Object,
) -> *mut Object;
type Destructor = unsafe extern "C" fn(*mut Object);

/// `PyMethodDef`.
#[repr(C)]
pub(super) struct Method {
    name: *const c_char,
    /// A function of the type that the flags say.
    function: *const (),
    flags: c_int,
    documentation: *const c_char,
}

// SAFETY: the pointers are to static text and to a function.
unsafe impl Sync for Method {}

impl Method {
    /// A function of positional arguments (`METH_FASTCALL`).
    pub(super) const fn new(name: &'static std::ffi::CStr, function: Fastcall) -> Self {
        let function = function as *const ();
        Method { name: name.as_ptr(), function, flags: 0x80, documentation: null() }
    }

    /// A function that may be given arguments by name too (`METH_FASTCALL | METH_KEYWORDS`).
    pub(super) const fn with_keywords(
        name: &'static std::ffi::CStr,
        function: FastcallWithKeywords,
    ) -> Self {
        let function = function as *const ();
        Method { name: name.as_ptr(), function, flags: 0x82, documentation: null() }
    }
}

/// Functions and objects of the running interpreter, in the order of `_library.py`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Interpreter {
    function_new: unsafe extern "C" fn(*const Method, *mut Object, *mut Object) -> *mut Object,
    capsule_new:
        unsafe extern "C" fn(*mut c_void, *const c_char, Option<Destructor>) -> *mut Object,
    capsule_get: unsafe extern "C" fn(*mut Object, *const c_char) -> *mut c_void,
    increment: unsafe extern "C" fn(*mut Object),
    decrement: unsafe extern "C" fn(*mut Object),
    type_of: unsafe extern "C" fn(*mut Object) -> *mut Object,
    compare: unsafe extern "C" fn(*mut Object, *mut Object, c_int) -> c_int,
    as_address: unsafe extern "C" fn(*mut Object) -> *mut c_void,
    error: unsafe extern "C" fn() -> *mut Object,
    clear_error: unsafe extern "C" fn(),
    tuple_new: unsafe extern "C" fn(isize) -> *mut Object,
    tuple_set: unsafe extern "C" fn(*mut Object, isize, *mut Object) -> c_int,
    attribute: unsafe extern "C" fn(*mut Object, *mut Object) -> *mut Object,
    release_lock: unsafe extern "C" fn() -> *mut c_void,
    take_lock: unsafe extern "C" fn(*mut c_void),
    check_signals: unsafe extern "C" fn() -> c_int,
    vectorcall:
        unsafe extern "C" fn(*mut Object, *const *mut Object, usize, *mut Object) -> *mut Object,
    none: *mut Object,
}

// SAFETY: functions and immortal objects of the process's interpreter; all calls are made by threads
// that hold its lock, as the functions below ask.
unsafe impl Send for Interpreter {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Interpreter {}

const CAPSULE: &std::ffi::CStr = c"sixwarp";
/// `Py_EQ`.
const EQUAL: c_int = 2;

/// # Safety
/// Every function here needs a thread that holds the interpreter's lock, and objects that are alive.
impl Interpreter {
    /// A builtin function that owns `state`.
    ///
    /// # Safety
    /// As for all; `drop_state` must take a capsule of a `T`.
    pub(super) unsafe fn function<T>(
        &self,
        method: &'static Method,
        state: Box<T>,
        drop_state: Destructor,
    ) -> *mut Object {
        let state = Box::into_raw(state).cast();
        // SAFETY: the name is static; the capsule frees the state.
        unsafe {
            let capsule = (self.capsule_new)(state, CAPSULE.as_ptr(), Some(drop_state));
            if capsule.is_null() {
                return null_mut();
            }
            let function = (self.function_new)(method, capsule, null_mut());
            (self.decrement)(capsule);
            function
        }
    }

    /// What a capsule of [`Interpreter::function`] holds.
    ///
    /// # Safety
    /// As for all; the capsule must hold a `T`.
    pub(super) unsafe fn state<T>(&self, capsule: *mut Object) -> Option<*mut T> {
        // SAFETY: the name is static; another capsule is an error.
        let state = unsafe { (self.capsule_get)(capsule, CAPSULE.as_ptr()) };
        (!state.is_null()).then_some(state.cast())
    }

    pub(super) fn is_none(&self, object: *mut Object) -> bool {
        object == self.none
    }

    /// # Safety
    /// As for all.
    pub(super) unsafe fn new_none(&self) -> *mut Object {
        // SAFETY: as the caller says.
        unsafe { self.share(self.none) }
    }

    /// # Safety
    /// As for all.
    pub(super) unsafe fn share(&self, object: *mut Object) -> *mut Object {
        // SAFETY: as the caller says.
        unsafe { (self.increment)(object) };
        object
    }

    /// # Safety
    /// As for all; the reference is given up.
    pub(super) unsafe fn release(&self, object: *mut Object) {
        if !object.is_null() {
            // SAFETY: as the caller says.
            unsafe { (self.decrement)(object) }
        }
    }

    /// # Safety
    /// As for all.
    pub(super) unsafe fn is_a(&self, object: *mut Object, types: &[usize]) -> bool {
        // SAFETY: as the caller says; the object keeps its type alive.
        let kind = unsafe {
            let kind = (self.type_of)(object);
            (self.decrement)(kind);
            kind
        };
        types.contains(&(kind as usize))
    }

    /// # Safety
    /// As for all; may run code of the objects.
    pub(super) unsafe fn equal(&self, a: *mut Object, b: *mut Object) -> bool {
        // SAFETY: as the caller says.
        a == b || unsafe { (self.compare)(a, b, EQUAL) } == 1
    }

    /// An address that a Python integer holds.
    ///
    /// # Safety
    /// As for all.
    pub(super) unsafe fn address(&self, object: *mut Object) -> Option<usize> {
        // SAFETY: as the caller says.
        let address = unsafe { (self.as_address)(object) };
        // SAFETY: as the caller says.
        (!address.is_null() || unsafe { (self.error)() }.is_null()).then_some(address as usize)
    }

    /// # Safety
    /// As for all.
    pub(super) unsafe fn clear_error(&self) {
        // SAFETY: as the caller says.
        unsafe { (self.clear_error)() }
    }

    /// Whether an attribute is this very object.
    ///
    /// # Safety
    /// As for all.
    pub(super) unsafe fn attribute_is(
        &self,
        object: *mut Object,
        name: *mut Object,
        value: *mut Object,
    ) -> bool {
        // SAFETY: as the caller says.
        unsafe {
            let found = (self.attribute)(object, name);
            self.release(found);
            found == value
        }
    }

    /// Calls a function with the arguments that a builtin function was given.
    ///
    /// # Safety
    /// As for all; `arguments` must be that of `count` objects and of one more for each of `names`.
    pub(super) unsafe fn call(
        &self,
        function: *mut Object,
        arguments: *const *mut Object,
        count: isize,
        names: *mut Object,
    ) -> *mut Object {
        // SAFETY: as the caller says.
        unsafe { (self.vectorcall)(function, arguments, count as usize, names) }
    }

    /// A tuple of two objects, whose references it takes.
    ///
    /// # Safety
    /// As for all.
    pub(super) unsafe fn pair(&self, first: *mut Object, second: *mut Object) -> *mut Object {
        // SAFETY: as the caller says; a new tuple takes references into its own places.
        unsafe {
            let tuple = (self.tuple_new)(2);
            if !tuple.is_null() {
                (self.tuple_set)(tuple, 0, first);
                (self.tuple_set)(tuple, 1, second);
            }
            tuple
        }
    }

    /// Runs `work` while other threads may use the interpreter. Signals are handled now and then, if this
    /// is the main thread; if a handler raises, a computation ends early, and Python's error is set.
    ///
    /// # Safety
    /// As for all; `work` must touch no object.
    pub(super) unsafe fn unlocked<R>(
        &self,
        work: impl FnOnce() -> R,
    ) -> Result<R, sixwarp::Interrupted> {
        // SAFETY: as the caller says; the lock is taken back before returning. `ask` is called on this
        // thread, while it does not have the lock.
        unsafe {
            let thread = Cell::new((self.release_lock)());
            let ask = || {
                (self.take_lock)(thread.get());
                let raised = (self.check_signals)() != 0;
                thread.set((self.release_lock)());
                raised
            };
            let result = sixwarp::interruptible(&ask, work);
            (self.take_lock)(thread.get());
            result
        }
    }
}

//! torch's operator `sixwarp::attention`, called by its name.
//!
//! torch's dispatcher turns every argument into a value of C++ and every result back, which costs more than
//! a short call. An operator's object in Python keeps the function that enters the dispatcher; the package
//! puts a function made here in its place. A call that was made before, while nothing watches torch's
//! operators, is made without the dispatcher. Every other call goes on to the function that was there.

use super::python::{Method, Object};
use super::recipe::{Given, Place, V_DESCALE};
use super::{Context, INTERPRETER, attempt, drop_state, ensure_no_gradient};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Tensors of the operator, which come first, at the positions that recipes have for them.
const TENSORS: usize = V_DESCALE + 1;
/// How many other arguments there may be.
const MOST_OPTIONS: usize = 15;

/// Functions of torch that say who must see operators run on this thread, in the order of
/// `_torch_functions.py`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Watchers {
    /// `c10::impl::TorchDispatchModeTLS::stack_len`.
    dispatch_modes: unsafe extern "C" fn() -> i64,
    /// `at::impl::PythonTorchFunctionTLS::stack_len`.
    function_modes: unsafe extern "C" fn() -> i64,
    /// `at::hasCallbacks`: profilers and other observers.
    has_callbacks: unsafe extern "C" fn() -> bool,
    /// `torch::jit::tracer::getTracingState`, whose result is a reference to a shared pointer.
    tracer: unsafe extern "C" fn() -> *const *const c_void,
}

impl Watchers {
    fn watch(&self) -> bool {
        // SAFETY: these functions read variables of this thread; the reference is to one of them, whose
        // first word is the pointer.
        unsafe {
            (self.dispatch_modes)() > 0
                || (self.function_modes)() > 0
                || (self.has_callbacks)()
                || !(*(self.tracer)()).is_null()
        }
    }
}

struct Operator {
    context: &'static Context,
    watchers: Watchers,
    /// What enters the dispatcher; owned.
    original: *mut Object,
    /// The first option of the operator's recipes; owned.
    name: *mut Object,
}

impl Drop for Operator {
    fn drop(&mut self) {
        for object in [self.original, self.name] {
            // SAFETY: dropped by a function that Python calls, which holds its lock.
            unsafe { self.context.python.release(object) }
        }
    }
}

pub(super) static MAKE: Method = Method::new(c"operator", make);
static CALL: Method = Method::with_keywords(c"attention", call);

/// `operator(original, name, watchers)`: a function that stands for `original` and knows calls that were
/// remembered with `name` before the other options; `watchers` is the address of a table.
unsafe extern "C" fn make(
    capsule: *mut Object,
    arguments: *const *mut Object,
    count: isize,
) -> *mut Object {
    // SAFETY: Python calls with its lock held; the state is what `sixwarp_quick` put there, and the package
    // gives the address of a table that is as `Watchers` says.
    unsafe {
        super::answer(arguments, count, |python, arguments| {
            let context = *python.state::<&'static Context>(capsule)?;
            let &[original, name, watchers] = arguments else { return None };
            let watchers = context.python.address(watchers).filter(|address| *address != 0)?;
            let watchers = *(watchers as *const Watchers);
            let (original, name) = (python.share(original), python.share(name));
            let operator = Box::new(Operator { context, watchers, original, name });
            Some(python.function(&CALL, operator, drop_operator))
        })
    }
}

/// The operator: a known result, or what `original` returns.
unsafe extern "C" fn call(
    capsule: *mut Object,
    arguments: *const *mut Object,
    count: isize,
    names: *mut Object,
) -> *mut Object {
    let Some(python) = INTERPRETER.get() else { return null_mut() };
    // SAFETY: Python calls with its lock held; the state is what `make` put there, and the function that
    // is called keeps it.
    unsafe {
        let Some(operator) = python.state::<Operator>(capsule) else { return null_mut() };
        let known = match names.is_null() {
            true => attempt(python, arguments, count, |_, arguments| (*operator).known(arguments)),
            false => None,
        };
        known.unwrap_or_else(|| python.call((*operator).original, arguments, count, names))
    }
}

impl Operator {
    /// # Safety
    /// The arguments must be alive and the interpreter's lock held.
    unsafe fn known(&self, arguments: &[*mut Object]) -> Option<*mut Object> {
        let context = self.context;
        let (tensors, options) = arguments.split_at_checked(TENSORS)?;
        if self.watchers.watch() {
            return None;
        }
        let mut key = [self.name; 1 + MOST_OPTIONS];
        key.get_mut(1..=options.len())?.copy_from_slice(options);
        let key = &key[..=options.len()];
        // SAFETY: as the caller says.
        unsafe {
            let given = Given::borrow(context, tensors)?;
            let recipe = context.find(&given, key)?;
            ensure_no_gradient(context, tensors)?;
            recipe.run(tensors, &given, Place { workspace: None, stream: None })
        }
    }
}

/// # Safety
/// Called by Python for a capsule of an [`Operator`].
unsafe extern "C" fn drop_operator(capsule: *mut Object) {
    // SAFETY: as the caller says.
    unsafe { drop_state::<Operator>(capsule) }
}

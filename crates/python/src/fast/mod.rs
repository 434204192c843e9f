//! The quick way in: builtin functions of Python that read tensors through DLPack's exchange interface.
//!
//! `ctypes` makes Python read every address and convert every argument, which costs more than all that
//! is done here. A call that was made before (same views, same options: a [`Recipe`]) is made again
//! without running any Python: views are compared, outputs come from the library's own allocator, and the
//! stream is the one it works on. Whatever is not known here is answered with `None`, and the package
//! takes the long way, which also words every error.
//!
//! A recipe is made only of tensors that serve the plan's slots, by name. Before it is used again these
//! are looked at, for they can change between two calls:
//! - each tensor's type, shape, strides, element type and device, and whether it is there at all;
//! - the bytes of its storage, which can be resized under it, and whether its numbers are negated;
//! - whether it, or anything on this thread, is differentiated;
//! - addresses: null, unaligned, or of an output within another tensor (`Needs::check_places`).

mod dlpack;
mod operator;
mod python;
mod recipe;
mod signals;
mod torch;
mod view;

use dlpack::Library;
use python::{Interpreter, Method, Object};
use recipe::{Given, Place, Recipe, TENSORS};
use std::collections::HashMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, OnceLock};
use torch::Torch;
use view::Lent;

/// Recipes that are kept.
const MOST: usize = 4096;

static INTERPRETER: OnceLock<Interpreter> = OnceLock::new();

/// A tensor library and the interpreter; lives as long as the process.
struct Context {
    python: Interpreter,
    library: Library,
    torch: Torch,
    /// Addresses of the types whose objects are lent.
    types: Vec<usize>,
    recipes: Mutex<Recipes>,
}

#[derive(Default)]
struct Recipes {
    by_shape: HashMap<u64, Vec<Arc<Recipe>>>,
    count: usize,
}

impl Context {
    /// # Safety
    /// The object must be alive and the interpreter's lock held.
    unsafe fn borrow(&self, object: *mut Object) -> Option<Lent> {
        // SAFETY: as the caller says; the type is checked first.
        unsafe {
            if !self.python.is_a(object, &self.types) {
                return None;
            }
            let tensor = self.library.borrow(object)?;
            let bytes = self.torch.bytes(object, &tensor)?;
            Some(Lent { tensor, bytes })
        }
    }

    /// # Safety
    /// As [`Recipe::has_options`].
    unsafe fn find(&self, given: &Given, options: &[*mut Object]) -> Option<Arc<Recipe>> {
        let hash = view::hash(given.tensors()?);
        let shared = given.has_one_memory_for_keys_and_values();
        // Comparing options may run code that calls again: then the long way is taken.
        let recipes = self.recipes.try_lock().ok()?;
        let fits = |recipe: &&Arc<Recipe>| {
            // SAFETY: as the caller says.
            recipe.shared == shared && recipe.fits(given) && unsafe { recipe.has_options(options) }
        };
        recipes.by_shape.get(&hash)?.iter().find(fits).cloned()
    }

    fn keep(&self, given: &Given, recipe: Recipe) {
        let Some(hash) = given.tensors().map(view::hash) else { return };
        let mut old = HashMap::new();
        if let Ok(mut recipes) = self.recipes.try_lock() {
            if recipes.count >= MOST {
                recipes.count = 0;
                old = std::mem::take(&mut recipes.by_shape);
            }
            recipes.count += 1;
            recipes.by_shape.entry(hash).or_default().push(Arc::new(recipe));
        }
        // Dropped without the lock: plans may run code when they go.
        drop(old);
    }
}

static ATTENTION: Method = Method::new(c"attention", attention);
static REMEMBER: Method = Method::new(c"remember", remember);
static PLANNED: Method = Method::new(c"planned", planned);
static CALL: Method = Method::new(c"call", call);

/// Builtin functions `(attention, (remember, (planned, operator)))` for the tensors of a library; `None`
/// if its interface is not understood.
///
/// # Safety
/// Called with the interpreter's lock held (`ctypes.PyDLL`) behind `sixwarp_interpreter`, with torch's
/// functions in order, the address of its `DLPackExchangeAPI` and `count` types whose objects it lends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_quick(
    torch: *const Torch,
    api: *mut c_void,
    types: *const usize,
    count: usize,
) -> *mut Object {
    let Some(python) = INTERPRETER.get().copied() else { return null_mut() };
    // SAFETY: the caller gives a table that its library keeps.
    let Some(library) = (unsafe { Library::new(api) }) else {
        // SAFETY: the lock is held.
        return unsafe { python.new_none() };
    };
    // SAFETY: the caller gives this many.
    let types = unsafe { std::slice::from_raw_parts(types, count) }.to_vec();
    // SAFETY: the caller gives the table.
    let torch = unsafe { *torch };
    let context = Context { python, library, torch, types, recipes: Mutex::default() };
    let context: &'static Context = Box::leak(Box::new(context));
    // SAFETY: the lock is held; each state is what its function expects.
    unsafe {
        let function = |method| python.function(method, Box::new(context), drop_context);
        let makers = python.pair(function(&PLANNED), function(&operator::MAKE));
        python.pair(function(&ATTENTION), python.pair(function(&REMEMBER), makers))
    }
}

/// `attention(q, k, v, sinks, cu_seqlens_q, cu_seqlens_k, seqused_k, page_table, attn_mask, k_descale, v_descale, out,
/// stream, *options)`: the result, or `None` if no such call was made before.
unsafe extern "C" fn attention(
    capsule: *mut Object,
    arguments: *const *mut Object,
    count: isize,
) -> *mut Object {
    // SAFETY: Python calls with its lock held; the state is what `sixwarp_quick` put there.
    unsafe {
        answer(arguments, count, |python, arguments| {
            let context = *python.state::<&'static Context>(capsule)?;
            let (tensors, rest) = arguments.split_at_checked(recipe::LSE)?;
            let (stream, options) = rest.split_first()?;
            let given = Given::borrow(context, tensors)?;
            let recipe = context.find(&given, options)?;
            let place = Place { workspace: None, stream: stream_of(context, *stream)? };
            ensure_no_gradient(context, tensors)?;
            recipe.run(tensors, &given, place)
        })
    }
}

/// `remember(plan, owner, *tensors, *options)`: a call with outputs that was made the long way.
unsafe extern "C" fn remember(
    capsule: *mut Object,
    arguments: *const *mut Object,
    count: isize,
) -> *mut Object {
    // SAFETY: as `attention`; the package gives the address of a plan that `owner` keeps.
    unsafe {
        answer(arguments, count, |python, arguments| {
            let context = *python.state::<&'static Context>(capsule)?;
            let (given, recipe) = recipe_of(context, arguments)?;
            context.keep(&given, recipe);
            None
        })
    }
}

/// `planned(plan, owner, *tensors)`: a function that makes this call again, or `None`.
unsafe extern "C" fn planned(
    capsule: *mut Object,
    arguments: *const *mut Object,
    count: isize,
) -> *mut Object {
    // SAFETY: as `remember`.
    unsafe {
        answer(arguments, count, |python, arguments| {
            let context = *python.state::<&'static Context>(capsule)?;
            let (_, recipe) = recipe_of(context, arguments)?;
            let function = python.function(&CALL, Box::new((context, recipe)), drop_call);
            (!function.is_null()).then_some(function)
        })
    }
}

type Call = (&'static Context, Recipe);

/// `call(*tensors, workspace, stream)`: the result, or `None` if the tensors are not like those of the
/// plan.
unsafe extern "C" fn call(
    capsule: *mut Object,
    arguments: *const *mut Object,
    count: isize,
) -> *mut Object {
    // SAFETY: as `attention`; the state is what `planned` put there.
    unsafe {
        answer(arguments, count, |python, arguments| {
            let (context, recipe) = &*python.state::<Call>(capsule)?;
            let (tensors, rest) = arguments.split_at_checked(TENSORS)?;
            let &[workspace, stream] = rest else { return None };
            let given = Given::borrow(context, tensors).filter(|given| recipe.fits(given))?;
            let workspace = match context.python.is_none(workspace) {
                true => None,
                false => Some(context.borrow(workspace)?),
            };
            let place = Place { workspace, stream: stream_of(context, stream)? };
            ensure_no_gradient(context, tensors)?;
            recipe.run(tensors, &given, place)
        })
    }
}

/// # Safety
/// Arguments as of `remember`, and the lock held.
unsafe fn recipe_of(
    context: &'static Context,
    arguments: &[*mut Object],
) -> Option<(Given, Recipe)> {
    let (head, rest) = arguments.split_at_checked(2)?;
    let (tensors, options) = rest.split_at_checked(TENSORS)?;
    // SAFETY: as the caller says.
    unsafe {
        let plan = context.python.address(head[0]).filter(|plan| *plan != 0)?;
        let given = Given::borrow(context, tensors)?;
        let plan = plan as *const crate::Plan;
        let recipe = Recipe::new(context, plan, head[1], &given, options)?;
        Some((given, recipe))
    }
}

/// The stream a caller names as an integer, or leaves open.
///
/// # Safety
/// The object must be alive and the lock held.
unsafe fn stream_of(context: &Context, stream: *mut Object) -> Option<Option<usize>> {
    match context.python.is_none(stream) {
        true => Some(None),
        // SAFETY: as the caller says.
        false => unsafe { context.python.address(stream) }.map(Some),
    }
}

/// There are no derivatives: calls that ask for one take the long way, which refuses them.
///
/// # Safety
/// The tensors must have been borrowed, and the lock be held.
unsafe fn ensure_no_gradient(context: &Context, tensors: &[*mut Object]) -> Option<()> {
    let Context { python, torch, .. } = context;
    // SAFETY: as the caller says.
    let asks = |x: &*mut Object| !python.is_none(*x) && unsafe { torch.requires_grad(*x) };
    // SAFETY: as the caller says.
    let forward = unsafe { torch.in_forward_mode(python) };
    (!forward && !tensors.iter().any(asks)).then_some(())
}

/// Runs `work` for Python: no result is `None`.
///
/// # Safety
/// As [`attempt`].
unsafe fn answer(
    arguments: *const *mut Object,
    count: isize,
    work: impl FnOnce(&Interpreter, &[*mut Object]) -> Option<*mut Object>,
) -> *mut Object {
    let Some(python) = INTERPRETER.get() else { return null_mut() };
    // SAFETY: as the caller says.
    unsafe { attempt(python, arguments, count, work).unwrap_or_else(|| python.new_none()) }
}

/// Runs `work` for Python; where there is no result, no error is left. A result that is null is one whose
/// error is set.
///
/// # Safety
/// The lock must be held and `arguments` be that of `count` objects.
unsafe fn attempt(
    python: &Interpreter,
    arguments: *const *mut Object,
    count: isize,
    work: impl FnOnce(&Interpreter, &[*mut Object]) -> Option<*mut Object>,
) -> Option<*mut Object> {
    let arguments = match count {
        1.. => {
            // SAFETY: as the caller says.
            unsafe { std::slice::from_raw_parts(arguments, count as usize) }
        }
        _ => &[],
    };
    let result = catch_unwind(AssertUnwindSafe(|| work(python, arguments)));
    let result = result.ok().flatten();
    if result.is_none() {
        // SAFETY: the lock is held.
        unsafe { python.clear_error() };
    }
    result
}

/// # Safety
/// Called by Python for a capsule of a `&'static Context`.
unsafe extern "C" fn drop_context(capsule: *mut Object) {
    // SAFETY: as the caller says.
    unsafe { drop_state::<&'static Context>(capsule) }
}

/// # Safety
/// Called by Python for a capsule of a [`Call`].
unsafe extern "C" fn drop_call(capsule: *mut Object) {
    // SAFETY: as the caller says.
    unsafe { drop_state::<Call>(capsule) }
}

/// # Safety
/// The capsule must hold a `T`, and be given up.
unsafe fn drop_state<T>(capsule: *mut Object) {
    // SAFETY: as the caller says.
    if let Some(state) = INTERPRETER.get().and_then(|python| unsafe { python.state::<T>(capsule) })
    {
        // SAFETY: made from a box, once.
        drop(unsafe { Box::from_raw(state) });
    }
}

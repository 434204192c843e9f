//! The functions other languages call.

use crate::error::{answered, caught, with_last};
use crate::memory::Memory;
use crate::merge::{Tensors, merge};
use crate::{Kind, Plan, Request, dsv4, model1};
use sixwarp::{Device, DeviceName, Error, InvalidProblem, Target};
use std::ffi::{CStr, c_char};
use std::ptr;

/// The sentence of this thread's last failure; valid until the next one.
#[unsafe(no_mangle)]
pub extern "C" fn sixwarp_error() -> *const c_char {
    with_last(CStr::as_ptr)
}

/// The library's version.
#[unsafe(no_mangle)]
pub extern "C" fn sixwarp_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Plans a problem for GPU `device`, or the CPU if it is -1. On failure null is returned and `kind`
/// is set, unless it is null.
///
/// # Safety
/// `description` must be null or a C string, and `kind` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_plan(
    description: *const c_char,
    device: i32,
    kind: *mut i32,
) -> *mut Plan {
    // SAFETY: the caller gives null or a C string.
    let plan = caught(|| Plan::new(&Request::parse(unsafe { text(description) }?)?, device));
    match plan {
        Ok(plan) => Box::into_raw(Box::new(plan)),
        Err(failure) => {
            // SAFETY: the caller gives null or a writable place.
            if let Some(kind) = unsafe { kind.as_mut() } {
                *kind = failure as i32;
            }
            ptr::null_mut()
        }
    }
}

/// Whether `target` (`cpu`, a generation such as `sm_90a`, or a GPU of this machine, `cuda:n`) can compute a problem:
/// 0, or why not as [`sixwarp_error`] says it. Nothing is compiled.
///
/// # Safety
/// `description` and `target` must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_supports(
    description: *const c_char,
    target: *const c_char,
) -> i32 {
    code(caught(|| {
        // SAFETY: the caller gives null or C strings.
        let (description, target) = unsafe { (text(description)?, text(target)?) };
        let request = Request::parse(description)?;
        let target = match target.parse::<DeviceName>() {
            Ok(DeviceName::Cuda(ordinal)) => request.on(Device::cuda(ordinal)?)?.target(),
            _ => request.on_target(target.parse::<Target>()?)?,
        };
        sixwarp::supports(&request.problem, target).map_or(Ok(()), Err)
    }))
}

/// Slots, workspace and chosen kernel of a plan, as JSON that lives as long as the plan; null for null.
///
/// # Safety
/// `plan` must be null, or come from [`sixwarp_plan`] and not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_plan_info(plan: *const Plan) -> *const c_char {
    // SAFETY: the caller gives null or a plan.
    unsafe { plan.as_ref() }.map_or(ptr::null(), |plan| plan.info().as_ptr())
}

/// Frees a plan; null is ignored.
///
/// # Safety
/// `plan` must come from [`sixwarp_plan`] and not have been freed. Its GPU work may still be queued.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_plan_free(plan: *mut Plan) {
    if !plan.is_null() {
        // SAFETY: the caller gives up the plan.
        drop(unsafe { Box::from_raw(plan) });
    }
}

/// Runs a plan: on the CPU before returning, on a GPU by queueing on `stream`.
///
/// `tensors` are `count` tensors in any order, each named by its slot's number. `workspace` may be null
/// where the plan needs none; its slot is not read. What breaks a rule of [`Memory`] is refused before
/// anything is read or written.
///
/// # Safety
/// `plan` must be null or a plan. Memory must be as described, and stay so until the work has ended;
/// outputs must not be accessed by anyone else until then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_run(
    plan: *const Plan,
    tensors: *const Memory,
    count: usize,
    workspace: *const Memory,
    stream: usize,
) -> i32 {
    code(caught(|| {
        // SAFETY: the caller gives null or a plan, `count` tensors, and null or a workspace; and
        // vouches for their memory.
        unsafe {
            let plan = plan.as_ref().ok_or_else(|| null("plan"))?;
            plan.run(array("tensors", tensors, count)?, workspace.as_ref(), stream)
        }
    }))
}

/// Merges results: `parts` pairs of outputs and log-sum-exps into `out` and `lse`, on the host before
/// returning, on the GPU that `out` is on by queueing on `stream`. `sinks` may be null. The description is
/// `{"shape": […], "strides": […], "dtype": "…"}` of the outputs, batch, heads, tokens, dim; log-sum-exps are
/// contiguous.
///
/// # Safety
/// `description` must be null or a C string. Memory must be as described, and stay so until the work has
/// ended; `out` and `lse` must not be accessed by anyone else until then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_merge(
    description: *const c_char,
    out: *const Memory,
    lse: *const Memory,
    sinks: *const Memory,
    parts: *const [Memory; 2],
    count: usize,
    stream: usize,
) -> i32 {
    code(caught(|| {
        // SAFETY: the caller gives null or what these are, and vouches for the memory.
        unsafe {
            let tensors = Tensors {
                out: one("out", out)?,
                lse: one("lse", lse)?,
                sinks: sinks.as_ref(),
                parts: array("parts", parts, count)?,
            };
            merge(text(description)?, &tensors, stream)
        }
    }))
}

/// A call of `sixwarp::dsv4` on a caller's tensors, described as JSON (`decode`, `prefill` or `prefill_pages`): the
/// problem and which tensor goes to which slot, as JSON that lives until this thread's next call. On failure null is
/// returned and `kind` is set, unless it is null.
///
/// # Safety
/// `tensors` must be null or a C string, and `kind` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_dsv4(tensors: *const c_char, kind: *mut i32) -> *const c_char {
    // SAFETY: the caller gives null or a C string.
    match caught(|| dsv4::call(unsafe { text(tensors) }?)) {
        Ok(answer) => answered(answer, CStr::as_ptr),
        Err(failure) => {
            // SAFETY: the caller gives null or a writable place.
            if let Some(kind) = unsafe { kind.as_mut() } {
                *kind = failure as i32;
            }
            ptr::null()
        }
    }
}

/// Bytes from one MODEL1 page of `page_rows` rows to the next; 2^64 - 1 where there are more.
#[unsafe(no_mangle)]
pub extern "C" fn sixwarp_model1_page_bytes(page_rows: u64) -> u64 {
    sixwarp::Storage::model1_page_bytes(page_rows)
}

/// Packs all rows of `from`, 512 bf16 each, into MODEL1 pages of `page_rows` rows, from the first on.
///
/// # Safety
/// Memory must be as described; `pages` must not be accessed by anyone else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_model1_pack(
    from: *const Memory,
    page_rows: u64,
    pages: *const Memory,
) -> i32 {
    // SAFETY: the caller gives null or tensors, and vouches for the memory.
    code(caught(|| unsafe { model1::pack(one("rows", from)?, page_rows, one("pages", pages)?) }))
}

/// Unpacks rows of MODEL1 pages to 512 f32 each, as many as `to` holds.
///
/// # Safety
/// Memory must be as described; `to` must not be accessed by anyone else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_model1_unpack(
    pages: *const Memory,
    page_rows: u64,
    to: *const Memory,
) -> i32 {
    // SAFETY: the caller gives null or tensors, and vouches for the memory.
    code(caught(|| unsafe { model1::unpack(one("pages", pages)?, page_rows, one("rows", to)?) }))
}

fn code(result: Result<(), Kind>) -> i32 {
    result.map_or_else(|kind| kind as i32, |()| 0)
}

fn null(name: &str) -> Error {
    InvalidProblem::new(name, "must be given", "null").into()
}

/// # Safety
/// `pointer` must be null or that of a tensor.
unsafe fn one<'a>(name: &str, pointer: *const Memory) -> Result<&'a Memory, Error> {
    // SAFETY: as the caller says.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// # Safety
/// `pointer` must be null or that of `count` values.
unsafe fn array<'a, T>(name: &str, pointer: *const T, count: usize) -> Result<&'a [T], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: as the caller says.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// # Safety
/// `pointer` must be null or a C string.
unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, Error> {
    if pointer.is_null() {
        return Err(null("description"));
    }
    // SAFETY: the caller gives a C string.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str()
        .map_err(|_| InvalidProblem::new("description", "must be UTF-8", "something else").into())
}

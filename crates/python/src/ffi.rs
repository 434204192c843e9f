//! The functions other languages call.

use crate::error::{caught, with_last};
use crate::{Description, Kind, Plan, host, merge};
use half::bf16;
use sixwarp::dsv4::model1;
use sixwarp::{Error, InvalidProblem, Storage};
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
/// is set.
///
/// # Safety
/// `description` must be a C string and `kind` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_plan(
    description: *const c_char,
    device: i32,
    kind: *mut i32,
) -> *mut Plan {
    // SAFETY: the caller gives a C string.
    let plan = caught(|| Plan::new(&Description::parse(unsafe { text(description) }?)?, device));
    match plan {
        Ok(plan) => Box::into_raw(Box::new(plan)),
        Err(failure) => {
            // SAFETY: the caller gives a writable place.
            unsafe { *kind = failure as i32 };
            ptr::null_mut()
        }
    }
}

/// Slots, workspace and chosen kernel of a plan, as JSON that lives as long as the plan.
///
/// # Safety
/// `plan` must come from [`sixwarp_plan`] and not have been freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_plan_info(plan: *const Plan) -> *const c_char {
    // SAFETY: the caller gives a plan.
    unsafe { &*plan }.info().as_ptr()
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

/// Runs a plan: on the CPU before returning, on a GPU by queueing on `stream`. `addresses` has one
/// entry per slot in the plan's order and, on a GPU, one more for the workspace (0 if none is needed).
///
/// # Safety
/// `plan` must be a plan; each address must be that of memory of the plan's device of the bytes its
/// information says, valid until the work has ended; outputs must not be accessed by anyone else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_run(
    plan: *const Plan,
    addresses: *const u64,
    stream: usize,
) -> i32 {
    let run = || {
        // SAFETY: the caller gives a plan.
        let plan = unsafe { &*plan };
        let slots = plan.slots.len();
        match plan.gpu() {
            Some(gpu) => {
                // SAFETY: the caller gives an address per slot and one for the workspace.
                let addresses = unsafe { std::slice::from_raw_parts(addresses, slots + 1) };
                // SAFETY: the caller vouches for memory and stream.
                unsafe { gpu.launch(addresses, stream) }
            }
            None => {
                // SAFETY: the caller gives an address per slot.
                let addresses = unsafe { std::slice::from_raw_parts(addresses, slots) };
                // SAFETY: the caller vouches for the memory.
                unsafe { host::run(plan, addresses) }
            }
        }
    };
    code(caught(run))
}

/// Merges results on the host; see the Python package for the description.
///
/// # Safety
/// `description` must be a C string; addresses as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_merge(description: *const c_char, addresses: *const u64) -> i32 {
    // SAFETY: as the caller vouches.
    code(caught(|| unsafe { merge::merge(text(description)?, addresses) }))
}

/// Packs `rows` rows of 512 bf16 into MODEL1 pages of `page_rows` rows each, from the first on.
///
/// # Safety
/// `from` must hold `rows` rows and `pages` enough pages for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_model1_pack(
    from: *const bf16,
    rows: u64,
    page_rows: u64,
    pages: *mut u8,
) -> i32 {
    let dim = Storage::MODEL1_DIM as usize;
    code(caught(|| {
        if page_rows == 0 {
            return Err(InvalidProblem::new("page_rows", "is at least 1", 0).into());
        }
        let page_bytes = Storage::model1_page_bytes(page_rows) as usize;
        for (page, first) in (0..rows).step_by(page_rows as usize).enumerate() {
            let count = (rows - first).min(page_rows) as usize;
            // SAFETY: the caller gives this many rows.
            let rows =
                unsafe { std::slice::from_raw_parts(from.add(first as usize * dim), count * dim) };
            // SAFETY: the caller gives this many pages.
            let page =
                unsafe { std::slice::from_raw_parts_mut(pages.add(page * page_bytes), page_bytes) };
            model1::pack(page, page_rows as usize, 0, rows)?;
        }
        Ok(())
    }))
}

/// Unpacks `rows` rows of MODEL1 pages to 512 f32 each.
///
/// # Safety
/// `pages` must hold the rows and `to` be room for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sixwarp_model1_unpack(
    pages: *const u8,
    rows: u64,
    page_rows: u64,
    to: *mut f32,
) -> i32 {
    let dim = Storage::MODEL1_DIM as usize;
    code(caught(|| {
        if page_rows == 0 {
            return Err(InvalidProblem::new("page_rows", "is at least 1", 0).into());
        }
        let page_bytes = Storage::model1_page_bytes(page_rows) as usize;
        for row in 0..rows {
            let page = (row / page_rows) as usize * page_bytes;
            // SAFETY: the caller gives the pages of this many rows.
            let page = unsafe { std::slice::from_raw_parts(pages.add(page), page_bytes) };
            // SAFETY: the caller gives room for this many rows.
            let to = unsafe { std::slice::from_raw_parts_mut(to.add(row as usize * dim), dim) };
            model1::unpack_row(page, page_rows as usize, (row % page_rows) as usize, to)?;
        }
        Ok(())
    }))
}

fn code(result: Result<(), Kind>) -> i32 {
    result.map_or_else(|kind| kind as i32, |()| 0)
}

/// # Safety
/// `pointer` must be a C string.
unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, Error> {
    // SAFETY: the caller gives a C string.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str()
        .map_err(|_| InvalidProblem::new("description", "is UTF-8", "something else").into())
}

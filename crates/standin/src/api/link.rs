//! The linker, as far as one piece of PTX needs it: the result is that PTX.

use super::context::ensure_current;
use super::text;
use crate::driver::driver;
use crate::guard::{driver, give, give_if_wanted};
use crate::result::{CudaResult, Outcome};
use std::ffi::{c_char, c_uint, c_void};

/// PTX among the kinds of input.
const PTX: c_uint = 1;

/// Adds what is to be linked.
fn add(link: usize, kind: c_uint, mut bytes: Vec<u8>) -> Outcome {
    let mut state = driver()?.state();
    let linked = state.links.get_mut(link)?;
    if kind != PTX {
        eprintln!("sixwarp: only PTX can be linked, and machine code cannot be run");
        return Err(CudaResult::NO_BINARY_FOR_GPU);
    }
    if !linked.is_empty() {
        eprintln!("sixwarp: several pieces of PTX cannot be linked here: compile them as one");
        return Err(CudaResult::NOT_SUPPORTED);
    }
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes.push(0);
    *linked = bytes;
    Ok(())
}

driver! {
    /// Begins to link.
    fn [cuLinkCreate_v2, cuLinkCreate](
        count: c_uint, options: *const c_uint, values: *const *mut c_void, link: *mut usize,
    ) {
        let _ = (count, options, values);
        ensure_current()?;
        let made = driver()?.state().links.add(Vec::new());
        // SAFETY: the program's pointer.
        unsafe { give(link, made) }
    }

    /// Adds PTX from memory.
    fn [cuLinkAddData_v2, cuLinkAddData](
        link: usize, kind: c_uint, data: *const c_void, bytes: usize, name: *const c_char,
        count: c_uint, options: *const c_uint, values: *const *mut c_void,
    ) {
        let _ = (name, count, options, values);
        if data.is_null() {
            return Err(CudaResult::INVALID_VALUE);
        }
        // SAFETY: the program's memory of that size.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) };
        add(link, kind, bytes.to_vec())
    }

    /// Adds PTX from a file.
    fn [cuLinkAddFile_v2, cuLinkAddFile](
        link: usize, kind: c_uint, path: *const c_char, count: c_uint, options: *const c_uint,
        values: *const *mut c_void,
    ) {
        let _ = (count, options, values);
        // SAFETY: the program's text.
        let path = unsafe { text(path)? };
        add(link, kind, std::fs::read(path).map_err(|_| CudaResult::FILE_NOT_FOUND)?)
    }

    /// What was linked, which lives as long as the link.
    fn [cuLinkComplete](link: usize, image: *mut *const c_void, bytes: *mut usize) {
        let state = driver()?.state();
        let linked = state.links.get(link)?;
        if linked.is_empty() {
            return Err(CudaResult::INVALID_VALUE);
        }
        // SAFETY: the program's pointers.
        unsafe {
            give_if_wanted(bytes, linked.len());
            give(image, linked.as_ptr().cast())
        }
    }

    /// Ends a link.
    fn [cuLinkDestroy](link: usize) {
        driver()?.state().links.remove(link).map(|_| ())
    }
}

//! Modules, libraries, links and their kernels.

use super::{given, interpose};
use crate::image::Image;
use crate::state::{Kernel, noted, noted_before};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Takes note of an image whose handle a call has written. The image is looked at afterwards, because its architecture
/// is only known once the driver works.
///
/// # Safety
/// `handle` and `image` are as `cuModuleLoadData` takes them.
unsafe fn loaded(
    call: impl FnOnce() -> c_int,
    handle: *const usize,
    image: *const c_void,
) -> c_int {
    noted(call, |state| {
        // SAFETY: the caller's contract.
        if let Some(handle) = unsafe { given(handle) } {
            // SAFETY: as above; the driver has taken it for an image.
            let image = unsafe { Image::of(image.cast()) };
            state.images.insert(handle, Arc::new(image));
        }
    })
}

/// Takes note of a file that was loaded.
///
/// # Safety
/// `handle` and `path` are as `cuModuleLoad` takes them.
unsafe fn loaded_file(
    call: impl FnOnce() -> c_int,
    handle: *const usize,
    path: *const c_char,
) -> c_int {
    noted(call, |state| {
        // SAFETY: the caller's contract.
        let handle = unsafe { given(handle) };
        if let (Some(handle), false) = (handle, path.is_null()) {
            // SAFETY: as above.
            let path =
                Path::new(std::ffi::OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
            state.images.insert(handle, Arc::new(Image::of_file(path)));
        }
    })
}

/// Takes note of a kernel whose handle a call has written.
///
/// # Safety
/// Pointers are as `cuModuleGetFunction` takes them.
unsafe fn found(
    call: impl FnOnce() -> c_int,
    handle: *const usize,
    module: usize,
    name: *const c_char,
) -> c_int {
    noted(call, |state| {
        let image = state.images.get(&module).cloned();
        // SAFETY: the caller's contract.
        let handle = unsafe { given(handle) };
        if let (Some(handle), Some(image), false) = (handle, image, name.is_null()) {
            // SAFETY: as above; text that ends with a zero.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
            state.kernels.insert(handle, Kernel { name, image });
        }
    })
}

/// PTX among the inputs of a linker.
const INPUT_PTX: c_uint = 1;

interpose! {
    /// Loads a module from a file.
    fn [cuModuleLoad](module: *mut usize, path: *const c_char) |call| {
        // SAFETY: the program's pointers.
        unsafe { loaded_file(call, module, path) }
    }

    /// Loads a module from memory.
    fn [cuModuleLoadData](module: *mut usize, image: *const c_void) |call| {
        // SAFETY: the program's pointers.
        unsafe { loaded(call, module, image) }
    }

    /// Loads a module from memory, with options for the compiler.
    fn [cuModuleLoadDataEx](
        module: *mut usize, image: *const c_void, count: c_uint, options: *mut c_uint,
        values: *mut *mut c_void
    ) |call| {
        // SAFETY: the program's pointers.
        unsafe { loaded(call, module, image) }
    }

    /// Loads a module from a fat binary.
    fn [cuModuleLoadFatBinary](module: *mut usize, image: *const c_void) |call| {
        // SAFETY: the program's pointers.
        unsafe { loaded(call, module, image) }
    }

    /// Unloads a module.
    fn [cuModuleUnload](module: usize) |call| {
        noted_before(call, |state| {
            state.images.remove(&module);
        })
    }

    /// A kernel of a module.
    fn [cuModuleGetFunction](function: *mut usize, module: usize, name: *const c_char) |call| {
        // SAFETY: the program's pointers.
        unsafe { found(call, function, module, name) }
    }

    /// Loads a library from memory.
    fn [cuLibraryLoadData](
        library: *mut usize, image: *const c_void, options: *mut c_uint, values: *mut *mut c_void,
        count: c_uint, library_options: *mut c_uint, library_values: *mut *mut c_void,
        library_count: c_uint
    ) |call| {
        // SAFETY: the program's pointers.
        unsafe { loaded(call, library, image) }
    }

    /// Loads a library from a file.
    fn [cuLibraryLoadFromFile](
        library: *mut usize, path: *const c_char, options: *mut c_uint, values: *mut *mut c_void,
        count: c_uint, library_options: *mut c_uint, library_values: *mut *mut c_void,
        library_count: c_uint
    ) |call| {
        // SAFETY: the program's pointers.
        unsafe { loaded_file(call, library, path) }
    }

    /// Unloads a library.
    fn [cuLibraryUnload](library: usize) |call| {
        noted_before(call, |state| {
            state.images.remove(&library);
        })
    }

    /// A kernel of a library.
    fn [cuLibraryGetKernel](kernel: *mut usize, library: usize, name: *const c_char) |call| {
        // SAFETY: the program's pointers.
        unsafe { found(call, kernel, library, name) }
    }

    /// The module of a library.
    fn [cuLibraryGetModule](module: *mut usize, library: usize) |call| {
        noted(call, |state| {
            // SAFETY: the program's place.
            let (module, image) = (unsafe { given(module) }, state.images.get(&library).cloned());
            if let (Some(module), Some(image)) = (module, image) {
                state.images.insert(module, image);
            }
        })
    }

    /// The function of a kernel.
    fn [cuKernelGetFunction](function: *mut usize, kernel: usize) |call| {
        noted(call, |state| {
            // SAFETY: the program's place.
            let (function, known) = (unsafe { given(function) }, state.kernels.get(&kernel).cloned());
            if let (Some(function), Some(known)) = (function, known) {
                state.kernels.insert(function, known);
            }
        })
    }

    /// Adds something to a link.
    fn [cuLinkAddData_v2](
        link: usize, kind: c_uint, data: *mut c_void, bytes: usize, name: *const c_char,
        count: c_uint, options: *mut c_uint, values: *mut *mut c_void
    ) |call| {
        noted(call, |state| {
            if kind == INPUT_PTX && !data.is_null() {
                // SAFETY: the program's memory of that size.
                let text = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes) };
                let end = text.iter().position(|byte| *byte == 0).unwrap_or(bytes);
                let text = String::from_utf8_lossy(&text[..end]).into_owned();
                state.links.entry(link).or_default().push(text);
            }
        })
    }

    /// Ends a link. Where one piece of PTX was linked, that is the PTX of the machine code.
    fn [cuLinkComplete](link: usize, image: *mut *mut c_void, bytes: *mut usize) |call| {
        noted(call, |state| {
            let linked = state.links.remove(&link).unwrap_or_default();
            // SAFETY: the program's places.
            let made = unsafe { (given(image), given(bytes)) };
            if let ((Some(image), Some(bytes)), [text]) = (made, &linked[..]) {
                // SAFETY: the driver has made an image of that size.
                let code = unsafe { std::slice::from_raw_parts(image.cast::<u8>(), bytes) };
                state.known.add(code, text.clone());
            }
        })
    }
}

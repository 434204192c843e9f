//! Memory between pages that cannot be touched.

use std::ffi::{c_int, c_void};

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        bytes: usize,
        access: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn mprotect(at: *mut c_void, bytes: usize, access: c_int) -> c_int;
    fn munmap(at: *mut c_void, bytes: usize) -> c_int;
}

const NONE: c_int = 0;
const READ: c_int = 1;
const READ_WRITE: c_int = 3;
/// `MAP_PRIVATE | MAP_ANONYMOUS`.
const FLAGS: c_int = if cfg!(target_os = "linux") { 0x22 } else { 0x1002 };
/// A multiple of every page size in use.
const PAGE: usize = 1 << 16;

/// Which side of the memory lies at a page that cannot be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Start,
    End,
}

/// Memory of which one byte less or more is a segmentation fault.
pub struct Guarded {
    map: *mut c_void,
    pages: usize,
    at: *mut u8,
    bytes: usize,
}

impl Guarded {
    pub fn new(contents: &[u8], side: Side) -> Self {
        let bytes = contents.len();
        let pages = bytes.div_ceil(PAGE).max(1) * PAGE;
        let whole = pages + 2 * PAGE;
        // SAFETY: a new mapping, of which only the middle is made accessible.
        unsafe {
            let map = mmap(std::ptr::null_mut(), whole, NONE, FLAGS, -1, 0);
            assert_ne!(map as isize, -1, "no memory for {whole} bytes");
            let middle = map.cast::<u8>().add(PAGE);
            assert_eq!(mprotect(middle.cast(), pages, READ_WRITE), 0);
            let at = match side {
                Side::Start => middle,
                Side::End => middle.add(pages - bytes),
            };
            std::ptr::copy_nonoverlapping(contents.as_ptr(), at, bytes);
            Guarded { map, pages, at, bytes }
        }
    }

    /// From now on, writing is a segmentation fault too.
    pub fn read_only(self) -> Self {
        // SAFETY: nobody else has seen the memory.
        let code = unsafe { mprotect(self.map.cast::<u8>().add(PAGE).cast(), self.pages, READ) };
        assert_eq!(code, 0);
        self
    }

    pub fn address(&self) -> u64 {
        self.at as u64
    }

    pub fn len(&self) -> u64 {
        self.bytes as u64
    }

    pub fn contents(&self) -> Vec<u8> {
        // SAFETY: these bytes were made accessible.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes) }.to_vec()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and unmapped once.
        unsafe { munmap(self.map, self.pages + 2 * PAGE) };
    }
}

use crate::simd::Element;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Numbers that begin on a cache line: no vector and no row of a tile register that lies at a
/// multiple of its own size straddles two.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer<T> {
    lines: Vec<Line>,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> Buffer<T> {
    /// Makes room for `len` numbers; what they are is left open.
    pub fn reserve(&mut self, len: usize) {
        self.lines.resize((len * size_of::<T>()).div_ceil(64), Line([0; 64]));
        self.len = len;
    }

    /// Holds `len` times `value`.
    pub fn refill(&mut self, len: usize, value: T) {
        self.reserve(len);
        self.fill(value);
    }
}

impl<T: Element> Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the lines hold at least `len` elements, are aligned for them, are initialised, and
        // every bit pattern is a number.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl<T: Element> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; the lines are borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

//! Maps from page numbers, which need no hash that withstands an attack.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from page numbers.
pub(super) type PageMap<T> = HashMap<u64, T, BuildHasherDefault<PageHasher>>;

/// Fibonacci hashing of one number.
#[derive(Default)]
pub(super) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

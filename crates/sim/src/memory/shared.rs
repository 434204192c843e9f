/// The shared memory of one CTA or the local memory of a warp, with one bit per byte that says whether it was
/// ever written.
pub struct Shared {
    bytes: Vec<u8>,
    written: Vec<u64>,
    /// The bytes that something undefined was stored to; empty while there are none.
    undefined: Vec<u64>,
}

impl Shared {
    /// `size` bytes, none written.
    pub fn new(size: usize) -> Shared {
        let written = vec![0; size.div_ceil(64)];
        Shared { bytes: vec![0; size], written, undefined: Vec::new() }
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A range to write, marked as written.
    pub fn write(&mut self, offset: usize, len: usize) -> &mut [u8] {
        self.mark(offset, len);
        &mut self.bytes[offset..offset + len]
    }

    /// Something undefined was stored to a byte: it counts as unwritten again.
    pub fn forget(&mut self, offset: usize) {
        self.undefined.resize(self.written.len(), 0);
        self.written[offset / 64] &= !(1 << (offset % 64));
        self.undefined[offset / 64] |= 1 << (offset % 64);
    }

    /// Whether something undefined was stored to a byte.
    pub fn is_undefined(&self, offset: usize) -> bool {
        self.undefined.get(offset / 64).is_some_and(|word| word >> (offset % 64) & 1 != 0)
    }

    fn mark(&mut self, offset: usize, len: usize) {
        let mut at = offset;
        while at < offset + len {
            let bit = at % 64;
            let count = (64 - bit).min(offset + len - at);
            let ones = if count == 64 { u64::MAX } else { (1 << count) - 1 };
            self.written[at / 64] |= ones << bit;
            if let Some(undefined) = self.undefined.get_mut(at / 64) {
                *undefined &= !(ones << bit);
            }
            at += count;
        }
    }

    /// The first byte of a range that was never written.
    pub fn first_unwritten(&self, offset: usize, len: usize) -> Option<usize> {
        let mut at = offset;
        while at < offset + len {
            let bit = at % 64;
            let count = (64 - bit).min(offset + len - at);
            let ones = if count == 64 { u64::MAX } else { (1 << count) - 1 };
            let missing = !(self.written[at / 64] >> bit) & ones;
            if missing != 0 {
                return Some(at + missing.trailing_zeros() as usize);
            }
            at += count;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_bytes_are_known_one_by_one() {
        let mut shared = Shared::new(256);
        shared.write(60, 10).fill(1);
        assert_eq!(shared.first_unwritten(60, 10), None);
        assert_eq!(shared.first_unwritten(60, 11), Some(70));
        assert_eq!(shared.first_unwritten(59, 4), Some(59));
    }

    #[test]
    fn forgotten_bytes_are_unwritten_until_they_are_written() {
        let mut shared = Shared::new(128);
        shared.write(0, 128).fill(1);
        shared.forget(66);
        assert_eq!((shared.first_unwritten(0, 128), shared.is_undefined(66)), (Some(66), true));
        assert!(!shared.is_undefined(65));
        shared.write(64, 4).fill(1);
        assert_eq!((shared.first_unwritten(0, 128), shared.is_undefined(66)), (None, false));
    }
}

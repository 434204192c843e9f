/// The shared memory of one CTA, with one bit per byte that says whether it was ever written.
pub struct Shared {
    bytes: Vec<u8>,
    written: Vec<u64>,
}

impl Shared {
    /// `size` bytes, none written.
    pub fn new(size: usize) -> Shared {
        Shared { bytes: vec![0; size], written: vec![0; size.div_ceil(64)] }
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

    fn mark(&mut self, offset: usize, len: usize) {
        let mut at = offset;
        while at < offset + len {
            let bit = at % 64;
            let count = (64 - bit).min(offset + len - at);
            let ones = if count == 64 { u64::MAX } else { (1 << count) - 1 };
            self.written[at / 64] |= ones << bit;
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
}

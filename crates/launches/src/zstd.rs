//! Frames of zstd, as fat binaries since CUDA 12.8 have them.

use ruzstd::decoding::StreamingDecoder;
use std::io::Read;

/// What a frame holds, which must be `size` bytes; nothing if it is damaged.
pub fn decompress(frame: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(size.min(1 << 28));
    // One byte more than there should be tells a frame that is too long.
    let decoder = StreamingDecoder::new(frame).ok()?;
    decoder.take((size as u64).saturating_add(1)).read_to_end(&mut out).ok()?;
    (out.len() == size).then_some(out)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A frame with one block that is not compressed.
    pub fn frame(text: &[u8]) -> Vec<u8> {
        // Magic number, one segment with its size in a byte, then the last block: raw, with its size.
        let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0x20, text.len() as u8];
        frame.extend(&(1 | (text.len() as u32) << 3).to_le_bytes()[..3]);
        frame.extend(text);
        frame
    }

    #[test]
    fn a_frame_has_the_size_that_is_told() {
        let text = b".version 9.0";
        assert_eq!(decompress(&frame(text), text.len()).unwrap(), text);
        assert_eq!(decompress(&frame(text), text.len() - 1), None);
        assert_eq!(decompress(&frame(text), text.len() + 1), None);
        assert_eq!(decompress(&frame(text)[..9], text.len()), None);
        assert_eq!(decompress(b"", 0), None);
        assert_eq!(decompress(&frame(text), usize::MAX), None);
        // A block of one byte, 300 times.
        let repeated = [0x28, 0xB5, 0x2F, 0xFD, 0x60, 0x2C, 0x00, 0x63, 0x09, 0x00, b'x'];
        assert_eq!(decompress(&repeated, 300).unwrap(), [b'x'; 300]);
    }
}

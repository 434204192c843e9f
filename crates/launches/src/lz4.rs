//! Blocks of LZ4, as fat binaries have them.

/// What a block holds, which must be `size` bytes; nothing if it is damaged.
///
/// A block is a row of sequences: a byte with two lengths, literals, and a distance back to bytes that come again.
pub fn decompress(block: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(size.min(1 << 28));
    let mut input = block.iter();
    while let Some(token) = input.next() {
        let literals = length(token >> 4, &mut input)?;
        let (copied, rest) = input.as_slice().split_at_checked(literals)?;
        out.extend_from_slice(copied);
        input = rest.iter();
        // The last sequence has literals alone.
        let Some(low) = input.next() else { break };
        let distance = usize::from(u16::from_le_bytes([*low, *input.next()?]));
        let again = length(token & 15, &mut input)? + 4;
        let from = out.len().checked_sub(distance).filter(|_| distance > 0)?;
        if out.len() + again > size {
            return None;
        }
        for i in from..from + again {
            out.push(out[i]);
        }
    }
    (out.len() == size).then_some(out)
}

/// A length that goes on in further bytes if its four bits are all ones.
fn length(bits: u8, input: &mut std::slice::Iter<u8>) -> Option<usize> {
    let mut length = usize::from(bits);
    if bits < 15 {
        return Some(length);
    }
    loop {
        let more = *input.next()?;
        length += usize::from(more);
        if more < 255 {
            return Some(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_repetitions() {
        // "abc", then 9 bytes from 3 back, then "!".
        let block = [0x35, b'a', b'b', b'c', 3, 0, 0x10, b'!'];
        assert_eq!(decompress(&block, 13).unwrap(), b"abcabcabcabc!");
        assert_eq!(decompress(&block, 12), None);
        assert_eq!(decompress(&[0x35, b'a', b'b', b'c', 4, 0], 12), None);
        let long: Vec<u8> = [&[0xF0, 5][..], &[7; 20]].concat();
        assert_eq!(decompress(&long, 20).unwrap(), [7; 20]);
    }
}

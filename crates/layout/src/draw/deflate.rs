//! Compression for PNG: zlib streams (RFC 1950) of one DEFLATE block (RFC 1951) with the fixed
//! Huffman codes and matches found through a table of the last place of each triple of bytes.

/// Farthest a match may lie back.
const WINDOW: usize = 32768;
/// Shortest and longest match.
const MATCH: std::ops::RangeInclusive<usize> = 3..=258;
/// Log2 of the number of places remembered.
const HASH_BITS: u32 = 15;

/// `data` as a zlib stream.
pub(super) fn zlib(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut bits = BitWriter { out: &mut out, pending: 0, count: 0 };
    // The only block, with fixed codes.
    bits.write(0b011, 3);
    let mut places = vec![usize::MAX; 1 << HASH_BITS];
    let mut at = 0;
    while at < data.len() {
        let length = match find(data, at, &mut places) {
            Some((length, distance)) => {
                bits.copy(length as u32, distance as u32);
                length
            }
            None => {
                bits.symbol(u32::from(data[at]));
                1
            }
        };
        at += length;
    }
    bits.symbol(256);
    bits.finish();
    out.extend(adler32(data).to_be_bytes());
    out
}

/// The match at `at`, as length and distance; remembers the place.
fn find(data: &[u8], at: usize, places: &mut [usize]) -> Option<(usize, usize)> {
    let triple = data.get(at..at + MATCH.start())?;
    let key = u32::from_le_bytes([triple[0], triple[1], triple[2], 0]);
    let slot = (key.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize;
    let candidate = std::mem::replace(&mut places[slot], at);
    if candidate == usize::MAX || at - candidate > WINDOW {
        return None;
    }
    let pairs = data[candidate..].iter().zip(&data[at..]);
    let length = pairs.take(*MATCH.end()).take_while(|(old, new)| old == new).count();
    MATCH.contains(&length).then_some((length, at - candidate))
}

/// Bits are packed from the lowest bit of each byte up.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    count: u32,
}

impl BitWriter<'_> {
    fn write(&mut self, bits: u32, count: u32) {
        self.pending |= u64::from(bits) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.out.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    /// A Huffman code, whose bits come highest first.
    fn code(&mut self, code: u32, length: u32) {
        self.write(code.reverse_bits() >> (32 - length), length);
    }

    /// A literal or length symbol in the fixed code.
    fn symbol(&mut self, symbol: u32) {
        match symbol {
            0..=143 => self.code(0x30 + symbol, 8),
            144..=255 => self.code(0x190 + symbol - 144, 9),
            256..=279 => self.code(symbol - 256, 7),
            _ => self.code(0xc0 + symbol - 280, 8),
        }
    }

    /// A match: symbols grow by four per power of two of the length, by two of the distance, and
    /// extra bits follow.
    fn copy(&mut self, length: u32, distance: u32) {
        match length - 3 {
            255 => self.symbol(285),
            rest @ 0..=7 => self.symbol(257 + rest),
            rest => {
                let extra = rest.ilog2() - 2;
                self.symbol(261 + 4 * extra + (rest >> extra & 3));
                self.write(rest & ((1 << extra) - 1), extra);
            }
        }
        match distance - 1 {
            rest @ 0..=3 => self.code(rest, 5),
            rest => {
                let extra = rest.ilog2() - 1;
                self.code(2 + 2 * extra + (rest >> extra & 1), 5);
                self.write(rest & ((1 << extra) - 1), extra);
            }
        }
    }

    fn finish(&mut self) {
        if self.count > 0 {
            self.write(0, 8 - self.count);
        }
    }
}

fn adler32(data: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    // 5552 bytes are the most whose sums stay below 2^32.
    for block in data.chunks(5552) {
        for byte in block {
            a += u32::from(*byte);
            b += a;
        }
        a %= 65521;
        b %= 65521;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_matches_its_published_example() {
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }
}

//! PNG files (W3C PNG, RFC 1950 and RFC 1951): true colour, each line stored as its difference to
//! the line above, compressed by runs. Pictures of cells are mostly such runs.

use super::grid::Grid;
use super::raster::Canvas;
use super::scene::Scene;
use crate::error::{LayoutError, Result};

/// Pixels above which a picture is drawn at single resolution.
const LARGE: f64 = 24e6;
/// Pixels above which a picture is refused.
const TOO_LARGE: f64 = 128e6;

/// The grid as a PNG file, at twice the resolution of the SVG unless that is very large.
pub fn png(grid: &Grid) -> Result<Vec<u8>> {
    let scene = Scene::of(grid);
    let area = scene.width * scene.height;
    if area > TOO_LARGE {
        return Err(LayoutError::hardware(
            "a PNG picture has at most 128 million pixels",
            format!("{:.0} x {:.0} pixels", scene.width, scene.height),
        ));
    }
    let scale = if 4.0 * area > LARGE { 1.0 } else { 2.0 };
    Ok(encode(&Canvas::draw(&scene, scale)))
}

fn encode(canvas: &Canvas) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend((canvas.width as u32).to_be_bytes());
    header.extend((canvas.height as u32).to_be_bytes());
    // 8 bits per channel, RGB, the only compression and filter methods, not interlaced.
    header.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, b"IHDR", &header);
    chunk(&mut file, b"IDAT", &zlib(&filtered(canvas)));
    chunk(&mut file, b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    let start = file.len();
    file.extend(kind);
    file.extend(data);
    let checksum = crc32(&file[start..]);
    file.extend(checksum.to_be_bytes());
}

/// Lines with filter 2 ("up"): each byte minus the one above it.
fn filtered(canvas: &Canvas) -> Vec<u8> {
    let stride = 3 * canvas.width;
    let mut above = vec![0; stride];
    let mut out = Vec::with_capacity((stride + 1) * canvas.height);
    for line in canvas.pixels.chunks(stride) {
        out.push(2);
        out.extend(line.iter().zip(&above).map(|(byte, above)| byte.wrapping_sub(*above)));
        above.copy_from_slice(line);
    }
    out
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut bits = BitWriter { out: &mut out, pending: 0, count: 0 };
    // One final block with fixed Huffman codes.
    bits.write(0b011, 3);
    let mut at = 0;
    while at < data.len() {
        let run = data[at..].iter().take_while(|byte| **byte == data[at]).count();
        write_run(&mut bits, data[at], run);
        at += run;
    }
    bits.symbol(256);
    bits.finish();
    out.extend(adler32(data).to_be_bytes());
    out
}

/// One literal, then copies of the byte before it.
fn write_run(bits: &mut BitWriter, byte: u8, run: usize) {
    bits.symbol(u32::from(byte));
    let mut left = run - 1;
    while left >= 3 {
        // Symbol 285 is a copy of 258 bytes, 257 to 264 copies of 3 to 10.
        let (symbol, length) =
            if left >= 258 { (285, 258) } else { (254 + left.min(10) as u32, left.min(10)) };
        bits.symbol(symbol);
        bits.write(0, 5);
        left -= length;
    }
    for _ in 0..left {
        bits.symbol(u32::from(byte));
    }
}

/// Bits are packed from the lowest bit of each byte up.
struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u32,
    count: u32,
}

impl BitWriter<'_> {
    fn write(&mut self, bits: u32, count: u32) {
        self.pending |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.out.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    /// A literal or length symbol in the fixed code, whose bits come highest first.
    fn symbol(&mut self, symbol: u32) {
        let (code, length) = match symbol {
            0..=143 => (0x30 + symbol, 8),
            144..=255 => (0x190 + symbol - 144, 9),
            256..=279 => (symbol - 256, 7),
            _ => (0xc0 + symbol - 280, 8),
        };
        self.write(code.reverse_bits() >> (32 - length), length);
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

fn crc32(data: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256u32)
        .map(|byte| {
            (0..8).fold(byte, |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
        })
        .collect();
    !data
        .iter()
        .fold(!0u32, |crc, byte| crc >> 8 ^ table[((crc ^ u32::from(*byte)) & 0xff) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_their_published_examples() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
    }
}

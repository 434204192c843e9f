//! PNG files (W3C PNG): true colour, each line stored as its difference to the line above, which
//! for pictures of cells is mostly zero.

use super::deflate::zlib;
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
    fn the_checksum_matches_its_published_example() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}

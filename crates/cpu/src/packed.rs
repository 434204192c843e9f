//! Rows of the packed formats ([`Storage`]) as f32 numbers, all of which bf16 holds.

use crate::inputs::RowAt;
use crate::model1::{self, e4m3_to_f32, power_of_two};
use half::bf16;
use problem::{Scales, Segment, Storage};

/// Numbers that share a scale.
const V32_BLOCK: usize = 128;
const FP8_BLOCK: usize = 32;
const FP4_BLOCK: usize = 16;

/// The value of an e2m1 bit pattern: a sign, and one of eight magnitudes.
fn e2m1_to_f32(bits: u8) -> f32 {
    const MAGNITUDES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let magnitude = MAGNITUDES[(bits & 7) as usize];
    if bits & 8 == 0 { magnitude } else { -magnitude }
}

/// Unpacks a row of `bytes`, memory that was checked to hold the rows of `segment`.
pub(crate) fn unpack(segment: &Segment, bytes: &[u8], at: RowAt, row: &mut [f32]) {
    let (rows, token) = (segment.k.tokens() as usize, at.token as usize);
    let page = &bytes[at.batch as usize * segment.page_stride() as usize..];
    match segment.storage {
        Storage::Elements => unreachable!("elements are not packed"),
        Storage::Model1 => model1::unpack(page, rows, token, row),
        Storage::V32 => unpack_v32(&page[token * 656..][..656], row),
        Storage::V41Fp8(scales) => unpack_fp8(parts(page, rows, token, (512, 16), scales), row),
        Storage::V41Fp4(scales) => unpack_fp4(parts(page, rows, token, (256, 32), scales), row),
    }
}

/// The numbers and the scales of a row, of so many bytes each.
fn parts(
    page: &[u8],
    rows: usize,
    token: usize,
    (numbers, scales): (usize, usize),
    place: Scales,
) -> (&[u8], &[u8]) {
    match place {
        Scales::Row => page[token * (numbers + scales)..][..numbers + scales].split_at(numbers),
        Scales::Footer => {
            let footer = &page[rows * numbers..];
            (&page[token * numbers..][..numbers], &footer[token * scales..][..scales])
        }
    }
}

fn unpack_v32(bytes: &[u8], row: &mut [f32]) {
    let (numbers, rest) = bytes.split_at(512);
    let (scales, rope) = rest.split_at(16);
    let blocks = row.chunks_mut(V32_BLOCK).zip(numbers.chunks_exact(V32_BLOCK));
    for ((row, numbers), scale) in blocks.zip(scales.as_chunks::<4>().0) {
        let scale = f32::from_le_bytes(*scale);
        for (out, bits) in row.iter_mut().zip(numbers) {
            *out = bf16::from_f32(e4m3_to_f32(*bits) * scale).to_f32();
        }
    }
    for (out, bytes) in row[512..].iter_mut().zip(rope.as_chunks::<2>().0) {
        *out = bf16::from_le_bytes(*bytes).to_f32();
    }
}

fn unpack_fp8((numbers, scales): (&[u8], &[u8]), row: &mut [f32]) {
    let blocks = row.chunks_mut(FP8_BLOCK).zip(numbers.chunks_exact(FP8_BLOCK));
    for ((row, numbers), scale) in blocks.zip(scales) {
        let scale = power_of_two(*scale as i32 - 127);
        row.iter_mut().zip(numbers).for_each(|(out, bits)| *out = e4m3_to_f32(*bits) * scale);
    }
}

fn unpack_fp4((numbers, scales): (&[u8], &[u8]), row: &mut [f32]) {
    let blocks = row.chunks_mut(FP4_BLOCK).zip(numbers.chunks_exact(FP4_BLOCK / 2));
    for ((row, numbers), scale) in blocks.zip(scales) {
        let scale = e4m3_to_f32(*scale);
        for (pair, bits) in row.chunks_exact_mut(2).zip(numbers) {
            pair[0] = e2m1_to_f32(bits & 15) * scale;
            pair[1] = e2m1_to_f32(bits >> 4) * scale;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use problem::{DType, View};

    /// Row 1 of page 1, of two pages of three rows, as `write` makes its numbers and scales.
    fn unpacked(
        storage: Storage,
        (at, numbers): (usize, &[u8]),
        (scales_at, scales): (usize, &[u8]),
    ) -> Vec<f32> {
        let format = storage.packed().unwrap();
        let view = View::bhsd(DType::Bf16, [2, 1, 3, format.dim]);
        let segment = Segment::shared(view, 512).stored(storage).page_bytes(3000);
        let mut bytes = vec![0xff; 6000];
        bytes[3000 + at..][..numbers.len()].copy_from_slice(numbers);
        bytes[3000 + scales_at..][..scales.len()].copy_from_slice(scales);
        let mut row = vec![f32::NAN; format.dim as usize];
        unpack(&segment, &bytes, RowAt { batch: 1, token: 1 }, &mut row);
        row
    }

    #[test]
    fn v32_rows_have_a_scale_per_128_and_a_bf16_tail() {
        // 0x38 is 1, 0xb8 is -1.
        let mut bytes = [0x38; 656];
        bytes[130] = 0xb8;
        let scales = [0.5f32, 3.0, 1.001, 0.0].map(f32::to_le_bytes).concat();
        bytes[512..528].copy_from_slice(&scales);
        bytes[528..].copy_from_slice(&bf16::from_f32(7.0).to_le_bytes().repeat(64));
        let row = unpacked(Storage::V32, (656, &bytes), (0, &[]));
        assert_eq!((row[0], row[127], row[128], row[130]), (0.5, 0.5, 3.0, -3.0));
        assert_eq!((row[256], row[511]), (1.0, 0.0), "rounded to bf16, and scaled away");
        assert_eq!(row[512..], [7.0; 64]);
    }

    #[test]
    fn v41_scales_lie_in_the_footer_or_behind_each_row() {
        let mut fp8 = [0x38; 512];
        fp8[33] = 0xc0;
        let mut powers = [127; 16];
        powers[1] = 129;
        let mut fp4 = [0x21; 256];
        fp4[9] = 0xf7;
        let mut eighths = [0x38; 32];
        eighths[1] = 0x40;
        for (scales, place) in [(Scales::Row, 528 + 512), (Scales::Footer, 3 * 512 + 16)] {
            let at = if scales == Scales::Row { 528 } else { 512 };
            let row = unpacked(Storage::V41Fp8(scales), (at, &fp8), (place, &powers));
            assert_eq!((row[31], row[32], row[33], row[64]), (1.0, 4.0, -8.0, 1.0));
        }
        for (scales, place) in [(Scales::Row, 288 + 256), (Scales::Footer, 3 * 256 + 32)] {
            let at = if scales == Scales::Row { 288 } else { 256 };
            let row = unpacked(Storage::V41Fp4(scales), (at, &fp4), (place, &eighths));
            assert_eq!((row[0], row[1], row[16], row[17]), (0.5, 1.0, 1.0, 2.0));
            assert_eq!((row[18], row[19], row[32]), (12.0, -12.0, 0.5));
        }
    }
}

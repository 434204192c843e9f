//! DeepSeek-V4's "MODEL1" KV rows: 448 e4m3 with seven power-of-two scales, then 64 bf16.
//!
//! The layout of a page is described at [`Storage::Model1`]. Unpacking is exact: e4m3 times a power
//! of two is a bf16 number for every scale that a row of normal numbers can have.

use half::bf16;
use problem::{E4m3, InvalidProblem, Storage};

const DIM: usize = Storage::MODEL1_DIM as usize;
const FP8: usize = Storage::MODEL1_FP8 as usize;
const BLOCK: usize = Storage::MODEL1_BLOCK as usize;
const ROW_BYTES: usize = Storage::MODEL1_ROW_BYTES as usize;
const SCALE_BYTES: usize = Storage::MODEL1_SCALE_BYTES as usize;

/// Blocks whose largest magnitude is smaller are scaled as if it were this.
const SMALLEST_AMAX: f32 = 1e-4;

/// The value of an e4m3 bit pattern (no infinities; 0x7f and 0xff are NaN).
pub fn e4m3_to_f32(bits: u8) -> f32 {
    E4m3::from_bits(bits).to_f32()
}

/// The nearest e4m3 bit pattern, ties to even, saturating at ±448; NaN stays NaN.
pub fn f32_to_e4m3(value: f32) -> u8 {
    E4m3::from_f32(value).to_bits()
}

/// The exponent of the power-of-two scale of a block: the smallest that brings it into e4m3 range.
fn scale_exponent(block: &[f32]) -> i32 {
    let amax = block.iter().fold(SMALLEST_AMAX, |m, x| m.max(x.abs()));
    let ratio = amax / E4m3::MAX;
    let exponent = (ratio.to_bits() >> 23) as i32 - 127;
    let exact = ratio.to_bits() & 0x7f_ffff == 0;
    (exponent + !exact as i32).clamp(-127, 127)
}

/// 2 to the power of `exponent` for exponents of UE8M0 (-127 to 127), exactly.
pub(crate) fn power_of_two(exponent: i32) -> f32 {
    2f64.powi(exponent) as f32
}

/// Packs `rows` (each 512 bf16) into `page`, whose memory must be
/// [`Storage::model1_page_bytes`] of `page_rows` bytes, from row `first` on.
///
/// # Errors
/// If `page` is too small, `rows` is not a multiple of 512 or does not fit.
pub fn pack(
    page: &mut [u8],
    page_rows: usize,
    first: usize,
    rows: &[bf16],
) -> Result<(), InvalidProblem> {
    check_page(page, page_rows)?;
    if !rows.len().is_multiple_of(DIM) {
        let rule = "must have a multiple of 512 elements";
        return Err(InvalidProblem::new("rows", rule, rows.len()));
    }
    let last = first.saturating_add(rows.len() / DIM);
    if last > page_rows {
        let rule = format!("must end within the {page_rows} rows of the page");
        return Err(InvalidProblem::new("rows", rule, last));
    }
    let (data, scales) = page.split_at_mut(page_rows * ROW_BYTES);
    for (i, row) in rows.chunks_exact(DIM).enumerate() {
        let at = first + i;
        let data = &mut data[at * ROW_BYTES..][..ROW_BYTES];
        pack_row(row, data, &mut scales[at * SCALE_BYTES..][..SCALE_BYTES]);
    }
    Ok(())
}

fn check_page(page: &[u8], page_rows: usize) -> Result<(), InvalidProblem> {
    let needed = Storage::model1_page_bytes(page_rows as u64);
    if page.len() as u64 >= needed {
        return Ok(());
    }
    Err(InvalidProblem::new("page", format!("must hold {needed} bytes"), page.len()))
}

fn pack_row(row: &[bf16], data: &mut [u8], scales: &mut [u8]) {
    for (b, block) in row[..FP8].chunks_exact(BLOCK).enumerate() {
        let block: Vec<f32> = block.iter().map(|x| x.to_f32()).collect();
        let exponent = scale_exponent(&block);
        scales[b] = (exponent + 127) as u8;
        let scale = power_of_two(exponent);
        for (byte, x) in data[b * BLOCK..].iter_mut().zip(&block) {
            *byte = f32_to_e4m3(x / scale);
        }
    }
    scales[FP8 / BLOCK] = 0;
    for (bytes, x) in data[FP8..].chunks_exact_mut(2).zip(&row[FP8..]) {
        bytes.copy_from_slice(&x.to_le_bytes());
    }
}

/// Unpacks row `at` of a page of `page_rows` rows into 512 f32.
///
/// # Errors
/// If `page` or `row` is too small, or the page has no such row.
pub fn unpack_row(
    page: &[u8],
    page_rows: usize,
    at: usize,
    row: &mut [f32],
) -> Result<(), InvalidProblem> {
    check_page(page, page_rows)?;
    if at >= page_rows {
        let rule = format!("must be one of the page's {page_rows} rows");
        return Err(InvalidProblem::new("at", rule, at));
    }
    if row.len() < DIM {
        return Err(InvalidProblem::new("row", "must have 512 elements", row.len()));
    }
    unpack(page, page_rows, at, row);
    Ok(())
}

/// As [`unpack_row`], of memory that was checked.
pub(crate) fn unpack(page: &[u8], page_rows: usize, at: usize, row: &mut [f32]) {
    let data = &page[at * ROW_BYTES..][..ROW_BYTES];
    let scales = &page[page_rows * ROW_BYTES + at * SCALE_BYTES..][..SCALE_BYTES];
    let blocks = row[..FP8].chunks_exact_mut(BLOCK).zip(data.chunks_exact(BLOCK));
    for ((row, data), scale) in blocks.zip(scales) {
        let scale = power_of_two(*scale as i32 - 127);
        row.iter_mut().zip(data).for_each(|(out, bits)| *out = e4m3_to_f32(*bits) * scale);
    }
    for (out, bytes) in row[FP8..DIM].iter_mut().zip(data[FP8..].as_chunks::<2>().0) {
        *out = bf16::from_le_bytes(*bytes).to_f32();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_e4m3_number_survives_a_round_trip() {
        for bits in 0..=255u8 {
            let value = e4m3_to_f32(bits);
            if !value.is_nan() {
                assert_eq!(f32_to_e4m3(value), bits, "{value}");
            }
        }
        assert!(e4m3_to_f32(0x7f).is_nan() && e4m3_to_f32(f32_to_e4m3(f32::NAN)).is_nan());
        assert_eq!(e4m3_to_f32(0x7e), 448.0);
        assert_eq!(e4m3_to_f32(1), 2f32.powi(-9));
    }

    #[test]
    fn rounding_is_to_nearest_with_ties_to_even() {
        let values: Vec<f32> = (0..0x7f).map(e4m3_to_f32).collect();
        for (bits, pair) in values.windows(2).enumerate() {
            let middle = (pair[0] + pair[1]) / 2.0;
            let even = bits as u8 + (bits as u8 & 1);
            assert_eq!(f32_to_e4m3(middle), even, "{middle}");
            assert_eq!(f32_to_e4m3(middle * 0.999), bits as u8);
            assert_eq!(f32_to_e4m3(middle * 1.001), bits as u8 + 1);
        }
        assert_eq!(f32_to_e4m3(1e9), 0x7e);
        assert_eq!(f32_to_e4m3(-1e9), 0xfe);
    }

    #[test]
    fn packed_rows_unpack_to_what_their_bits_say() {
        let rows: Vec<bf16> =
            (0..2 * DIM).map(|i| bf16::from_f32(((i * 37) % 101) as f32 / 50.0 - 1.0)).collect();
        let mut page = vec![0xff; Storage::model1_page_bytes(3) as usize];
        pack(&mut page, 3, 1, &rows).unwrap();
        let mut row = [0.0; DIM];
        for i in 0..2 {
            unpack_row(&page, 3, 1 + i, &mut row).unwrap();
            let source = &rows[i * DIM..][..DIM];
            for (j, (x, y)) in source.iter().zip(row).enumerate() {
                let tolerance =
                    if j < FP8 { x.to_f32().abs() / 16.0 + 2f32.powi(-17) } else { 0.0 };
                assert!((x.to_f32() - y).abs() <= tolerance, "{j}: {x} {y}");
                assert_eq!(bf16::from_f32(y).to_f32(), y, "unpacked numbers are bf16");
            }
            let mut again = page.clone();
            let exact: Vec<bf16> = row.iter().map(|x| bf16::from_f32(*x)).collect();
            pack(&mut again, 3, 1 + i, &exact).unwrap();
            assert_eq!(again, page, "packing what was unpacked changes nothing");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (mut page, rows) = (vec![0; 1728], vec![bf16::ZERO; DIM]);
        let refused = |result: Result<(), InvalidProblem>, why: &str| {
            assert_eq!(result.unwrap_err().to_string(), why);
        };
        refused(pack(&mut page, 3, 0, &rows), "page: must hold 2304 bytes, but it is 1728");
        let whole = format!("page: must hold {} bytes, but it is 1728", u64::MAX);
        refused(pack(&mut page, usize::MAX, 0, &rows), &whole);
        let multiple = "rows: must have a multiple of 512 elements, but it is 511";
        refused(pack(&mut page, 2, 0, &rows[1..]), multiple);
        let end = "rows: must end within the 2 rows of the page, but it is";
        refused(pack(&mut page, 2, 2, &rows), &format!("{end} 3"));
        refused(pack(&mut page, 2, usize::MAX, &rows), &format!("{end} {}", usize::MAX));
        let mut row = [0.0; DIM];
        let at = "at: must be one of the page's 2 rows, but it is 2";
        refused(unpack_row(&page, 2, 2, &mut row), at);
        refused(
            unpack_row(&page, 2, 1, &mut row[1..]),
            "row: must have 512 elements, but it is 511",
        );
    }

    #[test]
    fn page_strides_are_those_of_the_public_format() {
        let bytes: Vec<u64> =
            [2, 64, 128, 256].into_iter().map(Storage::model1_page_bytes).collect();
        assert_eq!(bytes, [1728, 37440, 74880, 149760]);
    }
}

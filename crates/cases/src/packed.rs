//! Rows written in DeepSeek's packed formats.

use cpu::model1::{self, f32_to_e4m3};
use half::bf16;
use problem::{Scales, Storage};

/// The largest finite numbers.
const E4M3_MAX: f32 = 448.0;
const E2M1_MAX: f32 = 6.0;
/// Blocks whose largest magnitude is smaller are scaled as if it were this.
const SMALLEST: f32 = 1e-4;

/// The bytes of the numbers of a block, and of their scale.
type Block = (Vec<u8>, Vec<u8>);

/// Writes row `at` of a page of `rows` rows.
///
/// # Panics
/// If rows are not packed, or the page has no such row.
pub(crate) fn pack(storage: Storage, page: &mut [u8], rows: usize, at: usize, row: &[f32]) {
    let format = storage.packed().expect("a packed format");
    let row_bytes = format.row_bytes as usize;
    let inline = |numbers: usize| (at * row_bytes, at * row_bytes + numbers);
    let footer = |scales: usize| (at * row_bytes, rows * row_bytes + at * scales);
    let (numbers, scales) = match storage {
        Storage::Elements => unreachable!("elements are not packed"),
        Storage::Model1 => {
            let rounded: Vec<bf16> = row.iter().map(|x| bf16::from_f32(*x)).collect();
            return model1::pack(page, rows, at, &rounded).expect("the page has this row");
        }
        Storage::V32 => {
            let tail: Vec<u8> =
                row[512..].iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect();
            page[at * row_bytes + 528..][..tail.len()].copy_from_slice(&tail);
            inline(512)
        }
        Storage::V41Fp8(Scales::Row) => inline(512),
        Storage::V41Fp8(Scales::Footer) => footer(16),
        Storage::V41Fp4(Scales::Row) => inline(256),
        Storage::V41Fp4(Scales::Footer) => footer(32),
    };
    match storage {
        Storage::V32 => pack_blocks::<128>(&row[..512], page, (numbers, scales), float),
        Storage::V41Fp8(_) => pack_blocks::<32>(row, page, (numbers, scales), power),
        _ => pack_blocks::<16>(row, page, (numbers, scales), narrow),
    }
}

/// Packs blocks of `N` numbers that share a scale, to the places of numbers and scales in a page.
fn pack_blocks<const N: usize>(
    row: &[f32],
    page: &mut [u8],
    (numbers, scales): (usize, usize),
    pack: fn(&[f32; N]) -> Block,
) {
    for (n, block) in row.as_chunks::<N>().0.iter().enumerate() {
        let (packed, scale) = pack(block);
        page[numbers + n * packed.len()..][..packed.len()].copy_from_slice(&packed);
        page[scales + n * scale.len()..][..scale.len()].copy_from_slice(&scale);
    }
}

fn largest(block: &[f32]) -> f32 {
    block.iter().fold(SMALLEST, |most, x| most.max(x.abs()))
}

/// e4m3 numbers with a f32 scale.
fn float(block: &[f32; 128]) -> Block {
    let scale = largest(block) / E4M3_MAX;
    (block.iter().map(|x| f32_to_e4m3(x / scale)).collect(), scale.to_le_bytes().to_vec())
}

/// e4m3 numbers with a power of two.
fn power(block: &[f32; 32]) -> Block {
    let exponent = (largest(block) / E4M3_MAX).log2().ceil().clamp(-127.0, 127.0);
    let scale = exponent.exp2();
    (block.iter().map(|x| f32_to_e4m3(x / scale)).collect(), vec![(exponent + 127.0) as u8])
}

/// e2m1 numbers, two in a byte, with an e4m3 scale. A block that holds a NaN has a scale that is one.
fn narrow(block: &[f32; 16]) -> Block {
    if block.iter().any(|x| x.is_nan()) {
        return (vec![0x11; 8], vec![0x7f]);
    }
    let scale = f32_to_e4m3((largest(block) / E2M1_MAX).max(1.0 / 512.0));
    let factor = model1::e4m3_to_f32(scale);
    let number = |x: f32| f32_to_e2m1(x / factor);
    let pairs = block.as_chunks::<2>().0.iter();
    (pairs.map(|[low, high]| number(*low) | number(*high) << 4).collect(), vec![scale])
}

/// The nearest e2m1 bit pattern, the smaller of two as near.
fn f32_to_e2m1(value: f32) -> u8 {
    // Half way between 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
    const ENDS: [f32; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
    let magnitude = ENDS.iter().filter(|end| value.abs() > **end).count() as u8;
    magnitude | if value.is_sign_negative() { 8 } else { 0 }
}

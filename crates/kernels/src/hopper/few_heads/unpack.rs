//! e4m3 numbers as pairs of f16, and their scales.

use crate::moves::gather::ScaleKind;
use crate::moves::gather::numbers::float_scale;
use ptx::build::{Builder, Cmp, HalfType, Reg};

/// Probabilities are multiplied by a scale times this: it puts scales from 2^-23 to 2 where f16 keeps a product with a
/// probability, which is at most 2^8.
const LIFT: f32 = 64.0;
/// What output of such products is multiplied with.
pub const UNLIFT: f32 = 1.0 / LIFT;
/// The smallest scale for which a probability is rounded as to bf16 at worst.
const SMALLEST: f32 = 1.0 / (1 << 23) as f32;
/// Numbers 0 and 1 of two words each: `prmt`'s selector.
const LOWER: u32 = 0x5140;
/// Numbers 2 and 3 likewise.
const UPPER: u32 = 0x7362;

/// The scale of byte `n` of a row's eight bytes.
#[track_caller]
pub fn scale(b: &mut Builder, scales: &[Reg<u32>], n: u32) -> Reg<f32> {
    float_scale(b, ScaleKind::PowerPerPanel, scales[n as usize / 4], n % 4 * 8)
}

/// The f16 factor on probabilities that a scale is: NaN if it is too small, infinite if it is too large.
#[track_caller]
pub fn factor(b: &mut Builder, scale: Reg<f32>) -> Reg<u32> {
    let small = b.setp(Cmp::Lt, scale, SMALLEST);
    let scale = b.select::<f32>(small, f32::NAN, scale);
    let factor = b.mul(scale, LIFT);
    b.pack(HalfType::F16, factor, factor)
}

/// The four numbers of a key's word.
#[track_caller]
pub fn numbers_of_key(b: &mut Builder, word: Reg<u32>) -> [Reg<u32>; 2] {
    b.e4m3_pairs(HalfType::F16, word)
}

/// Every number of the words of two keys, side by side.
#[track_caller]
pub fn numbers_of_two_keys(b: &mut Builder, words: [Reg<u32>; 2]) -> [Reg<u32>; 4] {
    let [lower, upper] = [LOWER, UPPER].map(|selector| {
        let numbers = b.permute_bytes(words[0], words[1], selector);
        b.e4m3_pairs(HalfType::F16, numbers)
    });
    [lower[0], lower[1], upper[0], upper[1]]
}

/// bf16 number `i` of two of the words of two keys.
#[track_caller]
pub fn half_of_two_keys(b: &mut Builder, words: [Reg<u32>; 2], i: u32) -> Reg<u32> {
    b.permute_bytes(words[0], words[1], if i == 0 { 0x5410 } else { 0x7632 })
}

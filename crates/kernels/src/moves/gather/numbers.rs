//! Packed numbers as pairs of bf16 or as f32, times their scales.
//!
//! A number times a power of two, or a product of two narrow floats, is a bf16 number: nothing is rounded. Products
//! with f32 scales are rounded once.

use super::format::{Numbers, ScaleKind};
use ptx::build::{Arg, Builder, HalfType, Reg};

/// Bits of 2^-127, the smallest scale.
const SMALLEST_SCALE: u32 = 0x0040_0000;
/// Two bf16 of 2^126: what lifts e2m1 numbers whose bits stand where bf16 has its own.
const E2M1_LIFT: u32 = 0x7e80_7e80;

/// A scale for several numbers.
#[derive(Clone, Copy)]
pub enum Scale {
    /// A pair of bf16, both the same.
    Pair(Reg<u32>),
    /// A f32 number.
    Float(Reg<f32>),
}

/// The scale that a word of scales holds from bit `bit` on.
#[track_caller]
pub fn scale(b: &mut Builder, kind: ScaleKind, word: Reg<u32>, bit: impl Into<Arg<u32>>) -> Scale {
    match kind {
        ScaleKind::PowerPerPanel | ScaleKind::PowerPerHalf => Scale::Pair(power_pair(b, word, bit)),
        ScaleKind::E4m3PerQuarter => {
            let byte = b.eval(word >> bit);
            let [number, ..] = b.unpack_e4m3(byte);
            Scale::Pair(b.pack(HalfType::Bf16, number, number))
        }
        ScaleKind::FloatPerTwo => Scale::Float(b.float_from_bits(word)),
    }
}

/// The same as a f32 number.
#[track_caller]
pub fn float_scale(
    b: &mut Builder,
    kind: ScaleKind,
    word: Reg<u32>,
    bit: impl Into<Arg<u32>>,
) -> Reg<f32> {
    match kind {
        ScaleKind::PowerPerPanel | ScaleKind::PowerPerHalf => power(b, word, bit),
        ScaleKind::E4m3PerQuarter => {
            let byte = b.eval(word >> bit);
            b.unpack_e4m3(byte)[0]
        }
        ScaleKind::FloatPerTwo => b.float_from_bits(word),
    }
}

/// The numbers of a word times their scale, in pairs of bf16.
#[track_caller]
pub fn unpack_word(
    b: &mut Builder,
    numbers: Numbers,
    word: Reg<u32>,
    scale: Scale,
) -> Vec<Reg<u32>> {
    match (numbers, scale) {
        (Numbers::Bf16, _) => vec![word],
        (Numbers::E4m3, Scale::Pair(scale)) => unpack_e4m3(b, word, scale).to_vec(),
        (Numbers::E4m3, Scale::Float(scale)) => {
            let [x, y, z, w] = b.unpack_e4m3(word).map(|number| b.mul(number, scale));
            vec![b.pack(HalfType::Bf16, x, y), b.pack(HalfType::Bf16, z, w)]
        }
        (Numbers::E2m1, Scale::Pair(scale)) => {
            let pairs = e2m1_pairs(b, word);
            pairs.map(|pair| b.mul_halves(HalfType::Bf16, pair, scale)).to_vec()
        }
        (Numbers::E2m1, Scale::Float(_)) => panic!("numbers of half a byte have narrow scales"),
    }
}

/// Eight numbers of e2m1 as pairs of bf16.
#[track_caller]
pub fn e2m1_pairs(b: &mut Builder, word: Reg<u32>) -> [Reg<u32>; 4] {
    let lift = b.value(E2M1_LIFT);
    [0, 8, 16, 24].map(|bit| {
        // The low half byte at bit 0, the high one at bit 16.
        let spread = b.eval(byte(word, bit) * 0x1001);
        let (magnitude, sign) = (spread & 0x0007_0007, spread & 0x0008_0008);
        let bits = b.eval((magnitude << 6) | (sign << 12));
        b.mul_halves(HalfType::Bf16, bits, lift)
    })
}

/// Four numbers of e4m3 times a power of two, as pairs of bf16.
#[track_caller]
fn unpack_e4m3(b: &mut Builder, word: Reg<u32>, scale: Reg<u32>) -> [Reg<u32>; 2] {
    let pairs = b.e4m3_pairs(HalfType::Bf16, word);
    pairs.map(|pair| b.mul_halves(HalfType::Bf16, pair, scale))
}

/// The power of two that the byte from bit `bit` of a word on says, as a pair of bf16.
#[track_caller]
fn power_pair(b: &mut Builder, scales: Reg<u32>, bit: impl Into<Arg<u32>>) -> Reg<u32> {
    let bits = (byte(scales, bit) << 7).max(SMALLEST_SCALE >> 16);
    b.eval(bits * 0x0001_0001)
}

/// The power of two that the byte from bit `bit` of a word on says.
#[track_caller]
fn power(b: &mut Builder, scales: Reg<u32>, bit: impl Into<Arg<u32>>) -> Reg<f32> {
    let bits = b.eval((byte(scales, bit) << 23).max(SMALLEST_SCALE));
    b.float_from_bits(bits)
}

/// The byte from bit `bit` of a word on.
fn byte(word: Reg<u32>, bit: impl Into<Arg<u32>>) -> Arg<u32> {
    (word >> bit) & 0xff
}

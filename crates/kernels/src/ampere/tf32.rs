//! Products of f32 numbers on tensor cores that multiply tf32, as accurate as f32.
//!
//! A number is the sum of two tf32 ones, `x = h + l`, up to 2^-22 of it. Of the four products three are computed,
//! `l·h + h·l + h·h`; the fourth, `l·l`, is 2^-22 of the whole. `h` is `x` rounded, by integer arithmetic: `cvt.rna`
//! takes three instructions on every chip, because it looks for infinity. An infinite number makes `l` NaN, and rows
//! that become NaN are computed again ([`crate::math::exact`]).
//!
//! Tensor cores do not round sums to the nearest number
//! but cut them off, and such errors add up. So they add at most [`RUN`] products to a sum, which is then added to the
//! others by an instruction that rounds.

use ptx::build::{Builder, Reg};

/// Products that are added up on tensor cores: the columns of a panel.
pub const RUN: u32 = 32;
/// Products of one instruction.
pub const STEP: u32 = 8;

/// The lowest bit of a tf32 number.
const UNIT: u32 = 1 << 13;

/// Numbers as pairs of tf32 ones.
pub struct Split<const N: usize> {
    high: [Reg<u32>; N],
    low: [Reg<u32>; N],
}

impl<const N: usize> Split<N> {
    /// Splits numbers.
    #[track_caller]
    pub fn new(b: &mut Builder, numbers: [Reg<f32>; N]) -> Self {
        let bits = numbers.map(|number| b.bits(number));
        Self::of(b, numbers, bits)
    }

    /// Splits the numbers with these bits.
    #[track_caller]
    pub fn of_bits(b: &mut Builder, bits: [Reg<u32>; N]) -> Self {
        let numbers = bits.map(|bits| b.float_from_bits(bits));
        Self::of(b, numbers, bits)
    }

    #[track_caller]
    fn of(b: &mut Builder, numbers: [Reg<f32>; N], bits: [Reg<u32>; N]) -> Self {
        let high = bits.map(|bits| b.eval((bits + UNIT / 2) & !(UNIT - 1)));
        let low = std::array::from_fn(|i| {
            let high = b.float_from_bits(high[i]);
            let rest = b.sub(numbers[i], high);
            b.bits(rest)
        });
        Split { high, low }
    }
}

/// `d += left · right`, small products first.
#[track_caller]
pub fn multiply(b: &mut Builder, d: &[Reg<f32>; 4], left: &Split<4>, right: &Split<2>) {
    b.mma_m16n8k8_tf32(d, &left.low, &right.high);
    b.mma_m16n8k8_tf32(d, &left.high, &right.low);
    b.mma_m16n8k8_tf32(d, &left.high, &right.high);
}

/// The sums of a run that begins.
#[track_caller]
pub fn zeros(b: &mut Builder, count: usize) -> Vec<Reg<f32>> {
    (0..count).map(|_| b.value(0.0)).collect()
}

/// Adds the sums of a run to others, and begins the next run.
#[track_caller]
pub fn add(b: &mut Builder, sums: &[Reg<f32>], run: &[Reg<f32>]) {
    for (&sum, &run) in sums.iter().zip(run) {
        let added = b.add(sum, run);
        b.assign(sum, added);
        b.assign(run, 0.0);
    }
}

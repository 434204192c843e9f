//! Powers of two without the special-function unit.
//!
//! The unit gives 16 results per clock and SM, as many cycles per tile of scores as both products take
//! at head dim 128; the FMA pipe has room beside it. `2^x = 2^⌊x⌋ · 2^f`: adding 1.5·2^23, rounded
//! down, leaves `⌊x⌋` in the low bits; `2^f` on [0, 1) is a minimax polynomial of degree 4 (relative
//! error 2.6e-6, below f32's own after a sum and far below 16-bit rounding); `⌊x⌋` is added to its
//! exponent.

use ptx::build::{Builder, Pair, Reg};

/// `1.5·2^23`: the sum's last bit is worth 1.
const ROUNDER: f32 = 12_582_912.0;
/// Below this the exponent field would wrap. What is left of the power here is subnormal and rounds to 0 in 16 bits.
const LEAST: f32 = -127.0;
/// Coefficients, constant first.
const POLYNOMIAL: [f32; 5] = [1.000_002_6, 0.693_003_83, 0.241_442_76, 0.052_011_46, 0.013_534_168];

/// Constants of the computation, in registers.
pub struct Exponential {
    rounder: Pair,
    polynomial: [Pair; 5],
}

impl Exponential {
    /// Loads the constants.
    #[track_caller]
    pub fn new(b: &mut Builder) -> Self {
        Exponential { rounder: b.pair_of(ROUNDER), polynomial: POLYNOMIAL.map(|c| b.pair_of(c)) }
    }

    /// `2^x` and `2^y` of numbers up to 127; NaN is taken for a very small one.
    #[track_caller]
    pub fn exp2(&self, b: &mut Builder, x: Reg<f32>, y: Reg<f32>) -> [Reg<f32>; 2] {
        let (x, y) = (b.max(x, LEAST), b.max(y, LEAST));
        let exponent = b.pair(x, y);
        let floor = b.pair_add_down(exponent, self.rounder);
        let whole = b.pair_sub(floor, self.rounder);
        let fraction = b.pair_sub(exponent, whole);
        let [first, rest @ ..] = &self.polynomial;
        let (last, between) = rest.split_last().expect("a polynomial of degree 4");
        let mut power = *last;
        for coefficient in between.iter().rev().chain([first]) {
            power = b.pair_fma(power, fraction, *coefficient);
        }
        let (floor, power) = (b.unpair(floor), b.unpair(power));
        [0, 1].map(|i| {
            let floor = b.bits(floor[i]);
            let exponent = b.eval(floor << 23);
            let power = b.bits(power[i]);
            let power = b.eval(power + exponent);
            b.float_from_bits(power)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same arithmetic on the host (round-down addition through f64).
    fn exp2(x: f32) -> f32 {
        let x = x.max(LEAST);
        let floor = (f64::from(x) + f64::from(ROUNDER)).floor() as f32;
        let fraction = x - (floor - ROUNDER);
        let [first, rest @ ..] = POLYNOMIAL;
        let power = rest.iter().rev().fold(0.0, |p: f32, c| p.mul_add(fraction, *c));
        let power = power.mul_add(fraction, first);
        f32::from_bits(power.to_bits().wrapping_add(floor.to_bits() << 23))
    }

    #[test]
    fn the_polynomial_is_as_good_as_it_says() {
        let worst = (-120_000..80_000)
            .map(|i| i as f32 / 1000.0)
            .map(|x| (f64::from(exp2(x)) / f64::from(x).exp2() - 1.0).abs())
            .fold(0.0, f64::max);
        assert!(worst < 2.8e-6, "relative error {worst:e}");
        for least in [-127.0, -1e30, f32::NEG_INFINITY] {
            assert!((0.0..1e-43).contains(&exp2(least)), "{least}");
        }
        for i in 0..1000 {
            assert!((0.0..1.2e-38).contains(&exp2(-127.0 + i as f32 / 1000.0)));
        }
    }
}

//! `tanh` of scores that are capped, mostly without the special-function unit.
//!
//! `tanh x = 1 − 2 / (2^(2x·log2 e) + 1)` is exact to f32 rounding, but asks the unit for two results per
//! score, and the softmax for a third: 24 cycles of a warp where both products at head dim 128 take 16.
//! `tanh.approx` asks for one, but is good to 2^-11 only, which is 0.02 where a score of 50 is capped.
//! Scores seldom exceed the cap, though, and up to there `tanh x` is `x·P(x²)`, `P` being the minimax
//! polynomial of degree 5 (relative error 6e-7): eight instructions that the FMA pipe has room for, with
//! the one that finds the largest magnitude. A warp that sees a larger one takes the exact way for all
//! its scores of the tile.

use crate::arguments::Arguments;
use ptx::build::{Builder, Cmp, Reg};
use std::f32::consts::LOG2_E;

/// Coefficients of `tanh x / x` in `x²` for `|x| ≤ 1`, constant first.
const POLYNOMIAL: [f64; 6] = [
    0.999_999_403_953_55,
    -0.333_290_427_923_20,
    0.132_814_332_842_83,
    -0.051_605_675_369_50,
    0.016_743_116_080_76,
    -0.003_067_060_606_55,
];
/// Magnitudes of the factor on scores whose 11th power f32 can hold in the last coefficient. Head dim 512
/// and a cap of 100 make it 4.4e-4.
const FACTORS: std::ops::Range<f32> = 3.5e-4..2e3;

/// `tanh(score · factor)`, the constants being parameters.
#[derive(Clone, Copy, Debug)]
pub struct Tanh {
    /// Factor from scores to the exponent of the exact way.
    exponent: Reg<f32>,
    /// Largest magnitude of a score the polynomial is for.
    largest: Reg<f32>,
    /// Coefficients of the polynomial in squares of raw scores.
    polynomial: [Reg<f32>; 6],
}

impl Tanh {
    /// Declares the parameters.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, factor: f32) -> Self {
        let (largest, polynomial) = constants(factor);
        let mut number = 0;
        Tanh {
            exponent: args.f32(b, "cap_exponent", 2.0 * LOG2_E * factor),
            largest: args.f32(b, "cap_largest", largest),
            polynomial: polynomial.map(|coefficient| {
                number += 1;
                args.f32(b, &format!("cap_{number}"), coefficient)
            }),
        }
    }

    /// Replaces the `scores` of a thread. All lanes of the warp come here together.
    #[track_caller]
    pub fn replace(&self, b: &mut Builder, scores: &[Reg<f32>]) {
        let magnitude = b.max_magnitude(scores);
        let beyond = b.setp(Cmp::Gt, magnitude, self.largest);
        let any = b.vote_any(beyond);
        b.if_else(any, |b| self.exact(b, scores), |b| self.polynomial(b, scores));
    }

    #[track_caller]
    fn exact(&self, b: &mut Builder, scores: &[Reg<f32>]) {
        for &score in scores {
            let exponent = b.mul(score, self.exponent);
            let power = b.ex2(exponent);
            let denominator = b.add(power, 1.0);
            let inverse = b.rcp(denominator);
            let tanh = b.fma(inverse, -2.0, 1.0);
            b.assign(score, tanh);
        }
    }

    #[track_caller]
    fn polynomial(&self, b: &mut Builder, scores: &[Reg<f32>]) {
        let polynomial = b.odd_polynomial(&self.polynomial);
        let (pairs, rest) = scores.as_chunks();
        assert!(rest.is_empty(), "a row's scores come in pairs");
        for &pair in pairs {
            let values = polynomial.of(b, pair);
            for (score, tanh) in pair.into_iter().zip(values) {
                b.assign(score, tanh);
            }
        }
    }
}

/// The largest magnitude of a score that the polynomial is for, and the coefficients, which have the
/// powers of the factor in them. Where f32 cannot hold those, no score is small enough.
fn constants(factor: f32) -> (f32, [f32; 6]) {
    if !FACTORS.contains(&factor.abs()) {
        return (-1.0, [0.0; 6]);
    }
    let mut power = f64::from(factor);
    let polynomial = POLYNOMIAL.map(|coefficient| {
        let scaled = coefficient * power;
        power *= f64::from(factor).powi(2);
        scaled as f32
    });
    (1.0 / factor.abs(), polynomial)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The polynomial in the kernels' arithmetic.
    fn polynomial(factor: f32, score: f32) -> f32 {
        let (_, coefficients) = constants(factor);
        let even = coefficients.into_iter().rev().reduce(|p, c| p.mul_add(score * score, c));
        score * even.expect("coefficients")
    }

    #[test]
    fn the_polynomial_is_as_good_as_it_says() {
        for factor in [FACTORS.start, 1.0 / (16.0 * 50.0), -0.01, 1.0, 1999.0] {
            let (largest, _) = constants(factor);
            let worst = (1..=20_000)
                .map(|i| largest * i as f32 / 20_000.0)
                .map(|score| (score, (f64::from(score) * f64::from(factor)).tanh()))
                .map(|(score, tanh)| (f64::from(polynomial(factor, score)) / tanh - 1.0).abs())
                .fold(0.0, f64::max);
            assert!(worst < 8e-7, "relative error {worst:e} at factor {factor}");
            assert_eq!(polynomial(factor, -largest), -polynomial(factor, largest));
            assert!(polynomial(factor, f32::NAN).is_nan());
        }
    }

    #[test]
    fn factors_whose_powers_are_no_floats_take_the_exact_way() {
        for factor in [0.0, 1e-6, -1e-4, 1e6, f32::INFINITY] {
            assert!(constants(factor).0 < 0.0, "factor {factor}");
        }
    }
}

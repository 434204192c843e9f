//! Soft caps, `cap · tanh(scale · score / cap)`, mostly without the special-function unit.
//!
//! `tanh x = 1 − 2 / (2^(2x·log2 e) + 1)` is exact to f32 rounding of 1, but asks the unit for two results per
//! score, and the softmax for a third: 24 cycles of a warp where both products at head dim 128 take 16.
//! `tanh.approx` asks for one, but is good to 2^-11 only, which is 0.02 where a score of 50 is capped.
//! Scores seldom exceed the cap, though, and up to there `tanh x` is `x·P(x²)`, `P` being the minimax
//! polynomial of degree 5 (relative error 6e-7): eight instructions that the FMA pipe has room for, with
//! the one that finds the largest magnitude. A warp that sees a larger one takes powers for all its scores of the tile.
//!
//! The powers of `scale / cap` are in the coefficients, which f32 holds for caps near the scores only. A cap far
//! above them takes one multiplication more, for `scale · score · P(x²)`, where `P(0)` is 1: it tends to the scaled
//! score as the cap grows, and only scores that need powers take them. A cap far below the scores takes powers always.

use program::build::Arguments;
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
/// The same for `|x| ≤ FAR`, exact at 0 (relative error 3e-8).
const FROM_ONE: [f64; 6] = [
    1.0,
    -0.333_330_822_847_24,
    0.133_267_598_106_87,
    -0.053_403_017_141_99,
    0.019_691_828_149_70,
    -0.004_789_077_012_34,
];
/// The largest magnitude that those are for.
const FAR: f32 = 0.75;
/// Magnitudes of the factor on scores whose 11th power f32 can hold in the last coefficient. Head dim 512
/// and a cap of 100 make it 4.4e-4.
const FACTORS: std::ops::Range<f32> = 3.5e-4..2e3;

/// A soft cap, its constants being parameters.
#[derive(Clone, Copy, Debug)]
pub struct SoftCap {
    /// Factor from scores to the exponent of the power.
    exponent: Reg<f32>,
    /// Largest magnitude of a score the polynomial is for.
    largest: Reg<f32>,
    /// Coefficients of a polynomial in squares: of raw scores, or of those times the factor where the cap is far.
    polynomial: [Reg<f32>; 6],
    /// The factor on scores and the cap, where it is far above the scores.
    far: Option<[Reg<f32>; 2]>,
}

/// The numbers that a cap is applied with.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Constants {
    factor: f32,
    largest: f32,
    polynomial: [f32; 6],
    /// Whether the cap is far above the scores.
    is_far: bool,
}

impl Constants {
    fn new(scale: f32, cap: f32) -> Self {
        let factor = nonzero_quotient(scale, cap);
        match factor.abs() {
            x if FACTORS.contains(&x) => Self::near(factor),
            x if x < FACTORS.start => Self::far(scale, factor),
            _ => Self { factor, largest: -1.0, polynomial: [0.0; 6], is_far: false },
        }
    }

    /// The coefficients have the powers of the factor in them.
    fn near(factor: f32) -> Self {
        let mut power = f64::from(factor);
        let polynomial = POLYNOMIAL.map(|coefficient| {
            let scaled = coefficient * power;
            power *= f64::from(factor).powi(2);
            scaled as f32
        });
        Self { factor, largest: 1.0 / factor.abs(), polynomial, is_far: false }
    }

    /// The coefficients have the scale in them.
    fn far(scale: f32, factor: f32) -> Self {
        let polynomial = FROM_ONE.map(|coefficient| (coefficient * f64::from(scale)) as f32);
        let largest = (FAR / factor.abs()).min(f32::MAX);
        Self { factor, largest, polynomial, is_far: true }
    }
}

/// `scale / cap`, rounded to neither infinity, which would make NaN of a score of 0, nor 0, which would make it of
/// an infinite one.
fn nonzero_quotient(scale: f32, cap: f32) -> f32 {
    let (least, most) = (f32::from_bits(1), f32::MAX / 4.0);
    match scale / cap {
        x if x == 0.0 && scale != 0.0 => least.copysign(scale),
        x => x.clamp(-most, most),
    }
}

impl SoftCap {
    /// Declares the parameters; returns also what number capped scores are multiples of.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, scale: f32, cap: f32) -> (Self, f32) {
        let Constants { factor, largest, polynomial, is_far } = Constants::new(scale, cap);
        let mut number = 0;
        let declared = SoftCap {
            exponent: args.f32(b, "cap_exponent", 2.0 * LOG2_E * factor),
            largest: args.f32(b, "cap_largest", largest),
            polynomial: polynomial.map(|coefficient| {
                number += 1;
                args.f32(b, &format!("cap_{number}"), coefficient)
            }),
            far: is_far.then(|| [args.f32(b, "cap_factor", factor), args.f32(b, "cap", cap)]),
        };
        (declared, if is_far { 1.0 } else { cap })
    }

    /// Caps the `scores` of a thread. All lanes of the warp come here together.
    #[track_caller]
    pub fn apply(&self, b: &mut Builder, scores: &[Reg<f32>]) {
        let magnitude = b.max_magnitude(scores);
        let beyond = b.setp(Cmp::Gt, magnitude, self.largest);
        let any = b.vote_any(beyond);
        b.if_else(any, |b| self.apply_alone(b, scores), |b| self.polynomials(b, scores));
    }

    /// Caps scores of any size, without the other lanes.
    #[track_caller]
    pub fn apply_alone(&self, b: &mut Builder, scores: &[Reg<f32>]) {
        for &score in scores {
            let mut capped = self.power(b, score);
            if self.far.is_some() {
                // An error of the cap's last bits would be larger than a small score.
                let magnitude = b.abs(score);
                let beyond = b.setp(Cmp::Gt, magnitude, self.largest);
                let small = self.polynomial(b, score);
                capped = b.select::<f32>(beyond, capped, small);
            }
            b.assign(score, capped);
        }
    }

    /// A score capped by way of a power.
    #[track_caller]
    fn power(&self, b: &mut Builder, score: Reg<f32>) -> Reg<f32> {
        let exponent = b.mul(score, self.exponent);
        let power = b.ex2(exponent);
        let denominator = b.add(power, 1.0);
        let inverse = b.rcp(denominator);
        let tanh = b.fma(inverse, -2.0, 1.0);
        self.far.map_or(tanh, |[_, cap]| b.mul(tanh, cap))
    }

    /// A score capped by the polynomial.
    #[track_caller]
    fn polynomial(&self, b: &mut Builder, score: Reg<f32>) -> Reg<f32> {
        let x = self.far.map_or(score, |[factor, _]| b.mul(score, factor));
        let square = b.mul(x, x);
        let highest_first = self.polynomial.into_iter().rev();
        let ratio = highest_first.reduce(|p, c| b.fma(p, square, c)).expect("coefficients");
        b.mul(score, ratio)
    }

    /// Caps scores that the polynomial is for.
    #[track_caller]
    fn polynomials(&self, b: &mut Builder, scores: &[Reg<f32>]) {
        if self.far.is_some() {
            for &score in scores {
                let capped = self.polynomial(b, score);
                b.assign(score, capped);
            }
            return;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `cap · tanh(scale · score / cap)` in the kernels' arithmetic.
    fn capped(scale: f32, cap: f32, score: f32) -> f32 {
        let Constants { factor, largest, polynomial, is_far } = Constants::new(scale, cap);
        if score.abs() > largest {
            let power = (score * (2.0 * LOG2_E * factor)).exp2();
            return cap * (1.0 - 2.0 / (power + 1.0));
        }
        let x = if is_far { score * factor } else { score };
        let even = polynomial.into_iter().rev().reduce(|p, c| p.mul_add(x * x, c));
        let capped = score * even.expect("coefficients");
        if is_far { capped } else { cap * capped }
    }

    /// The largest error of scores up to `most`, relative, or as a part of the cap if that is larger.
    fn worst(scale: f32, cap: f32, most: f32) -> f64 {
        let error = |score: f32| {
            let (scale, cap64) = (f64::from(scale), f64::from(cap));
            let want = cap64 * (f64::from(score) * scale / cap64).tanh();
            (f64::from(capped(scale as f32, cap, score)) - want).abs() / want.abs()
        };
        (1..=20_000).map(|i| error(most * i as f32 / 20_000.0)).fold(0.0, f64::max)
    }

    #[test]
    fn the_polynomials_are_as_good_as_they_say() {
        for factor in [FACTORS.start, 1.0 / (16.0 * 50.0), -0.01, 1.0, 1999.0] {
            let worst = worst(factor, 1.0, Constants::near(factor).largest);
            assert!(worst < 8e-7, "relative error {worst:e} at factor {factor}");
        }
        for (scale, cap) in [(0.125, 1e3), (-0.1, 1e4), (1.0, 1e6), (0.044, 1e30), (1.0, 3e38)] {
            assert!(Constants::new(scale, cap).is_far);
            for most in [1.0, 1e3, 1e6, 1e30] {
                let worst = worst(scale, cap, most);
                assert!(worst < 5e-7, "{worst:e} at {scale} under {cap}, up to {most}");
            }
        }
    }

    #[test]
    fn signs_and_numbers_that_are_not_finite() {
        for (scale, cap) in [(0.1, 50.0), (-0.1, 50.0), (0.1, 1e5), (-2.0, 1e30), (1.0, 1e-3)] {
            for score in [0.0, 0.3, 77.0, 1e6, 1e30, f32::INFINITY] {
                let [plus, minus] = [score, -score].map(|score| capped(scale, cap, score));
                assert!((plus + minus).abs() <= 1e-6 * plus.abs(), "{score}: {plus} {minus}");
            }
            assert!(capped(scale, cap, f32::NAN).is_nan());
            let most = capped(scale, cap, f32::INFINITY);
            assert_eq!(most, cap * scale.signum());
        }
    }

    #[test]
    fn caps_below_the_scores_take_powers() {
        for cap in [1e-45, 1e-38, 1e-10, 1e-5] {
            let constants = Constants::new(0.125, cap);
            assert!(constants.largest < 0.0 && constants.factor.is_finite(), "cap {cap}");
            assert_eq!((capped(0.125, cap, 0.0), capped(0.125, cap, 9.0)), (0.0, cap));
        }
        assert_eq!(capped(0.0, 1e-38, 9.0), 0.0);
    }
}

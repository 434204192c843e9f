//! `cap · tanh(score / cap)` for every cap there is.
//!
//! `tanh x` as `(e − 1) / (e + 1)`, where `e` is the power of `2x`, is good to a fraction of 1, not of itself: caps
//! far above the scores would multiply that error. So up to [`SMALL`] `cap · tanh(score / cap)` is the score times
//! `tanh x / x`, a polynomial in `x²` that is 1 at 0, and tends to the score as the cap grows.

use crate::simd::Simd;
use std::f32::consts::LOG2_E;

/// The magnitude of `x` up to which the polynomial is for, to 2e-8 of itself.
const SMALL: f32 = 0.5;
/// Coefficients of `tanh x / x` in `x²`, constant first.
const RATIO: [f32; 5] = [1.0, -0.333_331_5, 0.133_259_88, -0.053_052_95, 0.017_256_994];
/// The magnitude beyond which `tanh` is ±1 to f32 precision.
const MOST: f32 = 10.0;

/// Caps scores, a whole number of vectors of them, and gives them in base 2.
#[inline(always)]
pub(super) fn cap_scores<S: Simd>(simd: S, scores: &mut [f32], cap: f32) {
    // Neither may be infinite: a score of 0 stays 0, whatever the cap.
    let inverse = simd.splat((1.0 / cap).min(f32::MAX));
    let cap = simd.splat((cap * LOG2_E).min(f32::MAX));
    for chunk in scores.chunks_exact_mut(S::LANES) {
        // SAFETY: a chunk holds a vector.
        unsafe {
            let score = simd.load(chunk.as_ptr());
            let x = simd.mul(score, inverse);
            let small = simd.mul(simd.mul(score, simd.splat(LOG2_E)), ratio(simd, x));
            let large = simd.mul(tanh(simd, x), cap);
            simd.store(chunk.as_mut_ptr(), simd.by_magnitude(x, SMALL, small, large));
        }
    }
}

/// `tanh x / x` of small numbers.
#[inline(always)]
fn ratio<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    let square = simd.mul(x, x);
    RATIO.iter().rev().fold(simd.splat(0.0), |sum, coefficient| {
        simd.mul_add(sum, square, simd.splat(*coefficient))
    })
}

/// `tanh x`, good to a fraction of 1.
#[inline(always)]
fn tanh<S: Simd>(simd: S, x: S::Vector) -> S::Vector {
    let (least, zero, one) = (simd.splat(-MOST), simd.splat(0.0), simd.splat(1.0));
    let x = simd.max(least, x);
    let x = simd.sub(zero, simd.max(least, simd.sub(zero, x)));
    let e = simd.exp2(simd.mul(x, simd.splat(2.0 * LOG2_E)));
    simd.div(simd.sub(e, one), simd.add(e, one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Isa, Kernel};

    struct Cap<'s>(&'s mut [f32], f32);

    impl Kernel for Cap<'_> {
        type Output = ();
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            cap_scores(simd, self.0, self.1);
        }
    }

    /// `10^exponent`, subnormal numbers too.
    fn power(exponent: i32) -> f32 {
        10f64.powi(exponent) as f32
    }

    /// A score of every magnitude, both signs.
    fn scores() -> Vec<f32> {
        let magnitudes = (-40..=36).flat_map(|e| [1.0, 2.5, 7.1].map(|m| m * power(e)));
        let mut scores: Vec<f32> = magnitudes.flat_map(|s| [s, -s]).chain([0.0]).collect();
        scores.resize(scores.len().next_multiple_of(16), 0.0);
        scores
    }

    #[test]
    fn every_score_under_every_cap() {
        let caps = (-44..=38).map(power).chain([50.0, f32::MAX, 1e-45]);
        for (cap, isa) in caps.flat_map(|cap| Isa::detected().into_iter().map(move |i| (cap, i))) {
            let mut capped = scores();
            isa.run(Cap(&mut capped, cap));
            for (score, got) in scores().into_iter().zip(capped) {
                let cap = f64::from(cap);
                let want = cap * (f64::from(score) / cap).tanh() * std::f64::consts::LOG2_E;
                // What is smaller has no power of two but 1.
                let error = (f64::from(got) - want).abs();
                let right = error <= 1e-6 * want.abs() + 1e-36;
                assert!(right, "{isa:?}: {score:e} under {cap:e}: {got:e} {want:e}");
            }
        }
    }

    #[test]
    fn scores_that_are_not_finite() {
        for isa in Isa::detected() {
            let mut scores = [f32::NAN; 16];
            (scores[0], scores[1]) = (f32::INFINITY, f32::NEG_INFINITY);
            isa.run(Cap(&mut scores, 2.0));
            let cap = 2.0 * LOG2_E;
            assert!((scores[0] - cap).abs() < 1e-6 && (scores[1] + cap).abs() < 1e-6);
            assert!(scores[2..].iter().all(|score| score.is_nan()), "{isa:?}");
        }
    }
}

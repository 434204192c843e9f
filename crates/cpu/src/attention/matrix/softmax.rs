//! The online softmax of a panel's scores: rows across lanes, a block of keys at a time.

use super::{BLOCK, Bounds, Panel, ROWS, WIDTH};
use crate::attention::softcap::cap_scores;
use crate::attention::state::SLACK;
use crate::simd::Simd;
use crate::simd::avx512::Avx512;
use problem::Problem;
use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// Where the rows of one tile register lie among a panel's scores.
#[derive(Clone, Copy)]
struct Half {
    scores: *mut f32,
    low: __m512,
    high: __m512,
}

impl Half {
    /// Score vectors of the block of keys from `key` on.
    #[inline(always)]
    fn block(&self, key: usize) -> *mut f32 {
        self.scores.wrapping_add(key * WIDTH)
    }
}

impl Panel<'_> {
    /// Turns scores into bf16 probabilities, interleaved pairwise, over the first half of each block;
    /// returns each row's factor for what came before, where any is not 1.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(super) fn softmax(&mut self, problem: &Problem, bounds: &Bounds) -> Option<[__m512; 2]> {
        let used = bounds.keys.start * WIDTH..bounds.keys.end * WIDTH;
        let all = &mut self.scratch.scores[self.scores.clone()];
        let factor = scale_scores(self.simd, problem, &mut all[used]);
        let mut rescale = [_mm512_set1_ps(1.0); 2];
        let mut rescaled = false;
        for half in 0..bounds.rows.div_ceil(ROWS) {
            let row = self.first_row + half * ROWS;
            let partial = &mut self.scratch.partial;
            let (max, sum) = (&mut partial.max[row..row + ROWS], &mut partial.sum[row..row + ROWS]);
            let scores = all[half * ROWS * BLOCK..].as_mut_ptr();
            // SAFETY: bounds, state and scores hold whole panels.
            unsafe {
                let low = _mm512_loadu_ps(bounds.low[half * ROWS..].as_ptr());
                let high = _mm512_loadu_ps(bounds.high[half * ROWS..].as_ptr());
                let rows = Half { scores, low, high };
                let before = _mm512_loadu_ps(max.as_ptr());
                let found = _mm512_mul_ps(largest(rows, bounds), _mm512_set1_ps(factor));
                let after = self.simd.raise(before, found, SLACK);
                let safe = self.simd.finite_or_zero(after);
                let added = exponentiate(self.simd, rows, factor, safe, &bounds.keys);
                if self.simd.any_above(after, before) {
                    rescale[half] = self.simd.exp2(_mm512_sub_ps(before, safe));
                    rescaled = true;
                }
                let total = _mm512_loadu_ps(sum.as_ptr());
                _mm512_storeu_ps(sum.as_mut_ptr(), _mm512_fmadd_ps(total, rescale[half], added));
                _mm512_storeu_ps(max.as_mut_ptr(), after);
            }
        }
        rescaled.then_some(rescale)
    }

    /// Multiplies each row of the output with its factor.
    #[target_feature(enable = "avx512f")]
    pub(super) fn rescale(&mut self, factors: [__m512; 2]) {
        let columns = self.dims.value_padded;
        let out = &mut self.scratch.partial.out[self.first_row * columns..][..WIDTH * columns];
        for (n, chunk) in out.chunks_exact_mut(ROWS).enumerate() {
            // SAFETY: a chunk holds a vector.
            unsafe {
                let scaled = _mm512_mul_ps(_mm512_loadu_ps(chunk.as_ptr()), factors[n % 2]);
                _mm512_storeu_ps(chunk.as_mut_ptr(), scaled);
            }
        }
    }
}

/// Applies the soft cap, if any; returns what is left to multiply scores with, to base 2.
#[target_feature(enable = "avx512f,avx512bw,avx512dq")]
fn scale_scores(simd: Avx512, problem: &Problem, scores: &mut [f32]) -> f32 {
    let scale = problem.scale as f32;
    match problem.softcap {
        Some(cap) => {
            scores.iter_mut().for_each(|s| *s *= scale);
            cap_scores(simd, scores, cap);
            1.0
        }
        // The largest raw score gives the largest scaled one only if the factor is positive.
        None if scale <= 0.0 => {
            scores.iter_mut().for_each(|s| *s *= scale * LOG2_E);
            1.0
        }
        None => scale * LOG2_E,
    }
}

/// The largest raw score of each row, hiding what it does not see.
///
/// # Safety
/// The scores must hold a panel of every key of `bounds`.
#[target_feature(enable = "avx512f")]
unsafe fn largest(rows: Half, bounds: &Bounds) -> __m512 {
    let mut found = [_mm512_set1_ps(f32::NEG_INFINITY); 4];
    for key in bounds.keys.clone().step_by(BLOCK) {
        let scores = rows.block(key);
        if bounds.common.start > key || bounds.common.end < key + BLOCK {
            // SAFETY: the caller promises the block.
            unsafe { hide(rows, key) };
        }
        for n in 0..BLOCK {
            // SAFETY: as above.
            let score = unsafe { _mm512_loadu_ps(scores.add(n * ROWS)) };
            found[n % 4] = _mm512_max_ps(found[n % 4], score);
        }
    }
    let [a, b, c, d] = found;
    _mm512_max_ps(_mm512_max_ps(a, b), _mm512_max_ps(c, d))
}

/// Hides the scores of the block of keys from `key` on that a row does not see.
///
/// # Safety
/// The scores must hold the block.
#[target_feature(enable = "avx512f")]
unsafe fn hide(rows: Half, key: usize) {
    let hidden = _mm512_set1_ps(f32::NEG_INFINITY);
    for n in 0..BLOCK {
        let at = _mm512_set1_ps((key + n) as f32);
        let from = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(rows.low, at);
        let seen = _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(from, at, rows.high);
        // SAFETY: the caller promises the block.
        unsafe { _mm512_mask_storeu_ps(rows.block(key).add(n * ROWS), !seen, hidden) };
    }
}

/// Writes `2^(factor · score - max)` as interleaved bf16 and returns the sums before rounding.
///
/// # Safety
/// The scores must hold a panel of `keys`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
unsafe fn exponentiate(
    simd: Avx512,
    rows: Half,
    factor: f32,
    max: __m512,
    keys: &Range<usize>,
) -> __m512 {
    let factor = _mm512_set1_ps(factor);
    let interleave = interleaving();
    let (mut even, mut odd) = (_mm512_setzero_ps(), _mm512_setzero_ps());
    for key in keys.clone().step_by(BLOCK) {
        let scores = rows.block(key);
        for pair in 0..BLOCK / 2 {
            // SAFETY: the caller promises the block; a pair is written where only scores lie that
            // were read before.
            unsafe {
                let at = scores.add(2 * pair * ROWS);
                // Rounded as the maximum was: what a fused product has beyond that exceeds every exponent where scores
                // are as large as 1e10.
                let exponent =
                    |at: *mut f32| _mm512_sub_ps(_mm512_mul_ps(_mm512_loadu_ps(at), factor), max);
                let (first, second) = (exponent(at), exponent(at.add(ROWS)));
                let (first, second) = (simd.exp2(first), simd.exp2(second));
                even = _mm512_add_ps(even, first);
                odd = _mm512_add_ps(odd, second);
                let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(second, first));
                let both = _mm512_permutexvar_epi16(interleave, both);
                _mm512_storeu_si512(scores.add(pair * ROWS).cast(), both);
            }
        }
    }
    _mm512_add_ps(even, odd)
}

/// The permutation that takes 16 numbers of each half of a vector alternately.
#[target_feature(enable = "avx512f,avx512bw")]
fn interleaving() -> __m512i {
    let first: [u32; 16] = std::array::from_fn(|i| (i as u32 + 16) << 16 | i as u32);
    // SAFETY: a vector is 16 numbers of 32 bits.
    unsafe { std::mem::transmute(first) }
}

//! Many rows share the keys, bf16, on a machine with AMX: both products in tile registers.
//!
//! As in [`lanes`](super::lanes), rows run across, keys and output columns down:
//! - scores `[key][row]` = keys (as they lie in memory) × queries (interleaved once per item);
//! - softmax down each lane; probabilities are rounded to bf16 and interleaved pairwise;
//! - output `[column][row]` += values (transposed once per tile) × probabilities.
//!
//! A panel is 64 rows, a tile of keys [`KEYS`]; all panels of an item share a tile's transposed
//! values.

mod operands;

use super::Call;
use super::lanes::{cap_scores, visible};
use super::plan::Item;
use super::state::{SLACK, Scratch, refill};
use crate::simd::amx::{Amx, DEPTH, Operand, ROWS, Result, Tiles};
use crate::simd::avx512::Avx512;
use crate::simd::{Element, Simd};
use half::bf16;
pub(crate) use operands::Operands;
use operands::{Dims, KeyRows};
use std::arch::x86_64::*;
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// Keys per tile.
pub(crate) const KEYS: usize = 256;
/// Rows of a panel.
const WIDTH: usize = 64;
/// Vectors of a panel's rows.
const VECTORS: usize = WIDTH / 16;
/// Bytes between rows of scores, output and interleaved probabilities of a panel.
const PANEL_STRIDE: usize = WIDTH * 4;
/// Bytes of a tile register.
const TILE_BYTES: usize = ROWS * 64;

/// Computes one split of an item into `scratch.partial`.
pub(super) fn attend<E: Element>(
    amx: Amx,
    call: &Call<E>,
    item: &Item,
    split: usize,
    scratch: &mut Scratch,
) {
    // SAFETY: the token proves that the features are there.
    unsafe { attend_with_features(amx, call, item, split, scratch) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16,fma,avx2,f16c")]
fn attend_with_features<E: Element>(
    amx: Amx,
    call: &Call<E>,
    item: &Item,
    split: usize,
    scratch: &mut Scratch,
) {
    let problem = call.inputs.problem;
    let dims = Dims::new(problem);
    let panels = item.rows.div_ceil(WIDTH);
    scratch.partial.reset(panels, WIDTH, dims.value_padded);
    refill(&mut scratch.scores, KEYS * WIDTH, 0.0);
    scratch.operands.probabilities.resize(KEYS * WIDTH, bf16::ZERO);
    scratch.operands.load_queries(call, item, dims);
    let tiles = Tiles::configure(amx);
    for segment in &call.inputs.segments {
        let seen = visible(call, item, segment, &mut scratch.visible);
        let part = item.part(segment.keys(item.b), seen, split, KEYS as u64);
        for first in part.clone().step_by(KEYS) {
            let range = first..part.end.min(first + KEYS as u64);
            let mut rows = KeyRows::find(call, segment, item, range.clone());
            if rows.count() == 0 {
                continue;
            }
            rows.load(segment, dims, &mut scratch.operands);
            // Lists leave entries out, and are seen whole by every row.
            let listed = segment.is_listed();
            let range = if listed { 0..rows.count() as u64 } else { range };
            for panel in 0..panels {
                let first_row = panel * WIDTH;
                let seen = &scratch.visible[first_row..item.rows.min(first_row + WIDTH)];
                let active = seen.len().next_multiple_of(2 * ROWS);
                let bounds = Bounds::new(seen, listed, &range);
                if !bounds.keys.is_empty() {
                    let mut panel =
                        Panel { tiles: &tiles, simd: amx.avx512, dims, first_row, active, scratch };
                    panel.step(problem.scale, problem.softcap, &rows, &bounds);
                }
            }
        }
    }
}

/// Which keys of a tile a panel computes, and which of them each row sees.
struct Bounds {
    /// Keys that some row sees, widened to whole tile registers.
    keys: Range<usize>,
    /// Whether some row does not see some of `keys`.
    masked: bool,
    low: [f32; WIDTH],
    high: [f32; WIDTH],
}

impl Bounds {
    fn new(rows: &[Range<u64>], listed: bool, range: &Range<u64>) -> Self {
        let count = (range.end - range.start) as usize;
        let (mut low, mut high) = ([0.0; WIDTH], [0.0; WIDTH]);
        let mut span = count..0;
        let mut masked = !count.is_multiple_of(DEPTH);
        for (row, seen) in rows.iter().enumerate() {
            let relative = |x: u64| (x.clamp(range.start, range.end) - range.start) as usize;
            let seen = if listed { 0..count } else { relative(seen.start)..relative(seen.end) };
            masked |= seen != (0..count);
            if !seen.is_empty() {
                span = span.start.min(seen.start)..span.end.max(seen.end);
                (low[row], high[row]) = (seen.start as f32, seen.end as f32);
            }
        }
        let keys = span.start / DEPTH * DEPTH..span.end.next_multiple_of(DEPTH);
        Self { keys: if span.is_empty() { 0..0 } else { keys }, masked, low, high }
    }
}

/// One panel at work on a tile.
struct Panel<'p> {
    tiles: &'p Tiles,
    simd: Avx512,
    dims: Dims,
    first_row: usize,
    /// Rows in use, widened to whole pairs of tile registers.
    active: usize,
    scratch: &'p mut Scratch,
}

impl Panel<'_> {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    fn step(&mut self, scale: f32, softcap: Option<f32>, rows: &KeyRows, bounds: &Bounds) {
        let Some(keys) = rows.even else { return };
        self.score(keys, bounds.keys.clone());
        let used = bounds.keys.start * WIDTH..bounds.keys.end * WIDTH;
        let scores = &mut self.scratch.scores[used];
        let factor = match softcap {
            Some(cap) => {
                scores.iter_mut().for_each(|s| *s *= scale / cap);
                cap_scores(self.simd, scores, cap);
                1.0
            }
            // The largest raw score gives the largest scaled one only if the factor is positive.
            None if scale <= 0.0 => {
                scores.iter_mut().for_each(|s| *s *= scale * LOG2_E);
                1.0
            }
            None => scale * LOG2_E,
        };
        self.softmax(factor, bounds);
        self.add_values(bounds.keys.clone());
    }

    /// `scores[key][row]` of `keys`, a whole number of pairs of tile registers.
    fn score(&mut self, (first, key_stride): (*const bf16, usize), keys: Range<usize>) {
        let steps = self.dims.key_padded / DEPTH;
        let queries =
            self.scratch.operands.queries[self.first_row * self.dims.key_padded..].as_ptr();
        let scores = self.scratch.scores.as_mut_ptr();
        // Rows outside: their queries stay in the first cache while keys stream by.
        for rows in (0..self.active).step_by(2 * ROWS) {
            for key in keys.clone().step_by(2 * ROWS) {
                let a = |n: usize| first.cast::<u8>().wrapping_add((key + n * ROWS) * key_stride);
                let b = |n: usize| {
                    queries.wrapping_add((rows + n * ROWS) * self.dims.key_padded).cast::<u8>()
                };
                let c = |n: usize, m: usize| {
                    scores.wrapping_add((key + n * ROWS) * WIDTH + rows + m * ROWS).cast::<u8>()
                };
                let a = Operand { tiles: [a(0), a(1)], stride: key_stride, step: 64 };
                let b = Operand { tiles: [b(0), b(1)], stride: 64, step: TILE_BYTES };
                let tiles = [[c(0, 0), c(0, 1)], [c(1, 0), c(1, 1)]];
                let c = Result { tiles, stride: PANEL_STRIDE, accumulate: false };
                // SAFETY: keys lie evenly or were copied together, in whole tile registers; queries
                // and scores hold whole panels.
                unsafe { self.tiles.multiply(a, b, steps, c) };
            }
        }
    }

    /// Turns scores into interleaved bf16 probabilities and rescales what came before.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    fn softmax(&mut self, factor: f32, bounds: &Bounds) {
        let mut rescale = [_mm512_set1_ps(1.0); VECTORS];
        let mut rescaled = false;
        for v in 0..self.active / ROWS {
            let row = self.first_row + 16 * v;
            let partial = &mut self.scratch.partial;
            let (max, sum) = (&mut partial.max[row..row + 16], &mut partial.sum[row..row + 16]);
            let scores = self.scratch.scores[16 * v..].as_mut_ptr();
            let probabilities = self.scratch.operands.probabilities[32 * v..].as_mut_ptr();
            // SAFETY: the state, the scores and the probabilities hold whole panels.
            unsafe {
                let before = _mm512_loadu_ps(max.as_ptr());
                let raw = largest(scores, v, bounds);
                let scaled = _mm512_mul_ps(raw, _mm512_set1_ps(factor));
                let after = self.simd.raise(before, scaled, SLACK);
                let some =
                    _mm512_cmp_ps_mask::<_CMP_GT_OQ>(after, _mm512_set1_ps(f32::NEG_INFINITY));
                let safe = _mm512_maskz_mov_ps(some, after);
                let added =
                    exponentiate(self.simd, scores, probabilities, factor, safe, &bounds.keys);
                if _mm512_cmp_ps_mask::<_CMP_GT_OQ>(after, before) != 0 {
                    rescale[v] = self.simd.exp2(_mm512_sub_ps(before, safe));
                    rescaled = true;
                }
                let total = _mm512_loadu_ps(sum.as_ptr());
                _mm512_storeu_ps(sum.as_mut_ptr(), _mm512_fmadd_ps(total, rescale[v], added));
                _mm512_storeu_ps(max.as_mut_ptr(), after);
            }
        }
        if rescaled {
            let columns = self.dims.value_padded;
            let out = &mut self.scratch.partial.out[self.first_row * columns..][..WIDTH * columns];
            for (n, chunk) in out.chunks_exact_mut(16).enumerate() {
                // SAFETY: a chunk holds a vector.
                unsafe {
                    let scaled =
                        _mm512_mul_ps(_mm512_loadu_ps(chunk.as_ptr()), rescale[n % VECTORS]);
                    _mm512_storeu_ps(chunk.as_mut_ptr(), scaled);
                }
            }
        }
    }

    /// `out[column][row] += Σ_key values[column][key] · probabilities[key][row]`.
    fn add_values(&mut self, keys: Range<usize>) {
        let columns = self.dims.value_padded;
        let steps = keys.len() / DEPTH;
        let values = self.scratch.operands.values.as_ptr();
        let probabilities = self.scratch.operands.probabilities.as_ptr();
        let out = self.scratch.partial.out[self.first_row * columns..].as_mut_ptr();
        for column in (0..columns).step_by(2 * ROWS) {
            for rows in (0..self.active).step_by(2 * ROWS) {
                let a =
                    |n: usize| values.wrapping_add((column + n * ROWS) * KEYS + keys.start).cast();
                let b = |n: usize| {
                    probabilities.wrapping_add(keys.start * WIDTH + 2 * (rows + n * ROWS)).cast()
                };
                let c = |n: usize, m: usize| {
                    out.wrapping_add((column + n * ROWS) * WIDTH + rows + m * ROWS).cast::<u8>()
                };
                let a = Operand { tiles: [a(0), a(1)], stride: KEYS * 2, step: 64 };
                let b = Operand {
                    tiles: [b(0), b(1)],
                    stride: PANEL_STRIDE,
                    step: DEPTH / 2 * PANEL_STRIDE,
                };
                let tiles = [[c(0, 0), c(0, 1)], [c(1, 0), c(1, 1)]];
                let c = Result { tiles, stride: PANEL_STRIDE, accumulate: true };
                // SAFETY: values hold `KEYS` of each padded column, probabilities a panel of as many
                // keys, output whole panels.
                unsafe { self.tiles.multiply(a, b, steps, c) };
            }
        }
    }
}

/// The largest raw score of each row of vector `v`, hiding what it does not see.
///
/// # Safety
/// `scores` must have a vector per key of `bounds`, a panel's width apart.
#[target_feature(enable = "avx512f")]
unsafe fn largest(scores: *mut f32, v: usize, bounds: &Bounds) -> __m512 {
    let hidden = _mm512_set1_ps(f32::NEG_INFINITY);
    let (mut even, mut odd) = (hidden, hidden);
    if !bounds.masked {
        for n in bounds.keys.clone().step_by(2) {
            // SAFETY: the caller promises a vector per key, of which there is an even number.
            unsafe {
                even = _mm512_max_ps(even, _mm512_loadu_ps(scores.add(n * WIDTH)));
                odd = _mm512_max_ps(odd, _mm512_loadu_ps(scores.add((n + 1) * WIDTH)));
            }
        }
        return _mm512_max_ps(even, odd);
    }
    // SAFETY: bounds hold a panel's rows.
    let (low, high) = unsafe {
        let at = 16 * v;
        (_mm512_loadu_ps(bounds.low[at..].as_ptr()), _mm512_loadu_ps(bounds.high[at..].as_ptr()))
    };
    for n in bounds.keys.clone() {
        let at = _mm512_set1_ps(n as f32);
        let from = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(low, at);
        let seen = _mm512_mask_cmp_ps_mask::<_CMP_LT_OQ>(from, at, high);
        // SAFETY: the caller promises a vector per key.
        unsafe {
            let score = _mm512_mask_mov_ps(hidden, seen, _mm512_loadu_ps(scores.add(n * WIDTH)));
            _mm512_storeu_ps(scores.add(n * WIDTH), score);
            even = _mm512_max_ps(even, score);
        }
    }
    even
}

/// Writes `2^(factor · score - max)` as interleaved bf16 and returns the sums before rounding.
///
/// # Safety
/// `scores` must have a vector per key and `probabilities` one per pair of keys, a panel's width
/// apart.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn exponentiate(
    simd: Avx512,
    scores: *const f32,
    probabilities: *mut bf16,
    factor: f32,
    max: __m512,
    keys: &Range<usize>,
) -> __m512 {
    let factor = _mm512_set1_ps(factor);
    let (mut even, mut odd) = (_mm512_setzero_ps(), _mm512_setzero_ps());
    for n in keys.clone().step_by(2) {
        // SAFETY: the caller promises a vector per key, of which there is an even number.
        let (first, second) = unsafe {
            (_mm512_loadu_ps(scores.add(n * WIDTH)), _mm512_loadu_ps(scores.add((n + 1) * WIDTH)))
        };
        let first = simd.exp2(_mm512_fmsub_ps(first, factor, max));
        let second = simd.exp2(_mm512_fmsub_ps(second, factor, max));
        even = _mm512_add_ps(even, first);
        odd = _mm512_add_ps(odd, second);
        // SAFETY: bf16 vectors are 16 numbers of 16 bits; the caller promises room for the pair.
        unsafe {
            let low: __m256i = std::mem::transmute(_mm512_cvtneps_pbh(first));
            let high: __m256i = std::mem::transmute(_mm512_cvtneps_pbh(second));
            let high = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(high));
            let pair = _mm512_or_si512(_mm512_cvtepu16_epi32(low), high);
            _mm512_storeu_si512(probabilities.add(n * WIDTH).cast(), pair);
        }
    }
    _mm512_add_ps(even, odd)
}

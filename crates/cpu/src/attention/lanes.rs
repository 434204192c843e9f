//! Many rows share the keys: rows across vector lanes.
//!
//! A panel is `V` vectors of rows. Its queries are transposed once to `[dim][row]`; then for each
//! tile of keys
//! - scores `[key][row]` = key number (broadcast) × query column, register-blocked over `N` keys;
//! - softmax down each lane, in place, giving probabilities `[key][row]`;
//! - output `[column][row]` += value number (broadcast) × probabilities, blocked over `N` columns.
//!
//! Several panels share a tile, so that widening bf16 rows is paid once for all of them.

use super::buffer::Buffer;
use super::plan::Item;
use super::state::{SLACK, Scratch};
use super::tile::{Places, Tile, base};
use super::{Call, TILE};
use crate::inputs::SegmentInputs;
use crate::simd::{Element, Simd};
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// Computes one split of an item into `scratch.partial`.
#[inline(always)]
pub(super) fn attend<S: Simd, E: Element>(
    simd: S,
    call: &Call<E>,
    item: &Item,
    split: usize,
    scratch: &mut Scratch,
) {
    let vectors = item.rows.div_ceil(S::LANES);
    // Registers hold V × N sums, V vectors of one operand and one broadcast.
    match (S::REGISTERS, vectors) {
        (_, 1) => attend_panels::<S, E, 1, 12>(simd, call, item, split, scratch),
        (32.., 3..) => attend_panels::<S, E, 4, 6>(simd, call, item, split, scratch),
        (32.., _) => attend_panels::<S, E, 2, 12>(simd, call, item, split, scratch),
        _ => attend_panels::<S, E, 2, 6>(simd, call, item, split, scratch),
    }
}

#[inline(always)]
fn attend_panels<S: Simd, E: Element, const V: usize, const N: usize>(
    simd: S,
    call: &Call<E>,
    item: &Item,
    split: usize,
    scratch: &mut Scratch,
) {
    let problem = call.inputs.problem;
    let width = V * S::LANES;
    let panels = item.rows.div_ceil(width);
    scratch.partial.reset(panels, width, problem.value_dim() as usize);
    load_queries(call, item, width, &mut scratch.queries);
    scratch.scores.reserve(TILE * width);
    for segment in &call.inputs.segments {
        let seen = visible(call, item, segment, &mut scratch.visible);
        let part = item.part(segment.keys(item.b), seen, split, TILE as u64);
        for first in part.clone().step_by(TILE) {
            let range = first..part.end.min(first + TILE as u64);
            let places = Places::<TILE>::find(&call.inputs, segment, item, range.clone());
            let Scratch { keys, values, .. } = scratch;
            let tile = places.widened::<S, E>(simd, segment, item.kv_head, keys, values);
            // Lists leave entries out, and are seen whole by every row.
            let range = if segment.is_listed() { 0..tile.count as u64 } else { range };
            for panel in 0..panels {
                let rows = panel * width..(panel * width + width).min(item.rows);
                let seen = &scratch.visible[rows.clone()];
                let Some(bounds) = Bounds::new(seen, segment.is_listed(), &range) else { continue };
                let mut panel = Panel::<V, N> { call_dims: dims(call), scratch, rows: rows.start };
                panel.step(simd, problem.softcap, &tile, &bounds);
            }
        }
    }
}

/// Key and value dims.
fn dims<E>(call: &Call<E>) -> (usize, usize) {
    let problem = call.inputs.problem;
    (problem.key_dim() as usize, problem.value_dim() as usize)
}

/// Fills each row's visible keys and returns the span that covers all of them.
pub(super) fn visible<E: Element>(
    call: &Call<E>,
    item: &Item,
    segment: &SegmentInputs,
    rows: &mut Vec<Range<u64>>,
) -> Range<u64> {
    let (_, tokens) = call.inputs.queries(item.b);
    let (count, position) = (tokens.end - tokens.start, call.inputs.position(item.b));
    rows.clear();
    rows.extend((0..item.rows).map(|row| {
        let index = item.row(&call.inputs, row).index;
        segment.visible(item.b, index, count, position)
    }));
    let seen = rows.iter().filter(|r| !r.is_empty());
    let start = seen.clone().map(|r| r.start).min().unwrap_or(0);
    start..seen.map(|r| r.end).max().unwrap_or(0)
}

/// Factor on queries: the scale in base 2, or into the unit of the soft cap.
pub(super) fn query_factor(scale: f32, softcap: Option<f32>) -> f32 {
    match softcap {
        Some(cap) => scale / cap,
        None => scale * LOG2_E,
    }
}

/// Rows transposed at a time: a cache line of the destination.
const ROWS_AT_ONCE: usize = 16;

/// Transposes and scales the item's queries to `[panel][dim][row]`; rows past the last are 0.
#[inline(always)]
fn load_queries<E: Element>(call: &Call<E>, item: &Item, width: usize, to: &mut Buffer<f32>) {
    let problem = call.inputs.problem;
    let dim = problem.key_dim() as usize;
    let factor = query_factor(problem.scale, problem.softcap);
    let base = base::<E>(call.inputs.q);
    to.refill(item.rows.div_ceil(width) * width * dim, 0.0);
    let group = ROWS_AT_ONCE.min(width);
    for first in (0..item.rows).step_by(group) {
        let rows = group.min(item.rows - first);
        let mut from = [base; ROWS_AT_ONCE];
        for (row, from) in from[..rows].iter_mut().enumerate() {
            let at = item.row(&call.inputs, first + row);
            *from = base.wrapping_add(problem.q.row_offset(at.q_batch, at.head, at.token) as usize);
        }
        let panel = first / width * width * dim + first % width;
        for d in 0..dim {
            let to = &mut to[panel + d * width..][..rows];
            for (to, from) in to.iter_mut().zip(&from) {
                // SAFETY: the inputs were checked to hold `dim` elements of every row.
                *to = unsafe { from.add(d).read() }.to_f32() * factor;
            }
        }
    }
}

/// Rows of the widest panel.
const MOST_WIDTH: usize = 64;

/// Which keys of a tile each row of a panel sees.
struct Bounds {
    /// Whether some row does not see all of them.
    masked: bool,
    /// First key seen, counted from the tile's first.
    low: [f32; MOST_WIDTH],
    /// One past the last key seen.
    high: [f32; MOST_WIDTH],
}

impl Bounds {
    const ALL: Bounds = Bounds { masked: false, low: [0.0; MOST_WIDTH], high: [0.0; MOST_WIDTH] };

    /// The bounds of `rows` in the tile `range`; `None` if no row sees any of it. Every row sees the
    /// whole of a tile of listed keys.
    fn new(rows: &[Range<u64>], listed: bool, range: &Range<u64>) -> Option<Self> {
        if listed {
            return (!range.is_empty()).then_some(Self::ALL);
        }
        if rows.iter().all(|r| r.end <= range.start || r.start >= range.end || r.is_empty()) {
            return None;
        }
        let mut bounds = Self::ALL;
        bounds.masked = rows.iter().any(|r| r.start > range.start || r.end < range.end);
        let relative = |x: u64| (x.clamp(range.start, range.end) - range.start) as f32;
        for (row, seen) in rows.iter().enumerate().filter(|_| bounds.masked) {
            bounds.low[row] = relative(seen.start);
            bounds.high[row] = relative(seen.end);
        }
        Some(bounds)
    }
}

/// One panel at work on a tile.
struct Panel<'s, const V: usize, const N: usize> {
    call_dims: (usize, usize),
    scratch: &'s mut Scratch,
    /// First row of the panel within the item.
    rows: usize,
}

impl<const V: usize, const N: usize> Panel<'_, V, N> {
    #[inline(always)]
    fn step<S: Simd>(&mut self, simd: S, softcap: Option<f32>, tile: &Tile<f32>, bounds: &Bounds) {
        let (key_dim, value_dim) = self.call_dims;
        let queries = self.scratch.queries[self.rows * key_dim..].as_ptr();
        let scores = self.scratch.scores.as_mut_ptr();
        for first in (0..tile.count).step_by(N) {
            // SAFETY: key rows have `key_dim` elements and repeat the last up to `TILE`, which `N`
            // divides; queries and scores hold whole panels.
            unsafe {
                let to = scores.add(first * V * S::LANES);
                score_keys::<S, V, N>(simd, &tile.keys[first..first + N], key_dim, queries, to);
            }
        }
        if let Some(cap) = softcap {
            cap_scores(simd, &mut self.scratch.scores[..tile.count * V * S::LANES], cap);
        }
        let rescaled = self.softmax(simd, tile.count, bounds);
        let out =
            &mut self.scratch.partial.out[self.rows * value_dim..][..V * S::LANES * value_dim];
        if let Some(factors) = rescaled {
            rescale::<S, V>(simd, out, factors);
        }
        let probabilities = self.scratch.scores.as_ptr();
        // SAFETY: value rows have `value_dim` elements, `out` holds as many columns of the panel,
        // and the tile's probabilities were just written.
        unsafe { add_values::<S, V, N>(simd, tile, value_dim, probabilities, out.as_mut_ptr()) };
    }

    /// Turns the tile's scores into probabilities; returns each lane's factor for what came before,
    /// where any is not 1.
    #[inline(always)]
    fn softmax<S: Simd>(
        &mut self,
        simd: S,
        count: usize,
        bounds: &Bounds,
    ) -> Option<[S::Vector; V]> {
        let mut factors = [simd.splat(1.0); V];
        let mut rescaled = false;
        for v in 0..V {
            let row = self.rows + v * S::LANES;
            let column = self.scratch.scores[v * S::LANES..].as_mut_ptr();
            let (max, sum) = (&mut self.scratch.partial.max, &mut self.scratch.partial.sum);
            let (max, sum) = (max[row..].as_mut_ptr(), sum[row..].as_mut_ptr());
            // SAFETY: scores hold `count` rows of `V` vectors; the state holds whole panels; the
            // bounds hold the widest panel.
            unsafe {
                let before = simd.load(max);
                let found = match bounds.masked {
                    false => largest::<S, V>(simd, before, column, count),
                    true => {
                        let low = simd.load(bounds.low[v * S::LANES..].as_ptr());
                        let high = simd.load(bounds.high[v * S::LANES..].as_ptr());
                        mask_and_largest::<S, V>(simd, before, column, count, low, high)
                    }
                };
                let after = simd.raise(before, found, SLACK);
                let safe = simd.finite_or_zero(after);
                let added = exponentiate::<S, V>(simd, column, count, safe);
                if simd.any_above(after, before) {
                    factors[v] = simd.exp2(simd.sub(before, safe));
                    rescaled = true;
                }
                simd.store(sum, simd.mul_add(simd.load(sum), factors[v], added));
                simd.store(max, after);
            }
        }
        rescaled.then_some(factors)
    }
}

/// Scores of `N` keys: `to[n][row] = Σ_d keys[n][d] · queries[d][row]`.
///
/// # Safety
/// Each key must have `dim` readable elements, `queries` `dim` and `to` `N` rows of `V` vectors.
#[inline(always)]
unsafe fn score_keys<S: Simd, const V: usize, const N: usize>(
    simd: S,
    keys: &[*const f32],
    dim: usize,
    queries: *const f32,
    to: *mut f32,
) {
    let mut sums = [[simd.splat(0.0); V]; N];
    let mut rows = [std::ptr::null(); N];
    rows.copy_from_slice(&keys[..N]);
    for d in 0..dim {
        let mut query = [simd.splat(0.0); V];
        for v in 0..V {
            // SAFETY: the caller promises `dim` rows of queries.
            query[v] = unsafe { simd.load(queries.add((d * V + v) * S::LANES)) };
        }
        for n in 0..N {
            // SAFETY: the caller promises `dim` elements of each key.
            let key = simd.splat(unsafe { *rows[n].add(d) });
            for v in 0..V {
                sums[n][v] = simd.mul_add(key, query[v], sums[n][v]);
            }
        }
    }
    for n in 0..N {
        for v in 0..V {
            // SAFETY: the caller promises `N` rows.
            unsafe { simd.store(to.add((n * V + v) * S::LANES), sums[n][v]) };
        }
    }
}

/// `out[column][row] += Σ_n values[n][column] · probabilities[n][row]` for every column.
///
/// # Safety
/// Each value row must have `columns` readable elements; `probabilities` must hold `tile.count` and
/// `out` `columns` rows of `V` vectors.
#[inline(always)]
unsafe fn add_values<S: Simd, const V: usize, const N: usize>(
    simd: S,
    tile: &Tile<f32>,
    columns: usize,
    probabilities: *const f32,
    out: *mut f32,
) {
    let values = &tile.values[..tile.count];
    let mut column = 0;
    // SAFETY: every block of columns lies within `columns`; the rest is the caller's promise.
    unsafe {
        while column + N <= columns {
            add_columns::<S, V, N>(simd, values, column, probabilities, out);
            column += N;
        }
        while column + 4 <= columns {
            add_columns::<S, V, 4>(simd, values, column, probabilities, out);
            column += 4;
        }
        while column < columns {
            add_columns::<S, V, 1>(simd, values, column, probabilities, out);
            column += 1;
        }
    }
}

/// # Safety
/// As [`add_values`], with `column + N <= columns`.
#[inline(always)]
unsafe fn add_columns<S: Simd, const V: usize, const N: usize>(
    simd: S,
    values: &[*const f32],
    column: usize,
    probabilities: *const f32,
    out: *mut f32,
) {
    let mut sums = [[simd.splat(0.0); V]; N];
    for n in 0..values.len() {
        let mut weights = [simd.splat(0.0); V];
        for v in 0..V {
            // SAFETY: the caller promises `values.len()` rows of probabilities.
            weights[v] = unsafe { simd.load(probabilities.add((n * V + v) * S::LANES)) };
        }
        for c in 0..N {
            // SAFETY: the caller promises `column + N` elements of each value row.
            let value = simd.splat(unsafe { *values[n].add(column + c) });
            for v in 0..V {
                sums[c][v] = simd.mul_add(value, weights[v], sums[c][v]);
            }
        }
    }
    for c in 0..N {
        for v in 0..V {
            // SAFETY: the caller promises `column + N` columns of output.
            unsafe {
                let to = out.add(((column + c) * V + v) * S::LANES);
                simd.store(to, simd.add(simd.load(to), sums[c][v]));
            }
        }
    }
}

/// The largest of `before` and a column of scores.
///
/// # Safety
/// `column` must have `count` vectors, `V` vectors apart.
#[inline(always)]
unsafe fn largest<S: Simd, const V: usize>(
    simd: S,
    before: S::Vector,
    column: *const f32,
    count: usize,
) -> S::Vector {
    // Two chains hide the latency of the comparison.
    let (mut even, mut odd) = (before, before);
    for n in (0..count).step_by(2) {
        // SAFETY: the caller promises `count` vectors; the last is read twice where it has no pair.
        unsafe {
            even = simd.max(even, simd.load(column.add(n * V * S::LANES)));
            odd = simd.max(odd, simd.load(column.add((n + 1).min(count - 1) * V * S::LANES)));
        }
    }
    simd.max(even, odd)
}

/// As [`largest`], first hiding what lies outside `low..high`.
///
/// # Safety
/// As [`largest`].
#[inline(always)]
unsafe fn mask_and_largest<S: Simd, const V: usize>(
    simd: S,
    before: S::Vector,
    column: *mut f32,
    count: usize,
    low: S::Vector,
    high: S::Vector,
) -> S::Vector {
    let mut max = before;
    for n in 0..count {
        // SAFETY: the caller promises `count` vectors.
        unsafe {
            let at = column.add(n * V * S::LANES);
            let kept = simd.keep_between(simd.load(at), n as f32, low, high);
            simd.store(at, kept);
            max = simd.max(max, kept);
        }
    }
    max
}

/// Replaces scores by `2^(score - max)` and returns their sum.
///
/// # Safety
/// As [`largest`].
#[inline(always)]
unsafe fn exponentiate<S: Simd, const V: usize>(
    simd: S,
    column: *mut f32,
    count: usize,
    max: S::Vector,
) -> S::Vector {
    let mut sum = simd.splat(0.0);
    for n in 0..count {
        // SAFETY: the caller promises `count` vectors.
        unsafe {
            let at = column.add(n * V * S::LANES);
            let p = simd.exp2(simd.sub(simd.load(at), max));
            simd.store(at, p);
            sum = simd.add(sum, p);
        }
    }
    sum
}

/// Multiplies each column's rows with their factors.
#[inline(always)]
fn rescale<S: Simd, const V: usize>(simd: S, out: &mut [f32], factors: [S::Vector; V]) {
    for column in out.chunks_exact_mut(V * S::LANES) {
        for v in 0..V {
            // SAFETY: a chunk holds `V` vectors.
            unsafe {
                let at = column.as_mut_ptr().add(v * S::LANES);
                simd.store(at, simd.mul(simd.load(at), factors[v]));
            }
        }
    }
}

/// `cap · tanh(x)` in base 2 of scores that are already divided by the cap, a whole number of
/// vectors of them.
#[inline(always)]
pub(super) fn cap_scores<S: Simd>(simd: S, scores: &mut [f32], cap: f32) {
    // tanh is ±1 to f32 precision beyond this.
    let most = simd.splat(-10.0);
    let zero = simd.splat(0.0);
    let one = simd.splat(1.0);
    for chunk in scores.chunks_exact_mut(S::LANES) {
        // SAFETY: a chunk holds a vector.
        unsafe {
            let x = simd.max(most, simd.load(chunk.as_ptr()));
            let x = simd.sub(zero, simd.max(most, simd.sub(zero, x)));
            let e = simd.exp2(simd.mul(x, simd.splat(2.0 * LOG2_E)));
            let tanh = simd.div(simd.sub(e, one), simd.add(e, one));
            simd.store(chunk.as_mut_ptr(), simd.mul(tanh, simd.splat(cap * LOG2_E)));
        }
    }
}

//! A few rows share the keys, as in decoding: vectors along the head dim.
//!
//! Each key row is read (and widened) once and multiplied with all `R` rows, four keys at a time so
//! that the sums across lanes are taken four by four. Values likewise, `C` vectors of columns at a
//! time.

use super::lanes::{cap_scores, query_factor, visible};
use super::plan::Item;
use super::state::{Scratch, refill};
use super::tile::{Places, Tile, base};
use super::{Call, TILE};
use crate::simd::{Element, Simd};
use std::ops::Range;

/// Keys whose sums are taken together.
const KEYS: usize = 4;

/// Computes one split of an item into `scratch.partial`.
#[inline(always)]
pub(super) fn attend<S: Simd, E: Element>(
    simd: S,
    call: &Call<E>,
    item: &Item,
    split: usize,
    scratch: &mut Scratch,
) {
    match item.rows {
        1 => attend_rows::<S, E, 1, 4>(simd, call, item, split, scratch),
        2 => attend_rows::<S, E, 2, 4>(simd, call, item, split, scratch),
        3..=4 => attend_rows::<S, E, 4, 2>(simd, call, item, split, scratch),
        _ => attend_rows::<S, E, 8, 2>(simd, call, item, split, scratch),
    }
}

#[inline(always)]
fn attend_rows<S: Simd, E: Element, const R: usize, const C: usize>(
    simd: S,
    call: &Call<E>,
    item: &Item,
    split: usize,
    scratch: &mut Scratch,
) {
    let problem = call.inputs.problem;
    let key_dim = problem.key_dim() as usize;
    let value_dim = problem.value_dim() as usize;
    let columns = value_dim.next_multiple_of(S::LANES);
    scratch.partial.reset(R, 1, columns);
    load_queries::<S, E>(call, item, &mut scratch.queries);
    refill(&mut scratch.scores, R * TILE, 0.0);
    for segment in &call.inputs.segments {
        let seen = visible(call, item, segment, &mut scratch.visible);
        let part = item.part(seen, split, TILE as u64);
        for first in part.clone().step_by(TILE) {
            let range = first..part.end.min(first + TILE as u64);
            let places = Places::find(&call.inputs, segment, item, range.clone());
            if places.count == 0 {
                continue;
            }
            let tile = places.in_place::<E>(segment, item.kv_head);
            score_tile::<S, E, R>(simd, &tile, key_dim, scratch);
            if let Some(cap) = problem.softcap {
                cap_scores(simd, &mut scratch.scores, cap);
            }
            let range = (!segment.is_listed()).then_some(range);
            softmax::<S>(simd, item.rows, tile.count, range, scratch);
            add_tile::<S, E, R, C>(simd, &tile, value_dim, scratch);
        }
    }
}

/// Scales the item's queries to `[row][dim]`, padded with 0 to whole vectors and `R` rows.
#[inline(always)]
fn load_queries<S: Simd, E: Element>(call: &Call<E>, item: &Item, to: &mut Vec<f32>) {
    let problem = call.inputs.problem;
    let dim = problem.key_dim() as usize;
    let pitch = dim.next_multiple_of(S::LANES);
    let factor = query_factor(problem.scale, problem.softcap);
    refill(to, 8 * pitch, 0.0);
    for row in 0..item.rows {
        let at = item.row(&call.inputs, row);
        let offset = problem.q.row_offset(at.q_batch, at.head, at.token) as usize;
        let from = base::<E>(call.inputs.q).wrapping_add(offset);
        for (d, to) in to[row * pitch..][..dim].iter_mut().enumerate() {
            // SAFETY: the inputs were checked to hold `dim` elements of every row.
            *to = unsafe { from.add(d).read() }.to_f32() * factor;
        }
    }
}

/// `scores[row][key]` for the tile's keys, in whole groups of [`KEYS`].
#[inline(always)]
fn score_tile<S: Simd, E: Element, const R: usize>(
    simd: S,
    tile: &Tile<E>,
    dim: usize,
    scratch: &mut Scratch,
) {
    let pitch = dim.next_multiple_of(S::LANES);
    let whole = dim / S::LANES * S::LANES;
    let queries = scratch.queries.as_ptr();
    for first in (0..tile.count).step_by(KEYS) {
        let keys = &tile.keys[first..first + KEYS];
        let mut sums = [[simd.splat(0.0); KEYS]; R];
        let mut step = |at: usize, keys: [S::Vector; KEYS]| {
            for r in 0..R {
                // SAFETY: queries hold `R` padded rows.
                let query = unsafe { simd.load(queries.add(r * pitch + at)) };
                for n in 0..KEYS {
                    sums[r][n] = simd.mul_add(keys[n], query, sums[r][n]);
                }
            }
        };
        let mut loaded = [simd.splat(0.0); KEYS];
        for at in (0..whole).step_by(S::LANES) {
            for n in 0..KEYS {
                // SAFETY: key rows have `dim` elements and repeat the last up to `TILE`.
                loaded[n] = unsafe { E::load(simd, keys[n].add(at)) };
            }
            step(at, loaded);
        }
        if whole < dim {
            for n in 0..KEYS {
                // SAFETY: as above.
                loaded[n] = unsafe { E::load_part(simd, keys[n].add(whole), dim - whole) };
            }
            step(whole, loaded);
        }
        for r in 0..R {
            scratch.scores[r * TILE + first..][..KEYS].copy_from_slice(&simd.sum4(sums[r]));
        }
    }
}

/// Turns each row's scores into probabilities and rescales what came before.
#[inline(always)]
fn softmax<S: Simd>(
    simd: S,
    rows: usize,
    count: usize,
    range: Option<Range<u64>>,
    scratch: &mut Scratch,
) {
    let Scratch { partial, scores, visible, .. } = scratch;
    let used = count.next_multiple_of(S::LANES).min(TILE);
    for row in 0..rows {
        let scores = &mut scores[row * TILE..][..used];
        scores[count..].fill(f32::NEG_INFINITY);
        if let Some(range) = &range {
            hide(&mut scores[..count], range, &visible[row]);
        }
        let before = partial.max[row];
        let max = scores.iter().fold(before, |max, s| if *s > max { *s } else { max });
        let safe = if max == f32::NEG_INFINITY { 0.0 } else { max };
        let mut sum = simd.splat(0.0);
        for chunk in scores.chunks_exact_mut(S::LANES) {
            // SAFETY: a chunk holds a vector.
            unsafe {
                let p = simd.exp2(simd.sub(simd.load(chunk.as_ptr()), simd.splat(safe)));
                simd.store(chunk.as_mut_ptr(), p);
                sum = simd.add(sum, p);
            }
        }
        let factor = (before - safe).exp2();
        partial.sum[row] = partial.sum[row] * factor + simd.sum(sum);
        partial.max[row] = max;
        if factor != 1.0 {
            let columns = partial.columns;
            partial.out[row * columns..][..columns].iter_mut().for_each(|o| *o *= factor);
        }
    }
}

/// Hides the scores of keys of the tile `range` that lie outside `seen`.
fn hide(scores: &mut [f32], range: &Range<u64>, seen: &Range<u64>) {
    let relative = |x: u64| (x.clamp(range.start, range.end) - range.start) as usize;
    let (low, high) = (relative(seen.start), relative(seen.end));
    scores[..low].fill(f32::NEG_INFINITY);
    scores[high.max(low)..].fill(f32::NEG_INFINITY);
}

/// `out[row][column] += Σ_n probability[row][n] · value[n][column]`.
#[inline(always)]
fn add_tile<S: Simd, E: Element, const R: usize, const C: usize>(
    simd: S,
    tile: &Tile<E>,
    value_dim: usize,
    scratch: &mut Scratch,
) {
    let block = C * S::LANES;
    let mut column = 0;
    while column + block <= value_dim {
        add_columns::<S, E, R, C>(simd, tile, column, S::LANES, scratch);
        column += block;
    }
    while column < value_dim {
        let width = S::LANES.min(value_dim - column);
        add_columns::<S, E, R, 1>(simd, tile, column, width, scratch);
        column += S::LANES;
    }
}

/// As [`add_tile`] for `C` vectors of columns from `column` on, the last of `width` elements.
#[inline(always)]
fn add_columns<S: Simd, E: Element, const R: usize, const C: usize>(
    simd: S,
    tile: &Tile<E>,
    column: usize,
    width: usize,
    scratch: &mut Scratch,
) {
    let probabilities = &scratch.scores[..R * TILE];
    let mut sums = [[simd.splat(0.0); C]; R];
    for (n, value) in tile.values[..tile.count].iter().enumerate() {
        for c in 0..C {
            // SAFETY: value rows have `column + (C - 1) · LANES + width` elements.
            let value = unsafe {
                let at = value.add(column + c * S::LANES);
                match width == S::LANES {
                    true => E::load(simd, at),
                    false => E::load_part(simd, at, width),
                }
            };
            for r in 0..R {
                let weight = simd.splat(probabilities[r * TILE + n]);
                sums[r][c] = simd.mul_add(weight, value, sums[r][c]);
            }
        }
    }
    let columns = scratch.partial.columns;
    for r in 0..R {
        for c in 0..C {
            let to = &mut scratch.partial.out[r * columns + column + c * S::LANES..][..S::LANES];
            // SAFETY: output rows are padded to whole vectors.
            unsafe {
                let sum = simd.add(simd.load(to.as_ptr()), sums[r][c]);
                simd.store(to.as_mut_ptr(), sum);
            }
        }
    }
}

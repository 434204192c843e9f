//! A few rows share the keys, as in decoding: vectors along the head dim.
//!
//! Each key row is read (and widened) once and multiplied with all `R` rows, `K` keys at a time;
//! sums across lanes are taken four by four. Values likewise, `C` vectors of columns at a time.
//!
//! Elements are loaded two vectors at a time in the order of their type ([`Element::place`]). Queries
//! and output have that order too, until the output is put back at the end.

use super::Call;
use super::bias::TileBias;
use super::buffer::Buffer;
use super::lanes::{query_factor, visible};
use super::plan::Item;
use super::softcap::cap_scores;
use super::state::Scratch;
use super::tile::{Places, Tile, base};
use crate::simd::{Element, Simd};
use std::ops::Range;

/// Keys per tile.
const TILE: usize = 96;
/// Parts of a tile that are fetched side by side: memory answers several streams faster than one.
const STREAMS: usize = 4;
/// Sums across lanes that are taken together.
const SUMS: usize = 4;

/// Computes one split of an item into `scratch.partial`.
#[inline(always)]
pub(super) fn attend<S: Simd, E: Element>(
    simd: S,
    call: &Call<E>,
    item: &Item,
    split: usize,
    scratch: &mut Scratch,
) {
    // Registers hold R × K sums of keys, R × C sums of values.
    match (S::REGISTERS, item.rows) {
        (_, 1) => attend_rows::<S, E, 1, 4, 8>(simd, call, item, split, scratch),
        (32.., 2) => attend_rows::<S, E, 2, 4, 8>(simd, call, item, split, scratch),
        (32.., 3..=4) => attend_rows::<S, E, 4, 4, 4>(simd, call, item, split, scratch),
        (32.., _) => attend_rows::<S, E, 8, 2, 2>(simd, call, item, split, scratch),
        (_, 2) => attend_rows::<S, E, 2, 4, 4>(simd, call, item, split, scratch),
        _ => attend_rows::<S, E, 4, 2, 2>(simd, call, item, split, scratch),
    }
}

#[inline(always)]
fn attend_rows<S: Simd, E: Element, const R: usize, const K: usize, const C: usize>(
    simd: S,
    call: &Call<E>,
    item: &Item,
    split: usize,
    scratch: &mut Scratch,
) {
    let problem = call.inputs.problem;
    let key_dim = problem.key_dim() as usize;
    let value_dim = problem.value_dim() as usize;
    let columns = value_dim.next_multiple_of(2 * S::LANES);
    scratch.partial.reset(R, 1, columns);
    load_queries::<S, E>(call, item, &mut scratch.queries);
    scratch.scores.refill(R * TILE, 0.0);
    let mut tiles = [Tile::EMPTY, Tile::EMPTY];
    let [mut tile, mut next] = tiles.each_mut();
    for segment in &call.inputs.segments {
        let seen = visible(call, item, segment, &mut scratch.visible);
        let part = item.part(segment.keys(item.b), seen, split, TILE as u64);
        let find = |first: u64, tile: &mut Tile<E, TILE>| {
            let range = first.min(part.end)..part.end.min(first + TILE as u64);
            let places = Places::find(&call.inputs, segment, item, range);
            places.locate(segment, item.kv_head, tile);
        };
        find(part.start, tile);
        for first in part.clone().step_by(TILE) {
            if call.stop.is_set_after_a_tile() {
                return;
            }
            find(first + TILE as u64, next);
            if tile.count > 0 {
                score_tile::<S, E, R, K>(simd, tile, key_dim, scratch);
                if let Some(cap) = problem.softcap {
                    cap_scores(simd, &mut scratch.scores, cap);
                }
                if let Some(bias) = TileBias::new(&call.inputs, segment, item, first) {
                    bias.add_to_rows(TILE, tile.count, &mut scratch.scores);
                }
                let range = first..part.end.min(first + TILE as u64);
                let range = (!segment.is_listed()).then_some(range);
                softmax::<S>(simd, item.rows, tile.count, range, scratch);
                add_tile::<S, E, R, C>(simd, tile, &next.keys, value_dim, scratch);
            }
            std::mem::swap(&mut tile, &mut next);
        }
    }
    put_back::<S, E>(&mut scratch.partial.out);
}

/// Scales the item's queries to `[row][dim]`, in the elements' order, padded with 0 to whole pairs of
/// vectors and to the most rows.
#[inline(always)]
fn load_queries<S: Simd, E: Element>(call: &Call<E>, item: &Item, to: &mut Buffer<f32>) {
    let problem = call.inputs.problem;
    let dim = problem.key_dim() as usize;
    let pitch = dim.next_multiple_of(2 * S::LANES);
    let factor = query_factor(problem.scale as f32, problem.softcap);
    to.refill(8 * pitch, 0.0);
    for row in 0..item.rows {
        let at = item.row(&call.inputs, row);
        let offset = problem.q.row_offset(at.q_batch, at.head, at.token) as usize;
        let from = base::<E>(call.inputs.q).wrapping_add(offset);
        let to = &mut to[row * pitch..][..pitch];
        for d in 0..dim {
            let (two, at) = (d / (2 * S::LANES), d % (2 * S::LANES));
            // SAFETY: the inputs were checked to hold `dim` elements of every row.
            let element = unsafe { from.add(d).read() }.to_f32();
            to[two * 2 * S::LANES + E::place(S::LANES, at)] = element * factor;
        }
    }
}

/// Puts output columns back into the order of memory.
#[inline(always)]
fn put_back<S: Simd, E: Element>(out: &mut [f32]) {
    for two in out.chunks_exact_mut(2 * S::LANES) {
        let mut ordered = [0.0; 32];
        for (at, ordered) in ordered[..2 * S::LANES].iter_mut().enumerate() {
            *ordered = two[E::place(S::LANES, at)];
        }
        two.copy_from_slice(&ordered[..2 * S::LANES]);
    }
}

/// Brings the cache lines of the `2 * LANES` elements from `at` on near. Where a line has more
/// elements than that, each row has it fetched on a turn of its own: memory is asked steadily.
#[inline(always)]
fn bring_near<S: Simd, E: Element>(simd: S, row: *const E, at: usize, turn: usize) {
    let (line, step) = (64 / size_of::<E>(), 2 * S::LANES);
    let turns = line.div_ceil(step);
    if at / step % turns == turn % turns {
        for at in (at / line * line..at + step).step_by(line) {
            simd.prefetch(row.wrapping_add(at));
        }
    }
}

/// `scores[row][key]` of `R` rows, for the tile's keys in whole groups of `K`.
#[inline(always)]
fn score_tile<S: Simd, E: Element, const R: usize, const K: usize>(
    simd: S,
    tile: &Tile<E, TILE>,
    dim: usize,
    scratch: &mut Scratch,
) {
    let pitch = dim.next_multiple_of(2 * S::LANES);
    let whole = dim / (2 * S::LANES) * (2 * S::LANES);
    let queries = scratch.queries.as_ptr();
    for first in (0..tile.count).step_by(K) {
        let keys = &tile.keys[first..first + K];
        let mut sums = [[simd.splat(0.0); K]; R];
        let mut loaded = [[simd.splat(0.0); 2]; K];
        for at in (0..whole).step_by(2 * S::LANES) {
            for n in 0..K {
                // SAFETY: key rows have `dim` elements and repeat the last up to `TILE`.
                loaded[n] = unsafe { E::load_two(simd, keys[n].add(at)) };
                // Values are wanted as soon as the tile's scores are known; `K` parts side by side.
                bring_near(simd, tile.values[n * (TILE / K) + first / K], at, n);
            }
            // SAFETY: queries hold `R` padded rows.
            unsafe { add_products(simd, &mut sums, loaded, queries.add(at), pitch) };
        }
        if whole < dim {
            for n in 0..K {
                // SAFETY: as above.
                loaded[n] = unsafe { E::load_part(simd, keys[n].add(whole), dim - whole) };
            }
            // SAFETY: as above.
            unsafe { add_products(simd, &mut sums, loaded, queries.add(whole), pitch) };
        }
        for group in 0..R * K / SUMS {
            let mut four = [simd.splat(0.0); SUMS];
            for i in 0..SUMS {
                four[i] = sums[(group * SUMS + i) / K][(group * SUMS + i) % K];
            }
            for (i, sum) in simd.sum4(four).into_iter().enumerate() {
                let at = group * SUMS + i;
                scratch.scores[at / K * TILE + first + at % K] = sum;
            }
        }
    }
}

/// `sums[row][key] += keys[key] · queries[row]` for two vectors of the head dim.
///
/// # Safety
/// `queries` must be readable for two vectors in each of `R` rows, `pitch` elements apart.
#[inline(always)]
unsafe fn add_products<S: Simd, const R: usize, const K: usize>(
    simd: S,
    sums: &mut [[S::Vector; K]; R],
    keys: [[S::Vector; 2]; K],
    queries: *const f32,
    pitch: usize,
) {
    for half in 0..2 {
        for r in 0..R {
            // SAFETY: the caller promises two vectors in each of `R` rows.
            let query = unsafe { simd.load(queries.add(r * pitch + half * S::LANES)) };
            for n in 0..K {
                sums[r][n] = simd.mul_add(keys[n][half], query, sums[r][n]);
            }
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
        let mut largest = simd.splat(before);
        for chunk in scores.chunks_exact(S::LANES) {
            // SAFETY: a chunk holds a vector. NaN scores are passed over here and show in the sum.
            largest = simd.max(unsafe { simd.load(chunk.as_ptr()) }, largest);
        }
        let max = simd.largest(largest);
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

/// `out[row][column] += Σ_n probability[row][n] · value[n][column]`; brings the keys of the next tile
/// near on the way.
#[inline(always)]
fn add_tile<S: Simd, E: Element, const R: usize, const C: usize>(
    simd: S,
    tile: &Tile<E, TILE>,
    next: &[*const E; TILE],
    value_dim: usize,
    scratch: &mut Scratch,
) {
    let block = C * S::LANES;
    let mut column = 0;
    while column + block <= value_dim {
        add_columns::<S, E, R, C>(simd, tile, next, column, block, scratch);
        column += block;
    }
    while column < value_dim {
        let width = (2 * S::LANES).min(value_dim - column);
        add_columns::<S, E, R, 2>(simd, tile, next, column, width, scratch);
        column += 2 * S::LANES;
    }
}

/// As [`add_tile`] for `C` vectors of columns from `column` on: `width` elements.
#[inline(always)]
fn add_columns<S: Simd, E: Element, const R: usize, const C: usize>(
    simd: S,
    tile: &Tile<E, TILE>,
    next: &[*const E; TILE],
    column: usize,
    width: usize,
    scratch: &mut Scratch,
) {
    let probabilities = scratch.scores.as_ptr();
    let mut sums = [[simd.splat(0.0); C]; R];
    for (n, row) in tile.values[..tile.count].iter().enumerate() {
        let mut values = [simd.splat(0.0); C];
        for c in (0..C).step_by(2) {
            let at = column + c * S::LANES;
            let (stream, turn) = (n % STREAMS, n / STREAMS);
            bring_near(simd, next[stream * (TILE / STREAMS) + turn], at, turn);
            // SAFETY: value rows have `column + width` elements.
            [values[c], values[c + 1]] = unsafe {
                match width == C * S::LANES {
                    true => E::load_two(simd, row.add(at)),
                    false => E::load_part(simd, row.add(at), width),
                }
            };
        }
        for r in 0..R {
            // SAFETY: scores hold `R` rows of `TILE`.
            let weight = simd.splat(unsafe { *probabilities.add(r * TILE + n) });
            for c in 0..C {
                sums[r][c] = simd.mul_add(weight, values[c], sums[r][c]);
            }
        }
    }
    let columns = scratch.partial.columns;
    for r in 0..R {
        for c in 0..C {
            let to = &mut scratch.partial.out[r * columns + column + c * S::LANES..][..S::LANES];
            // SAFETY: output rows are padded to whole pairs of vectors.
            unsafe {
                let sum = simd.add(simd.load(to.as_ptr()), sums[r][c]);
                simd.store(to.as_mut_ptr(), sum);
            }
        }
    }
}

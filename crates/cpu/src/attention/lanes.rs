//! Many rows share the keys: rows across vector lanes.
//!
//! A panel is `V` vectors of rows. Its queries are transposed once to `[dim][row]`; then for each
//! tile of keys
//! - scores `[key][row]` = key number (broadcast) × query column, register-blocked over `N` keys;
//! - softmax down each lane, in place, giving probabilities `[key][row]`;
//! - output `[column][row]` += value number (broadcast) × probabilities, blocked over `N` columns.
//!
//! Several panels share a tile, so that widening bf16 rows is paid once for all of them. While the
//! first of them takes its scores, the tile's values and the next keys are brought into the second
//! cache: both products then wait for no memory.

use super::Call;
use super::bias::TileBias;
use super::buffer::Buffer;
use super::plan::Item;
use super::products::{add_values, score_keys};
use super::softcap::cap_scores;
use super::state::{MOST_WIDTH, SLACK, Scratch};
use super::tile::{Places, Tile, base};
use crate::inputs::SegmentInputs;
use crate::simd::{Element, Simd};
use problem::Storage;
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// The most keys per tile.
pub(super) const TILE: usize = 144;
/// Bytes of keys and values that stay in the second cache from item to item.
const NEAR_BYTES: usize = 1 << 20;

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

/// Keys per tile: few enough that the probabilities of the widest panel leave room in the first cache.
fn tile_keys<S: Simd>() -> usize {
    if S::REGISTERS < 32 { TILE } else { TILE / 2 }
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
    load_queries(simd, call, item, width, &mut scratch.queries);
    let keys_at_once = tile_keys::<S>();
    scratch.scores.reserve(keys_at_once * width);
    let mut bounds = Bounds::NONE;
    let row_bytes = (problem.key_dim() + problem.value_dim()) as usize * size_of::<E>();
    for segment in &call.inputs.segments {
        let seen = visible(call, item, segment, &mut scratch.visible);
        let part = item.part(segment.keys(item.b), seen, split, keys_at_once as u64);
        let tile_at = |first: u64| first.min(part.end)..part.end.min(first + keys_at_once as u64);
        let find = |first| Places::<TILE>::find(&call.inputs, segment, item, tile_at(first));
        let mut places = find(part.start);
        for first in part.clone().step_by(keys_at_once) {
            if call.stop.is_set_after_a_tile() {
                return;
            }
            let next = find(first + keys_at_once as u64);
            let Scratch { keys, values, .. } = scratch;
            let tile = places.widened::<S, E>(simd, segment, item, keys, values);
            let far = (part.end - part.start) as usize * row_bytes > NEAR_BYTES;
            let ahead = far.then(|| Ahead::<E>::new(&places, &next, segment, item.kv_head));
            let mut ahead = ahead.flatten();
            // Lists leave entries out, and are seen whole by every row.
            let listed = segment.is_listed();
            let range = if listed { 0..tile.count as u64 } else { tile_at(first) };
            let bias = TileBias::new(&call.inputs, segment, item, first);
            for panel in 0..panels {
                let rows = panel * width..(panel * width + width).min(item.rows);
                let seen = &scratch.visible[rows.clone()];
                bounds.find(seen, listed, &range);
                if bounds.count == 0 {
                    continue;
                }
                let mut panel = Panel::<V, N> { call_dims: dims(call), scratch, rows: rows.start };
                panel.step(simd, problem.softcap, &tile, ahead.take(), bias.as_ref(), &bounds);
            }
            places = next;
        }
    }
}

/// Rows of elements that will be wanted soon.
struct Ahead<E> {
    keys: [*const E; TILE],
    values: [*const E; TILE],
}

impl<E: Element> Ahead<E> {
    /// The keys of the next tile, and values: of this one if they are used where they lie, of the
    /// next if they are widened first. `None` for packed or e4m3 rows, which are unpacked at once.
    fn new(
        tile: &Places<TILE>,
        next: &Places<TILE>,
        segment: &SegmentInputs,
        kv_head: u64,
    ) -> Option<Self> {
        if segment.segment.storage != Storage::Elements || segment.segment.is_e4m3() {
            return None;
        }
        let next = next.in_place(segment, kv_head);
        let values = if E::IS_F32 { tile.in_place(segment, kv_head).values } else { next.values };
        Some(Self { keys: next.keys, values })
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
    // Rows of one token are neighbours and see the same.
    let group = call.inputs.problem.group();
    let mut at = item.first;
    while rows.len() < item.rows {
        let seen = segment.visible(item.b, at / group, count, position);
        let end = (at / group + 1) * group;
        rows.resize(item.rows.min((end - item.first) as usize), seen);
        at = end;
    }
    let seen = rows.iter().filter(|r| !r.is_empty());
    let start = seen.clone().map(|r| r.start).min().unwrap_or(0);
    start..seen.map(|r| r.end).max().unwrap_or(0)
}

/// Factor on queries: the scale, in base 2 unless scores are capped before they are exponents.
pub(super) fn query_factor(scale: f32, softcap: Option<f32>) -> f32 {
    match softcap {
        Some(_) => scale,
        None => scale * LOG2_E,
    }
}

/// Rows transposed at a time: a cache line of the destination.
const ROWS_AT_ONCE: usize = 16;

/// Transposes and scales the item's queries to `[panel][dim][row]`; rows past the last are 0.
#[inline(always)]
fn load_queries<S: Simd, E: Element>(
    simd: S,
    call: &Call<E>,
    item: &Item,
    width: usize,
    to: &mut Buffer<f32>,
) {
    let problem = call.inputs.problem;
    let dim = problem.key_dim() as usize;
    let factor = query_factor(problem.scale as f32, problem.softcap);
    let base = base::<E>(call.inputs.q);
    let rows = item.rows.next_multiple_of(width);
    match rows == item.rows {
        true => to.reserve(rows * dim),
        false => to.refill(rows * dim, 0.0),
    }
    let group = ROWS_AT_ONCE.min(width);
    let blocks = if width.is_multiple_of(ROWS_AT_ONCE) { dim / ROWS_AT_ONCE } else { 0 };
    for first in (0..item.rows).step_by(group) {
        let rows = group.min(item.rows - first);
        let mut from = [base; ROWS_AT_ONCE];
        for (row, from) in from[..rows].iter_mut().enumerate() {
            let at = item.row(&call.inputs, first + row);
            *from = base.wrapping_add(problem.q.row_offset(at.q_batch, at.head, at.token) as usize);
        }
        let panel = first / width * width * dim + first % width;
        for d in (0..blocks).map(|block| block * ROWS_AT_ONCE) {
            // SAFETY: the inputs were checked to hold `dim` elements of every row.
            let block = unsafe { transposed(simd, &from[..rows], d, factor) };
            for (n, column) in block.iter().enumerate() {
                to[panel + (d + n) * width..][..ROWS_AT_ONCE].copy_from_slice(column);
            }
        }
        for d in blocks * ROWS_AT_ONCE..dim {
            let to = &mut to[panel + d * width..][..rows];
            for (to, from) in to.iter_mut().zip(&from) {
                // SAFETY: as above.
                *to = unsafe { from.add(d).read() }.to_f32() * factor;
            }
        }
    }
}

/// The transpose of 16 elements from `d` on of up to 16 rows, times `factor`; 0 for absent rows.
///
/// # Safety
/// Each row must be readable for `d + 16` elements.
#[inline(always)]
unsafe fn transposed<S: Simd, E: Element>(
    simd: S,
    rows: &[*const E],
    d: usize,
    factor: f32,
) -> [[f32; ROWS_AT_ONCE]; ROWS_AT_ONCE] {
    let mut block = [[0.0; ROWS_AT_ONCE]; ROWS_AT_ONCE];
    for (row, from) in block.iter_mut().zip(rows) {
        for at in (0..ROWS_AT_ONCE).step_by(S::LANES) {
            // SAFETY: the caller promises 16 elements; vectors divide them.
            unsafe {
                let scaled = simd.mul(E::load(simd, from.add(d + at)), simd.splat(factor));
                simd.store(row[at..].as_mut_ptr(), scaled);
            }
        }
    }
    // SAFETY: the block has 16 rows of 16 elements.
    unsafe { simd.transpose(block.as_ptr().cast(), ROWS_AT_ONCE) }
}

/// Head dim whose queries, for the widest panel, fill less than the first cache while all keys of a
/// tile pass by.
const DIM_BLOCK: usize = 128;

/// Which keys of a tile each row of a panel sees.
struct Bounds {
    /// Keys up to the last that some row sees.
    count: usize,
    /// Whether some row does not see all of these.
    masked: bool,
    /// First key seen, counted from the tile's first.
    low: [f32; MOST_WIDTH],
    /// One past the last key seen.
    high: [f32; MOST_WIDTH],
}

impl Bounds {
    const NONE: Bounds =
        Bounds { count: 0, masked: false, low: [0.0; MOST_WIDTH], high: [0.0; MOST_WIDTH] };

    /// Finds the bounds of `rows` in the tile `range`. Every row sees the whole of a tile of listed
    /// keys.
    fn find(&mut self, rows: &[Range<u64>], listed: bool, range: &Range<u64>) {
        self.masked = !listed && rows.iter().any(|r| r.start > range.start || r.end < range.end);
        if !self.masked {
            self.count = (range.end - range.start) as usize;
            return;
        }
        self.count = 0;
        let relative = |x: u64| (x.clamp(range.start, range.end) - range.start) as usize;
        for (row, seen) in rows.iter().enumerate() {
            let (low, high) = (relative(seen.start), relative(seen.end));
            (self.low[row], self.high[row]) = (low as f32, high as f32);
            self.count = if low < high { self.count.max(high) } else { self.count };
        }
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
    fn step<S: Simd, E: Element>(
        &mut self,
        simd: S,
        softcap: Option<f32>,
        tile: &Tile<f32, TILE>,
        ahead: Option<Ahead<E>>,
        bias: Option<&TileBias>,
        bounds: &Bounds,
    ) {
        let (key_dim, value_dim) = self.call_dims;
        let queries = self.scratch.queries[self.rows * key_dim..].as_ptr();
        let scores = self.scratch.scores.as_mut_ptr();
        for start in (0..key_dim).step_by(DIM_BLOCK) {
            let dims = start..key_dim.min(start + DIM_BLOCK);
            for first in (0..bounds.count).step_by(N) {
                let group = first..first + N;
                let keys = &tile.keys[group.clone()];
                let ahead =
                    ahead.as_ref().map(|ahead| [&ahead.values[group.clone()], &ahead.keys[group]]);
                // SAFETY: key rows have `key_dim` elements and repeat the last up to `TILE`, which
                // `N` divides; queries and scores hold whole panels.
                unsafe {
                    let to = scores.add(first * V * S::LANES);
                    score_keys::<S, E, V, N>(simd, keys, ahead, dims.clone(), queries, to);
                }
            }
        }
        if let Some(cap) = softcap {
            cap_scores(simd, &mut self.scratch.scores[..bounds.count * V * S::LANES], cap);
        }
        if let Some(bias) = bias {
            bias.add_to_columns(self.rows, V * S::LANES, bounds.count, &mut self.scratch.scores);
        }
        let rescaled = self.softmax(simd, bounds.count, bounds);
        let out =
            &mut self.scratch.partial.out[self.rows * value_dim..][..V * S::LANES * value_dim];
        if let Some(factors) = rescaled {
            rescale::<S, V>(simd, out, factors);
        }
        let probabilities = self.scratch.scores.as_ptr();
        // SAFETY: value rows have `value_dim` elements, `out` holds as many columns of the panel,
        // and the tile's probabilities were just written.
        unsafe {
            let values = &tile.values[..bounds.count];
            add_values::<S, V, N>(simd, values, value_dim, probabilities, out.as_mut_ptr());
        }
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
    // Several chains hide the latency of the comparison.
    const CHAINS: usize = 4;
    let mut found = [before; CHAINS];
    for n in 0..count / CHAINS {
        for (chain, found) in found.iter_mut().enumerate() {
            // SAFETY: the caller promises `count` vectors.
            let score = unsafe { simd.load(column.add((n * CHAINS + chain) * V * S::LANES)) };
            *found = simd.max(*found, score);
        }
    }
    for n in count / CHAINS * CHAINS..count {
        // SAFETY: as above.
        found[0] = simd.max(found[0], unsafe { simd.load(column.add(n * V * S::LANES)) });
    }
    let [a, b, c, d] = found;
    simd.max(simd.max(a, b), simd.max(c, d))
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

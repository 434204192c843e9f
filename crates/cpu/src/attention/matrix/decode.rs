//! Up to [`FEW_ROWS`](super::super::plan::FEW_ROWS) rows share the keys, bf16, on a machine with AMX:
//! decoding where many query heads share a KV head.
//!
//! Scores and probabilities are those of more rows (`[key][row]`, keys as they lie in memory). The
//! second product is turned around, because a few rows do not repay transposing values:
//! - probabilities are turned to `[row][key]`, in place, 16 rows by 32 keys at a time;
//! - values are interleaved, neighbouring keys pairwise, a block of columns of one tile at a time, which
//!   stays in the first cache;
//! - output `[row][column]` += probabilities × values.
//!
//! Keys and values come from memory, once: values are brought into the second cache while scores are
//! taken, the next keys while values are added.

use super::operands::{Dims, KeyRows, tail_mask};
use super::{BLOCK, Bounds, Panel, ROW_BYTES, TILE_BYTES, WIDTH};
use crate::attention::Call;
use crate::attention::lanes::visible;
use crate::attention::plan::Item;
use crate::attention::state::Scratch;
use crate::inputs::SegmentInputs;
use crate::simd::Element;
use crate::simd::amx::{Amx, DEPTH, Operand, ROWS, Result, Tiles};
use crate::simd::avx512::transpose;
use half::bf16;
use problem::Problem;
use std::arch::x86_64::*;
use std::ops::Range;

/// Keys per tile.
const KEYS: usize = 160;
/// Columns of values that are interleaved before they are used.
const COLUMNS: usize = 2 * BLOCK;
/// Parts of a tile that are fetched side by side: memory answers several streams faster than one.
const STREAMS: usize = 4;
/// Numbers of a tile register of f32.
const TILE: usize = ROWS * ROWS;

/// Computes one split of an item into `scratch.partial`.
///
/// A tile's scores are taken right after the products of the tile before: tile registers that have
/// rested for a fraction of a microsecond take as long to come back.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,avx2,f16c")]
pub(super) fn attend<E: Element>(
    amx: Amx,
    call: &Call<E>,
    item: &Item,
    split: usize,
    scratch: &mut Scratch,
) {
    let dims = Dims::new(call.inputs.problem);
    let rows = item.rows.next_multiple_of(ROWS);
    scratch.partial.reset_rows(rows, dims.value_padded);
    scratch.scores.reserve(rows.next_multiple_of(WIDTH) * KEYS);
    scratch.operands.sums.reserve(rows * dims.value_padded);
    scratch.operands.values.reserve(KEYS * COLUMNS);
    scratch.operands.load_queries(call, item, dims);
    let tiles = Tiles::configure(amx);
    let mut step = Step::new(amx, &tiles, call.inputs.problem, item.rows, scratch);
    let mut found = [KeyRows::NONE, KeyRows::NONE];
    let [mut rows, mut next] = found.each_mut();
    for segment in &call.inputs.segments {
        let seen = visible(call, item, segment, &mut step.scratch.visible);
        let part = item.part(segment.keys(item.b), seen, split, KEYS as u64);
        let mut firsts = part.clone().step_by(KEYS);
        // Finds the next tile that has rows, and which keys it is of.
        let mut find = |rows: &mut KeyRows<KEYS>| loop {
            let Some(first) = firsts.next() else {
                rows.clear();
                return 0..0;
            };
            let range = first..part.end.min(first + KEYS as u64);
            rows.find(call, segment, item, range.clone());
            if rows.count() > 0 {
                // Lists leave entries out, and are seen whole by every row.
                return if segment.is_listed() { 0..rows.count() as u64 } else { range };
            }
        };
        let range = find(rows);
        step.score(segment, rows, range);
        while rows.count() > 0 {
            // It is asked between items: a few rows' keys take no second, and the registers are in use.
            if call.stop.is_set() {
                return;
            }
            let range = find(next);
            step.softmax();
            step.add_values(rows.values(), next.keys());
            step.score(segment, next, range);
            std::mem::swap(&mut rows, &mut next);
        }
    }
    let begun = step.begun;
    drop(tiles);
    let panels = scratch.operands.sums.chunks_mut(WIDTH * dims.value_padded).zip(begun);
    panels.filter(|(_, begun)| !begun).for_each(|(sums, _)| sums.fill(0.0));
    put_back(dims, item.rows, scratch);
}

/// Rows that will be used soon, on their way to the second cache.
struct Ahead<'r> {
    rows: &'r [*const bf16],
    dim: usize,
    /// Rows of every part that are under way, and elements of the next.
    row: usize,
    at: usize,
}

impl<'r> Ahead<'r> {
    /// Elements of a cache line.
    const LINE: usize = ROW_BYTES / size_of::<bf16>();

    fn new(rows: &'r [*const bf16], dim: usize) -> Self {
        Self { rows, dim, row: 0, at: 0 }
    }

    /// Brings `lines` lines of every part near.
    #[inline(always)]
    fn bring(&mut self, lines: usize) {
        const PART: usize = KEYS / STREAMS;
        for _ in 0..lines {
            if self.row == PART {
                return;
            }
            for part in 0..STREAMS {
                if let Some(row) = self.rows.get(part * PART + self.row) {
                    // SAFETY: any address may be prefetched.
                    unsafe { _mm_prefetch::<_MM_HINT_T1>(row.wrapping_add(self.at).cast()) };
                }
            }
            self.at += Self::LINE;
            if self.at >= self.dim {
                (self.at, self.row) = (0, self.row + 1);
            }
        }
    }
}

/// One tile of keys at work.
struct Step<'s> {
    amx: Amx,
    tiles: &'s Tiles,
    problem: &'s Problem,
    dims: Dims,
    /// Rows of the item.
    rows: usize,
    scratch: &'s mut Scratch,
    /// The keys that each panel computes.
    bounds: [Bounds; 2],
    /// Panels whose sums have been written.
    begun: [bool; 2],
}

impl<'s> Step<'s> {
    fn new(
        amx: Amx,
        tiles: &'s Tiles,
        problem: &'s Problem,
        rows: usize,
        scratch: &'s mut Scratch,
    ) -> Self {
        let (dims, bounds) = (Dims::new(problem), [Bounds::NONE; 2]);
        Self { amx, tiles, problem, dims, rows, scratch, bounds, begun: [false; 2] }
    }

    /// Takes the scores of the keys `range`, and brings their values near.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    fn score(&mut self, segment: &SegmentInputs, rows: &mut KeyRows<KEYS>, range: Range<u64>) {
        if rows.count() == 0 {
            return;
        }
        let keys = rows.load_keys(segment, self.dims, &mut self.scratch.operands);
        let mut values = Ahead::new(rows.values(), self.dims.value);
        for panel in 0..self.rows.div_ceil(WIDTH) {
            let first_row = panel * WIDTH;
            let seen = &self.scratch.visible[first_row..self.rows.min(first_row + WIDTH)];
            let bounds = Bounds::new(seen, segment.is_listed(), &range);
            let (count, computed) = (bounds.rows, bounds.keys.clone());
            self.bounds[panel] = bounds;
            let mut panel = self.panel(panel);
            // One step of scores uses as many lines of keys as this brings of values.
            let bring = || values.bring(BLOCK / STREAMS);
            match count > ROWS {
                true => panel.score::<2>(keys, computed, bring),
                false => panel.score::<1>(keys, computed, bring),
            }
        }
    }

    /// Turns scores into probabilities.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    fn softmax(&mut self) {
        for n in 0..self.rows.div_ceil(WIDTH) {
            if self.bounds[n].keys.is_empty() {
                continue;
            }
            let bounds = std::mem::replace(&mut self.bounds[n], Bounds::NONE);
            let problem = self.problem;
            let mut panel = self.panel(n);
            let factors = panel.softmax(problem, &bounds);
            panel.turn(&bounds);
            if let Some(factors) = factors.filter(|_| self.begun[n]) {
                let sums = &mut self.scratch.operands.sums[n * WIDTH * self.dims.value_padded..];
                rescale(self.dims, factors, sums);
            }
            self.bounds[n] = bounds;
        }
    }

    /// Adds the values' products with the probabilities, and brings the next keys near.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    fn add_values(&mut self, values: &[*const bf16], next: &[*const bf16]) {
        let mut next = Ahead::new(next, self.dims.key);
        let columns = self.dims.value_padded;
        for first in (0..columns).step_by(COLUMNS) {
            let blocks = (first..columns.min(first + COLUMNS)).step_by(BLOCK);
            let to = self.scratch.operands.values.chunks_exact_mut(BLOCK * KEYS);
            for (column, to) in blocks.clone().zip(to) {
                let mask = tail_mask(self.dims.value, column);
                // SAFETY: value rows have `value_dim` elements, and the mask leaves out what lies
                // beyond.
                unsafe { interleave(values, column, mask, to, || next.bring(1)) };
            }
            for n in 0..self.rows.div_ceil(WIDTH) {
                let (keys, add) = (self.bounds[n].keys.clone(), self.begun[n]);
                if keys.is_empty() {
                    continue;
                }
                let few = self.rows - n * WIDTH <= ROWS;
                let mut panel = self.panel(n);
                for column in blocks.clone() {
                    match few {
                        false => panel.add_rows::<2>(column, &keys, add),
                        true => panel.add_rows::<1>(column, &keys, add),
                    }
                }
            }
        }
        for (begun, bounds) in self.begun.iter_mut().zip(&self.bounds) {
            *begun |= !bounds.keys.is_empty();
        }
    }

    fn panel(&mut self, panel: usize) -> Panel<'_> {
        let first_row = panel * WIDTH;
        let scores = first_row * KEYS..(first_row + WIDTH) * KEYS;
        let (tiles, simd, dims) = (self.tiles, self.amx.avx512, self.dims);
        Panel { tiles, simd, dims, first_row, scores, scratch: self.scratch }
    }
}

impl Panel<'_> {
    /// Turns probabilities from `[pair of keys][row]` to `[row][pair of keys]`.
    #[target_feature(enable = "avx512f")]
    fn turn(&mut self, bounds: &Bounds) {
        let scores = &mut self.scratch.scores[self.scores.clone()];
        for key in bounds.keys.clone().step_by(BLOCK) {
            for half in 0..bounds.rows.div_ceil(ROWS) {
                let tile = &mut scores[key * WIDTH + half * BLOCK * ROWS..][..TILE];
                let mut rows = [_mm512_setzero_si512(); ROWS];
                // SAFETY: a tile has 16 vectors, and this function the feature enabled.
                unsafe {
                    for (row, from) in rows.iter_mut().zip(tile.chunks_exact(ROWS)) {
                        *row = _mm512_loadu_si512(from.as_ptr().cast());
                    }
                    for (row, to) in transpose(rows).iter().zip(tile.chunks_exact_mut(ROWS)) {
                        _mm512_storeu_si512(to.as_mut_ptr().cast(), *row);
                    }
                }
            }
        }
    }

    /// `out[row][column] (+)= Σ_key probabilities[row][key] · values[key][column]` for `M` times 16 rows
    /// and the block of columns from `column` on; adds to what is there if `accumulate`.
    fn add_rows<const M: usize>(&mut self, column: usize, keys: &Range<usize>, accumulate: bool) {
        let a = self.probabilities(keys);
        let operands = &mut self.scratch.operands;
        let block = column % COLUMNS * KEYS;
        let values = operands.values[block + keys.start * BLOCK..].as_ptr().cast();
        let b = Operand::pair(values, ROW_BYTES, TILE_BYTES, 2 * TILE_BYTES);
        let columns = self.dims.value_padded;
        let sums = operands.sums[self.first_row * columns..].as_mut_ptr();
        let tile = |m: usize, n: usize| {
            sums.wrapping_add(m * ROWS * columns + (column + n * ROWS) * ROWS).cast::<u8>()
        };
        let tiles = [[tile(0, 0), tile(0, 1)], [tile(1, 0), tile(1, 1)]];
        let c = Result { tiles, stride: ROW_BYTES, accumulate };
        // SAFETY: probabilities and values hold the tile's keys in whole blocks; sums hold `M` times 16
        // rows of padded columns.
        unsafe { self.tiles.multiply::<M, 2>(a, b, keys.len() / DEPTH, c, || ()) };
    }
}

/// Multiplies each row of a panel's sums with its factor.
#[target_feature(enable = "avx512f")]
fn rescale(dims: Dims, factors: [__m512; 2], sums: &mut [f32]) {
    for (half, sums) in sums.chunks_exact_mut(ROWS * dims.value_padded).take(2).enumerate() {
        let mut factor = [0.0; ROWS];
        // SAFETY: the array holds a vector.
        unsafe { _mm512_storeu_ps(factor.as_mut_ptr(), factors[half]) };
        for (n, row) in sums.chunks_exact_mut(ROWS).enumerate() {
            row.iter_mut().for_each(|sum| *sum *= factor[n % ROWS]);
        }
    }
}

/// Writes a block of columns of value rows as `[block of keys][4 of 8 columns][pair of keys][column]`,
/// zeros up to whole blocks: the first tile takes the first four of every eight columns, the second
/// the others, so that nothing crosses lanes. Calls `between` every [`STREAMS`] rows.
///
/// # Safety
/// Each row must have the elements of `mask` from `column` on.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn interleave(
    rows: &[*const bf16],
    column: usize,
    mask: u32,
    to: &mut [bf16],
    mut between: impl FnMut(),
) {
    for (rows, to) in rows.chunks(BLOCK).zip(to.chunks_exact_mut(BLOCK * BLOCK)) {
        let (first, second) = to.split_at_mut(BLOCK * BLOCK / 2);
        let pairs = first.chunks_exact_mut(BLOCK).zip(second.chunks_exact_mut(BLOCK));
        for (pair, (first, second)) in pairs.enumerate() {
            if (2 * pair).is_multiple_of(STREAMS) {
                between();
            }
            let load = |n: usize| match rows.get(n) {
                // SAFETY: the caller's promise.
                Some(row) => unsafe { _mm512_maskz_loadu_epi16(mask, row.add(column).cast()) },
                None => _mm512_setzero_si512(),
            };
            let (a, b) = (load(2 * pair), load(2 * pair + 1));
            // SAFETY: the chunks hold a vector each.
            unsafe {
                _mm512_storeu_si512(first.as_mut_ptr().cast(), _mm512_unpacklo_epi16(a, b));
                _mm512_storeu_si512(second.as_mut_ptr().cast(), _mm512_unpackhi_epi16(a, b));
            }
        }
    }
}

/// Copies `rows` rows of sums to the output, columns in the order of memory.
#[target_feature(enable = "avx512f")]
fn put_back(dims: Dims, rows: usize, scratch: &mut Scratch) {
    // Four of each, alternately.
    let index = |first: i32| {
        _mm512_setr_epi32(
            first,
            first + 1,
            first + 2,
            first + 3,
            first + 16,
            first + 17,
            first + 18,
            first + 19,
            first + 4,
            first + 5,
            first + 6,
            first + 7,
            first + 20,
            first + 21,
            first + 22,
            first + 23,
        )
    };
    let (low, high) = (index(0), index(8));
    let columns = dims.value_padded;
    let sums = &scratch.operands.sums;
    for (row, out) in scratch.partial.out.chunks_exact_mut(columns).take(rows).enumerate() {
        let tiles = &sums[row / ROWS * ROWS * columns..][..ROWS * columns];
        for (tiles, out) in tiles.chunks_exact(2 * TILE).zip(out.chunks_exact_mut(2 * ROWS)) {
            let at = row % ROWS * ROWS;
            // SAFETY: tiles hold 16 rows of a vector, and `out` two vectors.
            unsafe {
                let first = _mm512_loadu_ps(tiles[at..].as_ptr());
                let second = _mm512_loadu_ps(tiles[TILE + at..].as_ptr());
                let both = [low, high].map(|index| _mm512_permutex2var_ps(first, index, second));
                _mm512_storeu_ps(out.as_mut_ptr(), both[0]);
                _mm512_storeu_ps(out.as_mut_ptr().add(ROWS), both[1]);
            }
        }
    }
}

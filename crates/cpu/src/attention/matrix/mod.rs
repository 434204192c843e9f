//! Many rows share the keys, bf16, on a machine with AMX: both products in tile registers.
//!
//! As in [`lanes`](super::lanes), rows run across, keys and output columns down:
//! - scores `[key][row]` = keys (as they lie in memory) × queries (interleaved once per item);
//! - softmax down each lane; probabilities are rounded to bf16 and interleaved pairwise, in place;
//! - output `[column][row]` += values (transposed once per tile) × probabilities.
//!
//! A panel is [`WIDTH`] rows, a tile of keys [`KEYS`]; all panels of an item share a tile's transposed
//! values. Both products go two by two tile registers: [`BLOCK`] keys or columns by a panel's rows. All
//! operands but the keys lie tile after tile, so that a panel's scores and queries stay in the first
//! cache while keys and values stream by from the second.

mod decode;
mod operands;
mod softmax;

use super::Call;
use super::lanes::visible;
use super::plan::{Item, Path};
use super::state::Scratch;
use crate::simd::Element;
use crate::simd::amx::{Amx, DEPTH, Operand, ROWS, Result, Tiles};
use crate::simd::avx512::Avx512;
use half::bf16;
pub(crate) use operands::Operands;
use operands::{Dims, KeyRows};
use problem::Problem;
use std::ops::Range;

/// Keys per tile.
pub(crate) const KEYS: usize = 256;
/// Rows of a panel: two tile registers across.
const WIDTH: usize = 2 * ROWS;
/// Keys or columns of a block: two tile registers of f32 down, or one of bf16 along.
const BLOCK: usize = DEPTH;
/// Bytes of a tile register, and of one of its rows.
const TILE_BYTES: usize = ROWS * ROW_BYTES;
const ROW_BYTES: usize = 64;

/// Computes one split of an item into `scratch.partial`.
pub(super) fn attend<E: Element>(
    amx: Amx,
    call: &Call<E>,
    item: &Item,
    split: usize,
    scratch: &mut Scratch,
) {
    // SAFETY: the token proves that the features are there.
    unsafe {
        match item.path {
            Path::Decode => decode::attend(amx, call, item, split, scratch),
            _ => attend_many(amx, call, item, split, scratch),
        }
    }
}

/// As [`attend`], of many rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,avx2,f16c")]
fn attend_many<E: Element>(
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
    scratch.scores.reserve(KEYS * WIDTH);
    scratch.operands.load_queries(call, item, dims);
    let mut tiles = Tiles::configure(amx);
    let mut rows = KeyRows::<KEYS>::NONE;
    for segment in &call.inputs.segments {
        let seen = visible(call, item, segment, &mut scratch.visible);
        let part = item.part(segment.keys(item.b), seen, split, KEYS as u64);
        for first in part.clone().step_by(KEYS) {
            if call.stop.is_due() {
                // Who is asked may use tile registers too.
                drop(tiles);
                call.stop.ask();
                tiles = Tiles::configure(amx);
            }
            if call.stop.is_set() {
                return;
            }
            let range = first..part.end.min(first + KEYS as u64);
            rows.find(call, segment, item, range.clone());
            if rows.count() == 0 {
                continue;
            }
            let keys = rows.load_keys(segment, dims, &mut scratch.operands);
            scratch.operands.load_values(&rows, dims);
            // Lists leave entries out, and are seen whole by every row.
            let listed = segment.is_listed();
            let range = if listed { 0..rows.count() as u64 } else { range };
            for first_row in (0..panels).map(|panel| panel * WIDTH) {
                let seen = &scratch.visible[first_row..item.rows.min(first_row + WIDTH)];
                let bounds = Bounds::new(seen, listed, &range);
                if !bounds.keys.is_empty() {
                    let simd = amx.avx512;
                    let scores = 0..KEYS * WIDTH;
                    let mut panel = Panel { tiles: &tiles, simd, dims, first_row, scores, scratch };
                    panel.step(problem, keys, &bounds);
                }
            }
        }
    }
}

/// Which keys of a tile a panel computes, and which of them each row sees.
struct Bounds {
    /// Rows in use.
    rows: usize,
    /// Keys that some row sees, widened to whole blocks.
    keys: Range<usize>,
    /// Keys that every row sees.
    common: Range<usize>,
    low: [f32; WIDTH],
    high: [f32; WIDTH],
}

impl Bounds {
    /// No keys.
    const NONE: Self =
        Self { rows: 0, keys: 0..0, common: 0..0, low: [0.0; WIDTH], high: [0.0; WIDTH] };

    fn new(rows: &[Range<u64>], listed: bool, range: &Range<u64>) -> Self {
        let count = (range.end - range.start) as usize;
        if listed || rows.iter().all(|seen| seen.start <= range.start && range.end <= seen.end) {
            let (low, high) = ([0.0; WIDTH], [count as f32; WIDTH]);
            let keys = 0..count.next_multiple_of(BLOCK);
            return Self { rows: rows.len(), keys, common: 0..count, low, high };
        }
        let (mut low, mut high) = ([0.0; WIDTH], [0.0; WIDTH]);
        let (mut span, mut common) = (count..0, 0..count);
        for (row, seen) in rows.iter().enumerate() {
            let relative = |x: u64| (x.clamp(range.start, range.end) - range.start) as usize;
            let seen = relative(seen.start)..relative(seen.end);
            common = common.start.max(seen.start)..common.end.min(seen.end);
            if !seen.is_empty() {
                span = span.start.min(seen.start)..span.end.max(seen.end);
                (low[row], high[row]) = (seen.start as f32, seen.end as f32);
            }
        }
        let keys = span.start / BLOCK * BLOCK..span.end.next_multiple_of(BLOCK);
        let keys = if span.is_empty() { 0..0 } else { keys };
        Self { rows: rows.len(), keys, common, low, high }
    }
}

/// Key rows that lie evenly: the first, and the bytes between them.
type EvenRows = (*const bf16, usize);

/// One panel at work on a tile.
struct Panel<'p> {
    tiles: &'p Tiles,
    simd: Avx512,
    dims: Dims,
    first_row: usize,
    /// Where its scores lie.
    scores: Range<usize>,
    scratch: &'p mut Scratch,
}

impl Panel<'_> {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    fn step(&mut self, problem: &Problem, keys: EvenRows, bounds: &Bounds) {
        self.score::<2>(keys, bounds.keys.clone(), || ());
        if let Some(factors) = self.softmax(problem, bounds) {
            self.rescale(factors);
        }
        self.add_values(bounds.keys.clone());
    }

    /// Scores of `keys`, whole blocks, for `N` times 16 rows: `[block][16 rows][key of the block][row]`.
    #[inline(always)]
    fn score<const N: usize>(
        &mut self,
        (first, key_stride): EvenRows,
        keys: Range<usize>,
        mut between: impl FnMut(),
    ) {
        let depth = self.dims.key_padded;
        let queries = self.scratch.operands.queries[self.first_row * depth..].as_ptr().cast();
        let b = Operand::pair(queries, ROW_BYTES, TILE_BYTES, 2 * TILE_BYTES);
        let all = &mut self.scratch.scores[self.scores.clone()];
        // SAFETY: keys lie evenly, in whole blocks; queries and scores hold whole panels.
        let held = (N == 2 && depth == 2 * DEPTH).then(|| unsafe { self.tiles.hold(b) });
        for key in keys.step_by(BLOCK) {
            let row = first.cast::<u8>().wrapping_add(key * key_stride);
            let a = Operand::pair(row, key_stride, ROWS * key_stride, ROW_BYTES);
            let scores = all[key * WIDTH..].as_mut_ptr().cast::<u8>();
            let tile = |n: usize, m: usize| scores.wrapping_add((2 * m + n) * TILE_BYTES);
            let tiles = [[tile(0, 0), tile(0, 1)], [tile(1, 0), tile(1, 1)]];
            let c = Result { tiles, stride: ROW_BYTES, accumulate: false };
            // SAFETY: as above.
            unsafe {
                match &held {
                    Some(held) => held.multiply(a, c, &mut between),
                    None => {
                        self.tiles.multiply::<2, N>(a, b, depth / DEPTH, c, &mut between);
                    }
                }
            }
        }
    }

    /// `out[column][row] += Σ_key values[column][key] · probabilities[key][row]`.
    fn add_values(&mut self, keys: Range<usize>) {
        let columns = self.dims.value_padded;
        let values = self.scratch.operands.values.as_ptr().cast::<u8>();
        let out = self.scratch.partial.out[self.first_row * columns..].as_mut_ptr();
        let b = self.probabilities(&keys);
        for column in (0..columns).step_by(BLOCK) {
            let first = values.wrapping_add((column * KEYS + keys.start * BLOCK) * 2);
            let a = Operand::pair(first, ROW_BYTES, TILE_BYTES, 2 * TILE_BYTES);
            let tile = |n: usize, m: usize| {
                out.wrapping_add((column + n * ROWS) * WIDTH + m * ROWS).cast::<u8>()
            };
            let tiles = [[tile(0, 0), tile(0, 1)], [tile(1, 0), tile(1, 1)]];
            let c = Result { tiles, stride: WIDTH * 4, accumulate: true };
            // SAFETY: values hold `KEYS` of each padded column, scores a panel of as many keys,
            // output whole panels.
            unsafe { self.tiles.multiply::<2, 2>(a, b, keys.len() / DEPTH, c, || ()) };
        }
    }

    /// The probabilities of `keys`: each half of a panel has them where the first half of its scores
    /// was.
    fn probabilities(&self, keys: &Range<usize>) -> Operand {
        let first = self.scratch.scores[self.scores.start + keys.start * WIDTH..].as_ptr().cast();
        Operand::pair(first, ROW_BYTES, 2 * TILE_BYTES, 4 * TILE_BYTES)
    }
}

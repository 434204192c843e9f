//! Many rows share the keys, bf16, on a machine with AMX: both products in tile registers.
//!
//! As in [`lanes`](super::lanes), rows run across, keys and output columns down:
//! - scores `[key][row]` = keys (as they lie in memory) × queries (interleaved once per item);
//! - softmax down each lane; probabilities are rounded to bf16 and interleaved pairwise;
//! - output `[column][row]` += values (transposed once per tile) × probabilities.
//!
//! A panel is 64 rows, a tile of keys [`KEYS`]; all panels of an item share a tile's transposed
//! values.

use super::Call;
use super::lanes::{cap_scores, visible};
use super::plan::Item;
use super::state::{SLACK, Scratch, refill};
use super::tile::{Places, Tile, base};
use crate::inputs::{RowAt, SegmentInputs};
use crate::model1;
use crate::simd::amx::{Amx, DEPTH, Operand, ROWS, Result, Tiles};
use crate::simd::avx512::{Avx512, transpose};
use crate::simd::{Element, Simd};
use half::bf16;
use problem::{HostRef, Storage};
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

/// bf16 operands in the layouts that tile registers take.
#[derive(Default)]
pub(crate) struct Operands {
    /// Queries, `[panel][16 rows][32 of dim]` tiles.
    queries: Vec<bf16>,
    /// Key rows copied together, where they do not lie evenly or fill no tile.
    keys: Vec<bf16>,
    /// Values, `[column][key]`.
    values: Vec<bf16>,
    /// Probabilities of a panel, `[pair of keys][row][2]`.
    probabilities: Vec<bf16>,
    /// One unpacked row.
    row: Vec<f32>,
}

/// Padded dims of an item.
#[derive(Clone, Copy)]
struct Dims {
    key: usize,
    value: usize,
    key_padded: usize,
    value_padded: usize,
}

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
    let dims = Dims {
        key: problem.key_dim() as usize,
        value: problem.value_dim() as usize,
        key_padded: (problem.key_dim() as usize).next_multiple_of(DEPTH),
        value_padded: (problem.value_dim() as usize).next_multiple_of(2 * ROWS),
    };
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
            if rows.places.count == 0 {
                continue;
            }
            rows.load(segment, dims, &mut scratch.operands);
            // Lists leave entries out, and are seen whole by every row.
            let listed = segment.is_listed();
            let range = if listed { 0..rows.places.count as u64 } else { range };
            for panel in 0..panels {
                let first_row = panel * WIDTH;
                let seen = &scratch.visible[first_row..item.rows.min(first_row + WIDTH)];
                let bounds = Bounds::new(seen, listed, &range);
                if !bounds.keys.is_empty() {
                    let mut panel =
                        Panel { tiles: &tiles, simd: amx.avx512, dims, first_row, scratch };
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

/// The key and value rows of a tile.
struct KeyRows {
    places: Places<KEYS>,
    tile: Tile<bf16, KEYS>,
    /// Key rows where they lie evenly in memory: the first, and the bytes between them.
    even: Option<(*const bf16, usize)>,
}

impl KeyRows {
    fn find<E: Element>(
        call: &Call<E>,
        segment: &SegmentInputs,
        item: &Item,
        range: Range<u64>,
    ) -> Self {
        let places = Places::<KEYS>::find(&call.inputs, segment, item, range);
        let tile = match segment.segment.storage {
            Storage::Elements => places.in_place::<bf16>(segment, item.kv_head),
            Storage::Model1 => Tile::empty(places.count),
        };
        Self { even: even(&tile.keys[..tile.count]), tile, places }
    }

    /// Brings keys and values into the layouts of tile registers.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    fn load(&mut self, segment: &SegmentInputs, dims: Dims, operands: &mut Operands) {
        let count = self.places.count;
        let whole = count.is_multiple_of(DEPTH) && dims.key == dims.key_padded;
        if let HostRef::U8(bytes) = segment.k {
            operands.unpack(segment, bytes, self.places.rows(), dims);
            let row = |n: usize| operands.keys[n * dims.key_padded..].as_ptr();
            (0..count).for_each(|n| self.tile.values[n] = row(n));
            self.even = None;
        } else if self.even.is_none() || !whole {
            operands.copy_keys(&self.tile.keys[..count], dims);
            self.even = None;
        }
        self.even.get_or_insert((operands.keys.as_ptr(), dims.key_padded * 2));
        operands.values.resize(dims.value_padded * KEYS, bf16::ZERO);
        // SAFETY: value rows have `value_dim` elements, and there is room for padded columns.
        unsafe { transpose_values(&self.tile.values[..count], dims, &mut operands.values) };
    }
}

/// The first row and the bytes between rows, where all are the same.
fn even(rows: &[*const bf16]) -> Option<(*const bf16, usize)> {
    let (first, second) = (*rows.first()?, *rows.get(1)?);
    let step = (second as usize).checked_sub(first as usize)?;
    let evenly = rows.windows(2).all(|w| (w[1] as usize).wrapping_sub(w[0] as usize) == step);
    evenly.then_some((first, step))
}

impl Operands {
    /// Interleaves the item's queries: tiles of `[16 pairs of dim][16 rows][2]`, zeros beyond.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn load_queries<E: Element>(&mut self, call: &Call<E>, item: &Item, dims: Dims) {
        let problem = call.inputs.problem;
        let rows = item.rows.next_multiple_of(WIDTH);
        self.queries.resize(rows * dims.key_padded, bf16::ZERO);
        let base = base::<bf16>(call.inputs.q);
        let groups = self.queries.chunks_exact_mut(ROWS * dims.key_padded);
        for (group, to) in groups.enumerate() {
            let count = item.rows.saturating_sub(group * ROWS).min(ROWS);
            let mut from = [base; ROWS];
            for (row, from) in from[..count].iter_mut().enumerate() {
                let at = item.row(&call.inputs, group * ROWS + row);
                let offset = problem.q.row_offset(at.q_batch, at.head, at.token);
                *from = base.wrapping_add(offset as usize);
            }
            for (step, tile) in to.chunks_exact_mut(ROWS * DEPTH).enumerate() {
                let mask = tail_mask(dims.key, step * DEPTH);
                let mut pairs = [_mm512_setzero_si512(); 16];
                for row in 0..count {
                    let at = from[row].wrapping_add(step * DEPTH);
                    // SAFETY: the inputs were checked to hold `key_dim` elements of every row, and
                    // the mask leaves out what lies beyond.
                    pairs[row] = unsafe { _mm512_maskz_loadu_epi16(mask, at.cast()) };
                }
                let rows = transpose(pairs);
                for (row, to) in rows.iter().zip(tile.chunks_exact_mut(DEPTH)) {
                    // SAFETY: a chunk holds a vector.
                    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), *row) };
                }
            }
        }
    }

    /// Copies key rows together, zeros after each and after the last.
    fn copy_keys(&mut self, rows: &[*const bf16], dims: Dims) {
        self.clear_keys(rows.len(), dims);
        for (row, to) in rows.iter().zip(self.keys.chunks_exact_mut(dims.key_padded)) {
            // SAFETY: the inputs were checked to hold `key_dim` elements of every row.
            unsafe { std::ptr::copy_nonoverlapping(*row, to.as_mut_ptr(), dims.key) };
        }
    }

    fn clear_keys(&mut self, count: usize, dims: Dims) {
        self.keys.resize(KEYS * dims.key_padded, bf16::ZERO);
        let after = count.next_multiple_of(DEPTH).min(KEYS) * dims.key_padded;
        self.keys[count * dims.key_padded..after].fill(bf16::ZERO);
        if dims.key < dims.key_padded {
            self.keys
                .chunks_exact_mut(dims.key_padded)
                .for_each(|r| r[dims.key..].fill(bf16::ZERO));
        }
    }

    /// Unpacks fp8 rows, which bf16 holds exactly.
    fn unpack(&mut self, segment: &SegmentInputs, bytes: &[u8], rows: &[RowAt], dims: Dims) {
        let page_rows = segment.segment.k.tokens();
        let page_bytes = Storage::model1_page_bytes(page_rows) as usize;
        self.clear_keys(rows.len(), dims);
        self.row.resize(dims.key, 0.0);
        for (at, to) in rows.iter().zip(self.keys.chunks_exact_mut(dims.key_padded)) {
            let page = &bytes[at.batch as usize * page_bytes..][..page_bytes];
            model1::unpack_row(page, page_rows as usize, at.token as usize, &mut self.row);
            to.iter_mut().zip(&self.row).for_each(|(to, x)| *to = <bf16 as Element>::from_f32(*x));
        }
    }
}

/// One panel at work on a tile.
struct Panel<'p> {
    tiles: &'p Tiles,
    simd: Avx512,
    dims: Dims,
    first_row: usize,
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
        for rows in (0..WIDTH).step_by(2 * ROWS) {
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
        for v in 0..VECTORS {
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
            for rows in (0..WIDTH).step_by(2 * ROWS) {
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

/// Writes value rows as `[column][key]`, zeros up to whole tile registers.
///
/// # Safety
/// Each row must have `dims.value` readable elements, and `to` room for the padded columns.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn transpose_values(rows: &[*const bf16], dims: Dims, to: &mut [bf16]) {
    for key in (0..rows.len()).step_by(DEPTH) {
        for column in (0..dims.value_padded).step_by(DEPTH) {
            let mask = tail_mask(dims.value, column);
            let (mut low, mut high) = ([_mm512_setzero_si512(); 16], [_mm512_setzero_si512(); 16]);
            for pair in 0..16 {
                let load = |n: usize| match rows.get(n) {
                    // SAFETY: the mask leaves out what lies beyond the row.
                    Some(row) => unsafe {
                        _mm512_maskz_loadu_epi16(mask, row.wrapping_add(column).cast())
                    },
                    None => _mm512_setzero_si512(),
                };
                let (first, second) = (load(key + 2 * pair), load(key + 2 * pair + 1));
                low[pair] = _mm512_unpacklo_epi16(first, second);
                high[pair] = _mm512_unpackhi_epi16(first, second);
            }
            // Unpacking takes four of every eight columns.
            for (offset, pairs) in [(0, low), (4, high)] {
                for (n, pairs) in transpose(pairs).iter().enumerate() {
                    let column = column + n / 4 * 8 + n % 4 + offset;
                    let to = &mut to[column * KEYS + key..][..DEPTH];
                    // SAFETY: `to` holds a vector.
                    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), *pairs) };
                }
            }
        }
    }
}

/// The lanes of a 32-element vector from `at` on that lie within `len`.
fn tail_mask(len: usize, at: usize) -> u32 {
    match len.saturating_sub(at) {
        0 => 0,
        n @ 1..32 => (1 << n) - 1,
        _ => u32::MAX,
    }
}

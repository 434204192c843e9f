//! Bringing queries, keys and values into the layouts that tile registers take.

use super::super::Call;
use super::super::buffer::Buffer;
use super::super::plan::Item;
use super::super::tile::{Places, Tile, base};
use super::{BLOCK, EvenRows, KEYS, ROW_BYTES, WIDTH};
use crate::inputs::SegmentInputs;
use crate::packed;
use crate::simd::Element;
use crate::simd::amx::{DEPTH, ROWS};
use crate::simd::avx512::transpose;
use half::bf16;
use problem::{HostRef, Problem, Storage};
use std::arch::x86_64::*;
use std::ops::Range;

/// Padded dims of an item.
#[derive(Clone, Copy)]
pub(super) struct Dims {
    pub key: usize,
    pub value: usize,
    pub key_padded: usize,
    pub value_padded: usize,
}

impl Dims {
    pub fn new(problem: &Problem) -> Self {
        let (key, value) = (problem.key_dim() as usize, problem.value_dim() as usize);
        Self {
            key,
            value,
            key_padded: key.next_multiple_of(DEPTH),
            value_padded: value.next_multiple_of(2 * ROWS),
        }
    }
}

/// bf16 operands in the layouts that tile registers take.
#[derive(Default)]
pub(crate) struct Operands {
    /// Queries, `[panel][32 of dim][16 rows]` tiles.
    pub queries: Buffer<bf16>,
    /// Key rows copied together, where they do not lie evenly or fill no tile.
    keys: Buffer<bf16>,
    /// Values, `[block of columns][block of keys][column][key]`; for a few rows,
    /// `[block of columns][block of keys][16 columns][pair of keys][column]` tiles.
    pub values: Buffer<bf16>,
    /// Output of a few rows, `[16 columns][16 rows]` tiles.
    pub sums: Buffer<f32>,
    /// One unpacked row.
    row: Vec<f32>,
}

/// The key and value rows of a tile of up to `N`.
pub(super) struct KeyRows<const N: usize> {
    places: Places<N>,
    tile: Tile<bf16, N>,
}

impl<const N: usize> KeyRows<N> {
    pub const NONE: Self = Self { places: Places::NONE, tile: Tile::EMPTY };

    /// Finds the keys `range` of a segment, instead of those that were here.
    pub fn find<E: Element>(
        &mut self,
        call: &Call<E>,
        segment: &SegmentInputs,
        item: &Item,
        range: Range<u64>,
    ) {
        self.places = Places::find(&call.inputs, segment, item, range);
        match segment.segment.storage {
            Storage::Elements => self.places.locate(segment, item.kv_head, &mut self.tile),
            _ => self.tile.keys[0] = std::ptr::null(),
        }
    }

    /// Finds no keys.
    pub fn clear(&mut self) {
        self.places = Places::NONE;
    }

    /// Rows in use.
    pub fn count(&self) -> usize {
        self.places.count
    }

    /// Where the keys are: in place, or copied together if they do not lie as tile registers take
    /// them. Packed rows are unpacked, for keys and values.
    pub fn load_keys(
        &mut self,
        segment: &SegmentInputs,
        dims: Dims,
        operands: &mut Operands,
    ) -> EvenRows {
        let count = self.places.count;
        if let Some(in_place) = self.even_keys(segment, dims) {
            return in_place;
        }
        if let HostRef::U8(bytes) = segment.k {
            operands.unpack(segment, bytes, &self.places, dims);
            let row = |n: usize| operands.keys[n * dims.key_padded..].as_ptr();
            (0..count).for_each(|n| self.tile.values[n] = row(n));
        } else {
            operands.copy_keys::<N>(&self.tile.keys[..count], dims);
        }
        (operands.keys.as_ptr(), dims.key_padded * 2)
    }

    /// Value rows in use, after [`KeyRows::load_keys`].
    pub fn values(&self) -> &[*const bf16] {
        &self.tile.values[..self.places.count]
    }

    /// Key rows in use, where they are elements.
    pub fn keys(&self) -> &[*const bf16] {
        let count = if self.tile.keys[0].is_null() { 0 } else { self.places.count };
        &self.tile.keys[..count]
    }

    /// The keys, where they lie evenly, fill whole blocks, and no row of a tile register straddles
    /// two cache lines.
    fn even_keys(&self, segment: &SegmentInputs, dims: Dims) -> Option<EvenRows> {
        let (first, stride) = (self.tile.keys[0], segment.segment.k.strides[2] as usize * 2);
        let evenly = self.places.are_neighbours() && segment.segment.storage == Storage::Elements;
        let whole = self.count().is_multiple_of(BLOCK) && dims.key == dims.key_padded;
        let aligned = (first as usize | stride).is_multiple_of(ROW_BYTES);
        (evenly && whole && aligned).then_some((first, stride))
    }
}

impl Operands {
    /// Interleaves the item's queries: tiles of `[16 pairs of dim][16 rows][2]`, zeros beyond.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn load_queries<E: Element>(&mut self, call: &Call<E>, item: &Item, dims: Dims) {
        let problem = call.inputs.problem;
        let rows = item.rows.next_multiple_of(WIDTH);
        self.queries.reserve(rows * dims.key_padded);
        let base = base::<bf16>(call.inputs.q);
        for group in 0..rows / ROWS {
            let count = item.rows.saturating_sub(group * ROWS).min(ROWS);
            let mut from = [base; ROWS];
            for (row, from) in from[..count].iter_mut().enumerate() {
                let at = item.row(&call.inputs, group * ROWS + row);
                let offset = problem.q.row_offset(at.q_batch, at.head, at.token);
                *from = base.wrapping_add(offset as usize);
            }
            let panel = &mut self.queries[group / 2 * WIDTH * dims.key_padded..];
            let tiles = panel.chunks_exact_mut(ROWS * DEPTH).skip(group % 2).step_by(2);
            for (step, tile) in tiles.take(dims.key_padded / DEPTH).enumerate() {
                let mask = tail_mask(dims.key, step * DEPTH);
                let mut pairs = [_mm512_setzero_si512(); 16];
                for row in 0..count {
                    let at = from[row].wrapping_add(step * DEPTH);
                    // SAFETY: the inputs were checked to hold `key_dim` elements of every row, and
                    // the mask leaves out what lies beyond.
                    pairs[row] = unsafe { _mm512_maskz_loadu_epi16(mask, at.cast()) };
                }
                // SAFETY: this function has the features enabled.
                let rows = unsafe { transpose(pairs) };
                for (row, to) in rows.iter().zip(tile.chunks_exact_mut(DEPTH)) {
                    // SAFETY: a chunk holds a vector.
                    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), *row) };
                }
            }
        }
    }

    /// Transposes the values of a tile.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn load_values(&mut self, rows: &KeyRows<KEYS>, dims: Dims) {
        self.values.reserve(dims.value_padded * KEYS);
        // SAFETY: value rows have `value_dim` elements, and there is room for padded columns.
        unsafe { transpose_values(rows.values(), dims, &mut self.values) };
    }

    /// Copies key rows together, zeros after each and after the last.
    fn copy_keys<const N: usize>(&mut self, rows: &[*const bf16], dims: Dims) {
        self.clear_keys::<N>(rows.len(), dims);
        for (row, to) in rows.iter().zip(self.keys.chunks_exact_mut(dims.key_padded)) {
            // SAFETY: the inputs were checked to hold `key_dim` elements of every row.
            unsafe { std::ptr::copy_nonoverlapping(*row, to.as_mut_ptr(), dims.key) };
        }
    }

    fn clear_keys<const N: usize>(&mut self, count: usize, dims: Dims) {
        self.keys.reserve(N * dims.key_padded);
        let after = count.next_multiple_of(DEPTH).min(N) * dims.key_padded;
        self.keys[count * dims.key_padded..after].fill(bf16::ZERO);
        if dims.key < dims.key_padded {
            self.keys
                .chunks_exact_mut(dims.key_padded)
                .for_each(|r| r[dims.key..].fill(bf16::ZERO));
        }
    }

    /// Unpacks packed rows, which bf16 holds exactly.
    fn unpack<const N: usize>(
        &mut self,
        segment: &SegmentInputs,
        bytes: &[u8],
        rows: &Places<N>,
        dims: Dims,
    ) {
        self.clear_keys::<N>(rows.count, dims);
        self.row.resize(dims.key, 0.0);
        for (at, to) in rows.rows().zip(self.keys.chunks_exact_mut(dims.key_padded)) {
            packed::unpack(segment.segment, bytes, at, &mut self.row);
            to.iter_mut().zip(&self.row).for_each(|(to, x)| *to = <bf16 as Element>::from_f32(*x));
        }
    }
}

/// Writes value rows as `[block of columns][block of keys][column][key]`, zeros up to whole blocks.
///
/// # Safety
/// Each row must have `dims.value` readable elements, and `to` room for the padded columns.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn transpose_values(rows: &[*const bf16], dims: Dims, to: &mut [bf16]) {
    for (n, rows) in rows.chunks(BLOCK).enumerate() {
        for column in (0..dims.value_padded).step_by(BLOCK) {
            let block = &mut to[column * KEYS + n * BLOCK * BLOCK..][..BLOCK * BLOCK];
            // SAFETY: the caller promises the rows; the mask leaves out what lies beyond.
            unsafe { transpose_block(rows, column, tail_mask(dims.value, column), block) };
        }
    }
}

/// Writes `BLOCK` columns of as many rows as `[column][row]`, zeros for rows that are not there.
///
/// # Safety
/// There must be a row, and each must have the elements of `mask` from `column` on.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn transpose_block(rows: &[*const bf16], column: usize, mask: u32, to: &mut [bf16]) {
    let mut found = [_mm512_setzero_si512(); BLOCK];
    for n in 0..BLOCK {
        let (row, mask) = (rows[n.min(rows.len() - 1)], if n < rows.len() { mask } else { 0 });
        // SAFETY: the caller's promise.
        found[n] = unsafe { _mm512_maskz_loadu_epi16(mask, row.add(column).cast()) };
    }
    let (mut low, mut high) = ([_mm512_setzero_si512(); 16], [_mm512_setzero_si512(); 16]);
    for pair in 0..16 {
        low[pair] = _mm512_unpacklo_epi16(found[2 * pair], found[2 * pair + 1]);
        high[pair] = _mm512_unpackhi_epi16(found[2 * pair], found[2 * pair + 1]);
    }
    // SAFETY: this function has the feature enabled.
    let halves = unsafe { [transpose(low), transpose(high)] };
    for column in 0..BLOCK {
        // Unpacking took four of every eight columns.
        let (half, n) = (column / 4 % 2, column / 8 * 4 + column % 4);
        let to = &mut to[column * BLOCK..][..BLOCK];
        // SAFETY: `to` holds a vector.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), halves[half][n]) };
    }
}

/// The lanes of a 32-element vector from `at` on that lie within `len`.
pub(super) fn tail_mask(len: usize, at: usize) -> u32 {
    match len.saturating_sub(at) {
        0 => 0,
        n @ 1..32 => (1 << n) - 1,
        _ => u32::MAX,
    }
}

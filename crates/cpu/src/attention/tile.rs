use super::buffer::Buffer;
use super::plan::Item;
use crate::inputs::{Inputs, RowAt, SegmentInputs};
use crate::packed;
use crate::simd::{Element, Simd};
use problem::{E4m3, HostRef, Storage, View};
use std::ops::Range;

/// The keys of one tile: where each row begins.
pub(crate) struct Tile<T, const N: usize> {
    /// Key rows; entries past `count` repeat the last, so that whole groups can be read.
    pub keys: [*const T; N],
    /// Value rows.
    pub values: [*const T; N],
    /// Rows in use.
    pub count: usize,
}

impl<T, const N: usize> Tile<T, N> {
    /// A tile without rows.
    pub const EMPTY: Self =
        Self { keys: [std::ptr::null(); N], values: [std::ptr::null(); N], count: 0 };
}

/// Neighbouring tokens.
#[derive(Clone, Copy)]
struct Run {
    first: RowAt,
    count: usize,
}

/// Where the rows of a tile lie, before they are resolved to memory. Most tiles are one run.
pub(crate) struct Places<const N: usize> {
    first: Run,
    others: Vec<Run>,
    pub count: usize,
}

impl<const N: usize> Places<N> {
    /// No rows.
    pub const NONE: Self = {
        let first = Run { first: RowAt { batch: 0, token: 0 }, count: 0 };
        Self { first, others: Vec::new(), count: 0 }
    };

    /// Keys `range` (at most `N`) of a segment; unused list entries are left out.
    pub fn find(inputs: &Inputs, segment: &SegmentInputs, item: &Item, range: Range<u64>) -> Self {
        let mut places = Self::NONE;
        if segment.is_listed() {
            let at = item.row(inputs, 0);
            let flat = at.q_batch * inputs.problem.q.tokens() + at.token;
            let rows = range.filter_map(|j| segment.listed_row(item.b, flat, j));
            rows.for_each(|row| places.push(row, 1));
        } else {
            let runs = segment.runs(item.b, range);
            runs.for_each(|(first, count)| places.push(first, count as usize));
        }
        places
    }

    fn push(&mut self, first: RowAt, count: usize) {
        let run = Run { first, count };
        match self.count {
            0 => self.first = run,
            _ => self.others.push(run),
        }
        self.count += count;
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        std::iter::once(&self.first).filter(|run| run.count > 0).chain(&self.others)
    }

    /// The rows as elements in the caller's memory.
    pub fn in_place<E: Element>(&self, segment: &SegmentInputs, kv_head: u64) -> Tile<E, N> {
        let mut tile = Tile::EMPTY;
        self.locate(segment, kv_head, &mut tile);
        tile
    }

    /// As [`Places::in_place`], over what `tile` was.
    pub fn locate<E: Element>(&self, segment: &SegmentInputs, kv_head: u64, tile: &mut Tile<E, N>) {
        self.point(segment.k, &segment.segment.k, kv_head, &mut tile.keys);
        self.point(segment.v, &segment.segment.value_view(), kv_head, &mut tile.values);
        tile.count = self.count;
    }

    fn point<E: Element>(
        &self,
        memory: HostRef,
        view: &View,
        kv_head: u64,
        rows: &mut [*const E; N],
    ) {
        let base = base::<E>(memory);
        let mut next = 0;
        for Run { first, count } in self.runs() {
            let first = view.row_offset(first.batch, kv_head, first.token) as usize;
            let step = view.strides[2] as usize;
            debug_assert!(first + (count - 1) * step + view.dim() as usize <= memory.len());
            for (n, row) in rows[next..next + count].iter_mut().enumerate() {
                *row = base.wrapping_add(first + n * step);
            }
            next += count;
        }
        let last = if next > 0 { rows[next - 1] } else { base };
        rows[next..].fill(last);
    }

    /// Whether all rows are neighbouring tokens.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub fn are_neighbours(&self) -> bool {
        self.others.is_empty()
    }

    /// The rows' places.
    pub fn rows(&self) -> impl Iterator<Item = RowAt> {
        self.runs().flat_map(|run| (0..run.count as u64).map(|n| run.first.after(n)))
    }
}

impl<const N: usize> Places<N> {
    /// The rows as f32, widened into `keys` and `values` where they are not.
    #[inline(always)]
    pub fn widened<S: Simd, E: Element>(
        &self,
        simd: S,
        segment: &SegmentInputs,
        item: &Item,
        keys: &mut Buffer<f32>,
        values: &mut Buffer<f32>,
    ) -> Tile<f32, N> {
        if segment.segment.storage != Storage::Elements {
            return self.unpacked(segment, keys);
        }
        if segment.segment.is_e4m3() {
            return self.descaled(segment, item, keys, values);
        }
        let tile = self.in_place::<E>(segment, item.kv_head);
        if E::IS_F32 {
            let (keys, values) = (tile.keys.map(|p| p.cast()), tile.values.map(|p| p.cast()));
            return Tile { keys, values, count: self.count };
        }
        let dim = segment.segment.k.dim() as usize;
        let wide_keys = widen(simd, &tile.keys[..self.count], dim, keys);
        let shared = tile.keys[0] == tile.values[0];
        let wide_values = match shared {
            true => wide_keys,
            false => {
                let dim = segment.segment.value_dim() as usize;
                widen(simd, &tile.values[..self.count], dim, values)
            }
        };
        Tile { keys: wide_keys, values: wide_values, count: self.count }
    }

    /// e4m3 rows as f32, times their factors.
    fn descaled(
        &self,
        segment: &SegmentInputs,
        item: &Item,
        keys: &mut Buffer<f32>,
        values: &mut Buffer<f32>,
    ) -> Tile<f32, N> {
        let (HostRef::E4m3(k), HostRef::E4m3(v)) = (segment.k, segment.v) else {
            unreachable!("checked with the inputs")
        };
        let [of_keys, of_values] = segment.descales(item.b, item.kv_head);
        let keys = self.rows_times(k, &segment.segment.k, item.kv_head, of_keys, keys);
        let view = segment.segment.value_view();
        let values = self.rows_times(v, &view, item.kv_head, of_values, values);
        Tile { keys, values, count: self.count }
    }

    fn rows_times(
        &self,
        from: &[E4m3],
        view: &View,
        kv_head: u64,
        factor: f32,
        memory: &mut Buffer<f32>,
    ) -> [*const f32; N] {
        let dim = view.dim() as usize;
        let pitch = pitch(dim);
        memory.reserve(N * pitch);
        for (at, row) in self.rows().zip(memory.chunks_exact_mut(pitch)) {
            let from = &from[view.row_offset(at.batch, kv_head, at.token) as usize..][..dim];
            row.iter_mut().zip(from).for_each(|(to, number)| *to = number.to_f32() * factor);
        }
        pitched(memory, pitch, self.count)
    }

    fn unpacked(&self, segment: &SegmentInputs, keys: &mut Buffer<f32>) -> Tile<f32, N> {
        let HostRef::U8(bytes) = segment.k else { unreachable!("checked with the inputs") };
        let dim = segment.segment.k.dim() as usize;
        let pitch = pitch(dim);
        keys.reserve(N * pitch);
        for (at, row) in self.rows().zip(keys.chunks_exact_mut(pitch)) {
            packed::unpack(segment.segment, bytes, at, &mut row[..dim]);
        }
        let rows = pitched(keys, pitch, self.count);
        Tile { keys: rows, values: rows, count: self.count }
    }
}

/// The first element of memory whose type was checked to be `E`.
pub(super) fn base<E: Element>(memory: HostRef) -> *const E {
    match memory {
        HostRef::F64(s) => s.as_ptr().cast(),
        HostRef::F32(s) => s.as_ptr().cast(),
        HostRef::F16(s) => s.as_ptr().cast(),
        HostRef::Bf16(s) => s.as_ptr().cast(),
        HostRef::E4m3(_) | HostRef::I32(_) | HostRef::U8(_) => {
            unreachable!("checked with the inputs")
        }
    }
}

/// Row pitch of widened rows: a multiple of a cache line, but not of the cache's way size.
fn pitch(dim: usize) -> usize {
    dim.next_multiple_of(16) + 16
}

fn pitched<const N: usize>(memory: &[f32], pitch: usize, count: usize) -> [*const f32; N] {
    let mut rows = [memory.as_ptr(); N];
    for (n, row) in rows.iter_mut().enumerate() {
        *row = memory[n.min(count.saturating_sub(1)) * pitch..].as_ptr();
    }
    rows
}

/// Widens rows of `dim` elements into `memory`.
#[inline(always)]
fn widen<S: Simd, E: Element, const N: usize>(
    simd: S,
    rows: &[*const E],
    dim: usize,
    memory: &mut Buffer<f32>,
) -> [*const f32; N] {
    let pitch = pitch(dim);
    memory.reserve(N * pitch);
    for (row, to) in rows.iter().zip(memory.chunks_exact_mut(pitch)) {
        let whole = dim / S::LANES * S::LANES;
        for at in (0..whole).step_by(S::LANES) {
            // SAFETY: the row has `dim` readable elements, and `to` has at least as many.
            unsafe { simd.store(to.as_mut_ptr().add(at), E::load(simd, row.add(at))) };
        }
        for at in whole..dim {
            // SAFETY: as above.
            to[at] = unsafe { row.add(at).read() }.to_f32();
        }
    }
    pitched(memory, pitch, rows.len())
}

//! Rows that lie anywhere, brought to shared memory by threads.
//!
//! A tensor copy brings one run of neighbouring rows, and takes its thread as long for one row as for a
//! hundred, behind the load that says where the run is. Where runs are short (pages of few rows, lists of keys)
//! or rows must be unpacked, warps copy instead: eight threads per row and panel, four rows per instruction. A
//! lane looks up every 32nd row of its warp's share ([`lookup`]) and hands its place to the lanes that copy it
//! ([`share`]), so that all rows of a tile are looked up at the same time.
//!
//! The copies write through the generic proxy, and asynchronous ones cannot be fenced by who issued them: who
//! multiplies with the rows fences behind the wait for them.

mod elements;
mod format;
mod lane;
mod lookup;
mod mapped;
pub mod numbers;
mod packed;
mod raw;
mod share;
mod strides;
mod unpack;

pub use elements::Elements;
pub use format::{Format, Numbers, ScaleKind, ScalePlace};
pub use lane::Lane as UnpackingLane;
#[cfg(test)]
pub use lookup::row_of_lane;
pub use lookup::{Lookup, Place, Row, Rows};
pub use mapped::{Fours, Mapped, suits as mapped};
pub use packed::{Packed, PackedRow};
pub use raw::{RawMap, suits as raw};
pub use share::Share;
pub use unpack::{Unpack, WARPS as UNPACKING_WARPS, waiting, waiting_bytes};

use crate::call::task::{Keys, OpenTile, Params, Source};
use crate::call::tensors::{self, CHUNK};
use crate::moves::marks::Marks;
use problem::{Segment, Storage, View};
use ptx::build::{Builder, Cmp, Cursor, Pipeline, Producer, Reg, SharedTiles, Slot, VECTOR_BYTES};
use share::NOWHERE;
use std::ops::Range;

/// Warps that bring a tile together.
pub const WARPS: u32 = 2;
/// Arrivals that make a gathered tile full: each thread's, when its copies are done.
pub const ARRIVALS: u32 = WARPS * 32;

/// Whether tiles of `tile` keys of `segment` are gathered: they are listed one by one or packed, or runs of rows
/// are no longer than `short_run` bytes.
pub fn suits(segment: &Segment, tile: u32, short_run: u64) -> bool {
    let rows = tensors::rows_per_copy(segment, tile);
    let run = u64::from(rows) * segment.k.dim() * segment.k.dtype.bytes();
    must(segment) || (rows < tile && run <= short_run && reaches(segment))
}

/// Whether no tensor copy could bring the rows of `segment`: they are listed or packed.
pub fn must(segment: &Segment) -> bool {
    segment.indices.is_some() || segment.storage != Storage::Elements
}

/// Whether all rows of a segment have places: vectors of 16 bytes, counted in 32 bits.
pub fn reaches(segment: &Segment) -> bool {
    let bytes = |view: &View| {
        let last = (0..3).try_fold(view.dim(), |sum, d| {
            let last = view.shape[d].saturating_sub(1).checked_mul(view.strides[d])?;
            sum.checked_add(last)
        });
        last?.checked_mul(view.dtype.bytes())
    };
    let short = |bytes: Option<u64>| {
        bytes.is_some_and(|bytes| bytes / u64::from(VECTOR_BYTES) < u64::from(NOWHERE))
    };
    match segment.storage {
        Storage::Elements => {
            [segment.k, segment.value_view()].iter().all(|view| short(bytes(view)))
        }
        _ => short(segment.page_stride().checked_mul(segment.k.batch())),
    }
}

/// A tensor whose rows are gathered.
#[derive(Clone, Copy, Debug)]
pub enum Scattered {
    /// Rows of 16-bit elements.
    Elements(Elements),
    /// Rows of 16-bit elements that tensor copies gather.
    Mapped(Mapped),
    /// Rows in one of DeepSeek's packed formats.
    Packed(Packed),
}

impl Scattered {
    /// Packed rows.
    pub fn packed(&self) -> &Packed {
        match self {
            Scattered::Packed(rows) => rows,
            Scattered::Elements(_) | Scattered::Mapped(_) => {
                panic!("rows of elements are copied, not unpacked")
            }
        }
    }

    fn elements(&self) -> &Elements {
        match self {
            Scattered::Elements(rows) => rows,
            Scattered::Packed(_) => panic!("packed rows are unpacked, not copied"),
            Scattered::Mapped(_) => panic!("rows come by tensor copies"),
        }
    }

    /// Rows that tensor copies gather.
    pub fn mapped(&self) -> &Mapped {
        match self {
            Scattered::Mapped(rows) => rows,
            Scattered::Elements(_) | Scattered::Packed(_) => panic!("rows come by threads"),
        }
    }

    /// The same rows, `columns` columns from `first` on, which is a multiple of 8.
    #[track_caller]
    pub fn columns(&self, b: &mut Builder, first: Reg<u32>, columns: u32) -> Scattered {
        match self {
            Scattered::Elements(rows) => Scattered::Elements(rows.columns(b, first, columns)),
            Scattered::Packed(rows) => Scattered::Packed(rows.columns(b, first, columns)),
            Scattered::Mapped(rows) => Scattered::Mapped(rows.columns(first)),
        }
    }

    /// Brings a warp's share: copies that are under way, or stores of what was unpacked.
    #[track_caller]
    pub fn bring(&self, b: &mut Builder, share: &Share<'_>) {
        match self {
            Scattered::Elements(rows) => rows.copy(b, share),
            Scattered::Packed(rows) => rows.unpack(b, share),
            Scattered::Mapped(_) => panic!("rows come by tensor copies"),
        }
    }

    #[track_caller]
    fn prefetch(&self, b: &mut Builder, places: &[Place]) {
        let rows = self.elements();
        share::prefetch(b, rows.base, rows.row_bytes(), places);
    }
}

/// The keys or the values of all segments, which warps bring together.
pub struct Stream<'p> {
    params: &'p Params,
    sources: Vec<(Lookup<'p>, Scattered)>,
    ring: SharedTiles,
    /// The pieces of a tile: panels and their ring.
    pieces: Vec<(Range<u32>, Cursor<Producer>)>,
    /// Number among the warps that bring a tile together.
    warp: Reg<u32>,
    /// Where it is written which keys exist.
    marks: Option<&'p Marks>,
    /// Whether the next tile comes to L2 ahead of time.
    prefetches: bool,
}

impl<'p> Stream<'p> {
    /// Warp `warp`'s share of `sources`, which goes to the tiles of `ring` in pieces of so many panels that
    /// have pipelines of their own.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        params: &'p Params,
        sources: impl Iterator<Item = (&'p Keys, Source)>,
        ring: SharedTiles,
        pieces: impl Iterator<Item = (u32, Pipeline)>,
        warp: Reg<u32>,
    ) -> Self {
        let tile = ring.layout().lines() as u32;
        let sources = sources
            .map(|(keys, source)| {
                let share = Rows::Runs(warp);
                (Lookup::new(b, &params.tiling, keys, tile, share), source.scattered())
            })
            .collect();
        let mut panel = 0;
        let pieces = pieces.map(|(panels, pipeline)| {
            let first = panel;
            panel += panels;
            (first..panel, pipeline.producer(b))
        });
        let pieces = pieces.collect();
        Stream { params, sources, ring, pieces, warp, marks: None, prefetches: false }
    }

    /// The same, which also writes which keys exist.
    pub fn marking(self, marks: Option<&'p Marks>) -> Self {
        Stream { marks, ..self }
    }

    /// The same, which brings the next tile to L2 ahead of time if it `prefetches`.
    pub fn prefetching(self, prefetches: bool) -> Self {
        Stream { prefetches, ..self }
    }

    /// Brings what a work tile asks for, last keys first. Rows are looked up two tiles ahead.
    #[track_caller]
    pub fn bring(&self, b: &mut Builder, open: &OpenTile) {
        self.params.for_each_segment(b, open, |b, segment, open| {
            let (lookup, source) = &self.sources[segment];
            let first = open.range.end.before(b, 1);
            let rows = lookup.look_up(b, open, first);
            let places = lookup.places(b, open, source, &rows);
            let next = first.before(b, 1);
            let ahead = lookup.look_up(b, open, next);
            open.range.for_each_down(b, |b, n| {
                let slots: Vec<_> = self.pieces.iter().map(|(_, cursor)| cursor.take(b)).collect();
                self.copy(b, source, &places, &slots);
                let next = lookup.places(b, open, source, &ahead);
                places.iter().zip(&next).for_each(|(place, next)| place.assign(b, next));
                if self.prefetches {
                    source.prefetch(b, &places);
                }
                let after = n.before(b, 2);
                lookup.look_up_into(b, open, after, &ahead);
            });
        });
    }

    #[track_caller]
    fn copy(
        &self,
        b: &mut Builder,
        source: &Scattered,
        places: &[Place],
        slots: &[Slot<Producer>],
    ) {
        for (piece, ((panels, _), slot)) in self.pieces.iter().zip(slots).enumerate() {
            slot.wait(b);
            let to = slot.tile(b, self.ring).blocks(panels.clone());
            let full = slot.full(b);
            let share = Share::new(b, self.warp, places, panels.start * CHUNK, to);
            source.elements().copy(b, &share);
            full.arrive_when_copied(b);
            if let (0, Some(marks)) = (piece, self.marks) {
                let exist: Vec<_> = places.iter().map(|place| place.exists(b)).collect();
                let lead = b.setp(Cmp::Eq, share.lane(), 0);
                marks.write(b, self.warp, slot.stage(), &exist, lead);
                full.arrive_if(b, lead);
            }
        }
    }
}

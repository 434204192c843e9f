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
mod lookup;
mod model1;
mod share;

pub use elements::Elements;
#[cfg(test)]
pub use lookup::row_of_lane;
pub use model1::Model1;

use crate::marks::Marks;
use crate::task::{Keys, OpenTile, Params, Source};
use crate::tensors::{self, CHUNK};
use lookup::{Lookup, Place};
use problem::{Segment, Storage, View};
use ptx::build::{Builder, Cmp, Cursor, Pipeline, Producer, Reg, SharedTiles, Slot, UNIT_BYTES};
use share::{NOWHERE, Share};
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

/// Whether all rows of a segment have places: units of 16 bytes, counted in 32 bits.
pub fn reaches(segment: &Segment) -> bool {
    let bytes = |view: &View| {
        let last = (0..3).try_fold(view.dim(), |sum, d| {
            let last = view.shape[d].saturating_sub(1).checked_mul(view.strides[d])?;
            sum.checked_add(last)
        });
        last?.checked_mul(view.dtype.bytes())
    };
    let short = |bytes: Option<u64>| {
        bytes.is_some_and(|bytes| bytes / u64::from(UNIT_BYTES) < u64::from(NOWHERE))
    };
    match segment.storage {
        Storage::Elements => {
            [segment.k, segment.value_view()].iter().all(|view| short(bytes(view)))
        }
        Storage::Model1 => {
            let page = Storage::model1_page_bytes(segment.k.tokens());
            short(page.checked_mul(segment.k.batch()))
        }
    }
}

/// A tensor whose rows are gathered.
#[derive(Clone, Copy, Debug)]
pub enum Scattered {
    /// Rows of 16-bit elements.
    Elements(Elements),
    /// Rows in DeepSeek-V4's fp8 format.
    Model1(Model1),
}

impl Scattered {
    /// Where row `token` of a batch or page is, if it `exists`.
    #[track_caller]
    fn place(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        outer: Reg<u32>,
        token: Reg<u32>,
        exists: Reg<bool>,
    ) -> Place {
        match self {
            Scattered::Elements(rows) => rows.place(b, outer, open.tile.kv_head, token),
            Scattered::Model1(rows) => rows.place(b, outer, token, exists),
        }
    }

    #[track_caller]
    fn copy(&self, b: &mut Builder, share: &Share<'_>) {
        match self {
            Scattered::Elements(rows) => rows.copy(b, share),
            Scattered::Model1(rows) => rows.copy(b, share),
        }
    }

    #[track_caller]
    fn prefetch(&self, b: &mut Builder, places: &[Place]) {
        let (base, bytes) = match self {
            Scattered::Elements(rows) => (rows.base, rows.row_bytes()),
            Scattered::Model1(rows) => (rows.base, model1::ROW_BYTES),
        };
        share::prefetch(b, base, bytes, places);
    }
}

/// The keys or the values of all segments, which warps bring together.
pub struct Stream<'p> {
    params: &'p Params,
    sources: Vec<(Lookup<'p>, Scattered)>,
    ring: SharedTiles,
    /// The units of a tile: panels and their ring.
    units: Vec<(Range<u32>, Cursor<Producer>)>,
    /// Number among the warps that bring a tile together.
    warp: Reg<u32>,
    /// Where it is written which keys exist.
    marks: Option<&'p Marks>,
    /// Whether the next tile comes to L2 ahead of time.
    prefetches: bool,
    turns: Option<Turns>,
}

/// Every other tile is another team's.
struct Turns {
    /// Whose the next tile is.
    next: Reg<u32>,
    mine: Reg<u32>,
}

impl<'p> Stream<'p> {
    /// Warp `warp`'s share of `sources`, which goes to the tiles of `ring` in units of so many panels that
    /// have pipelines of their own.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        params: &'p Params,
        sources: impl Iterator<Item = (&'p Keys, Source)>,
        ring: SharedTiles,
        units: impl Iterator<Item = (u32, Pipeline)>,
        warp: Reg<u32>,
    ) -> Self {
        let tile = ring.layout().lines() as u32;
        let sources = sources
            .map(|(keys, source)| {
                (Lookup::new(b, &params.tiling, keys, tile, warp), source.scattered())
            })
            .collect();
        let mut panel = 0;
        let units = units.map(|(panels, pipeline)| {
            let first = panel;
            panel += panels;
            (first..panel, pipeline.producer(b))
        });
        let units = units.collect();
        Stream { params, sources, ring, units, warp, marks: None, prefetches: false, turns: None }
    }

    /// The same, which also writes which keys exist.
    pub fn marking(self, marks: Option<&'p Marks>) -> Self {
        Stream { marks, ..self }
    }

    /// The same, which brings the next tile to L2 ahead of time if it `prefetches`.
    pub fn prefetching(self, prefetches: bool) -> Self {
        Stream { prefetches, ..self }
    }

    /// The same for team `mine` of two that take tiles in turns.
    #[track_caller]
    pub fn taking_turns(self, b: &mut Builder, mine: Reg<u32>) -> Self {
        let turns = Turns { next: b.value(0), mine };
        Stream { turns: Some(turns), ..self }
    }

    /// Brings what a tile of work asks for, last keys first. Rows are looked up two tiles ahead.
    #[track_caller]
    pub fn bring(&self, b: &mut Builder, open: &OpenTile) {
        let step = if self.turns.is_some() { 2 } else { 1 };
        self.params.for_each_segment(b, open, |b, segment, open| {
            let (lookup, source) = &self.sources[segment];
            let first = b.sub(open.range.end, 1);
            let first = match &self.turns {
                None => first,
                Some(turns) => {
                    let others = b.xor(turns.next, turns.mine).reinterpret::<i32>();
                    b.sub(first, others)
                }
            };
            let rows = lookup.look_up(b, open, first);
            let places = lookup.places(b, open, source, &rows);
            let next = b.sub(first, step);
            let ahead = lookup.look_up(b, open, next);
            open.range.for_each_down(b, |b, n| {
                self.for_my_tile(b, |b, slots| {
                    self.copy(b, source, &places, slots);
                    let next = lookup.places(b, open, source, &ahead);
                    places.iter().zip(&next).for_each(|(place, next)| place.assign(b, next));
                    if self.prefetches {
                        source.prefetch(b, &places);
                    }
                    let after = b.sub(n, 2 * step);
                    let after = lookup.look_up(b, open, after);
                    ahead.iter().zip(&after).for_each(|(row, next)| row.assign(b, next));
                });
            });
        });
    }

    /// Takes the slots of the next tile, and runs `body` with them unless it is the other team's.
    #[track_caller]
    fn for_my_tile(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, &[Slot<Producer>])) {
        let slots: Vec<_> = self.units.iter().map(|(_, cursor)| cursor.take(b)).collect();
        let Some(turns) = &self.turns else { return body(b, &slots) };
        let mine = b.setp(Cmp::Eq, turns.next, turns.mine);
        b.if_(mine, |b| body(b, &slots));
        let next = b.xor(turns.next, 1);
        b.assign(turns.next, next);
    }

    #[track_caller]
    fn copy(
        &self,
        b: &mut Builder,
        source: &Scattered,
        places: &[Place],
        slots: &[Slot<Producer>],
    ) {
        for (unit, ((panels, _), slot)) in self.units.iter().zip(slots).enumerate() {
            slot.wait(b);
            let to = slot.tile(b, self.ring).blocks(panels.clone());
            let full = slot.full(b);
            let share = Share::new(b, self.warp, places, panels.start * CHUNK, to, full);
            source.copy(b, &share);
            if let (0, Some(marks)) = (unit, self.marks) {
                let exist: Vec<_> = places.iter().map(|place| place.exists(b)).collect();
                let lead = b.setp(Cmp::Eq, share.lane(), 0);
                marks.write(b, self.warp, slot.stage(), &exist, lead);
                full.arrive_if(b, lead);
            }
        }
    }
}

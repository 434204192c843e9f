//! Warps that gather rows which no tensor copy brings in order: rows that lists name, and packed ones.
//!
//! [`WARPS`] warps look up the rows of a KV tile two tiles ahead, and fill the slots of the ring of keys and
//! values in the order in which the issuing warp multiplies them ([`Gatherer`]).
//!
//! Listed rows of 16-bit elements come by tensor copies of four rows each, which arrive on the slot's barrier
//! themselves ([`Brought::ByCopies`]). Where no tensor map reaches all rows of a tensor, they come by `cp.async`
//! ([`Brought::ByThreads`]). When a thread's copies to a slot are done, the hardware arrives for it
//! on a barrier of this CTA, and the thread has no moment in which to fence. So one more warp waits for that barrier,
//! executes `fence.proxy.async` and tells the issuing warp, which may be the other CTA's ([`Publisher`]).
//! Packed rows are stored by the gathering warps themselves, which fence and tell the issuing warp directly. (In a CTA
//! pair tensor copies may have brought their bytes: `cta_pair/raw.rs`.)

use super::frame::arrive_if;
use super::marked::{MarkRing, MarkWriter};
use crate::call::index::RowBlockIndex;
use crate::call::task::{OpenTile, Params};
use crate::moves::copies::{Counter, PairBarrier, PairFills};
use crate::moves::gather::{self, Fours, Lookup, Place, Row, Rows, Scattered, Share, WARPS};
use crate::roles::queries::QueryLoader;
use problem::{Segment, Storage};
use ptx::build::{
    Builder, Cmp, CtaGroup, Cursor, Pipeline, Producer, Reg, SharedTile, SharedTiles, SignalCursor,
    Signals, Slot, SmemPtr,
};
use std::ops::Range;

/// What is gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gathering {
    /// Whether each token has a list of its keys.
    pub listed: bool,
    /// How rows come to shared memory.
    pub brought: Brought,
    /// Warps of a CTA.
    pub warps: u32,
}

/// How rows come to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Brought {
    /// By tensor copies, four rows each.
    ByCopies,
    /// By threads that copy 16 bytes each.
    ByThreads,
    /// By threads that unpack them.
    Unpacked,
}

impl Gathering {
    /// How the rows of a segment are gathered, if tensor copies cannot bring them.
    pub fn of(segment: &Segment) -> Option<Self> {
        gather::must(segment).then(|| Gathering {
            listed: segment.indices.is_some(),
            brought: match segment.storage {
                Storage::Elements if gather::mapped(segment) => Brought::ByCopies,
                Storage::Elements => Brought::ByThreads,
                _ => Brought::Unpacked,
            },
            warps: WARPS,
        })
    }

    /// Whether rows are packed.
    pub fn unpacks(&self) -> bool {
        self.brought == Brought::Unpacked
    }

    /// Arrivals that make a slot of `group` full: of the warps that store, of the one that publishes copies, or of
    /// those of one CTA that announce copies.
    pub fn arrivals(&self, group: CtaGroup) -> u32 {
        let ctas = match group {
            CtaGroup::One => 1,
            CtaGroup::Two => 2,
        };
        match self.brought {
            Brought::ByCopies => self.warps,
            Brought::ByThreads => ctas,
            Brought::Unpacked => ctas * self.warps,
        }
    }
}

/// The barriers of gathering, and marks of the keys that exist.
pub struct Gathered {
    how: Gathering,
    /// Threads' copies to a slot have arrived.
    arrived: Option<Signals>,
    pub marks: Option<MarkRing>,
}

impl Gathered {
    /// Reserves the barriers beside a ring of `slots` slots.
    pub fn reserve(b: &mut Builder, shared: SmemPtr, how: Gathering, slots: u32) -> Self {
        Gathered {
            how,
            arrived: (how.brought != Brought::ByCopies).then(|| Signals::reserve(b, shared, slots)),
            marks: how.listed.then(|| MarkRing::reserve(b, shared)),
        }
    }

    /// Initialises the barriers (one thread).
    #[track_caller]
    pub fn init(&self, b: &mut Builder) {
        if let Some(arrived) = &self.arrived {
            arrived.init(b, gather::ARRIVALS);
        }
        if let Some(marks) = &self.marks {
            marks.init(b, self.how.warps);
        }
    }
}

/// Tells the CTA that multiplies, where `p` holds, that a slot is full.
#[track_caller]
pub fn tell_full(b: &mut Builder, slot: &Slot<Producer>, group: CtaGroup, p: Reg<bool>) {
    let own = slot.full(b);
    arrive_if(b, own, group, p);
}

/// One of the warps that gather.
pub struct Gatherer<'f> {
    /// The CTAs that multiply together.
    group: CtaGroup,
    brought: Brought,
    lookup: Lookup<'f>,
    ring: SharedTiles,
    slots: Cursor<Producer>,
    arrived: Option<SignalCursor>,
    marks: Option<MarkWriter<'f>>,
    /// Number among the warps.
    warp: Reg<u32>,
    lead: Reg<bool>,
    /// Where copies bring rows: what a lane does for it, and whether this is the even one of two CTAs.
    copies: Option<(Fours, Option<Reg<bool>>)>,
}

impl<'f> Gatherer<'f> {
    /// Warp `warp` of those that fill `ring`.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        params: &'f Params,
        gathered: &'f Gathered,
        (ring, slots): (SharedTiles, &Pipeline),
        group: CtaGroup,
        warp: Reg<u32>,
    ) -> Self {
        let lane = b.special("%laneid");
        let brought = gathered.how.brought;
        let copies = (brought == Brought::ByCopies).then(|| {
            let even = (group == CtaGroup::Two).then(|| {
                let rank = b.special("%cluster_ctarank");
                b.setp(Cmp::Eq, rank, 0)
            });
            (Fours::new(b, warp), even)
        });
        Gatherer {
            group,
            brought,
            lookup: Lookup::new(
                b,
                &params.tiling,
                params.keys(),
                params.tiling.tile,
                Rows::Runs(warp),
            ),
            ring,
            slots: slots.producer(b),
            arrived: gathered.arrived.map(|arrived| arrived.cursor(b)),
            marks: gathered.marks.as_ref().map(|marks| marks.writer(b)),
            warp,
            lead: b.setp(Cmp::Eq, lane, 0),
            copies,
        }
    }

    /// Brings the keys of each KV tile, and behind those of the next one its values.
    #[track_caller]
    pub fn bring(&self, b: &mut Builder, open: &OpenTile, rows: &impl CopyRows) {
        open.range.if_any(b, |b, n| {
            let [now, next, ahead] = [0, 1, 2].map(|tiles| {
                let n = n.before(b, tiles);
                self.lookup.look_up(b, open, n)
            });
            rows.copy_keys(b, open, &now);
            open.range.while_more(b, n, |b, before| {
                rows.copy_keys(b, open, &next);
                rows.copy_values(b, open, &now);
                now.iter().zip(&next).for_each(|(row, next)| row.assign(b, next));
                next.iter().zip(&ahead).for_each(|(row, ahead)| row.assign(b, ahead));
                let n = before.before(b, 2);
                self.lookup.look_up_into(b, open, n, &ahead);
            });
            rows.copy_values(b, open, &now);
        });
    }

    /// Says which of the rows of a tile exist, where lists leave some out.
    #[track_caller]
    pub fn mark(&self, b: &mut Builder, rows: &[Row]) {
        if let Some(marks) = &self.marks {
            let exist: Vec<_> = rows.iter().map(|row| self.lookup.exists(b, row)).collect();
            marks.write(b, self.warp, &exist, self.lead);
        }
    }

    /// The places in `source` of rows that were looked up.
    #[track_caller]
    pub fn places(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        source: &Scattered,
        rows: &[Row],
    ) -> Vec<Place> {
        self.lookup.places(b, open, source, rows)
    }

    /// Fills the next slot with this warp's share of `parts`.
    #[track_caller]
    pub fn fill(&self, b: &mut Builder, parts: &[Part<'_>]) {
        let slot = self.slots.take(b);
        slot.wait(b);
        let to = slot.tile(b, self.ring);
        match &self.copies {
            None => self.fill_by_threads(b, &slot, to, parts),
            Some((fours, even)) => {
                let full = slot.full(b);
                let full = match *even {
                    None => full.into(),
                    Some(even) => PairBarrier::new(b, full, even, PairFills::Copies).into(),
                };
                gather_parts(b, fours, full, self.lead, to, parts);
            }
        }
    }

    #[track_caller]
    fn fill_by_threads(
        &self,
        b: &mut Builder,
        slot: &Slot<Producer>,
        to: SharedTile,
        parts: &[Part<'_>],
    ) {
        for part in parts {
            let to = to.blocks(part.panels.clone());
            let share = Share::new(b, self.warp, part.places, part.column, to);
            part.source.bring(b, &share);
        }
        if self.brought == Brought::Unpacked {
            b.fence_proxy_async();
            b.warp_sync();
            return tell_full(b, slot, self.group, self.lead);
        }
        let arrived = self.arrived.expect("threads copy");
        arrived.at_stage(slot.stage()).barrier(b).arrive_when_copied(b);
    }
}

/// Announces and issues a warp's copies of `parts` to a slot.
#[track_caller]
fn gather_parts(
    b: &mut Builder,
    fours: &Fours,
    full: Counter,
    lead: Reg<bool>,
    to: SharedTile,
    parts: &[Part<'_>],
) {
    let bytes = parts.iter().map(|part| Fours::bytes(part.places.len(), part.panels.len() as u32));
    let bytes = bytes.sum();
    b.if_(lead, |b| full.arrive_expect(b, bytes));
    for part in parts {
        let to = to.blocks(part.panels.clone());
        part.source.mapped().copy(b, fours, part.places, part.column, to, full);
    }
}

/// What of rows that were looked up goes to a slot.
pub struct Part<'a> {
    /// The tensor.
    pub source: &'a Scattered,
    /// The rows.
    pub places: &'a [Place],
    /// First column.
    pub column: u32,
    /// The panels of the slot.
    pub panels: Range<u32>,
}

/// How a warp copies what it looked up.
pub trait CopyRows {
    /// Copies the keys of a KV tile whose rows were looked up, one of each half of the tile per lane.
    fn copy_keys(&self, b: &mut Builder, open: &OpenTile, rows: &[Row]);
    /// Copies its values, where they do not come with the keys.
    fn copy_values(&self, b: &mut Builder, open: &OpenTile, rows: &[Row]);
}

/// Emits a warp that gathers: what `gatherer` looks up goes to slots by `rows`.
pub fn emit(b: &mut Builder, params: &Params, gatherer: &Gatherer<'_>, rows: &impl CopyRows) {
    params.for_each_tile(b, |b, open| gatherer.bring(b, &open, rows));
    if gatherer.group == CtaGroup::Two {
        gatherer.slots.drain(b);
    }
}

/// Emits the warp that loads queries, and tells of slots to which copies have arrived: so many for each KV tile.
pub fn emit_publisher(
    b: &mut Builder,
    params: &Params,
    (queries, number): (&QueryLoader<'_>, impl Fn(&mut Builder, &OpenTile) -> RowBlockIndex),
    publisher: &Publisher,
    slots_per_tile: u32,
) {
    params.for_each_tile(b, |b, open| {
        open.range.if_any(b, |b, _| {
            queries.load(b, &open, |b, _| number(b, &open));
            publisher.publish(b, &open, slots_per_tile);
        });
    });
    if publisher.group == CtaGroup::Two {
        queries.drain(b);
    }
}

/// The warp that tells of slots to which copies have arrived.
pub struct Publisher {
    group: CtaGroup,
    slots: Cursor<Producer>,
    /// Where threads' copies have arrived, if threads copy.
    arrived: Option<SignalCursor>,
    /// Whether they do.
    copied: bool,
    lead: Reg<bool>,
}

impl Publisher {
    /// The publisher of a ring (a converged warp).
    #[track_caller]
    pub fn new(b: &mut Builder, gathered: &Gathered, slots: &Pipeline, group: CtaGroup) -> Self {
        Publisher {
            group,
            slots: slots.producer(b),
            arrived: gathered.arrived.map(|arrived| arrived.cursor(b)),
            copied: gathered.how.brought == Brought::ByThreads,
            lead: b.elect(),
        }
    }

    /// Tells of the slots of a work tile, so many for each KV tile. (Who stores rows tells of them itself, and so do
    /// tensor copies.)
    #[track_caller]
    pub fn publish(&self, b: &mut Builder, open: &OpenTile, slots_per_tile: u32) {
        let Some(arrived) = self.arrived.filter(|_| self.copied) else { return };
        open.range.for_each_down(b, |b, _| {
            b.range(0, slots_per_tile, |b, _| {
                arrived.wait(b);
                arrived.advance(b);
                b.fence_proxy_async();
                let slot = self.slots.take(b);
                tell_full(b, &slot, self.group, self.lead);
            });
        });
    }
}

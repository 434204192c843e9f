//! Packed rows, unpacked on their way from memory to tiles of bf16.
//!
//! Eight warps bring a tile, eight rows each, four lanes on a row. While a tile is stored, the next one is asked for,
//! step by step: all rows of a tile are on their way at the same time. Most of them come to shared memory by
//! `cp.async`, each lane's to a place of its own, because loads to registers are limited by the little memory that L1
//! has left. Of the last panels a lane holds its quarter in registers.
//!
//! Tiles of all segments are one sequence. The four lanes of a row look it up in four tiles of it, one each, so that
//! an entry of a list and a row's scales are loaded once: those of the next four tiles while these are brought.

use super::Scattered;
use super::format::{Format, ScalePlace};
use super::lane::{LANES_PER_ROW, Lane, Quarter, ROWS};
use super::lookup::{Lookup, Place, Row, Rows};
use crate::call::index::KvTile;
use crate::call::task::{OpenTile, Params};
use crate::moves::marks::Marks;
use layout::Layout;
use ptx::build::{
    Builder, Cmp, Cursor, GlobalPtr, Pipeline, Producer, Reg, SharedArray, SharedTiles, SmemPtr,
    VECTOR_BYTES,
};
use std::ops::Range;

/// Warps that bring a tile together.
pub const WARPS: u32 = 8;
/// Panels that are unpacked together.
const AT_ONCE: u32 = 2;

/// Bytes of all rows of a tile that wait in shared memory.
pub fn waiting_bytes(format: Format) -> u32 {
    format.waiting() * WARPS * 32 * VECTOR_BYTES
}

/// Where they wait, if they do: words of a vector, of a thread, of a panel.
pub fn waiting(b: &mut Builder, shared: SmemPtr, format: Format) -> Option<SharedArray<u32>> {
    let words = u64::from(VECTOR_BYTES / 4);
    let shape = (words, u64::from(WARPS * 32), u64::from(format.waiting()));
    let layout = || Layout::column_major(shape).expect("a small layout");
    (format.waiting() > 0).then(|| SharedArray::reserve(b, shared, &layout()))
}

/// The tiles of one segment among those of all.
struct Visited {
    open: OpenTile,
    /// Tiles of the segments before it, and of those up to it.
    tiles: Range<Reg<i32>>,
}

impl Visited {
    /// All segments of a tile of work.
    #[track_caller]
    fn all(b: &mut Builder, params: &Params, open: &OpenTile) -> Vec<Visited> {
        let mut before = b.value::<i32>(0);
        let visited = params.open_segments(b, open).into_iter().map(|open| {
            let tiles = open.range.count(b);
            let end = b.eval(before + tiles);
            Visited { open, tiles: std::mem::replace(&mut before, end)..end }
        });
        visited.collect()
    }

    /// Tile `n` of all, counted as the segment counts its own: last first. One of another segment becomes one that is
    /// not visited.
    #[track_caller]
    fn tile(&self, b: &mut Builder, n: Reg<i32>) -> KvTile {
        let within = b.eval(n - self.tiles.start);
        let last = self.open.range.end.before(b, 1);
        let tile = b.eval(last.reg() - within);
        let none = self.open.range.begin.before(b, 1);
        let begun = b.setp(Cmp::Ge, within, 0);
        KvTile::new(b.select::<i32>(begun, tile, none.reg()))
    }
}

/// The packed rows of all segments, for one of the warps.
pub struct Unpack<'p> {
    params: &'p Params,
    sources: Vec<(Lookup<'p>, Scattered)>,
    ring: SharedTiles,
    /// Panels of a tile that have a pipeline of their own.
    pieces: Vec<(Range<u32>, Cursor<Producer>)>,
    /// Where it is written which keys exist.
    marks: Option<&'p Marks>,
    /// Number among the warps.
    warp: Reg<u32>,
    lane: Lane,
    format: Format,
    /// Where the first panels wait, and where the lane's vector of the first one does.
    waiting: Option<(&'p SharedArray<u32>, SmemPtr)>,
    /// What the lane holds of each of the other panels.
    words: Vec<Vec<Reg<u32>>>,
    /// What the lane holds of scales that are not looked up: those of the tile that is stored, and of the next one.
    scales: [Vec<Reg<u32>>; 2],
}

impl<'p> Unpack<'p> {
    /// Warp `warp`'s share of what goes to the tiles of `ring`, in pieces of so many panels that have pipelines of
    /// their own.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        params: &'p Params,
        ring: SharedTiles,
        pieces: impl Iterator<Item = (u32, Pipeline)>,
        marks: Option<&'p Marks>,
        waiting: Option<&'p SharedArray<u32>>,
        warp: Reg<u32>,
    ) -> Self {
        let tile = ring.layout().lines() as u32;
        assert_eq!(tile, WARPS * ROWS, "a row for every four lanes");
        let share = Rows::TwoRuns(warp);
        let sources = params
            .segments
            .iter()
            .map(|keys| (Lookup::new(b, &params.tiling, keys, tile, share), keys.k.scattered()));
        let sources: Vec<(_, Scattered)> = sources.collect();
        let format = sources[0].1.packed().format;
        let mut panel = 0;
        let pieces = pieces.map(|(panels, pipeline)| {
            let first = panel;
            panel += panels;
            (first..panel, pipeline.producer(b))
        });
        let pieces = pieces.collect();
        Unpack {
            params,
            sources,
            ring,
            pieces,
            marks,
            warp,
            lane: Lane::new(b, warp),
            format,
            waiting: waiting.map(|waiting| {
                let (thread, zero) = (b.thread(), b.value(0));
                (waiting, waiting.element(b, &[zero, thread]))
            }),
            words: (format.waiting()..format.panels())
                .map(|panel| b.regs(format.words_of(panel)))
                .collect(),
            scales: [0, 1].map(|_| match format.scale_place() {
                ScalePlace::LookedUp => Vec::new(),
                _ => b.regs(format.scale_words()),
            }),
        }
    }

    /// Brings what a tile of work asks for, segment after segment, last keys first.
    ///
    /// Where rows are in the next four tiles is asked for in the first of four, and is known in the third.
    #[track_caller]
    pub fn bring(&self, b: &mut Builder, open: &OpenTile) {
        let segments = Visited::all(b, self.params, open);
        let end = segments.last().expect("a segment").tiles.end;
        let n = b.value::<i32>(0);
        let any = b.setp(Cmp::Gt, end, 0);
        b.if_(any, |b| {
            let rows: Vec<_> = segments.iter().map(|_| Row::new(b)).collect();
            let found = Place::new(b, &self.sources[0].1);
            self.look_up(b, &segments, n, &rows);
            self.find(b, &segments, &rows, &found);
            // Rows are asked for before their scales are there.
            let row = self.place_of(b, &found.without_scales(), n);
            self.load(b, &segments, n, &row);
            let now = self.place_of(b, &found, n);
            b.loop_(|b| {
                let after = b.eval(n + 1);
                let turn = b.eval(after & (LANES_PER_ROW as i32 - 1));
                let next = self.place_of(b, &found, turn);
                let first = b.setp(Cmp::Eq, turn, 1);
                b.if_(first, |b| {
                    let next_turn = b.eval(n + LANES_PER_ROW as i32);
                    self.look_up(b, &segments, next_turn, &rows);
                });
                let last = b.setp(Cmp::Eq, turn, LANES_PER_ROW as i32 - 1);
                b.if_(last, |b| self.find(b, &segments, &rows, &found));
                self.unpack(b, &segments, after, [&now, &next]);
                now.assign(b, &next);
                b.assign(n, after);
                b.setp(Cmp::Lt, n, end)
            });
            b.cp_async_wait(0);
        });
    }

    /// Asks where this lane's row is in that of the four tiles from `first` on which is the lane's.
    #[track_caller]
    fn look_up(&self, b: &mut Builder, segments: &[Visited], first: Reg<i32>, rows: &[Row]) {
        let n = b.eval(first + self.lane.quarter.reinterpret::<i32>());
        for ((segment, (lookup, _)), row) in segments.iter().zip(&self.sources).zip(rows) {
            let n = segment.tile(b, n);
            lookup.look_up_into(b, &segment.open, n, std::slice::from_ref(row));
        }
    }

    /// The place of the row that was looked up.
    #[track_caller]
    fn find(&self, b: &mut Builder, segments: &[Visited], rows: &[Row], found: &Place) {
        found.clear(b);
        for ((segment, (lookup, source)), row) in segments.iter().zip(&self.sources).zip(rows) {
            let exists = lookup.exists(b, row);
            b.if_(exists, |b| {
                lookup.place_into(b, &segment.open, source, row, found);
            });
        }
    }

    /// The place of this lane's row in tile `turn` of four, from the lane that looked it up.
    #[track_caller]
    fn place_of(&self, b: &mut Builder, found: &Place, turn: Reg<i32>) -> Place {
        let first = self.lane.lane & !(LANES_PER_ROW - 1);
        let lane = b.eval(first | turn.reinterpret::<u32>());
        found.of_lane(b, lane)
    }

    /// Asks for this lane's part of the row at `place` of tile `n`.
    #[track_caller]
    fn load(&self, b: &mut Builder, segments: &[Visited], n: Reg<i32>, place: &Place) {
        let base = self.base_of(b, segments, n);
        let quarter = self.lane.quarter_of(b, self.format, base, place);
        let steps = self.pieces.iter().flat_map(|(panels, _)| steps(panels));
        steps.for_each(|step| self.load_step(b, &quarter, step));
        self.load_scales(b, &quarter);
    }

    /// Asks for the scales of the next tile, unless they were looked up.
    #[track_caller]
    fn load_scales(&self, b: &mut Builder, quarter: &Quarter) {
        if !self.scales[1].is_empty() {
            quarter.load_scales(b, &self.scales[1]);
        }
    }

    /// The scales of the row at `now`, which were asked for.
    #[track_caller]
    fn take_scales<'s>(&'s self, b: &mut Builder, now: &'s Place) -> &'s [Reg<u32>] {
        let [stored, next] = &self.scales;
        if stored.is_empty() {
            return now.aside.words();
        }
        stored.iter().zip(next).for_each(|(stored, next)| b.assign(*stored, *next));
        stored
    }

    /// Asks for a step. What goes through L1 is limited by what the shared memory leaves of it: most goes past it.
    #[track_caller]
    fn load_step(&self, b: &mut Builder, quarter: &Quarter, step: Range<u32>) {
        let waits = self.waits(&step);
        for panel in step {
            match panel.checked_sub(self.format.waiting()) {
                Some(held) => quarter.load(b, panel, &self.words[held as usize]),
                None => quarter.copy(b, panel, self.waiting_at(panel)),
            }
        }
        if waits {
            b.cp_async_commit();
        }
    }

    /// The words of each panel of a step that was asked for, when it is there.
    #[track_caller]
    fn loaded(&self, b: &mut Builder, step: Range<u32>) -> Vec<Vec<Reg<u32>>> {
        if self.waits(&step) {
            // The other steps of this tile and of the next one have been asked for since.
            let all = self.pieces.iter().flat_map(|(panels, _)| steps(panels));
            let others = all.filter(|other| self.waits(other)).count() - 1;
            b.cp_async_wait(others as u32);
        }
        let words = |panel: u32| match panel.checked_sub(self.format.waiting()) {
            Some(held) => self.words[held as usize].clone(),
            None => b.ld_shared_vector(self.waiting_at(panel), self.format.words_of(panel)),
        };
        step.map(words).collect()
    }

    /// Whether panels of a step wait in shared memory.
    fn waits(&self, step: &Range<u32>) -> bool {
        step.start < self.format.waiting()
    }

    fn waiting_at(&self, panel: u32) -> SmemPtr {
        let (waiting, first) = self.waiting.expect("a place to wait");
        first.plus(waiting.offset(&[0, 0, panel]))
    }

    /// The first row of the segment of tile `n`.
    #[track_caller]
    fn base_of(&self, b: &mut Builder, segments: &[Visited], n: Reg<i32>) -> GlobalPtr {
        let mut bases = self.sources.iter().map(|(_, source)| source.packed().base);
        let first = bases.next().expect("a segment");
        bases.zip(&segments[1..]).fold(first, |before, (base, segment)| {
            let begun = b.setp(Cmp::Ge, n, segment.tiles.start);
            b.select::<u64>(begun, base.base, before.base).into()
        })
    }

    /// Stores what was loaded of the row at `now`, unpacked, and says so; loads the one at `next` of tile `n` meanwhile.
    #[track_caller]
    fn unpack(&self, b: &mut Builder, segments: &[Visited], n: Reg<i32>, [now, next]: [&Place; 2]) {
        let slots: Vec<_> = self.pieces.iter().map(|(_, cursor)| cursor.take(b)).collect();
        let scales = self.take_scales(b, now);
        // Before the wait for a place: behind it every instruction delays who multiplies.
        let exist = self.marks.map(|marks| (marks, self.existing(b, now)));
        let base = self.base_of(b, segments, n);
        let coming = self.lane.quarter_of(b, self.format, base, next);
        self.load_scales(b, &coming);
        for ((panels, _), slot) in self.pieces.iter().zip(&slots) {
            let mut writer = None;
            for step in steps(panels) {
                let words = self.loaded(b, step.clone());
                let panels_of_it = step.clone().zip(&words);
                let unpack = |(panel, words): (u32, &Vec<_>)| {
                    self.lane.unpack(b, self.format, panel, words, scales)
                };
                let unpacked: Vec<_> = panels_of_it.map(unpack).collect();
                let writer = writer.get_or_insert_with(|| {
                    slot.wait(b);
                    let to = slot.tile(b, self.ring).blocks(panels.clone());
                    self.lane.writer(b, to)
                });
                for (i, unpacked) in (step.start - panels.start..).zip(&unpacked) {
                    writer.store(b, i, unpacked);
                }
                self.load_step(b, &coming, step);
            }
        }
        if let Some((marks, exist)) = exist {
            marks.write_bytes(b, self.warp, slots[0].stage(), &[exist], self.lane.lead);
        }
        b.fence_proxy_async();
        b.warp_sync();
        for slot in &slots {
            let full = slot.full(b);
            full.arrive_if(b, self.lane.lead);
        }
    }

    /// Which of this warp's rows exist, a bit each.
    #[track_caller]
    fn existing(&self, b: &mut Builder, place: &Place) -> Reg<u32> {
        let exists = place.exists(b);
        self.lane.existing(b, exists)
    }
}

/// The steps of a piece: those that are unpacked together.
fn steps(panels: &Range<u32>) -> impl Iterator<Item = Range<u32>> + use<> {
    let end = panels.end;
    panels.clone().step_by(AT_ONCE as usize).map(move |first| first..(first + AT_ONCE).min(end))
}

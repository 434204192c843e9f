//! Packed rows, unpacked on their way from memory to tiles of bf16.
//!
//! Eight warps bring a tile, eight rows each, four lanes on a row. While a tile is stored, the next one is asked for,
//! step by step: all rows of a tile are on their way at the same time. Most of them come to shared memory by
//! `cp.async`, each lane's to a place of its own, because loads to registers are limited by the little memory that L1
//! has left. Of the last panels a lane holds its quarter in registers.
//!
//! Tiles of all segments are one sequence. The four lanes of a row look it up in four tiles of it, one each, so that
//! an entry of a list and a row's scales are loaded once: those of the next four tiles while these are brought.
//!
//! The first rows of the next work tile are looked up and asked for while the last ones of this work tile are unpacked:
//! an entry of a list, the row's scales and the row itself come one behind the other, each as late as memory is.

use super::Scattered;
use super::format::{Format, ScalePlace};
use super::lane::{LANES_PER_ROW, Lane, Quarter, ROWS};
use super::lookup::{Lookup, Place, Row, Rows};
use crate::call::index::KvTile;
use crate::call::task::{NextOpenTile, OpenTile, Params};
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
/// Words of a vector.
const VECTOR_WORDS: u32 = VECTOR_BYTES / 4;

/// Where rows of a tile, and scales of the rows of four tiles, wait in shared memory.
pub struct Waiting {
    /// Words of a vector, of a thread, of a panel.
    rows: Option<SharedArray<u32>>,
    /// Words of a row's scales, of the thread that looked it up. (They could wait in its registers. But what is loaded
    /// to registers is waited for together, and rows are loaded behind scales.)
    scales: Option<SharedArray<u32>>,
}

impl Waiting {
    /// Bytes of it.
    pub fn bytes(format: Format) -> u32 {
        let (rows, scales) = Self::words(format);
        (rows + scales) * WARPS * 32 * 4
    }

    /// Words of a thread.
    fn words(format: Format) -> (u32, u32) {
        let looked_up = format.scale_place() == ScalePlace::LookedUp;
        let scales = if looked_up { format.scale_bytes() / 4 } else { 0 };
        (format.panels_waiting() * VECTOR_WORDS, scales)
    }

    /// Reserves it.
    pub fn reserve(b: &mut Builder, shared: SmemPtr, format: Format) -> Self {
        let (rows, scales) = Self::words(format);
        let mut array = |words: u32, times: u32| {
            let shape = (u64::from(words), u64::from(WARPS * 32), u64::from(times));
            let layout = || Layout::column_major(shape).expect("a small layout");
            (words * times > 0).then(|| SharedArray::reserve(b, shared, &layout()))
        };
        Waiting { rows: array(VECTOR_WORDS, rows / VECTOR_WORDS), scales: array(scales, 1) }
    }
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
    /// Where the scales of the lane's row wait, if they were looked up, and those of the first of the row's lanes.
    scales_wait: Option<[SmemPtr; 2]>,
    /// What the lane holds of each of the other panels.
    words: Vec<Vec<Reg<u32>>>,
    /// True, which the assembler cannot know: it unpacks what was loaded to registers no sooner than behind a branch, and
    /// would wait for that at the top of the loop otherwise.
    there: Reg<bool>,
    /// What the lane holds of scales that are not looked up: those of the tile that is stored, and of the next one.
    scales: [Vec<Reg<u32>>; 2],
    /// Rows that were looked up, of each segment.
    rows: Vec<Row>,
    /// Where this lane's row is in that of four tiles which is the lane's.
    found: Found,
    /// Where its row of the tile that is stored is.
    now: Place,
    ahead: Ahead,
}

/// Where a row is that a lane looked up.
struct Found {
    place: Place,
    /// Where its scales are, if they are looked up.
    scales: Option<Reg<u64>>,
}

impl Found {
    #[track_caller]
    fn new(b: &mut Builder, source: &Scattered) -> Self {
        let place = Place::new(b, source).without_scales();
        let looked_up = source.packed().format.scale_place() == ScalePlace::LookedUp;
        Found { place, scales: looked_up.then(|| b.value(source.packed().base.base)) }
    }

    /// This one where `p` holds, the other elsewhere.
    #[track_caller]
    fn or(&self, b: &mut Builder, p: Reg<bool>, other: &Found) -> Found {
        let place = self.place.or(b, p, &other.place);
        let both = self.scales.zip(other.scales);
        Found { place, scales: both.map(|(own, other)| b.select::<u64>(p, own, other)) }
    }

    #[track_caller]
    fn assign(&self, b: &mut Builder, other: &Found) {
        self.place.assign(b, &other.place);
        if let Some((own, other)) = self.scales.zip(other.scales) {
            b.assign(own, other);
        }
    }
}

/// The first four tiles of the next work tile.
struct Ahead {
    /// Rows that were looked up, of each segment.
    rows: Vec<Row>,
    /// Where this lane's row is.
    found: Found,
    /// The first row of the segment of its first tile.
    base: Reg<u64>,
    /// Not 0 if that tile has been asked for, or will be in this work tile.
    ready: Reg<u32>,
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
        waiting: &'p Waiting,
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
        let looked_up = |b: &mut Builder| sources.iter().map(|_| Row::new(b)).collect();
        let found = |b: &mut Builder| Found::new(b, &sources[0].1);
        let ahead = Ahead {
            rows: looked_up(b),
            found: found(b),
            base: b.value(sources[0].1.packed().base.base),
            ready: b.value(0),
        };
        Unpack {
            params,
            rows: looked_up(b),
            found: found(b),
            now: Place::new(b, &sources[0].1).without_scales(),
            ahead,
            there: sources[0].1.packed().has_rows(b),
            sources,
            ring,
            pieces,
            marks,
            warp,
            lane: Lane::new(b, warp),
            format,
            waiting: waiting.rows.as_ref().map(|rows| {
                let (thread, zero) = (b.thread(), b.value(0));
                (rows, rows.element(b, &[zero, thread]))
            }),
            scales_wait: waiting.scales.as_ref().map(|scales| {
                let (thread, zero) = (b.thread(), b.value(0));
                let first = b.eval(thread & !(LANES_PER_ROW - 1));
                [thread, first].map(|thread| scales.element(b, &[zero, thread]))
            }),
            words: (format.panels_waiting()..format.panels())
                .map(|panel| b.regs(format.words_of(panel)))
                .collect(),
            scales: [0, 1].map(|_| match format.scale_place() {
                ScalePlace::LookedUp => Vec::new(),
                _ => b.regs(format.scale_words()),
            }),
        }
    }

    /// Brings what a tile of work asks for, segment after segment, last keys first, and asks for the first tile of the
    /// `next` one. `wait` waits until a piece of a stage has been read.
    ///
    /// Where rows are in the next four tiles is asked for in the first of four, and is known in the third.
    #[track_caller]
    pub fn bring(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        wait: impl Fn(&mut Builder, Reg<u32>, usize),
        next: &NextOpenTile<'_>,
    ) {
        let segments = Visited::all(b, self.params, open);
        let end = segments.last().expect("a segment").tiles.end;
        let n = b.value::<i32>(0);
        let any = b.setp(Cmp::Gt, end, 0);
        b.if_(any, |b| {
            let unknown = b.setp(Cmp::Eq, self.ahead.ready, 0);
            b.if_(unknown, |b| self.begin(b, &segments, n));
            b.assign(self.ahead.ready, 0);
            self.ahead.found.place.clear(b);
            // In the first tile; one or two tiles leave no time.
            let few = b.setp(Cmp::Lt, end, 3);
            let looks_ahead = b.select::<i32>(few, -1, 0);
            b.loop_(|b| {
                let after = b.eval(n + 1);
                let turn = b.eval(after & (LANES_PER_ROW as i32 - 1));
                let ends = b.setp(Cmp::Eq, after, end);
                let found = self.ahead.found.or(b, ends, &self.found);
                let within = b.select::<i32>(ends, 0, turn);
                let coming = self.place_of(b, &found.place, within);
                let scales = self.take_scales(b, n, within, &found);
                let base = self.base_of(b, &segments, after);
                let base = b.select::<u64>(ends, self.ahead.base, base.base);
                self.unpack(b, base.into(), &coming, &scales, &wait, |b| {
                    let last = b.setp(Cmp::Eq, turn, LANES_PER_ROW as i32 - 1);
                    b.if_(last, |b| self.find(b, &segments, &self.rows, &self.found));
                    let ahead = b.eval(after + 1);
                    let ahead = b.setp(Cmp::Eq, ahead, end);
                    let known = b.setp(Cmp::Ne, n, 0);
                    let ahead = b.and(ahead, known);
                    b.if_(ahead, |b| self.find(b, &segments, &self.ahead.rows, &self.ahead.found));
                });
                let first = b.setp(Cmp::Eq, turn, 1);
                b.if_(first, |b| {
                    let next_turn = b.eval(n + LANES_PER_ROW as i32);
                    self.look_up(b, &segments, next_turn, &self.rows);
                });
                let looks = b.setp(Cmp::Eq, n, looks_ahead);
                b.if_(looks, |b| self.look_ahead(b, next));
                self.now.assign(b, &coming);
                b.assign(n, after);
                b.setp(Cmp::Lt, n, end)
            });
            self.found.assign(b, &self.ahead.found);
        });
    }

    /// Ends what is on its way behind the last work tile.
    #[track_caller]
    pub fn end(&self, b: &mut Builder) {
        b.cp_async_wait(0);
    }

    /// Looks the first four tiles of a work tile up and asks for the first one: nothing has been before.
    #[track_caller]
    fn begin(&self, b: &mut Builder, segments: &[Visited], n: Reg<i32>) {
        self.look_up(b, segments, n, &self.rows);
        self.find(b, segments, &self.rows, &self.found);
        self.copy_scales(b, &self.found);
        b.cp_async_commit();
        let now = self.place_of(b, &self.found.place, n);
        self.load(b, segments, n, &now);
        self.now.assign(b, &now);
    }

    /// Looks the first four tiles of the next work tile up.
    #[track_caller]
    fn look_ahead(&self, b: &mut Builder, next: &NextOpenTile<'_>) {
        let (live, open) = next(b);
        b.if_else(
            live,
            |b| {
                let segments = Visited::all(b, self.params, &open);
                let zero = b.value::<i32>(0);
                self.look_up(b, &segments, zero, &self.ahead.rows);
                let base = self.base_of(b, &segments, zero);
                b.assign(self.ahead.base, base.base);
                let end = segments.last().expect("a segment").tiles.end;
                let any = b.setp(Cmp::Gt, end, 0);
                let ready = b.select::<u32>(any, 1, 0);
                b.assign(self.ahead.ready, ready);
            },
            |b| self.ahead.rows.iter().for_each(|row| row.clear(b)),
        );
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
    fn find(&self, b: &mut Builder, segments: &[Visited], rows: &[Row], found: &Found) {
        found.place.clear(b);
        for ((segment, (lookup, source)), row) in segments.iter().zip(&self.sources).zip(rows) {
            let exists = lookup.exists(b, row);
            b.if_(exists, |b| {
                lookup.place_into(b, &segment.open, source, row, &found.place);
                if let Some(scales) = found.scales {
                    let (outer, token) = lookup.row_in_page(b, row, exists);
                    let at = source.packed().scales_of(b, outer, token);
                    b.assign(scales, at.base);
                }
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

    /// The scales of this lane's row of tile `n`, which were asked for. Where tile `within` of four is the first of
    /// those that were `found`, asks for the scales of these four.
    #[track_caller]
    fn take_scales(
        &self,
        b: &mut Builder,
        n: Reg<i32>,
        within: Reg<i32>,
        found: &Found,
    ) -> Vec<Reg<u32>> {
        let Some([_, first]) = self.scales_wait else {
            let [stored, next] = &self.scales;
            stored.iter().zip(next).for_each(|(stored, next)| b.assign(*stored, *next));
            return stored.clone();
        };
        let words = self.format.scale_bytes() / 4;
        let turn = b.eval(n.reinterpret::<u32>() & (LANES_PER_ROW - 1));
        // All that was asked for since is rows of this tile.
        b.cp_async_wait(self.waiting_steps());
        b.warp_sync();
        let at = b.smem_add(first, turn * (words * 4));
        let scales = b.ld_shared_vector(at, words as usize);
        b.warp_sync();
        let new = b.setp(Cmp::Eq, within, 0);
        b.if_(new, |b| self.copy_scales(b, found));
        b.cp_async_commit();
        scales
    }

    /// Asks for the scales of the row that this lane has found, if they are looked up.
    #[track_caller]
    fn copy_scales(&self, b: &mut Builder, found: &Found) {
        if let (Some([own, _]), Some(from)) = (self.scales_wait, found.scales) {
            let exists = found.place.exists(b);
            let bytes = b.select::<u32>(exists, self.format.scale_bytes(), 0);
            b.cp_async8(own, from.into(), Some(bytes));
        }
    }

    /// Steps of a tile some panels of which wait in shared memory: groups of copies.
    fn waiting_steps(&self) -> u32 {
        let all = self.pieces.iter().flat_map(|(panels, _)| steps(panels));
        all.filter(|step| self.waits(step)).count() as u32
    }

    /// Asks for a step. What goes through L1 is limited by what the shared memory leaves of it: most goes past it.
    #[track_caller]
    fn load_step(&self, b: &mut Builder, quarter: &Quarter, step: Range<u32>) {
        let waits = self.waits(&step);
        for panel in step {
            match self.held(panel) {
                Some(words) => quarter.load(b, panel, words),
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
            // Of the groups behind this step's, two are the other steps' of this tile and of the next one, but for the
            // step before: what follows it has not been asked for yet. One is scales.
            let scales = u32::from(self.scales_wait.is_some());
            let before = u32::from(step.start > 0);
            b.cp_async_wait(self.waiting_steps() - 1 + scales - before);
        }
        let words = |panel: u32| match self.held(panel) {
            Some(words) => words.to_vec(),
            None => b.ld_shared_vector(self.waiting_at(panel), self.format.words_of(panel)),
        };
        step.map(words).collect()
    }

    /// Whether panels of a step wait in shared memory.
    fn waits(&self, step: &Range<u32>) -> bool {
        step.start < self.format.panels_waiting()
    }

    /// What the lane holds of a panel, unless it waits in shared memory.
    fn held(&self, panel: u32) -> Option<&[Reg<u32>]> {
        let held = panel.checked_sub(self.format.panels_waiting())?;
        Some(&self.words[held as usize])
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

    /// Stores what was loaded of this lane's row of these scales, unpacked, and says so; loads the one at `next` of the rows at `base`
    /// meanwhile. `then` comes when all that was loaded to registers has been read, and before more is: the hardware waits
    /// for such loads together.
    #[track_caller]
    fn unpack(
        &self,
        b: &mut Builder,
        base: GlobalPtr,
        next: &Place,
        scales: &[Reg<u32>],
        wait: impl Fn(&mut Builder, Reg<u32>, usize),
        then: impl FnOnce(&mut Builder),
    ) {
        let slots: Vec<_> = self.pieces.iter().map(|(_, cursor)| cursor.take(b)).collect();
        // Before the wait for a place: behind it every instruction delays who multiplies.
        let exist = self.marks.map(|marks| (marks, self.existing(b, &self.now)));
        let coming = self.lane.quarter_of(b, self.format, base, next);
        self.load_scales(b, &coming);
        let all: Vec<_> = self.pieces.iter().flat_map(|(panels, _)| steps(panels)).collect();
        let mut following = all.iter().cloned().skip(1);
        let (mut words, mut then) = (self.loaded(b, all[0].clone()), Some(then));
        for (piece, ((panels, _), slot)) in self.pieces.iter().zip(&slots).enumerate() {
            let mut writer = None;
            for step in steps(panels) {
                // What the next step unpacks is on its way from shared memory meanwhile.
                let next = following.next();
                let is_last = next.is_none();
                let next = next.map_or(Vec::new(), |next| self.loaded(b, next));
                let words = std::mem::replace(&mut words, next);
                let panels_of_it: Vec<_> = step.clone().zip(words).collect();
                let unpack = |b: &mut Builder| -> Vec<_> {
                    let unpack = |(panel, words): &(u32, Vec<_>)| {
                        self.lane.unpack(b, self.format, *panel, words, scales)
                    };
                    panels_of_it.iter().map(unpack).collect()
                };
                let unpacked = self.waits(&step).then(|| unpack(b));
                let writer = writer.get_or_insert_with(|| {
                    wait(b, slot.stage(), piece);
                    let to = slot.tile(b, self.ring).blocks(panels.clone());
                    self.lane.writer(b, to)
                });
                let store = |b: &mut Builder, unpacked: &[Vec<_>]| {
                    let numbered = (step.start - panels.start..).zip(unpacked);
                    numbered.for_each(|(i, unpacked)| writer.store(b, i, unpacked));
                };
                match unpacked {
                    Some(unpacked) => store(b, &unpacked),
                    None => b.if_(self.there, |b| {
                        let unpacked = unpack(b);
                        store(b, &unpacked);
                    }),
                }
                if is_last {
                    then.take().into_iter().for_each(|then| then(b));
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

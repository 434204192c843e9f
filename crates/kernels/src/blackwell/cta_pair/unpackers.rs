//! Eight warps of each CTA that unpack rows: eight rows of a slot each, four lanes on a row.
//!
//! A lane holds its part of two slots in registers ([`Held`]): one is loaded while the other is stored. The next keys are
//! always loaded ahead; where there are none, nothing is.
//!
//! Where one tensor map reaches all rows, their bytes wait in shared memory instead ([`RawRows`]), and a lane holds their
//! scales only.

use super::kernel::Frame;
use super::raw::RawRows;
use crate::blackwell::gatherers::{Gathered, tell_full};
use crate::blackwell::marked::MarkWriter;
use crate::call::index::KvTile;
use crate::call::task::OpenTile;
use crate::moves::gather::{Format, Lookup, Packed, Place, Row, Rows, UnpackingLane};
use ptx::build::{Builder, Cmp, CtaGroup, Cursor, Producer, Reg};

/// Panels of a slot.
const PANELS: u32 = 4;

/// What of a row goes to a slot.
#[derive(Clone, Copy)]
enum Part {
    /// Keys: the first or the second four panels, or the one behind them.
    Keys(u32),
    /// Values: this CTA's two panels of each half of the columns.
    Values,
}

/// A lane's part of a slot, in registers.
struct Held {
    words: Vec<Vec<Reg<u32>>>,
    scales: Vec<Reg<u32>>,
}

impl Held {
    /// The scales of a slot whose bytes wait in shared memory.
    #[track_caller]
    fn scales(b: &mut Builder, format: Format) -> Self {
        Held { words: Vec::new(), scales: b.regs(format.scale_words()) }
    }

    #[track_caller]
    fn new(b: &mut Builder, format: Format) -> Self {
        // The last of eight panels, which may hold numbers of 16 bits, is the last one of its slot.
        let most =
            |panel: u32| format.words_of(if panel + 1 == PANELS { 2 * PANELS - 1 } else { panel });
        let words = (0..PANELS).map(|panel| b.regs(most(panel))).collect();
        Held { words, scales: b.regs(format.scale_words()) }
    }

    /// The panel behind eight others, whose slot it has for itself.
    #[track_caller]
    fn behind(b: &mut Builder, format: Format) -> Self {
        let words = vec![b.regs(format.words_of(2 * PANELS))];
        Held { words, scales: b.regs(format.scale_words()) }
    }

    fn of<'h>(&'h self, panels: &'h [u32]) -> impl Iterator<Item = (u32, &'h [Reg<u32>])> {
        panels.iter().copied().zip(self.words.iter().map(Vec::as_slice))
    }
}

/// One of the warps.
struct Unpacker<'f> {
    frame: &'f Frame,
    rows: Packed,
    lookup: Lookup<'f>,
    slots: Cursor<Producer>,
    marks: Option<MarkWriter<'f>>,
    /// Number among the warps.
    warp: Reg<u32>,
    lane: UnpackingLane,
    even: Reg<bool>,
    held: [Held; 2],
    /// What is behind the second piece of the keys.
    behind: Option<Held>,
    /// Where bytes wait, if tensor copies bring them.
    raw: Option<RawRows>,
}

/// Emits warp `warp` of those that unpack.
pub fn emit(b: &mut Builder, frame: &Frame, gathered: &Gathered, warp: Reg<u32>) {
    let params = &frame.params;
    let share = Rows::TwoRuns(warp);
    let rows = *params.keys().k.scattered().packed();
    let format = rows.format;
    let raw = frame.shared.raw.as_ref().zip(rows.raw);
    let raw = raw.map(|(ring, map)| RawRows::new(b, ring, (format, map), warp));
    let held = |b: &mut Builder| match raw {
        Some(_) => Held::scales(b, format),
        None => Held::new(b, format),
    };
    let unpacker = Unpacker {
        frame,
        rows,
        lookup: Lookup::new(b, &params.tiling, params.keys(), params.tiling.tile, share),
        slots: frame.shared.kv_ring.producer(b),
        marks: gathered.marks.as_ref().map(|marks| marks.writer(b)),
        warp,
        lane: UnpackingLane::new(b, warp),
        even: b.setp(Cmp::Eq, frame.rank, 0),
        held: [held(b), held(b)],
        behind: (format.panels() > 2 * PANELS).then(|| Held::behind(b, format)),
        raw,
    };
    params.for_each_tile(b, |b, open| unpacker.bring(b, &open));
    unpacker.slots.drain(b);
}

impl Unpacker<'_> {
    /// The keys of each tile, and behind those of the next one its values.
    fn bring(&self, b: &mut Builder, open: &OpenTile) {
        open.range.if_any(b, |b, n| {
            let [last, before, ahead] = [0, 1, 2].map(|tiles| {
                let n = n.before(b, tiles);
                self.lookup.look_up(b, open, n)
            });
            let source = self.frame.params.keys().k.scattered();
            let [now, next] =
                [&last, &before].map(|rows| self.lookup.places(b, open, &source, rows));
            self.mark(b, &now);
            self.load_keys(b, 0, &now);
            self.load_keys(b, 1, &now);
            self.store(b, 0, Part::Keys(0));
            self.load_keys(b, 0, &next);
            self.store(b, 1, Part::Keys(1));
            open.range.while_more(b, n, |b, before| {
                self.mark(b, &next);
                self.load_keys(b, 1, &next);
                self.store(b, 0, Part::Keys(0));
                self.load_values(b, 0, &now);
                self.store(b, 1, Part::Keys(1));
                self.load_values(b, 1, &now);
                self.store(b, 0, Part::Values);
                self.step(b, open, before, [&now, &next], &ahead);
                self.load_keys(b, 0, &next);
                self.store(b, 1, Part::Values);
            });
            // Keys that nothing follows were asked for too.
            if let Some(raw) = &self.raw {
                raw.wait(b, 0);
            }
            self.load_values(b, 0, &now);
            self.load_values(b, 1, &now);
            self.store(b, 0, Part::Values);
            self.store(b, 1, Part::Values);
        });
    }

    /// Goes on to tile `n`: its rows were `next`, those of the one before it were looked up.
    fn step(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        [now, next]: [&[Place]; 2],
        ahead: &[Row],
    ) {
        let source = self.frame.params.keys().k.scattered();
        for ((now, next), row) in now.iter().zip(next).zip(ahead) {
            now.assign(b, next);
            self.lookup.place_into(b, open, &source, row, next);
        }
        let after = n.before(b, 2);
        self.lookup.look_up_into(b, open, after, ahead);
    }

    /// Says which of the rows of a tile exist, where lists leave some out.
    fn mark(&self, b: &mut Builder, places: &[Place]) {
        let Some(marks) = &self.marks else { return };
        let bytes = places.iter().map(|place| {
            let exists = place.exists(b);
            self.lane.existing(b, exists)
        });
        let bytes: Vec<_> = bytes.collect();
        marks.write_bytes(b, self.warp, &bytes, self.lane.lead);
    }

    /// Loads four panels of this CTA's half of the keys.
    fn load_keys(&self, b: &mut Builder, piece: u32, places: &[Place]) {
        let own = places[0].or(b, self.even, &places[1]);
        if let Some(raw) = &self.raw {
            let rows = self.found(b, raw, piece as usize, &own);
            return raw.ask(b, piece as usize, rows, &panels_of_keys(piece));
        }
        self.load(b, &self.held[piece as usize], &own, &panels_of_keys(piece));
        if let (1, Some(behind)) = (piece, &self.behind) {
            self.load(b, behind, &own, &panels_of_keys(2));
        }
    }

    /// Loads this CTA's columns of one half of the values.
    fn load_values(&self, b: &mut Builder, half: usize, places: &[Place]) {
        if let Some(raw) = &self.raw {
            let rows = self.found(b, raw, half, &places[half]);
            return b.if_else(
                self.even,
                |b| raw.ask(b, half, rows, &panels_of_values(0)),
                |b| raw.ask(b, half, rows, &panels_of_values(1)),
            );
        }
        b.if_else(
            self.even,
            |b| self.load(b, &self.held[half], &places[half], &panels_of_values(0)),
            |b| self.load(b, &self.held[half], &places[half], &panels_of_values(1)),
        );
    }

    /// Keeps the scales of the row at `place`, and finds the four rows that this lane asks for.
    fn found(&self, b: &mut Builder, raw: &RawRows, held: usize, place: &Place) -> [Reg<u32>; 4] {
        let scales = self.held[held].scales.iter().zip(place.aside.words());
        scales.for_each(|(to, scale)| b.assign(*to, *scale));
        raw.four(b, place)
    }

    fn load(&self, b: &mut Builder, held: &Held, place: &Place, panels: &[u32]) {
        self.lane.load(b, &self.rows, place, held.of(panels), &held.scales);
    }

    /// Stores what is held, unpacked, in the next slot, and says so; behind the second piece of the keys the last one.
    fn store(&self, b: &mut Builder, held: usize, part: Part) {
        if let Some(raw) = &self.raw {
            raw.wait(b, held);
        }
        self.store_slot(b, held, &self.held[held], part);
        if let (Part::Keys(1), Some(behind)) = (part, &self.behind) {
            self.store_slot(b, held, behind, Part::Keys(2));
        }
    }

    fn store_slot(&self, b: &mut Builder, stage: usize, held: &Held, part: Part) {
        let slot = self.slots.take(b);
        slot.wait(b);
        let to = slot.tile(b, self.frame.shared.kv);
        let store = |b: &mut Builder, panels: [u32; PANELS as usize]| {
            if let Some(raw) = &self.raw {
                let words = raw.words(b, stage, &panels);
                let words = panels.into_iter().zip(words.iter().map(Vec::as_slice));
                return self.lane.store(b, self.rows.format, to, &held.scales, words);
            }
            self.lane.store(b, self.rows.format, to, &held.scales, held.of(&panels));
        };
        match part {
            Part::Keys(piece) => store(b, panels_of_keys(piece)),
            Part::Values => b.if_else(
                self.even,
                |b| store(b, panels_of_values(0)),
                |b| store(b, panels_of_values(1)),
            ),
        }
        b.fence_proxy_async();
        b.warp_sync();
        tell_full(b, &slot, CtaGroup::Two, self.lane.lead);
    }
}

/// The panels of a slot of keys.
fn panels_of_keys(piece: u32) -> [u32; PANELS as usize] {
    std::array::from_fn(|i| piece * PANELS + i as u32)
}

/// The panels of a slot of values: two of each half of the columns.
fn panels_of_values(rank: u32) -> [u32; PANELS as usize] {
    [0, 1, 4, 5].map(|panel| panel + 2 * rank)
}

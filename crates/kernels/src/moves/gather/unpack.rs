//! Packed rows, unpacked on their way from memory to tiles of bf16.
//!
//! Eight warps bring a tile, eight rows each, four lanes on a row. A lane holds a quarter of every panel of its row
//! in registers while the tile before is multiplied: all rows of a tile are on their way at the same time. Of a
//! panel of 64 numbers a lane makes two units of 16 bytes. Lanes of neighbouring rows store together; the swizzle
//! gives them different banks.
//!
//! A number times its power of two is a bf16 number: nothing is rounded.

use super::Scattered;
use super::lookup::{Lookup, Place, Rows};
use super::model1::{FP8, Model1, ROW_BYTES, scale};
use super::share::{LINE_BYTES, row_at};
use crate::call::task::{OpenTile, Params};
use crate::call::tensors::CHUNK;
use crate::moves::marks::Marks;
use ptx::build::{
    Builder, Cmp, Cursor, HalfType, Pipeline, Producer, Reg, SharedTile, SharedTiles, SmemPtr,
    UNIT_BYTES,
};
use std::ops::Range;

/// Warps that bring a tile together.
pub const WARPS: u32 = 8;
/// Lanes that share a row.
const LANES_PER_ROW: u32 = 4;
/// Rows of a warp.
const ROWS: u32 = 32 / LANES_PER_ROW;
/// Panels of a row.
const PANELS: u32 = FP8 / CHUNK + 1;

/// A lane of the warps: its row of a tile of 64, and its quarter of every panel of it.
pub struct Lane {
    lane: Reg<u32>,
    /// True in one lane of a warp.
    pub lead: Reg<bool>,
    row: Reg<u32>,
    quarter: Reg<u32>,
}

impl Lane {
    /// The lane of a thread of warp `warp`.
    #[track_caller]
    pub fn new(b: &mut Builder, warp: Reg<u32>) -> Self {
        let lane = b.special("%laneid");
        Lane {
            lane,
            lead: b.setp(Cmp::Eq, lane, 0),
            row: Rows::TwoRuns(warp).first(b, lane),
            quarter: b.rem(lane, LANES_PER_ROW),
        }
    }

    /// Loads this lane's part of some panels of the row at `place` to the words of each, zeros where there is none.
    #[track_caller]
    pub fn load<'w>(
        &self,
        b: &mut Builder,
        rows: &Model1,
        place: &Place,
        panels: impl Iterator<Item = (u32, &'w [Reg<u32>])>,
    ) {
        let exists = place.exists(b);
        let row = b.select::<u32>(exists, place.row, 0);
        let row = row_at(b, rows.base, row);
        let quarter = b.mul_wide(self.quarter, UNIT_BYTES);
        let from = b.global_add(row, quarter);
        // Numbers of two bytes lie twice as far apart.
        let wide = b.global_add(from, quarter);
        for (panel, words) in panels {
            let words = &words[..words_of(panel)];
            words.iter().for_each(|word| b.assign(*word, 0));
            let from = if panel * CHUNK < FP8 { from } else { wide };
            for (unit, words) in (0..).zip(words.chunks_exact(4)) {
                b.ld_global_if(
                    exists,
                    from.plus((panel * CHUNK + unit * UNIT_BYTES).into()),
                    words,
                );
            }
        }
    }

    /// Stores what was loaded of some panels of a row of these scales, unpacked, side by side in `to`.
    #[track_caller]
    pub fn store<'w>(
        &self,
        b: &mut Builder,
        to: SharedTile,
        scales: &[Reg<u32>; 2],
        panels: impl Iterator<Item = (u32, &'w [Reg<u32>])>,
    ) {
        let first_unit = b.shl(self.quarter, 1);
        let to = to.row(b, self.row).from_unit(b, first_unit);
        for (i, (panel, words)) in (0..).zip(panels) {
            let at = [0, CHUNK / 8].map(|c| to.unit(b, i * CHUNK + c));
            store_panel(b, panel, &words[..words_of(panel)], scales, at);
        }
    }

    /// Whether each of a warp's rows exists, a bit each, of what the lanes of a row know of it.
    #[track_caller]
    pub fn existing(&self, b: &mut Builder, exists: Reg<bool>) -> Reg<u32> {
        // Lane `i` speaks for row `i`; lanes beyond the rows speak again for some of them, into bits unused.
        let speaker = b.mul(self.lane, LANES_PER_ROW);
        let speaker = b.and(speaker, 31);
        let known = b.select::<u32>(exists, 1, 0);
        let spoken = b.lane_value(known, speaker);
        let exists = b.setp(Cmp::Ne, spoken, 0);
        b.ballot(exists)
    }
}

/// The packed rows of all segments, for one of the warps.
pub struct Unpack<'p> {
    params: &'p Params,
    sources: Vec<(Lookup<'p>, Scattered)>,
    ring: SharedTiles,
    /// Panels of a tile that have a pipeline of their own.
    units: Vec<(Range<u32>, Cursor<Producer>)>,
    /// Where it is written which keys exist.
    marks: Option<&'p Marks>,
    /// Number among the warps.
    warp: Reg<u32>,
    lane: Lane,
    /// What a lane holds of each panel of its row.
    words: Vec<Vec<Reg<u32>>>,
}

impl<'p> Unpack<'p> {
    /// Warp `warp`'s share of what goes to the tiles of `ring`, in units of so many panels that have pipelines of
    /// their own.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        params: &'p Params,
        ring: SharedTiles,
        units: impl Iterator<Item = (u32, Pipeline)>,
        marks: Option<&'p Marks>,
        warp: Reg<u32>,
    ) -> Self {
        let tile = ring.layout().lines() as u32;
        assert_eq!(tile, WARPS * ROWS, "a row for every four lanes");
        let share = Rows::TwoRuns(warp);
        let sources = params
            .segments
            .iter()
            .map(|keys| (Lookup::new(b, &params.tiling, keys, tile, share), keys.k.scattered()));
        let sources = sources.collect();
        let mut panel = 0;
        let units = units.map(|(panels, pipeline)| {
            let first = panel;
            panel += panels;
            (first..panel, pipeline.producer(b))
        });
        let units = units.collect();
        Unpack {
            params,
            sources,
            ring,
            units,
            marks,
            warp,
            lane: Lane::new(b, warp),
            words: (0..PANELS).map(|panel| b.regs(words_of(panel))).collect(),
        }
    }

    /// Brings what a tile of work asks for, last keys first. Rows are looked up three tiles ahead, brought to L2
    /// two tiles ahead, and loaded one tile ahead.
    #[track_caller]
    pub fn bring(&self, b: &mut Builder, open: &OpenTile) {
        self.params.for_each_segment(b, open, |b, segment, open| {
            let (lookup, source) = &self.sources[segment];
            let rows = source.packed();
            let last = b.sub(open.range.end, 1);
            let [before, long_before] = [1, 2].map(|tiles| b.sub(last, tiles));
            let [now, next, ahead] =
                [last, before, long_before].map(|n| lookup.look_up(b, open, n));
            let [now, next] = [now, next].map(|row| lookup.places(b, open, source, &row).remove(0));
            self.load(b, rows, &now);
            open.range.for_each_down(b, |b, n| {
                self.unpack(b, &now);
                now.assign(b, &next);
                self.load(b, rows, &now);
                lookup.place_into(b, open, source, &ahead[0], &next);
                self.prefetch(b, rows, &next);
                let after = b.sub(n, 3);
                lookup.look_up_into(b, open, after, &ahead);
            });
        });
    }

    /// Loads this lane's part of the row at `place`, zeros where there is none.
    #[track_caller]
    fn load(&self, b: &mut Builder, rows: &Model1, place: &Place) {
        self.lane.load(b, rows, place, self.panels(0..PANELS));
    }

    /// Panels, and what the lane holds of each.
    fn panels(&self, panels: Range<u32>) -> impl Iterator<Item = (u32, &[Reg<u32>])> {
        panels.map(|panel| (panel, self.words[panel as usize].as_slice()))
    }

    /// Brings the row at `place` to L2: each of its lanes a line, and the last one.
    #[track_caller]
    fn prefetch(&self, b: &mut Builder, rows: &Model1, place: &Place) {
        let exists = place.exists(b);
        b.if_(exists, |b| {
            let row = row_at(b, rows.base, place.row);
            let line = b.mul_wide(self.lane.quarter, LINE_BYTES);
            let from = b.global_add(row, line);
            b.prefetch_to_l2(from);
            b.prefetch_to_l2(row.plus(i64::from(ROW_BYTES - UNIT_BYTES)));
        });
    }

    /// Stores what was loaded of the row at `place`, unpacked, and says so.
    #[track_caller]
    fn unpack(&self, b: &mut Builder, place: &Place) {
        let slots: Vec<_> = self.units.iter().map(|(_, cursor)| cursor.take(b)).collect();
        let scales = place.scales.expect("rows with scales");
        for ((panels, _), slot) in self.units.iter().zip(&slots) {
            slot.wait(b);
            let to = slot.tile(b, self.ring).blocks(panels.clone());
            self.lane.store(b, to, &scales, self.panels(panels.clone()));
        }
        if let Some(marks) = self.marks {
            self.write_marks(b, marks, place, slots[0].stage());
        }
        b.fence_proxy_async();
        b.warp_sync();
        for slot in &slots {
            let full = slot.full(b);
            full.arrive_if(b, self.lane.lead);
        }
    }

    /// Says which of this warp's rows exist.
    #[track_caller]
    fn write_marks(&self, b: &mut Builder, marks: &Marks, place: &Place, stage: Reg<u32>) {
        let exists = place.exists(b);
        let byte = self.lane.existing(b, exists);
        marks.write_bytes(b, self.warp, stage, &[byte], self.lane.lead);
    }
}

/// Stores a lane's quarter of a panel: two units.
#[track_caller]
fn store_panel(
    b: &mut Builder,
    panel: u32,
    words: &[Reg<u32>],
    scales: &[Reg<u32>; 2],
    to: [SmemPtr; 2],
) {
    let packed = panel * CHUNK < FP8;
    let scale = packed.then(|| scale(b, scales[panel as usize / 4], panel % 4 * 8));
    for (words, to) in words.chunks_exact(words.len() / 2).zip(to) {
        match scale {
            None => b.st_shared_vector(to, words),
            Some(scale) => {
                let pairs = words.iter().flat_map(|word| unpack_word(b, *word, scale));
                let pairs: Vec<_> = pairs.collect();
                b.st_shared_vector(to, &pairs);
            }
        }
    }
}

/// Words of a panel that a lane holds.
pub fn words_of(panel: u32) -> usize {
    if panel * CHUNK < FP8 { 4 } else { 8 }
}

/// Four numbers of e4m3 times a power of two, as pairs of bf16.
#[track_caller]
fn unpack_word(b: &mut Builder, word: Reg<u32>, scale: Reg<f32>) -> [Reg<u32>; 2] {
    let [x, y, z, w] = b.unpack_e4m3(word).map(|number| b.mul(number, scale));
    [b.pack(HalfType::Bf16, x, y), b.pack(HalfType::Bf16, z, w)]
}

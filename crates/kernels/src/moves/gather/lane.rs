//! A lane of the warps that unpack rows: what it loads, unpacks and stores.
//!
//! Four lanes share a row; each has a quarter of every panel of it. Of a panel of 64 numbers a lane makes two vectors of
//! 16 bytes. Lanes of neighbouring rows store together; the swizzle gives them different banks.
//!
//! Where scales are not looked up with the row, each of the four lanes loads a quarter of them, which are those of two
//! panels, and hands them to the others.

use super::format::{Format, Numbers, ScaleKind, ScalePlace};
use super::lookup::{Place, Rows};
use super::numbers::{self, Scale};
use super::packed::Packed;
use super::share::row_at;
use crate::call::tensors::CHUNK;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, RowVectors, SharedTile, SmemPtr, VECTOR_BYTES};

/// Lanes that share a row.
pub const LANES_PER_ROW: u32 = 4;
/// Rows of a warp.
pub const ROWS: u32 = 32 / LANES_PER_ROW;
/// A lane of the warps: its row of a tile of 64, and its quarter of every panel of it.
pub struct Lane {
    pub lane: Reg<u32>,
    /// True in one lane of a warp.
    pub lead: Reg<bool>,
    row: Reg<u32>,
    pub quarter: Reg<u32>,
}

/// A lane's quarter of every panel of a row in memory.
pub struct Quarter {
    format: Format,
    exists: Reg<bool>,
    /// Where that of a panel of numbers with scales is, and of one of 16-bit numbers, but for the panel's own offset.
    narrow: GlobalPtr,
    wide: GlobalPtr,
    /// Where that of the scales is, if they were not looked up.
    scales: Option<GlobalPtr>,
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
            quarter: b.eval(lane % LANES_PER_ROW),
        }
    }

    /// Loads this lane's part of some panels of the row at `place` to the words of each, zeros where there is none.
    #[track_caller]
    pub fn load<'w>(
        &self,
        b: &mut Builder,
        rows: &Packed,
        place: &Place,
        panels: impl Iterator<Item = (u32, &'w [Reg<u32>])>,
        scales: &[Reg<u32>],
    ) {
        let quarter = self.quarter_of(b, rows.format, rows.base, place);
        panels.for_each(|(panel, words)| quarter.load(b, panel, words));
        match place.aside.words() {
            looked_up @ [_, _] => {
                scales.iter().zip(looked_up).for_each(|(to, scale)| b.assign(*to, *scale));
            }
            _ => quarter.load_scales(b, scales),
        }
    }

    /// This lane's quarter of the row at `place` of the rows at `base`.
    #[track_caller]
    pub fn quarter_of(
        &self,
        b: &mut Builder,
        format: Format,
        base: GlobalPtr,
        place: &Place,
    ) -> Quarter {
        let exists = place.exists(b);
        let row = b.select::<u32>(exists, place.row, 0);
        let row = row_at(b, base, row);
        let bytes = format.scaled_numbers().quarter_bytes();
        let quarter = b.eval(self.quarter.widening_mul(bytes));
        let narrow = b.global_add(row, quarter);
        let scales = match format.scale_place() {
            ScalePlace::LookedUp => None,
            ScalePlace::Row(at) => Some(row.plus(at.into())),
            ScalePlace::Footer => place.aside.words().first().map(|place| row_at(b, base, *place)),
        };
        let of_quarter = self.quarter.widening_mul(format.scale_bytes() / 4);
        let scales = scales.map(|first| b.global_add(first, of_quarter));
        // Numbers of two bytes lie twice as far apart as those of one.
        Quarter { format, exists, narrow, wide: b.global_add(narrow, quarter), scales }
    }

    /// Stores what was loaded of some panels of a row of these scales, unpacked, side by side in `to`.
    #[track_caller]
    pub fn store<'w>(
        &self,
        b: &mut Builder,
        format: Format,
        to: SharedTile,
        scales: &[Reg<u32>],
        panels: impl Iterator<Item = (u32, &'w [Reg<u32>])>,
    ) {
        let writer = self.writer(b, to);
        for (i, (panel, words)) in (0..).zip(panels) {
            let unpacked = self.unpack(b, format, panel, words, scales);
            writer.store(b, i, &unpacked);
        }
    }

    /// A lane's quarter of a panel of a row of these scales, in pairs of bf16.
    #[track_caller]
    pub fn unpack(
        &self,
        b: &mut Builder,
        format: Format,
        panel: u32,
        words: &[Reg<u32>],
        scales: &[Reg<u32>],
    ) -> Vec<Reg<u32>> {
        let (words, numbers) = (&words[..format.words_of(panel)], format.numbers(panel));
        if numbers == Numbers::Bf16 {
            return words.to_vec();
        }
        let scale = self.scale(b, format, panel, scales);
        words.iter().flat_map(|word| numbers::unpack_word(b, numbers, *word, scale)).collect()
    }

    /// The scale of this lane's quarter of a panel, of what the lanes of a row hold of its scales.
    #[track_caller]
    fn scale(&self, b: &mut Builder, format: Format, panel: u32, scales: &[Reg<u32>]) -> Scale {
        let kind = format.scales();
        if format.scale_place() == ScalePlace::LookedUp {
            return numbers::scale(b, kind, scales[panel as usize / 4], panel % 4 * 8);
        }
        let holder = (self.lane & !(LANES_PER_ROW - 1)) | (panel / 2);
        let word = b.lane_value(scales[panel as usize % scales.len()], holder);
        let byte = match kind {
            ScaleKind::PowerPerHalf => self.quarter / 2 + panel % 2 * 2,
            _ => self.quarter.into(),
        };
        let bit = b.eval(byte << 3);
        numbers::scale(b, kind, word, bit)
    }

    /// Where panels of a row go: side by side in `to`.
    #[track_caller]
    pub fn writer(&self, b: &mut Builder, to: SharedTile) -> Writer {
        let first = b.eval(self.quarter << 1);
        Writer(to.row(b, self.row).from_vector(b, first))
    }

    /// Whether each of a warp's rows exists, a bit each, of what the lanes of a row know of it.
    #[track_caller]
    pub fn existing(&self, b: &mut Builder, exists: Reg<bool>) -> Reg<u32> {
        // Lane `i` speaks for row `i`; lanes beyond the rows speak again for some of them, into bits unused.
        let speaker = b.eval(self.lane * LANES_PER_ROW);
        let speaker = b.eval(speaker % 32);
        let known = b.select::<u32>(exists, 1, 0);
        let spoken = b.lane_value(known, speaker);
        let exists = b.setp(Cmp::Ne, spoken, 0);
        b.ballot(exists)
    }
}

impl Quarter {
    /// Loads the lane's part of a panel to `words`, zeros where there is no row.
    #[track_caller]
    pub fn load(&self, b: &mut Builder, panel: u32, words: &[Reg<u32>]) {
        let words = &words[..self.format.words_of(panel)];
        words.iter().for_each(|word| b.assign(*word, 0));
        let wide = self.format.numbers(panel) == Numbers::Bf16;
        let from = if wide { self.wide } else { self.narrow };
        for (vector, words) in (0..).zip(words.chunks(4)) {
            let from = from.plus((self.format.panel_at(panel) + vector * VECTOR_BYTES).into());
            b.ld_global_if(self.exists, from, words);
        }
    }

    /// Loads the lane's quarter of the scales to `words`, zeros where there is no row.
    #[track_caller]
    pub fn load_scales(&self, b: &mut Builder, words: &[Reg<u32>]) {
        words.iter().for_each(|word| b.assign(*word, 0));
        let from = self.scales.expect("scales that were not looked up");
        b.ld_global_if(self.exists, from, words);
    }

    /// Copies the lane's part of a panel of bytes to `to`, zeros where there is no row; nothing waits for it.
    #[track_caller]
    pub fn copy(&self, b: &mut Builder, panel: u32, to: SmemPtr) {
        let bytes = b.select::<u32>(self.exists, VECTOR_BYTES, 0);
        b.cp_async16(to, self.narrow.plus(self.format.panel_at(panel).into()), Some(bytes));
    }
}

/// Where a lane stores its quarters of panels.
pub struct Writer(RowVectors);

impl Writer {
    /// Stores a lane's quarter of panel `i` of a tile: two vectors.
    #[track_caller]
    pub fn store(&self, b: &mut Builder, i: u32, unpacked: &[Reg<u32>]) {
        for (words, column) in unpacked.chunks_exact(4).zip([0, CHUNK / 8]) {
            let to = self.0.vector(b, i * CHUNK + column);
            b.st_shared_vector(to, words);
        }
    }
}

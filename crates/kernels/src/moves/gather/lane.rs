//! A lane of the warps that unpack rows: what it loads, unpacks and stores.
//!
//! Four lanes share a row; each has a quarter of every panel of it. Of a panel of 64 numbers a lane makes two vectors of
//! 16 bytes. Lanes of neighbouring rows store together; the swizzle gives them different banks.
//!
//! A number times its power of two is a bf16 number: nothing is rounded.

use super::lookup::{Place, Rows};
use super::model1::{FP8, Model1, scale_pair};
use super::share::row_at;
use crate::call::tensors::CHUNK;
use ptx::build::{
    Builder, Cmp, GlobalPtr, HalfType, Reg, RowVectors, SharedTile, SmemPtr, VECTOR_BYTES,
};

/// Lanes that share a row.
pub const LANES_PER_ROW: u32 = 4;
/// Rows of a warp.
pub const ROWS: u32 = 32 / LANES_PER_ROW;
/// Panels of a row.
pub const PANELS: u32 = FP8 / CHUNK + 1;

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
    exists: Reg<bool>,
    /// Where that of a panel of bytes is, and of one of 16-bit numbers, but for the panel's own offset.
    narrow: GlobalPtr,
    wide: GlobalPtr,
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
        rows: &Model1,
        place: &Place,
        panels: impl Iterator<Item = (u32, &'w [Reg<u32>])>,
    ) {
        let quarter = self.quarter_of(b, rows.base, place);
        panels.for_each(|(panel, words)| quarter.load(b, panel, words));
    }

    /// This lane's quarter of the row at `place` of the rows at `base`.
    #[track_caller]
    pub fn quarter_of(&self, b: &mut Builder, base: GlobalPtr, place: &Place) -> Quarter {
        let exists = place.exists(b);
        let row = b.select::<u32>(exists, place.row, 0);
        let row = row_at(b, base, row);
        let quarter = b.eval(self.quarter.widening_mul(VECTOR_BYTES));
        let narrow = b.global_add(row, quarter);
        // Numbers of two bytes lie twice as far apart.
        Quarter { exists, narrow, wide: b.global_add(narrow, quarter) }
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
        let writer = self.writer(b, to);
        for (i, (panel, words)) in (0..).zip(panels) {
            let unpacked = unpack(b, panel, words, scales);
            writer.store(b, i, &unpacked);
        }
    }

    /// Where panels of a row go: side by side in `to`.
    #[track_caller]
    pub fn writer(&self, b: &mut Builder, to: SharedTile) -> Writer {
        let first_unit = b.eval(self.quarter << 1);
        Writer(to.row(b, self.row).from_vector(b, first_unit))
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
        let words = &words[..words_of(panel)];
        words.iter().for_each(|word| b.assign(*word, 0));
        let from = if panel * CHUNK < FP8 { self.narrow } else { self.wide };
        for (vector, words) in (0..).zip(words.chunks_exact(4)) {
            let from = from.plus((panel * CHUNK + vector * VECTOR_BYTES).into());
            b.ld_global_if(self.exists, from, words);
        }
    }

    /// Copies the lane's part of a panel of bytes to `to`, zeros where there is no row; nothing waits for it.
    #[track_caller]
    pub fn copy(&self, b: &mut Builder, panel: u32, to: SmemPtr) {
        let bytes = b.select::<u32>(self.exists, VECTOR_BYTES, 0);
        b.cp_async16(to, self.narrow.plus((panel * CHUNK).into()), Some(bytes));
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

/// A lane's quarter of a panel of a row of these scales, in pairs of bf16.
#[track_caller]
pub fn unpack(
    b: &mut Builder,
    panel: u32,
    words: &[Reg<u32>],
    scales: &[Reg<u32>; 2],
) -> Vec<Reg<u32>> {
    let words = &words[..words_of(panel)];
    if panel * CHUNK >= FP8 {
        return words.to_vec();
    }
    let scale = scale_pair(b, scales[panel as usize / 4], panel % 4 * 8);
    words.iter().flat_map(|word| unpack_word(b, *word, scale)).collect()
}

/// Words of a panel that a lane holds.
pub fn words_of(panel: u32) -> usize {
    if panel * CHUNK < FP8 { 4 } else { 8 }
}

/// Four numbers of e4m3 times a power of two, as pairs of bf16.
#[track_caller]
fn unpack_word(b: &mut Builder, word: Reg<u32>, scale: Reg<u32>) -> [Reg<u32>; 2] {
    let [x, y, z, w] = b.unpack_e4m3(word);
    let pairs = [b.pack(HalfType::Bf16, x, y), b.pack(HalfType::Bf16, z, w)];
    pairs.map(|pair| b.mul_halves(HalfType::Bf16, pair, scale))
}

//! MODEL1 rows on their way to the warps that unpack them: tensor copies of four rows each bring their bytes as they
//! are.
//!
//! A page's stride is a multiple of a row's 576 bytes, so one tensor map of two dimensions reaches every row. A warp has
//! eight rows of a slot, and two stages for them. The bytes of two fp8 panels, or of the one of 16-bit numbers, are a box
//! of 128 bytes: a row takes two or three boxes. A warp asks for a stage when it has unpacked what was there before. No
//! other warp touches its rows, so a stage has one barrier, on which its bytes are counted.
//!
//! Four lanes read a row, and the two rows of eight lanes must lie in different banks. So one copy brings a warp's four
//! rows of even numbers, the next one those of odd numbers: the swizzle moves them apart.

use super::config::{PANEL, SLOT_ROWS};
use crate::blackwell::config::ELEMENT_BITS;
use crate::moves::gather::{self, Format, Place, RawMap};
use layout::hw::{Major, SmemSwizzle, SmemTile};
use ptx::build::{
    Builder, Cmp, Reg, SharedTile, SharedTiles, SignalCursor, Signals, SmemPtr, VECTOR_BYTES,
};

/// Slots whose bytes a warp has asked for.
const STAGES: u32 = 2;
/// Boxes of a row, at most.
const BOXES: u32 = 3;
/// Rows of a warp.
const ROWS: u32 = 8;
/// Rows of a copy.
const FOUR: u32 = 4;
/// Bytes of a row of a box.
const BOX_BYTES: u32 = 128;
/// 16-bit columns of a vector.
const VECTOR: u32 = VECTOR_BYTES / 2;
/// Panels of a slot.
const PANELS: usize = 4;

/// The stages of all warps of a CTA.
pub struct RawRing {
    tiles: SharedTiles,
    /// A barrier for each stage of each warp.
    arrived: Signals,
}

impl RawRing {
    /// A stage of all warps: a line for each row, a block for each box.
    fn tile() -> SmemTile {
        let columns = BOXES * PANEL;
        SmemTile::new(SLOT_ROWS.into(), columns.into(), ELEMENT_BITS, Major::K, SmemSwizzle::B128)
            .expect("whole boxes")
    }

    /// Bytes of all stages.
    pub fn bytes() -> u32 {
        STAGES * Self::tile().bytes() as u32
    }

    /// Reserves the stages.
    pub fn reserve(b: &mut Builder, shared: SmemPtr) -> Self {
        RawRing {
            tiles: SharedTiles::reserve(b, shared, Self::tile(), STAGES),
            arrived: Signals::reserve(b, shared, STAGES * gather::UNPACKING_WARPS),
        }
    }

    /// Initialises the barriers (one thread).
    #[track_caller]
    pub fn init(&self, b: &mut Builder) {
        self.arrived.init(b, 1);
    }
}

/// A warp's rows.
pub struct RawRows {
    format: Format,
    map: RawMap,
    stages: [(SharedTile, SignalCursor); STAGES as usize],
    lane: Reg<u32>,
    /// True in one lane of the warp, and in those that issue copies.
    lead: Reg<bool>,
    issues: Reg<bool>,
    /// Bytes of a box before the four rows that this lane asks for.
    offset: Reg<u32>,
    /// Where this lane's quarters of a box of two panels are in the first stage, and the two vectors of its quarter of a
    /// box of one.
    narrow: [SmemPtr; 2],
    wide: [SmemPtr; 2],
}

impl RawRows {
    /// The rows of warp `warp`.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        ring: &RawRing,
        (format, map): (Format, RawMap),
        warp: Reg<u32>,
    ) -> Self {
        let lane = b.special("%laneid");
        let first = b.eval(warp * ROWS);
        // Lanes of odd rows have this bit, and ask for odd rows.
        let four = b.eval(first + (lane & FOUR));
        let others = b.eval(lane & !FOUR);
        let line = b.eval(four + (lane >> 3));
        let row = ring.tiles.tile(0).row(b, line);
        let quarter = b.eval(lane & 3);
        let narrow = row.from_vector(b, quarter);
        let pair = b.eval(quarter << 1);
        let wide = row.from_vector(b, pair);
        let stages = [0, 1].map(|stage| {
            let number = b.eval(warp * STAGES + stage);
            let arrived = ring.arrived.only(b, number).cursor(b);
            (ring.tiles.tile(stage), arrived)
        });
        RawRows {
            format,
            map,
            stages,
            lane,
            lead: b.setp(Cmp::Eq, lane, 0),
            issues: b.setp(Cmp::Eq, others, 0),
            offset: b.eval(four * BOX_BYTES),
            narrow: [0, PANEL / 2].map(|column| narrow.vector(b, column)),
            wide: [0, VECTOR].map(|column| wide.vector(b, column)),
        }
    }

    /// The rows that this lane asks for, of those at the places that the lanes of each row know.
    #[track_caller]
    pub fn four(&self, b: &mut Builder, place: &Place) -> [Reg<u32>; FOUR as usize] {
        let own = self.map.row(b, self.format, place);
        let odd = b.eval(self.lane & FOUR);
        std::array::from_fn(|i| {
            let from = b.eval(odd + i as u32 * ROWS);
            b.lane_value(own, from)
        })
    }

    /// Asks for some panels of the rows of each four lanes, to stage `stage`, which nothing reads any more.
    #[track_caller]
    pub fn ask(
        &self,
        b: &mut Builder,
        stage: usize,
        rows: [Reg<u32>; FOUR as usize],
        panels: &[u32; PANELS],
    ) {
        let (tile, arrived) = &self.stages[stage];
        let (boxes, barrier) = (self.boxes(panels), arrived.barrier(b));
        let bytes = boxes.len() as u32 * ROWS * BOX_BYTES;
        b.if_(self.lead, |b| barrier.arrive_expect(b, bytes));
        let at = b.smem_add(tile.at(), self.offset);
        b.if_(self.issues, |b| {
            for (n, byte) in (0..).zip(boxes) {
                let at = at.plus(n * tile.layout().block_bytes() as u32);
                self.map.gather(b, at, byte, rows, barrier);
            }
        });
    }

    /// Waits until what was asked for has come to stage `stage`.
    #[track_caller]
    pub fn wait(&self, b: &mut Builder, stage: usize) {
        let (_, arrived) = &self.stages[stage];
        arrived.wait(b);
        arrived.advance(b);
    }

    /// The words of this lane's quarter of each panel of its row.
    #[track_caller]
    pub fn words(
        &self,
        b: &mut Builder,
        stage: usize,
        panels: &[u32; PANELS],
    ) -> Vec<Vec<Reg<u32>>> {
        let tile = self.stages[stage].0.layout();
        let (stage, block) = (stage as u32 * tile.bytes() as u32, tile.block_bytes() as u32);
        let words = |(i, panel): (u32, &u32)| match self.format.words_of(*panel) {
            4 => {
                let at = self.narrow[i as usize % 2].plus(stage + i / 2 * block);
                b.ld_shared_vector(at, 4)
            }
            _ => {
                let load =
                    |at: SmemPtr| b.ld_shared_vector(at.plus(stage + (BOXES - 1) * block), 4);
                self.wide.map(load).concat()
            }
        };
        (0..).zip(panels).map(words).collect()
    }

    /// The first bytes of the boxes that hold the panels of a slot: two pairs of panels, and the last one if it has
    /// 16-bit numbers.
    fn boxes(&self, panels: &[u32; PANELS]) -> Vec<u32> {
        let wide = panels.iter().filter(|panel| self.format.words_of(**panel) != 4);
        let first = panels.iter().step_by(2).chain(wide);
        first.map(|panel| self.format.panel_at(*panel)).collect()
    }
}

//! Marks of the keys that exist on their way from the warps that look keys up to the softmax warps.
//!
//! Marks have a ring of their own: softmax waits for the scores of a tile, which the tensor cores tell of, and nothing
//! in that says that what other threads stored before is visible.

use super::config::TILE;
use super::rows::ROW_WARPS;
use crate::moves::marks::{self, Marks};
use ptx::build::{Builder, Consumer, Cursor, Pipeline, Producer, Reg, SmemPtr};

/// Tiles whose marks are in shared memory: more than the ring of keys and values holds of most head dims.
const STAGES: u32 = 4;

/// Marks in shared memory, and their barriers.
pub struct MarkRing {
    marks: Marks,
    ring: Pipeline,
}

/// Marks, as a warp that looks keys up writes them.
pub struct MarkWriter<'f> {
    marks: &'f Marks,
    cursor: Cursor<Producer>,
}

/// Marks, as a softmax warp reads them.
pub struct MarkReader<'f> {
    marks: &'f Marks,
    cursor: Cursor<Consumer>,
}

impl MarkRing {
    /// Reserves the ring.
    pub fn reserve(b: &mut Builder, shared: SmemPtr) -> Self {
        MarkRing {
            marks: Marks::reserve(b, shared, TILE, STAGES),
            ring: Pipeline::reserve(b, shared, STAGES),
        }
    }

    /// Initialises the barriers (one thread): so many warps write the marks of a tile.
    #[track_caller]
    pub fn init(&self, b: &mut Builder, writers: u32) {
        self.ring.init(b, writers, ROW_WARPS);
    }

    /// What a warp writes marks with.
    #[track_caller]
    pub fn writer(&self, b: &mut Builder) -> MarkWriter<'_> {
        MarkWriter { marks: &self.marks, cursor: self.ring.producer(b) }
    }

    /// What a warp reads marks with.
    #[track_caller]
    pub fn reader(&self, b: &mut Builder) -> MarkReader<'_> {
        MarkReader { marks: &self.marks, cursor: self.ring.consumer(b) }
    }
}

impl MarkWriter<'_> {
    /// Writes a warp's words of the next tile: whether the keys that each lane looked up exist.
    #[track_caller]
    pub fn write(&self, b: &mut Builder, warp: Reg<u32>, exist: &[Reg<bool>], lead: Reg<bool>) {
        let slot = self.cursor.take(b);
        slot.wait(b);
        self.marks.write(b, warp, slot.stage(), exist, lead);
        let full = slot.full(b);
        full.arrive_if(b, lead);
    }
}

impl MarkWriter<'_> {
    /// Writes what warp `number` of those that unpack found of the next tile: bytes of the keys that exist.
    #[track_caller]
    pub fn write_bytes(
        &self,
        b: &mut Builder,
        number: Reg<u32>,
        bytes: &[Reg<u32>],
        lead: Reg<bool>,
    ) {
        let slot = self.cursor.take(b);
        slot.wait(b);
        self.marks.write_bytes(b, number, slot.stage(), bytes, lead);
        let full = slot.full(b);
        full.arrive_if(b, lead);
    }
}

impl MarkReader<'_> {
    /// Replaces the scores of keys of the next tile that do not exist by `-inf`: neighbours, from the tile's first key
    /// on or that of number `first`, a multiple of 64.
    #[track_caller]
    pub fn hide(
        &self,
        b: &mut Builder,
        scores: &[Reg<f32>],
        first: Option<Reg<u32>>,
        lead: Reg<bool>,
    ) {
        let slot = self.cursor.take(b);
        slot.wait(b);
        let words = self.marks.read_run(b, slot.stage(), first, scores.len() as u32);
        marks::hide_run(b, &words, scores);
        b.warp_sync();
        slot.release_if(b, lead);
    }
}

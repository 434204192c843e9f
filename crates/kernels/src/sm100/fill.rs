//! Filling shared memory by TMA: queries, and the ring of keys and values.
//!
//! Keys and values share one ring of slots, filled in exactly the order the issuing warp multiplies
//! them. A tile wider than a slot takes several, so the ring runs at its own grain whatever the head
//! dim.

use super::config::{Piece, ROWS};
use super::frame::Frame;
use crate::copies::{Column, Panels, Tail};
use crate::rows::Block;
use crate::task::OpenTile;
use ptx::build::{
    Arg, Builder, Cursor, Mbarrier, Producer, Reg, SharedTile, SharedTiles, Slot, TensorMapParam,
};

/// The loading warp's side of the buffers.
pub struct Filler<'f> {
    pub frame: &'f Frame,
    /// True in the one thread that issues copies.
    pub lead: Reg<bool>,
    /// Buffers of queries: every block of rows of a tile.
    pub queries: (SharedTiles, Cursor<Producer>),
    /// The ring of keys and values.
    pub kv: (SharedTiles, Cursor<Producer>),
    /// Publishes values whose last rows must be cleared first.
    pub tail: Tail,
}

impl Filler<'_> {
    /// Loads the queries of a tile.
    pub fn load_queries(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        let (ring, cursor) = &self.queries;
        let slot = cursor.take(b);
        slot.wait(b);
        b.if_(self.lead, |b| {
            let full = slot.full(b);
            let panels = config.query_tile().blocks() as u32;
            let bytes = config.packing.used() * config.panel_bytes() / ROWS;
            full.arrive_expect(b, config.blocks * panels * bytes);
            let to = slot.tiles(b, *ring);
            for block in 0..config.blocks {
                let number = b.add(open.first_block, block);
                self.copy_block(b, open, number, to.tile(block), full);
            }
        });
    }

    fn copy_block(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        number: Reg<u32>,
        to: SharedTile,
        full: Mbarrier,
    ) {
        let config = &self.frame.config;
        let block = Block::at(b, config.packing, config.group, number);
        let token = b.add(open.sequence.q_start, block.token);
        for panel in 0..to.layout().blocks() as u32 {
            let coordinates = [
                Arg::from((panel * config.panel.columns()) as i32),
                Builder::coordinate(block.head),
                Builder::coordinate(token),
                Builder::coordinate(open.tile.kv_head),
                Builder::coordinate(open.sequence.q_batch),
            ];
            b.tma_load(to.block(panel), self.frame.params.tma_q, &coordinates, full);
        }
    }

    /// Loads the keys of tile `n`, and with them its values where they are the same.
    pub fn load_keys(&self, b: &mut Builder, open: &OpenTile, n: Reg<i32>) {
        let (config, params) = (&self.frame.config, &self.frame.params);
        for piece in config.key_pieces() {
            let column = Column::fixed(piece.column);
            self.load(b, open, n, params.tma_k, piece, column, config.shared_kv);
        }
    }

    /// Loads this CTA's columns of the values of tile `n`, where they did not come with the keys.
    pub fn load_values(&self, b: &mut Builder, open: &OpenTile, n: Reg<i32>) {
        let Some(map) = self.frame.params.tma_v else { return };
        let base = open.slice.map(|slice| b.mul(slice, self.frame.config.slice_dim()));
        for piece in self.frame.config.value_pieces() {
            let column = Column { base, offset: piece.column };
            self.load(b, open, n, map, piece, column, true);
        }
    }

    /// Loads a piece of tile `n` into the next slot; rows past the end of the sequence must be zero
    /// where they are values.
    fn load(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: Reg<i32>,
        map: TensorMapParam,
        piece: Piece,
        column: Column,
        values: bool,
    ) {
        let (to, full) = self.next_slot(b, piece);
        let copy = |b: &mut Builder, on| self.copy(b, open, n, map, column, to, on);
        if values && self.frame.params.dirty_tail {
            self.tail.publish(b, open, n, to, full, copy);
        } else {
            copy(b, full);
        }
    }

    /// Waits for the next slot of the ring.
    fn next_slot(&self, b: &mut Builder, piece: Piece) -> (Panels, Mbarrier) {
        let config = &self.frame.config;
        let (ring, cursor) = &self.kv;
        let slot: Slot<Producer> = cursor.take(b);
        slot.wait(b);
        let used = piece.stored / config.panel.columns();
        let tile = slot.tile(b, *ring).blocks(0..used);
        (Panels::of(tile), slot.full(b))
    }

    /// Issues the copies of tile `n`, counted on `barrier`.
    fn copy(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: Reg<i32>,
        map: TensorMapParam,
        column: Column,
        to: Panels,
        barrier: Mbarrier,
    ) {
        b.if_(self.lead, |b| {
            barrier.arrive_expect(b, to.total_bytes());
            self.frame.params.copy_rows(b, open, n, map, column, to, barrier);
        });
    }
}

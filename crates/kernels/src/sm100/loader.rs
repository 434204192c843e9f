//! The loading warp: brings queries, keys and values to shared memory by TMA.
//!
//! Keys and values share one ring of slots, filled in exactly the order the issuing warp multiplies
//! them: keys of the last tile, then keys and values alternating, values one tile behind. A tile wider
//! than a slot takes several; so the ring runs at its own grain whatever the head dim.

use super::config::{Piece, TILE};
use super::kernel::Frame;
use crate::copies::{Column, Panels};
use crate::rows::Block;
use crate::task::OpenTile;
use ptx::build::{
    Arg, Builder, Cmp, Cursor, Mbarrier, Producer, Reg, SignalCursor, TensorMapParam,
};

struct Loader<'f> {
    frame: &'f Frame,
    /// True in the one thread that issues copies.
    lead: Reg<bool>,
    q: Cursor<Producer>,
    kv: Cursor<Producer>,
    tail: SignalCursor,
}

/// Emits the loading warp.
pub fn emit(b: &mut Builder, frame: &Frame) {
    let shared = &frame.shared;
    let loader = Loader {
        frame,
        lead: b.elect(),
        q: shared.q_ring.producer(b),
        kv: shared.kv_ring.producer(b),
        tail: shared.tail.cursor(b),
    };
    frame.params.for_each_tile(b, |b, open| loader.load_tile(b, &open));
}

impl Loader<'_> {
    fn load_tile(&self, b: &mut Builder, open: &OpenTile) {
        let begin = open.range.begin;
        let n = b.sub(open.range.end, 1);
        let any = b.setp(Cmp::Ge, n, begin);
        b.if_(any, |b| {
            self.load_queries(b, open);
            self.load_keys(b, open, n);
            b.while_(
                |b| b.setp(Cmp::Gt, n, begin),
                |b| {
                    let next = b.sub(n, 1);
                    self.load_keys(b, open, next);
                    self.load_values(b, open, n);
                    b.assign(n, next);
                },
            );
            self.load_values(b, open, n);
        });
    }

    fn load_queries(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        let slot = self.q.take(b);
        slot.wait(b);
        b.if_(self.lead, |b| {
            let full = slot.full(b);
            let columns = config.panel.columns();
            let panels = config.query_tile().blocks() as u32;
            full.arrive_expect(b, config.packing.used() * columns * 2 * panels);
            let to = slot.buffer(b, self.frame.shared.q, config.query_bytes());
            let block = Block::at(b, config.packing, config.group, open.first_block);
            let token = b.add(open.sequence.q_start, block.token);
            for panel in 0..panels {
                let coordinates = [
                    Arg::from((panel * columns) as i32),
                    Builder::coordinate(block.head),
                    Builder::coordinate(token),
                    Builder::coordinate(open.tile.kv_head),
                    Builder::coordinate(open.sequence.q_batch),
                ];
                let to = to.plus(panel * config.panel_bytes());
                b.tma_load(to, self.frame.params.tma_q, &coordinates, full);
            }
        });
    }

    fn load_keys(&self, b: &mut Builder, open: &OpenTile, n: Reg<i32>) {
        let map = self.frame.params.tma_k;
        for piece in self.frame.config.key_pieces() {
            let slot = self.kv.take(b);
            slot.wait(b);
            let to = self.panels(b, &slot, piece);
            let full = slot.full(b);
            self.copy(b, open, n, map, Column::fixed(piece.column), to, full);
        }
    }

    fn load_values(&self, b: &mut Builder, open: &OpenTile, n: Reg<i32>) {
        let map = self.frame.params.tma_v.expect("values are copied apart from keys");
        let base = open.slice.map(|slice| b.mul(slice, self.frame.config.slice_dim()));
        for piece in self.frame.config.value_pieces() {
            let slot = self.kv.take(b);
            slot.wait(b);
            let to = self.panels(b, &slot, piece);
            let full = slot.full(b);
            let column = Column { base, offset: piece.column };
            if self.frame.params.dirty_tail {
                self.copy_and_clear(b, open, n, map, column, to, full);
            } else {
                self.copy(b, open, n, map, column, to, full);
            }
        }
    }

    fn panels(&self, b: &mut Builder, slot: &ptx::build::Slot<Producer>, piece: Piece) -> Panels {
        let config = &self.frame.config;
        Panels {
            at: slot.buffer(b, self.frame.shared.kv, config.slot_bytes()),
            bytes: config.panel_bytes(),
            count: piece.stored / config.panel.columns(),
            rows: TILE,
            ctas: None,
        }
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

    /// As [`Loader::copy`]; rows past the end of the sequence become zero, because a probability of
    /// zero times whatever lies there must be zero.
    fn copy_and_clear(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: Reg<i32>,
        map: TensorMapParam,
        column: Column,
        to: Panels,
        full: Mbarrier,
    ) {
        let first = b.mul(n, TILE as i32);
        let rows_left = b.sub(open.sequence.k_len.reinterpret::<i32>(), first);
        let partial = b.setp(Cmp::Lt, rows_left, TILE as i32);
        b.if_else(
            partial,
            |b| {
                let arrived = self.tail.barrier(b);
                self.copy(b, open, n, map, column, to, arrived);
                self.tail.wait(b);
                self.tail.advance(b);
                let rows = b.max(rows_left, 0);
                to.clear_rows(b, rows.reinterpret());
                b.fence_proxy_async();
                b.warp_sync();
                full.arrive_if(b, self.lead);
            },
            |b| self.copy(b, open, n, map, column, to, full),
        );
    }
}

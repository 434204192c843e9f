//! The producer: brings queries, keys and values to shared memory by TMA.
//!
//! Order of copies per tile: the last keys, the queries, then keys and values alternating, values one
//! step behind: exactly the order the consumers ask for them. Where a tile takes many copies, of one page
//! each, a second warp brings the values: issuing them takes as long as multiplying does.

use super::kernel::Frame;
use crate::call::index::KvTile;
use crate::call::task::OpenTile;
use crate::call::tensors::CHUNK;
use crate::hopper::tile::ROW_BYTES;
use crate::moves::copies::{Column, Counter, Panels, Tail};
use ptx::build::{Builder, Cursor, Producer, Reg, Roles, Slot, TensorMapParam};

struct Loader<'f> {
    frame: &'f Frame,
    /// True in the one thread that issues copies.
    lead: Reg<bool>,
    q: Cursor<Producer>,
    k: Cursor<Producer>,
    v: Cursor<Producer>,
    tail: Tail,
}

/// Emits the producer's warps.
pub fn emit(roles: &mut Roles<'_>, frame: &Frame) {
    let keys = frame.params.keys();
    let values_apart = keys.v.is_some() && keys.rows_per_copy < frame.config.tile;
    roles.warp(0, |b| {
        let loader = Loader::new(b, frame);
        frame.params.for_each_tile(b, |b, open| loader.load_tile(b, &open, !values_apart));
    });
    if values_apart {
        roles.warp(1, |b| {
            let loader = Loader::new(b, frame);
            frame.params.for_each_tile(b, |b, open| {
                open.range.for_each_down(b, |b, n| loader.load_values(b, &open, n));
            });
        });
    }
}

/// Loads the queries of a tile, by the one thread whose `lead` is true.
pub fn load_queries(
    b: &mut Builder,
    frame: &Frame,
    lead: Reg<bool>,
    ring: &Cursor<Producer>,
    open: &OpenTile,
) {
    let config = &frame.config;
    let slot = ring.take(b);
    slot.wait(b);
    b.if_(lead, |b| {
        let full = slot.full(b);
        let chunks = config.key_dim.div_ceil(CHUNK);
        let copy = config.packing.used() * ROW_BYTES;
        full.arrive_expect(b, config.warpgroups * chunks * copy);
        let to = slot.tiles(b, frame.shared.q);
        for warpgroup in 0..config.warpgroups {
            let number = open.first_block.plus(b, warpgroup);
            let to = Panels { count: chunks, ..Panels::of(to.tile(warpgroup)) };
            frame.params.copy_queries(b, open, number, to, full);
        }
    });
}

impl<'f> Loader<'f> {
    fn new(b: &mut Builder, frame: &'f Frame) -> Self {
        let shared = &frame.shared;
        let lead = b.elect();
        Loader {
            frame,
            lead,
            q: shared.q_ring.producer(b),
            k: shared.k_ring.producer(b),
            v: shared.v_ring.producer(b),
            tail: Tail::new(b, lead, &shared.tail),
        }
    }

    /// Loads the queries and keys of a tile, and its values unless another warp does.
    fn load_tile(&self, b: &mut Builder, open: &OpenTile, values: bool) {
        let range = open.range;
        let n = range.end.before(b, 1);
        let any = range.reaches(b, n);
        b.if_(any, |b| self.load_keys(b, open, n, true));
        load_queries(b, self.frame, self.lead, &self.q, open);
        b.if_(any, |b| {
            range.while_more(b, n, |b, next| {
                self.load_keys(b, open, next, false);
                if values {
                    self.load_values(b, open, n);
                }
            });
            if values {
                self.load_values(b, open, n);
            }
        });
    }

    /// Loads the keys of tile `n`, whose rows may end within it if it is the `last` one.
    fn load_keys(&self, b: &mut Builder, open: &OpenTile, n: KvTile, last: bool) {
        let slot = self.k.take(b);
        slot.wait(b);
        let map = self.frame.params.keys().k.map();
        let to = Panels::of(slot.tile(b, self.frame.shared.k));
        if self.frame.config.shared_kv && last {
            self.publish_values(b, open, n, &slot, map, to);
        } else {
            let full = slot.full(b);
            self.copy_rows(b, open, n, map, to, full.into());
        }
    }

    fn load_values(&self, b: &mut Builder, open: &OpenTile, n: KvTile) {
        let Some(values) = self.frame.params.keys().v else { return };
        let slot = self.v.take(b);
        slot.wait(b);
        let to = Panels::of(slot.tile(b, self.frame.shared.v));
        self.publish_values(b, open, n, &slot, values.map(), to);
    }

    /// Copies values (or keys that are values too); nothing may be left of rows past the end.
    fn publish_values(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        slot: &Slot<Producer>,
        map: TensorMapParam,
        to: Panels,
    ) {
        let full = slot.full(b);
        let copy = |b: &mut Builder, barrier| self.copy_rows(b, open, n, map, to, barrier);
        if self.frame.params.keys().dirty_tail {
            self.tail.publish(b, open, n, to, full, copy);
        } else {
            copy(b, full.into());
        }
    }

    /// Issues the copies of tile `n`, counted on `barrier`.
    fn copy_rows(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        map: TensorMapParam,
        to: Panels,
        barrier: Counter,
    ) {
        b.if_(self.lead, |b| {
            barrier.arrive_expect(b, to.total_bytes());
            self.frame.params.keys().copy_rows(b, open, n, map, Column::fixed(0), to, barrier);
        });
    }
}

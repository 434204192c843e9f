//! The producer: brings queries, keys and values to shared memory by TMA.
//!
//! Order of copies per tile: the last keys, the queries, then keys and values alternating, values one
//! step behind: exactly the order the consumers ask for them. Where a tile takes many copies, of one page
//! each, a second warp brings the values: issuing them takes as long as multiplying does.

use super::kernel::Frame;
use crate::call::index::KvTile;
use crate::call::task::OpenTile;
use crate::moves::copies::{Column, Panels};
use crate::roles::loader::{Copier, LoadRows, Order, RowsPastEnd};
use crate::roles::queries::QueryLoader;
use ptx::build::{Builder, Cursor, Producer, Reg, Roles, SharedTiles, TensorMapParam};

struct Loader<'f> {
    frame: &'f Frame,
    queries: QueryLoader<'f>,
    k: Cursor<Producer>,
    v: Cursor<Producer>,
    copier: Copier,
    /// Whether another warp brings the values.
    values_apart: bool,
}

/// Emits the producer's warps.
pub fn emit(roles: &mut Roles<'_>, frame: &Frame) {
    let keys = frame.params.keys();
    let values_apart = keys.v.is_some() && keys.rows_per_copy < frame.config.tile;
    roles.warp(0, |b| {
        let loader = Loader::new(b, frame, values_apart);
        frame.params.lead_tiles(b, |b, open| {
            loader.load_work_tile(b, &open, Order::QueriesSecond);
        });
    });
    if values_apart {
        roles.warp(1, |b| {
            let loader = Loader::new(b, frame, false);
            frame.params.for_each_tile(b, |b, open| {
                open.range.for_each_down(b, |b, n| loader.load_values(b, &open, n));
            });
        });
    }
}

/// The queries that the `lead` of a warp loads.
#[track_caller]
pub fn queries<'f>(b: &mut Builder, frame: &'f Frame, lead: Reg<bool>) -> QueryLoader<'f> {
    let shared = &frame.shared;
    QueryLoader::new(b, &frame.params, lead, (shared.q, &shared.q_ring))
}

impl<'f> Loader<'f> {
    fn new(b: &mut Builder, frame: &'f Frame, values_apart: bool) -> Self {
        let shared = &frame.shared;
        let lead = b.elect();
        Loader {
            frame,
            queries: queries(b, frame, lead),
            k: shared.k_ring.producer(b),
            v: shared.v_ring.producer(b),
            copier: Copier::new(b, lead, &shared.tail),
            values_apart,
        }
    }

    /// Loads KV tile `n` of the rows of `map` into the next slot of a ring; nothing may be left of rows past the end
    /// where they are `values`.
    fn load(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        map: TensorMapParam,
        (tiles, ring): (SharedTiles, &Cursor<Producer>),
        values: bool,
    ) {
        let keys = self.frame.params.keys();
        let runs = keys.look_up_runs(b, open, n, self.frame.config.tile);
        let slot = ring.take(b);
        slot.wait(b);
        let to = Panels::of(slot.tile(b, tiles));
        let full = slot.full(b);
        let past_end = RowsPastEnd::cleared_if(values && keys.dirty_tail);
        if let Some(runs) = runs {
            return self.copier.fill_runs(b, (open, n), to, full, past_end, (keys, map, runs));
        }
        self.copier.fill(b, open, n, to, full, past_end, |b, on| {
            keys.copy_rows(b, open, n, map, Column::fixed(0), to, on);
        });
    }
}

impl LoadRows for Loader<'_> {
    fn load_queries(&self, b: &mut Builder, open: &OpenTile) {
        self.queries.load(b, open, |b, n| open.first_block.plus(b, n));
    }

    fn load_keys(&self, b: &mut Builder, open: &OpenTile, n: KvTile, last: bool) {
        let (map, ring) = (self.frame.params.keys().k.map(), (self.frame.shared.k, &self.k));
        self.load(b, open, n, map, ring, self.frame.config.shared_kv && last);
    }

    fn load_values(&self, b: &mut Builder, open: &OpenTile, n: KvTile) {
        let Some(values) = self.frame.params.keys().v.filter(|_| !self.values_apart) else {
            return;
        };
        self.load(b, open, n, values.map(), (self.frame.shared.v, &self.v), true);
    }
}

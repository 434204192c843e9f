//! The loading warp of each CTA: its own rows of queries, its keys of a tile, its columns of values.
//!
//! Everything is counted on the even CTA's barriers, where the one that multiplies waits. The even CTA's loader
//! announces the bytes of both. Where rows past the end of a sequence are cleared, the threads that did that arrive
//! for them, and both loaders arrive for every slot.
//!
//! Commits tell both CTAs that slots are free. A loader waits for all of them before its CTA may end, so that none
//! arrives in the shared memory of a CTA that is no more.

use super::config::{PANEL, PANEL_BYTES, SLOT_ROWS};
use super::kernel::Frame;
use crate::blackwell::config::TILE;
use crate::call::index::KvTile;
use crate::call::task::OpenTile;
use crate::moves::copies::{Column, Counter, PairBarrier, Panels};
use crate::roles::loader::{Copier, LoadRows, Order, RowsPastEnd};
use crate::roles::queries::QueryLoader;
use ptx::build::{Builder, Cmp, Cursor, Producer, Reg, SmemPtr};

/// This CTA's queries, which the `lead` of a warp loads.
#[track_caller]
pub fn queries<'f>(b: &mut Builder, frame: &'f Frame, lead: Reg<bool>) -> QueryLoader<'f> {
    let shared = &frame.shared;
    let even = b.setp(Cmp::Eq, frame.rank, 0);
    QueryLoader::new(b, &frame.params, lead, (shared.q, &shared.q_ring)).of_cta_pair(even)
}

struct Loader<'f> {
    frame: &'f Frame,
    queries: QueryLoader<'f>,
    kv: Cursor<Producer>,
    copier: Copier,
    even: Reg<bool>,
}

/// Emits the loading warp.
pub fn emit(b: &mut Builder, frame: &Frame) {
    let shared = &frame.shared;
    let lead = b.elect();
    let loader = Loader {
        frame,
        queries: queries(b, frame, lead),
        kv: shared.kv_ring.producer(b),
        copier: Copier::new(b, lead, &shared.tail),
        even: b.setp(Cmp::Eq, frame.rank, 0),
    };
    frame.params.for_each_tile(b, |b, open| loader.load_work_tile(b, &open, Order::KeysFirst));
    loader.kv.drain(b);
    loader.queries.drain(b);
}

impl LoadRows for Loader<'_> {
    fn load_queries(&self, b: &mut Builder, open: &OpenTile) {
        self.queries.load(b, open, |b, _| self.frame.block_number(b, open));
    }

    /// This CTA's 64 keys.
    fn load_keys(&self, b: &mut Builder, open: &OpenTile, n: KvTile, _last: bool) {
        let half_tile = self.half_tile(b, n, self.frame.rank.reinterpret());
        let keys = self.frame.params.keys();
        for (column, steps) in self.frame.config.key_pieces() {
            let (at, full) = self.next_slot(b);
            let to = panels(at, (steps * 16).div_ceil(PANEL));
            self.copier.issue(b, to, full.into(), |b, on| {
                let column = Column::fixed(column);
                keys.copy_rows(b, open, half_tile, keys.k.map(), column, to, on);
            });
        }
    }

    /// This CTA's columns of the values, 64 keys at a time.
    fn load_values(&self, b: &mut Builder, open: &OpenTile, n: KvTile) {
        for half in 0..2 {
            let half = b.value::<i32>(half);
            let half_tile = self.half_tile(b, n, half);
            let (at, full) = self.next_slot(b);
            let to = self.all_panels(at);
            let past_end = RowsPastEnd::cleared_if(self.frame.params.keys().dirty_tail);
            self.copier.fill(b, open, half_tile, to, full, past_end, |b, on| {
                self.copy_values(b, open, half_tile, at, on);
            });
        }
    }
}

impl Loader<'_> {
    fn half_tile(&self, b: &mut Builder, n: KvTile, half: Reg<i32>) -> KvTile {
        KvTile::new(b.eval(n.reg() * (TILE / SLOT_ROWS) as i32 + half))
    }

    fn next_slot(&self, b: &mut Builder) -> (SmemPtr, PairBarrier) {
        let slot = self.kv.take(b);
        slot.wait(b);
        let own = slot.full(b);
        let full = PairBarrier::new(b, own, self.even, self.frame.fills());
        (slot.tile(b, self.frame.shared.kv).at(), full)
    }

    fn all_panels(&self, at: SmemPtr) -> Panels {
        panels(at, self.frame.config.accumulators() * self.frame.config.accumulator_panels())
    }

    fn copy_values(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        half_tile: KvTile,
        at: SmemPtr,
        counter: Counter,
    ) {
        let config = &self.frame.config;
        let map = self.frame.params.keys().v.expect("values are copied apart from keys").map();
        let base = b.eval(self.frame.rank * (config.accumulator_columns() / 2));
        for n in 0..config.accumulators() {
            let column = Column { base: Some(base), offset: n * config.accumulator_columns() };
            let at = at.plus(n * config.accumulator_panels() * PANEL_BYTES);
            let to = panels(at, config.accumulator_panels());
            self.frame.params.keys().copy_rows(b, open, half_tile, map, column, to, counter);
        }
    }
}

fn panels(at: SmemPtr, count: u32) -> Panels {
    Panels { at, bytes: PANEL_BYTES, count, rows: SLOT_ROWS, ctas: None }
}

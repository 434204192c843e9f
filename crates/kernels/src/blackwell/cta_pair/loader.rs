//! The loading warp of each CTA: its own rows of queries, its keys of a tile, its columns of values.
//!
//! Everything is counted on the even CTA's barriers, where the one that multiplies waits; each CTA's
//! loader arrives there with the bytes it brings.

use super::config::{PANEL, PANEL_BYTES, SLOT_ROWS};
use super::kernel::Frame;
use crate::blackwell::config::TILE;
use crate::call::index::KvTile;
use crate::call::task::OpenTile;
use crate::moves::copies::{Column, Counter, Panels, Tail};
use ptx::build::{Builder, Cursor, Producer, Reg, RemoteMbarrier, SmemPtr};

/// The queries, as the loading warp fills them.
pub struct Queries<'f> {
    frame: &'f Frame,
    /// True in the one thread that issues copies.
    lead: Reg<bool>,
    cursor: Cursor<Producer>,
}

struct Loader<'f> {
    frame: &'f Frame,
    /// True in the one thread that issues copies.
    lead: Reg<bool>,
    queries: Queries<'f>,
    kv: Cursor<Producer>,
    tail: Tail,
}

/// Emits the loading warp.
pub fn emit(b: &mut Builder, frame: &Frame) {
    let shared = &frame.shared;
    let lead = b.elect();
    let loader = Loader {
        frame,
        lead,
        queries: Queries::new(b, frame, lead),
        kv: shared.kv_ring.producer(b),
        tail: Tail::new(b, lead, &shared.tail),
    };
    frame.params.for_each_tile(b, |b, open| loader.load_tile(b, &open));
}

impl<'f> Queries<'f> {
    /// The queries that the `lead` of a warp loads.
    #[track_caller]
    pub fn new(b: &mut Builder, frame: &'f Frame, lead: Reg<bool>) -> Self {
        Queries { frame, lead, cursor: frame.shared.q_ring.producer(b) }
    }

    /// Loads the queries of a tile.
    #[track_caller]
    pub fn load(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        let slot = self.cursor.take(b);
        slot.wait(b);
        let full = slot.full(b).in_cta(b, 0);
        b.if_(self.lead, |b| {
            let to = Panels::of(self.frame.shared.q);
            let row_bytes = PANEL_BYTES / super::config::ROWS;
            full.arrive_expect(b, to.count * config.packing.used() * row_bytes);
            let number = self.frame.block_number(b, open);
            self.frame.params.copy_queries(b, open, number, to, full);
        });
    }
}

impl Loader<'_> {
    fn load_tile(&self, b: &mut Builder, open: &OpenTile) {
        open.range.if_any(b, |b, n| {
            self.queries.load(b, open);
            self.load_keys(b, open, n);
            open.range.while_more(b, n, |b, next| {
                self.load_keys(b, open, next);
                self.load_values(b, open, n);
            });
            self.load_values(b, open, n);
        });
    }

    /// This CTA's 64 keys of tile `n`.
    fn load_keys(&self, b: &mut Builder, open: &OpenTile, n: KvTile) {
        let half_tile = self.half_tile(b, n, self.frame.rank.reinterpret());
        for (column, steps) in self.frame.config.key_pieces() {
            let (at, full) = self.next_slot(b);
            let to = panels(at, (steps * 16).div_ceil(PANEL));
            b.if_(self.lead, |b| {
                full.arrive_expect(b, to.total_bytes());
                let column = Column::fixed(column);
                let map = self.frame.params.keys().k.map();
                self.frame.params.keys().copy_rows(b, open, half_tile, map, column, to, full);
            });
        }
    }

    /// This CTA's columns of the values of tile `n`, 64 keys at a time.
    fn load_values(&self, b: &mut Builder, open: &OpenTile, n: KvTile) {
        for half in 0..2 {
            let half = b.value::<i32>(half);
            let half_tile = self.half_tile(b, n, half);
            let (at, full) = self.next_slot(b);
            let to = self.all_panels(at);
            let copy = |b: &mut Builder, on: Counter| {
                b.if_(self.lead, |b| {
                    on.arrive_expect(b, to.total_bytes());
                    self.copy_values(b, open, half_tile, at, on);
                });
            };
            if self.frame.params.keys().dirty_tail {
                self.tail.publish(b, open, half_tile, to, full, copy);
            } else {
                copy(b, full.into());
            }
        }
    }

    fn half_tile(&self, b: &mut Builder, n: KvTile, half: Reg<i32>) -> KvTile {
        KvTile::new(b.eval(n.reg() * (TILE / SLOT_ROWS) as i32 + half))
    }

    fn next_slot(&self, b: &mut Builder) -> (SmemPtr, RemoteMbarrier) {
        let slot = self.kv.take(b);
        slot.wait(b);
        let full = slot.full(b).in_cta(b, 0);
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

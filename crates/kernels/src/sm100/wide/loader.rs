//! The loading warp of each CTA: its own rows of queries, its keys of a tile, its columns of values.
//!
//! Everything is counted on the even CTA's barriers, where the one that multiplies waits; each CTA's
//! loader arrives there with the bytes it brings.

use super::config::{PANEL, PANEL_BYTES, SLOT_ROWS};
use super::kernel::Frame;
use crate::copies::{Column, Counter, Panels};
use crate::rows::Block;
use crate::sm100::config::TILE;
use crate::task::OpenTile;
use ptx::build::{Arg, Builder, Cmp, Cursor, Producer, Reg, RemoteMbarrier, SignalCursor, SmemPtr};

struct Loader<'f> {
    frame: &'f Frame,
    /// True in the one thread that issues copies.
    lead: Reg<bool>,
    queries: Cursor<Producer>,
    kv: Cursor<Producer>,
    tail: SignalCursor,
}

/// Emits the loading warp.
pub fn emit(b: &mut Builder, frame: &Frame) {
    let shared = &frame.shared;
    let loader = Loader {
        frame,
        lead: b.elect(),
        queries: shared.q_ring.producer(b),
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
        let slot = self.queries.take(b);
        slot.wait(b);
        let full = slot.full(b).in_cta(b, 0);
        b.if_(self.lead, |b| {
            let panels = config.query_tile().blocks() as u32;
            let row_bytes = PANEL_BYTES / super::config::ROWS;
            full.arrive_expect(b, panels * config.packing.used() * row_bytes);
            let number = b.add(open.first_block, self.frame.rank);
            let block = Block::at(b, config.packing, config.group, number);
            let token = b.add(open.sequence.q_start, block.token);
            for panel in 0..panels {
                let coordinates = [
                    Arg::from((panel * PANEL) as i32),
                    Builder::coordinate(block.head),
                    Builder::coordinate(token),
                    Builder::coordinate(open.tile.kv_head),
                    Builder::coordinate(open.sequence.q_batch),
                ];
                let to = self.frame.shared.q.block(panel);
                b.tma_load_pair(to, self.frame.params.tma_q, &coordinates, full);
            }
        });
    }

    /// This CTA's 64 keys of tile `n`.
    fn load_keys(&self, b: &mut Builder, open: &OpenTile, n: Reg<i32>) {
        let half_tile = self.half_tile(b, n, self.frame.rank.reinterpret());
        for (column, steps) in self.frame.config.key_pieces() {
            let (at, full) = self.next_slot(b);
            let to = panels(at, (steps * 16).div_ceil(PANEL));
            b.if_(self.lead, |b| {
                full.arrive_expect(b, to.total_bytes());
                let column = Column::fixed(column);
                let map = self.frame.params.tma_k;
                self.frame.params.copy_rows(b, open, half_tile, map, column, to, full);
            });
        }
    }

    /// This CTA's columns of the values of tile `n`, 64 keys at a time.
    fn load_values(&self, b: &mut Builder, open: &OpenTile, n: Reg<i32>) {
        for half in 0..2 {
            let half = b.value::<i32>(half);
            let half_tile = self.half_tile(b, n, half);
            let (at, full) = self.next_slot(b);
            if self.frame.params.dirty_tail {
                self.copy_and_clear(b, open, half_tile, at, full);
            } else {
                b.if_(self.lead, |b| {
                    full.arrive_expect(b, self.all_panels(at).total_bytes());
                    self.copy_values(b, open, half_tile, at, full.into());
                });
            }
        }
    }

    fn half_tile(&self, b: &mut Builder, n: Reg<i32>, half: Reg<i32>) -> Reg<i32> {
        b.mad(n, (TILE / SLOT_ROWS) as i32, half)
    }

    fn next_slot(&self, b: &mut Builder) -> (SmemPtr, RemoteMbarrier) {
        let slot = self.kv.take(b);
        slot.wait(b);
        let full = slot.full(b).in_cta(b, 0);
        (slot.tile(b, self.frame.shared.kv).at(), full)
    }

    /// Panels of one group of a CTA's value columns.
    fn group_panels(&self) -> u32 {
        (self.frame.config.group_columns() / 2).div_ceil(PANEL)
    }

    fn all_panels(&self, at: SmemPtr) -> Panels {
        panels(at, self.frame.config.groups() * self.group_panels())
    }

    fn copy_values(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        half_tile: Reg<i32>,
        at: SmemPtr,
        counter: Counter,
    ) {
        let config = &self.frame.config;
        let map = self.frame.params.tma_v.expect("values are copied apart from keys");
        let base = b.mul(self.frame.rank, config.group_columns() / 2);
        for group in 0..config.groups() {
            let column = Column { base: Some(base), offset: group * config.group_columns() };
            let at = at.plus(group * self.group_panels() * PANEL_BYTES);
            let to = panels(at, self.group_panels());
            self.frame.params.copy_rows(b, open, half_tile, map, column, to, counter);
        }
    }

    /// As [`Loader::copy_values`]; rows past the end of the sequence become zero, because a probability
    /// of zero times whatever lies there must be zero.
    fn copy_and_clear(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        half_tile: Reg<i32>,
        at: SmemPtr,
        full: RemoteMbarrier,
    ) {
        let to = self.all_panels(at);
        let first = b.mul(half_tile, SLOT_ROWS as i32);
        let rows_left = b.sub(open.sequence.k_len.reinterpret::<i32>(), first);
        let partial = b.setp(Cmp::Lt, rows_left, SLOT_ROWS as i32);
        b.if_else(
            partial,
            |b| {
                let arrived = self.tail.barrier(b);
                b.if_(self.lead, |b| {
                    arrived.arrive_expect(b, to.total_bytes());
                    self.copy_values(b, open, half_tile, at, arrived.into());
                });
                self.tail.wait(b);
                self.tail.advance(b);
                let rows = b.max(rows_left, 0);
                to.clear_rows(b, rows.reinterpret());
                b.fence_proxy_async();
                b.warp_sync();
                full.arrive_if(b, self.lead);
            },
            |b| {
                b.if_(self.lead, |b| {
                    full.arrive_expect(b, to.total_bytes());
                    self.copy_values(b, open, half_tile, at, full.into());
                });
            },
        );
    }
}

fn panels(at: SmemPtr, count: u32) -> Panels {
    Panels { at, bytes: PANEL_BYTES, count, rows: SLOT_ROWS, ctas: None }
}

//! Filling shared memory by TMA: queries, and the ring of keys and values.
//!
//! Keys and values share one ring of slots, filled in exactly the order the issuing warp multiplies
//! them. A tile wider than a slot takes several, so the ring runs at its own grain whatever the head
//! dim.

use super::config::{Config, Piece, ROWS};
use super::frame::Frame;
use crate::call::index::KvTile;
use crate::call::task::OpenTile;
use crate::moves::copies::{Column, Counter, Panels, Tail};
use ptx::build::{
    Builder, Cursor, Pipeline, Producer, Reg, SharedTiles, Signals, Slot, SmemPtr, TensorMapParam,
};

/// What is filled: buffers of queries, and the ring of keys and values.
pub struct Buffers {
    pub q: SharedTiles,
    pub kv: SharedTiles,
    pub q_ring: Pipeline,
    pub kv_ring: Pipeline,
    /// Values whose tail must be cleared before they are published have arrived.
    tail: Signals,
}

impl Buffers {
    /// Reserves the buffers of a kernel.
    pub fn reserve(b: &mut Builder, shared: SmemPtr, config: &Config) -> Self {
        let queries = config.q_stages * config.blocks;
        Buffers {
            q: SharedTiles::reserve(b, shared, config.query_tile(), queries),
            kv: SharedTiles::reserve(b, shared, config.key_tile(), config.slots),
            q_ring: Pipeline::reserve(b, shared, config.q_stages),
            kv_ring: Pipeline::reserve(b, shared, config.slots),
            tail: Signals::reserve(b, shared, 1),
        }
    }

    /// Initialises the barriers (one thread): queries are free after `q_releases` arrivals, a slot is full after
    /// `fills`.
    pub fn init(&self, b: &mut Builder, q_releases: u32, fills: u32) {
        self.q_ring.init(b, 1, q_releases);
        self.kv_ring.init(b, fills, 1);
        self.tail.init(b, 1);
    }
}

/// What the issuing warp multiplies first: the scores of a tile, or the output of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Keys of the next tile, then values of this one.
    KeysFirst,
    /// Values of a tile, then keys of the next.
    ValuesFirst,
}

/// The queries, as the loading warp fills them.
pub struct Queries<'f> {
    frame: &'f Frame,
    /// True in the one thread that issues copies.
    lead: Reg<bool>,
    /// Buffers: every row block of a tile.
    ring: SharedTiles,
    cursor: Cursor<Producer>,
}

/// The buffers, as the loading warp fills them.
struct Filler<'f> {
    frame: &'f Frame,
    /// True in the one thread that issues copies.
    lead: Reg<bool>,
    queries: Queries<'f>,
    /// The ring of keys and values.
    kv: (SharedTiles, Cursor<Producer>),
    /// Publishes values whose last rows must be cleared first.
    tail: Tail,
}

/// Emits the loading warp.
pub fn emit(b: &mut Builder, frame: &Frame, buffers: &Buffers, order: Order) {
    let lead = b.elect();
    let filler = Filler {
        frame,
        lead,
        queries: Queries::new(b, frame, buffers, lead),
        kv: (buffers.kv, buffers.kv_ring.producer(b)),
        tail: Tail::new(b, lead, &buffers.tail),
    };
    frame.params.for_each_tile(b, |b, open| filler.load_tile(b, &open, order));
}

impl<'f> Queries<'f> {
    /// The queries that the `lead` of a warp loads.
    #[track_caller]
    pub fn new(b: &mut Builder, frame: &'f Frame, buffers: &Buffers, lead: Reg<bool>) -> Self {
        Queries { frame, lead, ring: buffers.q, cursor: buffers.q_ring.producer(b) }
    }

    /// Loads the queries of a tile.
    #[track_caller]
    pub fn load(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        let slot = self.cursor.take(b);
        slot.wait(b);
        b.if_(self.lead, |b| {
            let full = slot.full(b);
            let count = config.query_tile().blocks() as u32;
            let bytes = config.packing.used() * config.panel_bytes() / ROWS;
            full.arrive_expect(b, config.blocks * count * bytes);
            let tiles = slot.tiles(b, self.ring);
            for block in 0..config.blocks {
                let number = open.first_block.plus(b, block);
                let to = Panels::of(tiles.tile(block));
                self.frame.params.copy_queries(b, open, number, to, full);
            }
        });
    }
}

impl Filler<'_> {
    /// Queries, then keys and values alternating.
    fn load_tile(&self, b: &mut Builder, open: &OpenTile, order: Order) {
        open.range.if_any(b, |b, n| {
            self.queries.load(b, open);
            self.load_keys(b, open, n, true);
            open.range.while_more(b, n, |b, next| match order {
                Order::KeysFirst => {
                    self.load_keys(b, open, next, false);
                    self.load_values(b, open, n);
                }
                Order::ValuesFirst => {
                    self.load_values(b, open, n);
                    self.load_keys(b, open, next, false);
                }
            });
            self.load_values(b, open, n);
        });
    }

    /// Loads the keys of tile `n`, and with them its values where they are the same. Rows end only
    /// within the `last` tile.
    fn load_keys(&self, b: &mut Builder, open: &OpenTile, n: KvTile, last: bool) {
        let (config, params) = (&self.frame.config, &self.frame.params);
        for piece in config.key_pieces() {
            let column = Column::fixed(piece.column);
            self.load(b, open, n, params.keys().k.map(), piece, column, config.shared_kv && last);
        }
    }

    /// Loads this CTA's columns of the values of tile `n`, where they did not come with the keys.
    fn load_values(&self, b: &mut Builder, open: &OpenTile, n: KvTile) {
        let Some(values) = self.frame.params.keys().v else { return };
        let base = open.slice.map(|slice| b.eval(slice.reg() * self.frame.config.slice_dim()));
        for piece in self.frame.config.value_pieces() {
            let column = Column { base, offset: piece.column };
            self.load(b, open, n, values.map(), piece, column, true);
        }
    }

    /// Loads a piece of tile `n` into the next slot; rows past the end of the sequence must be zero
    /// where they are `values`.
    fn load(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        n: KvTile,
        map: TensorMapParam,
        piece: Piece,
        column: Column,
        values: bool,
    ) {
        let slot = self.next_slot(b);
        let used = piece.stored / self.frame.config.panel.columns();
        let to = Panels::of(slot.tile(b, self.kv.0).blocks(0..used));
        let full = slot.full(b);
        let copy = |b: &mut Builder, on: Counter| {
            b.if_(self.lead, |b| {
                on.arrive_expect(b, to.total_bytes());
                self.frame.params.keys().copy_rows(b, open, n, map, column, to, on);
            });
        };
        if values && self.frame.params.keys().dirty_tail {
            self.tail.publish(b, open, n, to, full, copy);
        } else {
            copy(b, full.into());
        }
    }

    /// Waits for the next slot of the ring.
    fn next_slot(&self, b: &mut Builder) -> Slot<Producer> {
        let slot = self.kv.1.take(b);
        slot.wait(b);
        slot
    }
}

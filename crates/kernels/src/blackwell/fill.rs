//! Filling shared memory by TMA: queries, and the ring of keys and values.
//!
//! Keys and values share one ring of slots, filled in exactly the order the issuing warp multiplies
//! them. A tile wider than a slot takes several, so the ring runs at its own grain whatever the head
//! dim.

use super::config::{Config, Piece};
use super::frame::Frame;
use crate::call::index::KvTile;
use crate::call::task::OpenTile;
use crate::moves::copies::{Column, Panels};
use crate::roles::loader::{Copier, LoadRows, Order, RowsPastEnd};
use crate::roles::queries::QueryLoader;
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

    /// The queries that the `lead` of a warp loads.
    #[track_caller]
    pub fn queries<'f>(
        &self,
        b: &mut Builder,
        frame: &'f Frame,
        lead: Reg<bool>,
    ) -> QueryLoader<'f> {
        QueryLoader::new(b, &frame.params, lead, (self.q, &self.q_ring))
    }

    /// Initialises the barriers (one thread): queries are free after `q_releases` arrivals, a slot is full after
    /// `fills`.
    pub fn init(&self, b: &mut Builder, q_releases: u32, fills: u32) {
        self.q_ring.init(b, 1, q_releases);
        self.kv_ring.init(b, fills, 1);
        self.tail.init(b, 1);
    }
}

/// The warp that loads.
struct Filler<'f> {
    frame: &'f Frame,
    queries: QueryLoader<'f>,
    /// The ring of keys and values.
    kv: (SharedTiles, Cursor<Producer>),
    copier: Copier,
}

/// Emits the loading warp.
pub fn emit(b: &mut Builder, frame: &Frame, buffers: &Buffers, order: Order) {
    let lead = b.elect();
    let filler = Filler {
        frame,
        queries: buffers.queries(b, frame, lead),
        kv: (buffers.kv, buffers.kv_ring.producer(b)),
        copier: Copier::new(b, lead, &buffers.tail),
    };
    frame.params.for_each_tile(b, |b, open| filler.load_work_tile(b, &open, order));
}

impl LoadRows for Filler<'_> {
    fn load_queries(&self, b: &mut Builder, open: &OpenTile) {
        self.queries.load(b, open, |b, n| open.first_block.plus(b, n));
    }

    fn load_keys(&self, b: &mut Builder, open: &OpenTile, n: KvTile, last: bool) {
        let (config, params) = (&self.frame.config, &self.frame.params);
        for piece in config.key_pieces() {
            let column = Column::fixed(piece.column);
            self.load(b, open, n, params.keys().k.map(), piece, column, config.shared_kv && last);
        }
    }

    fn load_values(&self, b: &mut Builder, open: &OpenTile, n: KvTile) {
        let Some(values) = self.frame.params.keys().v else { return };
        let base = open.slice.map(|slice| b.eval(slice.reg() * self.frame.config.slice_dim()));
        for piece in self.frame.config.value_pieces() {
            let column = Column { base, offset: piece.column };
            self.load(b, open, n, values.map(), piece, column, true);
        }
    }
}

impl Filler<'_> {
    /// Loads a piece of KV tile `n` into the next slot; rows past the end of the sequence must be zero
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
        let keys = self.frame.params.keys();
        let past_end = RowsPastEnd::cleared_if(values && keys.dirty_tail);
        self.copier.fill(b, open, n, to, full, past_end, |b, on| {
            keys.copy_rows(b, open, n, map, column, to, on);
        });
    }

    /// Waits for the next slot of the ring.
    fn next_slot(&self, b: &mut Builder) -> Slot<Producer> {
        let slot = self.kv.1.take(b);
        slot.wait(b);
        slot
    }
}

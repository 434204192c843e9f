//! The kernel's frame: parameters, shared memory, barriers, roles.

use super::config::Config;
use super::{consumer, gatherers, producer};
use crate::call::task::Params;
use crate::hopper::tile::TileShape;
use crate::moves::gather;
use crate::moves::marks::Marks;
use ptx::build::{Budget, Builder, Cmp, Consumer, Pipeline, SharedTiles, Signals, Slot};

/// Shared memory.
pub struct Shared {
    /// Queries, one tile per warpgroup and stage.
    pub q: SharedTiles,
    pub k: SharedTiles,
    /// Values: the keys' tiles where they are the same.
    pub v: SharedTiles,
    pub q_ring: Pipeline,
    pub k_ring: Pipeline,
    pub v_ring: Pipeline,
    /// Which keys of a tile exist, where they are listed.
    pub marks: Option<Marks>,
    /// Counts a tile of values whose tail must be cleared before it is published.
    pub tail: Signals,
}

/// The kernel being emitted.
pub struct Frame {
    pub config: Config,
    pub params: Params,
    pub shared: Shared,
}

/// Emits the kernel with these parameters.
pub fn emit(b: &mut Builder, config: Config, mut params: Params) {
    let shared = reserve(b, &config);
    params.reserve_watch(b);
    params.reserve_shares(b);
    Frame { config, params, shared }.emit(b);
}

fn reserve(b: &mut Builder, config: &Config) -> Shared {
    let base = b.shared_base();
    let mut tiles = |shape: TileShape, n| SharedTiles::reserve(b, base, shape.layout(), n);
    let q = tiles(config.queries(), config.q_stages * config.warpgroups);
    let k = tiles(config.keys(), config.stages);
    let v = if config.shared_kv { k } else { tiles(config.values(), config.stages) };
    Shared {
        q,
        k,
        v,
        q_ring: Pipeline::reserve(b, base, config.q_stages),
        k_ring: Pipeline::reserve(b, base, config.stages),
        v_ring: Pipeline::reserve(b, base, config.stages),
        marks: config.listed.then(|| Marks::reserve(b, base, config.tile, config.stages)),
        tail: Signals::reserve(b, base, 1),
    }
}

impl Frame {
    fn emit(&self, b: &mut Builder) {
        self.init(b);
        let warp = b.warp();
        let (producer, consumer) = self.config.registers();
        b.roles(warp, |roles| {
            roles.split_warpgroup(0, Budget::Shrunk(producer), |roles| {
                if self.config.gathers {
                    gatherers::emit(roles, self);
                } else {
                    producer::emit(roles, self);
                }
            });
            let consumers = 1..1 + self.config.warpgroups;
            roles.warpgroups(consumers, Budget::Grown(consumer), |b, number| {
                consumer::emit(b, self, number);
            });
        });
    }

    /// Waits for the keys or the values of a KV tile.
    #[track_caller]
    pub fn await_rows(&self, b: &mut Builder, slot: &Slot<Consumer>) {
        slot.wait(b);
        if self.config.gathers {
            b.fence_proxy_async();
        }
    }

    /// One thread initialises the barriers; everyone waits for it, and finds the CTA's work.
    fn init(&self, b: &mut Builder) {
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        let warps = self.config.warpgroups * 4;
        b.if_(first, |b| {
            self.params.prefetch_maps(b);
            self.shared.q_ring.init(b, 1, warps);
            let arrivals = self.config.arrivals();
            let marks = if self.config.listed { gather::WARPS } else { 0 };
            self.shared.k_ring.init(b, arrivals + marks, warps);
            self.shared.v_ring.init(b, arrivals, warps);
            self.shared.tail.init(b, 1);
            b.fence_mbarrier_init();
        });
        self.params.share_out(b);
    }
}

//! The wide kernel's frame: shared memory, barriers, roles.

use super::config::Config;
use super::{left, loaders, right};
use crate::arguments::{Arguments, Memory};
use crate::task::{Params, Task};
use program::Argument;
use ptx::build::{Builder, Cmp, Consumer, Kernel, Pipeline, Reg, Signals, Slot, SmemPtr, Target};

/// Warps of a warpgroup.
const WARPS: u32 = 4;
/// Registers of a loader thread and of the others.
const REGISTERS: [u32; 2] = [40, 232];

/// Shared memory.
pub struct Shared {
    pub q: SmemPtr,
    pub k: SmemPtr,
    pub v: SmemPtr,
    pub p: SmemPtr,
    /// One factor per row for each tile of probabilities.
    pub factors: SmemPtr,
    pub q_ring: Pipeline,
    /// Barriers of the two units of a tile of keys.
    pub k_rings: [Pipeline; 2],
    /// Barriers of the two units of a tile of values: those of keys where K = V.
    pub v_rings: [Pipeline; 2],
    pub p_ring: Pipeline,
    /// Counts a unit of values whose tail must be cleared before it is published.
    pub tail: Signals,
}

/// The kernel being emitted.
pub struct Frame {
    pub config: Config,
    pub params: Params,
    pub shared: Shared,
    /// Rank of this CTA in its cluster.
    pub rank: Reg<u32>,
}

/// Emits the kernel `name` and its arguments.
pub fn emit(
    name: &str,
    config: Config,
    task: &Task<'_>,
    memory: &Memory,
) -> (Kernel, Vec<Argument>) {
    let mut b = Builder::new(name, Target::Sm90a);
    b.directive("maxntid", &[config.threads() as u64, 1, 1]);
    b.directive("minnctapersm", &[1]);
    let mut args = Arguments::default();
    let tiling = config.tiling();
    let params = Params::declare(&mut b, &mut args, tiling, task, memory, !config.shared_kv);
    let shared = reserve(&mut b, &config);
    let rank = match config.cluster {
        1 => b.value(0),
        _ => b.special("%cluster_ctarank"),
    };
    let frame = Frame { config, params, shared, rank };
    frame.emit(&mut b);
    (b.finish(), args.into_values())
}

fn reserve(b: &mut Builder, config: &Config) -> Shared {
    let base = b.shared_base();
    let mut tiles = |count: u32, bytes: u32| base.plus(b.reserve_shared(count * bytes, 1024));
    let q = tiles(1, config.queries().bytes());
    let k = tiles(config.stages, config.keys().bytes());
    let v = if config.shared_kv { k } else { tiles(config.stages, config.values().bytes()) };
    let p = tiles(config.p_stages, config.probabilities().bytes());
    let factors = base.plus(b.reserve_shared(config.p_stages * 64 * 4, 16));
    let k_rings = [0, 1].map(|_| Pipeline::reserve(b, base, config.stages));
    let v_rings = match config.shared_kv {
        true => k_rings,
        false => [0, 1].map(|_| Pipeline::reserve(b, base, config.stages)),
    };
    Shared {
        q,
        k,
        v,
        p,
        factors,
        q_ring: Pipeline::reserve(b, base, 1),
        k_rings,
        v_rings,
        p_ring: Pipeline::reserve(b, base, config.p_stages),
        tail: Signals::reserve(b, base, 1),
    }
}

impl Frame {
    fn emit(&self, b: &mut Builder) {
        self.init(b);
        let warp = b.warp();
        let warpgroup = b.shr(warp, 2);
        let loads = b.setp(Cmp::Eq, warpgroup, 0);
        b.if_else(
            loads,
            |b| {
                b.shrink_registers(REGISTERS[0]);
                loaders::emit(b, self, warp);
            },
            |b| {
                b.grow_registers(REGISTERS[1]);
                let is_left = b.setp(Cmp::Eq, warpgroup, 1);
                b.if_else(
                    is_left,
                    |b| left::emit(b, self),
                    |b| {
                        if self.has_right() {
                            right::emit(b, self);
                        }
                    },
                );
            },
        );
        self.join_cluster(b);
    }

    /// One thread initialises the barriers; everyone waits for it (in the whole cluster, whose CTAs
    /// arrive on each other's barriers), and for the previous grid, whose tail this overlaps.
    fn init(&self, b: &mut Builder) {
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        let Config { cluster, shared_kv, .. } = self.config;
        b.if_(first, |b| {
            self.params.prefetch_maps(b);
            let shared = &self.shared;
            shared.q_ring.init(b, 1, WARPS);
            shared.k_rings[0].init(b, 1, WARPS * cluster);
            // With K = V the right warpgroup reads the second unit too.
            let readers = if shared_kv && self.has_right() { 2 } else { 1 };
            shared.k_rings[1].init(b, 1, readers * WARPS * cluster);
            if !shared_kv {
                shared.v_rings.iter().for_each(|ring| ring.init(b, 1, WARPS * cluster));
            }
            shared.p_ring.init(b, WARPS, WARPS);
            shared.tail.init(b, 1);
            b.fence_mbarrier_init();
        });
        b.wait_previous_grid();
        b.launch_next_grid();
        b.barrier_all();
        self.join_cluster(b);
    }

    /// Whether there are output columns for the right warpgroup.
    pub fn has_right(&self) -> bool {
        self.config.right_columns() > 0
    }

    /// Waits for the other CTA: before it is written to, and before its memory goes away.
    fn join_cluster(&self, b: &mut Builder) {
        if self.config.cluster > 1 {
            b.cluster_barrier();
        }
    }

    /// Says, once per warp and in every CTA of the cluster, that a unit has been read.
    #[track_caller]
    pub fn release(&self, b: &mut Builder, slot: &Slot<Consumer>, lead: Reg<bool>) {
        if self.config.cluster == 1 {
            return slot.release_if(b, lead);
        }
        b.if_(lead, |b| {
            let empty = slot.empty(b);
            (0..self.config.cluster).for_each(|rank| empty.arrive_remote(b, rank));
        });
    }

    /// Where unit `unit` of a stage of keys is.
    #[track_caller]
    pub fn key_unit(&self, b: &mut Builder, slot: &Slot<Consumer>, unit: usize) -> SmemPtr {
        let shape = self.config.keys();
        let at = slot.buffer(b, self.shared.k, shape.bytes());
        at.plus(unit as u32 * self.config.key_units()[0] * shape.panel_bytes())
    }

    /// Where unit `unit` of a stage of values is.
    #[track_caller]
    pub fn value_unit(&self, b: &mut Builder, slot: &Slot<Consumer>, unit: usize) -> SmemPtr {
        let shape = self.config.values();
        let bytes = if self.config.shared_kv { self.config.keys() } else { shape }.bytes();
        let at = slot.buffer(b, self.shared.v, bytes);
        at.plus(unit as u32 * self.config.value_units()[0] * shape.panel_bytes())
    }
}

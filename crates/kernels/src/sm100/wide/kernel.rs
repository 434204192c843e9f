//! The kernel: parameters, shared memory, barriers, roles.

use super::config::{CLUSTER, Config, Map};
use super::{issuer, loader, softmax};
use crate::arguments::{Arguments, Memory};
use crate::sm100::rows::ROW_WARPS;
use crate::sm100::tensor_memory::SCORE_TILES;
use crate::task::{Params, Task};
use layout::Layout;
use program::Argument;
use ptx::build::{
    Builder, Cmp, CtaGroup, Kernel, Pipeline, Reg, SharedArray, SharedTile, SharedTiles, Signals,
    SmemPtr, Target, TmemPtr, Warp,
};

/// The warp that owns tensor memory and, in the even CTA, issues multiplies.
const ISSUING_WARP: u32 = 4;
/// The warp that loads.
const LOADING_WARP: u32 = 5;
/// Threads of a CTA.
pub const THREADS: u32 = 32 * 6;
/// Both CTAs of the pair.
pub const BOTH: u16 = 0b11;
/// Two copies of one float per softmax thread.
pub const EXCHANGE_BYTES: u32 = 2 * ROW_WARPS * 32 * 4;

/// Shared memory and barriers.
pub struct Shared {
    /// Queries; also where finished rows are staged.
    pub q: SharedTile,
    /// The ring of keys and values.
    pub kv: SharedTiles,
    /// Probabilities.
    pub p: SharedTile,
    /// Where threads of a row leave numbers for each other.
    pub exchange: SmemPtr,
    pub q_ring: Pipeline,
    pub kv_ring: Pipeline,
    pub scores: Signals,
    pub probabilities: Signals,
    pub output: Signals,
    pub tail: Signals,
    address: SmemPtr,
}

/// The kernel being emitted.
pub struct Frame {
    pub config: Config,
    pub params: Params,
    pub shared: Shared,
    pub map: Map,
    /// Rank of this CTA in its pair.
    pub rank: Reg<u32>,
}

/// Emits the kernel `name` and its arguments.
pub fn emit(
    name: &str,
    target: Target,
    config: Config,
    task: &Task<'_>,
    memory: &Memory,
) -> (Kernel, Vec<Argument>) {
    let mut b = Builder::new(name, target);
    b.launch_bounds(THREADS, 1);
    let mut args = Arguments::default();
    let params = Params::declare(&mut b, &mut args, config.tiling(), task, memory, true);
    let shared = reserve(&mut b, &config);
    let rank = b.special("%cluster_ctarank");
    let frame = Frame { config, params, shared, map: config.map(), rank };
    frame.emit(&mut b);
    (b.finish(), args.into_values())
}

fn reserve(b: &mut Builder, config: &Config) -> Shared {
    let base = b.shared_base();
    let exchange = Layout::column_major((u64::from(ROW_WARPS * 32), 2)).expect("a small layout");
    Shared {
        q: SharedTile::reserve(b, base, config.query_tile()),
        kv: SharedTiles::reserve(b, base, config.key_tile(), config.slots),
        p: SharedTile::reserve(b, base, config.probability_tile()),
        exchange: SharedArray::<f32>::reserve(b, base, &exchange).at(),
        q_ring: Pipeline::reserve(b, base, 1),
        kv_ring: Pipeline::reserve(b, base, config.slots),
        scores: Signals::reserve(b, base, SCORE_TILES),
        probabilities: Signals::reserve(b, base, SCORE_TILES),
        output: Signals::reserve(b, base, 1),
        tail: Signals::reserve(b, base, 1),
        address: SharedArray::<u32>::one(b, base).at(),
    }
}

impl Frame {
    fn emit(&self, b: &mut Builder) {
        let warp = b.warp();
        let tmem = self.init(b, warp);
        b.roles(warp, |roles| {
            roles.warps(0..ROW_WARPS, |b, warp| softmax::emit(b, self, tmem, warp));
            roles.warp(ISSUING_WARP, |b| {
                let even = b.setp(Cmp::Eq, self.rank, 0);
                b.if_(even, |b| issuer::emit(b, self, tmem));
            });
            roles.warp(LOADING_WARP, |b| loader::emit(b, self));
        });
        b.warp_sync();
        b.tcgen05_fence_before();
        b.cluster_barrier();
        let owns_memory = b.setp(Cmp::Eq, warp.index(), ISSUING_WARP);
        b.if_(owns_memory, |b| {
            b.tcgen05_fence_after();
            b.tmem_dealloc(CtaGroup::Two, tmem.base, self.map.allocation);
        });
    }

    /// One thread initialises the barriers, one warp allocates tensor memory; both CTAs wait for both,
    /// and for the previous grid, whose tail this prologue overlaps.
    fn init(&self, b: &mut Builder, warp: Warp) -> TmemPtr {
        let shared = &self.shared;
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        b.if_(first, |b| {
            shared.q_ring.init(b, CLUSTER, 1 + ROW_WARPS);
            shared.kv_ring.init(b, CLUSTER, 1);
            shared.scores.init(b, 1);
            shared.probabilities.init(b, CLUSTER * ROW_WARPS);
            shared.output.init(b, 1);
            shared.tail.init(b, 1);
            b.fence_mbarrier_init();
        });
        let allocates = b.setp(Cmp::Eq, warp.index(), ISSUING_WARP);
        b.if_(allocates, |b| {
            b.tmem_alloc(CtaGroup::Two, shared.address, self.map.allocation);
            b.tmem_relinquish(CtaGroup::Two);
        });
        b.wait_previous_grid();
        b.launch_next_grid();
        b.tcgen05_fence_before();
        b.warp_sync();
        b.cluster_barrier();
        b.tcgen05_fence_after();
        TmemPtr { base: b.ld_shared::<u32>(shared.address), column: 0 }
    }
}

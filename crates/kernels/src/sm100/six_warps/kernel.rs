//! The kernel: parameters, shared memory, barriers, roles.

use super::{issuer, loader, softmax};
use crate::arguments::{Arguments, Memory};
use crate::options::Probabilities;
use crate::sm100::config::Config;
use crate::sm100::frame::Frame;
use crate::sm100::rows::ROW_WARPS;
use crate::sm100::tensor_memory::{SCORE_TILES, TensorMemory};
use crate::task::{Params, Task};
use program::Argument;
use ptx::build::{
    Builder, Cmp, CtaGroup, Kernel, Pipeline, SharedArray, SharedTile, SharedTiles, Signals,
    SmemPtr, Target, TmemPtr, Warp,
};

/// The warp that owns tensor memory and issues multiplies.
const ISSUING_WARP: u32 = 4;
/// The warp that loads.
const LOADING_WARP: u32 = 5;
/// Threads of a CTA.
pub const THREADS: u32 = 32 * 6;

/// Shared memory and barriers.
pub struct Shared {
    /// Queries; also where finished rows are staged.
    pub q: SharedTiles,
    /// The ring of keys and values.
    pub kv: SharedTiles,
    /// Probabilities, where they do not stay in tensor memory.
    pub p: Option<SharedTile>,
    pub q_ring: Pipeline,
    pub kv_ring: Pipeline,
    /// Scores are in tensor memory.
    pub scores: Signals,
    /// Probabilities are where the second product reads them, and the output is rescaled for it.
    pub probabilities: Signals,
    /// The output has everything up to this tile.
    pub output: Signals,
    /// Values whose tail must be cleared before they are published have arrived.
    pub tail: Signals,
    /// Where the allocator leaves the address of tensor memory.
    address: SmemPtr,
}

struct SixWarps {
    frame: Frame,
    shared: Shared,
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
    let apart = !config.shared_kv;
    let params = Params::declare(&mut b, &mut args, config.tiling(), task, memory, apart);
    let shared = reserve(&mut b, &config);
    let frame = Frame { config, params, map: TensorMemory::of(&config) };
    SixWarps { frame, shared }.emit(&mut b);
    (b.finish(), args.into_values())
}

fn reserve(b: &mut Builder, config: &Config) -> Shared {
    let base = b.shared_base();
    let mut tiles = |tile, count| SharedTiles::reserve(b, base, tile, count);
    let q = tiles(config.query_tile(), config.q_stages);
    let kv = tiles(config.key_tile(), config.slots);
    let p = match config.probabilities {
        Probabilities::TensorMemory => None,
        Probabilities::SharedMemory => Some(tiles(config.probability_tile(), 1).tile(0)),
    };
    Shared {
        q,
        kv,
        p,
        q_ring: Pipeline::reserve(b, base, config.q_stages),
        kv_ring: Pipeline::reserve(b, base, config.slots),
        scores: Signals::reserve(b, base, SCORE_TILES),
        probabilities: Signals::reserve(b, base, SCORE_TILES),
        output: Signals::reserve(b, base, 1),
        tail: Signals::reserve(b, base, 1),
        address: SharedArray::<u32>::one(b, base).at(),
    }
}

impl SixWarps {
    fn emit(&self, b: &mut Builder) {
        let (frame, shared) = (&self.frame, &self.shared);
        let warp = b.warp();
        let tmem = self.init(b, warp);
        b.roles(warp, |roles| {
            roles.warps(0..ROW_WARPS, |b, warp| softmax::emit(b, frame, shared, tmem, warp));
            roles.warp(ISSUING_WARP, |b| issuer::emit(b, frame, shared, tmem));
            roles.warp(LOADING_WARP, |b| loader::emit(b, frame, shared));
        });
        b.warp_sync();
        b.tcgen05_fence_before();
        b.barrier_all();
        let owns_memory = b.setp(Cmp::Eq, warp.index(), ISSUING_WARP);
        b.if_(owns_memory, |b| {
            b.tcgen05_fence_after();
            b.tmem_dealloc(CtaGroup::One, tmem.base, self.frame.map.allocation);
        });
    }

    /// One thread initialises the barriers, one warp allocates tensor memory; everyone waits for both,
    /// and for the previous grid, whose tail this prologue overlaps.
    fn init(&self, b: &mut Builder, warp: Warp) -> TmemPtr {
        let shared = &self.shared;
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        b.if_(first, |b| {
            shared.q_ring.init(b, 1, 1 + ROW_WARPS);
            shared.kv_ring.init(b, 1, 1);
            shared.scores.init(b, 1);
            shared.probabilities.init(b, ROW_WARPS);
            shared.output.init(b, 1);
            shared.tail.init(b, 1);
            b.fence_mbarrier_init();
        });
        let allocates = b.setp(Cmp::Eq, warp.index(), ISSUING_WARP);
        b.if_(allocates, |b| {
            b.tmem_alloc(CtaGroup::One, shared.address, self.frame.map.allocation);
            b.tmem_relinquish(CtaGroup::One);
        });
        b.wait_previous_grid();
        b.launch_next_grid();
        b.tcgen05_fence_before();
        b.barrier_all();
        b.tcgen05_fence_after();
        TmemPtr { base: b.ld_shared::<u32>(shared.address), column: 0 }
    }
}

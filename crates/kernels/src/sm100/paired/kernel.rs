//! The kernel: parameters, shared memory, barriers, roles.

use super::{correction, issuer, loader, softmax};
use crate::arguments::{Arguments, Memory};
use crate::sm100::config::{Config, ROWS};
use crate::sm100::epilogue::staging_tile;
use crate::sm100::frame::Frame;
use crate::sm100::rows::ROW_WARPS;
use crate::sm100::tensor_memory::{SCORE_TILES, TensorMemory};
use crate::task::{Params, Task};
use layout::Layout;
use program::Argument;
use ptx::build::{
    Budget, Builder, Cmp, CtaGroup, Kernel, Pipeline, Reg, SharedArray, SharedTile, SharedTiles,
    Signals, SmemPtr, Target, TmemPtr, Warp,
};

/// Blocks of rows of a CTA.
pub const BLOCKS: u32 = 2;
/// Threads of a CTA: two softmax warpgroups, one that corrects, one whose first warps issue and load.
pub const THREADS: u32 = 4 * 128;
/// Warp of the last warpgroup that owns tensor memory and issues multiplies.
const ISSUING_WARP: u32 = 12;
/// Warp that loads.
const LOADING_WARP: u32 = 13;
/// Registers of a thread by role; together what 512 threads of 128 have.
const SOFTMAX_REGISTERS: Budget = Budget::Grown(200);
const CORRECTION_REGISTERS: Budget = Budget::Shrunk(72);
const OTHER_REGISTERS: Budget = Budget::Shrunk(40);
const _: () = assert!(BLOCKS == SCORE_TILES, "each block has its own tile of scores");

/// One float per row of every block, in `copies` copies that are used in turn.
pub struct PerRow(SharedArray<f32>);

impl PerRow {
    fn reserve(b: &mut Builder, base: SmemPtr, copies: u32) -> Self {
        let shape = (u64::from(ROWS), u64::from(BLOCKS), u64::from(copies));
        let layout = Layout::column_major(shape).expect("a small layout");
        PerRow(SharedArray::reserve(b, base, &layout))
    }

    /// The place of row `row` of block `block`.
    #[track_caller]
    pub fn of_row(&self, b: &mut Builder, block: Reg<u32>, row: Reg<u32>) -> SmemPtr {
        self.0.element(b, &[row, block])
    }

    /// The same in copy `copy`.
    #[track_caller]
    pub fn of_row_in(
        &self,
        b: &mut Builder,
        copy: Reg<u32>,
        block: Reg<u32>,
        row: Reg<u32>,
    ) -> SmemPtr {
        self.0.element(b, &[row, block, copy])
    }
}

/// Shared memory and barriers.
pub struct Shared {
    pub q: SharedTiles,
    pub kv: SharedTiles,
    /// Finished rows on their way out.
    pub staging: SharedTile,
    pub factors_at: PerRow,
    pub maxima_at: PerRow,
    pub sums_at: PerRow,
    pub q_ring: Pipeline,
    pub kv_ring: Pipeline,
    pub scores: Signals,
    pub factors: Signals,
    pub probabilities: Signals,
    pub rest: Signals,
    pub output: Signals,
    pub sums: Signals,
    pub tail: Signals,
    address: SmemPtr,
}

struct Paired {
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
    Paired { frame, shared }.emit(&mut b);
    (b.finish(), args.into_values())
}

fn reserve(b: &mut Builder, config: &Config) -> Shared {
    let base = b.shared_base();
    Shared {
        q: SharedTiles::reserve(b, base, config.query_tile(), config.q_stages * BLOCKS),
        kv: SharedTiles::reserve(b, base, config.key_tile(), config.slots),
        staging: SharedTile::reserve(b, base, staging_tile()),
        factors_at: PerRow::reserve(b, base, 1),
        maxima_at: PerRow::reserve(b, base, 2),
        sums_at: PerRow::reserve(b, base, 2),
        q_ring: Pipeline::reserve(b, base, config.q_stages),
        kv_ring: Pipeline::reserve(b, base, config.slots),
        scores: Signals::reserve(b, base, BLOCKS),
        factors: Signals::reserve(b, base, BLOCKS),
        probabilities: Signals::reserve(b, base, BLOCKS),
        rest: Signals::reserve(b, base, BLOCKS),
        output: Signals::reserve(b, base, BLOCKS),
        sums: Signals::reserve(b, base, BLOCKS),
        tail: Signals::reserve(b, base, 1),
        address: SharedArray::<u32>::one(b, base).at(),
    }
}

impl Paired {
    fn emit(&self, b: &mut Builder) {
        let warp = b.warp();
        let tmem = self.init(b, warp);
        let (frame, shared) = (&self.frame, &self.shared);
        b.roles(warp, |roles| {
            roles.warpgroups(0..BLOCKS, SOFTMAX_REGISTERS, |b, block| {
                let warp = b.and(warp.index(), 3);
                softmax::emit(b, frame, shared, tmem, block, warp);
            });
            roles.warpgroup(BLOCKS, CORRECTION_REGISTERS, |b| {
                let warp = b.and(warp.index(), 3);
                correction::emit(b, frame, shared, tmem, warp);
            });
            roles.split_warpgroup(BLOCKS + 1, OTHER_REGISTERS, |roles| {
                roles.warp(ISSUING_WARP, |b| issuer::emit(b, frame, shared, tmem));
                roles.warp(LOADING_WARP, |b| loader::emit(b, frame, shared));
            });
        });
        b.warp_sync();
        b.tcgen05_fence_before();
        b.barrier_all();
        let owns = b.setp(Cmp::Eq, warp.index(), ISSUING_WARP);
        b.if_(owns, |b| {
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
            shared.q_ring.init(b, 1, 1);
            shared.kv_ring.init(b, 1, 1);
            shared.scores.init(b, 1);
            shared.factors.init(b, ROW_WARPS);
            shared.probabilities.init(b, 2 * ROW_WARPS);
            shared.rest.init(b, ROW_WARPS);
            shared.output.init(b, 1);
            shared.sums.init(b, ROW_WARPS);
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

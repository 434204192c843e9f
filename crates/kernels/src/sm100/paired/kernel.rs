//! The kernel: parameters, shared memory, barriers, roles.

use super::{correction, issuer, loader, softmax};
use crate::arguments::{Arguments, Memory};
use crate::sm100::config::{Config, ROWS};
use crate::sm100::epilogue::staging_tile;
use crate::sm100::frame::Frame;
use crate::sm100::rows::ROW_WARPS;
use crate::sm100::tensor_memory::{SCORE_TILES, TensorMemory};
use crate::task::{Params, Task};
use program::Argument;
use ptx::build::{
    Builder, Cmp, CtaGroup, Kernel, Pipeline, Reg, Signals, SmemPtr, Target, TmemPtr,
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
const SOFTMAX_REGISTERS: u32 = 192;
const CORRECTION_REGISTERS: u32 = 80;
const OTHER_REGISTERS: u32 = 48;
const _: () = assert!(2 * SOFTMAX_REGISTERS + CORRECTION_REGISTERS + OTHER_REGISTERS == 4 * 128);
const _: () = assert!(BLOCKS == SCORE_TILES, "each block has its own tile of scores");

/// One float per row of every block, in `copies` copies that are used in turn.
#[derive(Clone, Copy)]
pub struct PerRow(SmemPtr);

impl PerRow {
    fn reserve(b: &mut Builder, base: SmemPtr, copies: u32) -> Self {
        PerRow(base.plus(b.reserve_shared(copies * BLOCKS * ROWS * 4, 4)))
    }

    /// The place of row `row` of block `block`.
    #[track_caller]
    pub fn of_row(&self, b: &mut Builder, block: Reg<u32>, row: Reg<u32>) -> SmemPtr {
        let number = b.mad(block, ROWS, row);
        let offset = b.shl(number, 2);
        b.smem_add(self.0, offset)
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
        let block = b.mad(copy, BLOCKS, block);
        self.of_row(b, block, row)
    }
}

/// Shared memory and barriers.
pub struct Shared {
    pub q: SmemPtr,
    pub kv: SmemPtr,
    /// Finished rows on their way out.
    pub staging: SmemPtr,
    pub factors_at: PerRow,
    pub maxima_at: PerRow,
    pub sums_at: PerRow,
    pub q_ring: Pipeline,
    pub kv_ring: Pipeline,
    pub scores: Signals,
    pub factors: Signals,
    pub probabilities: Signals,
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
    b.directive("maxntid", &[THREADS.into(), 1, 1]);
    b.directive("minnctapersm", &[1]);
    let mut args = Arguments::default();
    let params = Params::declare(&mut b, &mut args, config.tiling(), task, memory, true);
    let shared = reserve(&mut b, &config);
    let frame = Frame { config, params, map: TensorMemory::of(&config) };
    Paired { frame, shared }.emit(&mut b);
    (b.finish(), args.into_values())
}

fn reserve(b: &mut Builder, config: &Config) -> Shared {
    let base = b.shared_base();
    let q_bytes = config.q_stages * BLOCKS * config.query_bytes();
    Shared {
        q: base.plus(b.reserve_shared(q_bytes, 1024)),
        kv: base.plus(b.reserve_shared(config.slots * config.slot_bytes(), 1024)),
        staging: base.plus(b.reserve_shared(staging_tile().bytes() as u32, 1024)),
        factors_at: PerRow::reserve(b, base, 1),
        maxima_at: PerRow::reserve(b, base, 2),
        sums_at: PerRow::reserve(b, base, 2),
        q_ring: Pipeline::reserve(b, base, config.q_stages),
        kv_ring: Pipeline::reserve(b, base, config.slots),
        scores: Signals::reserve(b, base, BLOCKS),
        factors: Signals::reserve(b, base, BLOCKS),
        probabilities: Signals::reserve(b, base, BLOCKS),
        output: Signals::reserve(b, base, BLOCKS),
        sums: Signals::reserve(b, base, BLOCKS),
        tail: Signals::reserve(b, base, 1),
        address: base.plus(b.reserve_shared(4, 4)),
    }
}

impl Paired {
    fn emit(&self, b: &mut Builder) {
        let warp = b.warp();
        let tmem = self.init(b, warp);
        let warpgroup = b.shr(warp, 2);
        let softmaxes = b.setp(Cmp::Lt, warpgroup, BLOCKS);
        let corrects = b.setp(Cmp::Eq, warpgroup, BLOCKS);
        b.if_else(
            softmaxes,
            |b| {
                b.grow_registers(SOFTMAX_REGISTERS);
                let warp = b.and(warp, 3);
                softmax::emit(b, &self.frame, &self.shared, tmem, warpgroup, warp);
            },
            |b| {
                b.if_else(
                    corrects,
                    |b| {
                        b.shrink_registers(CORRECTION_REGISTERS);
                        let warp = b.and(warp, 3);
                        correction::emit(b, &self.frame, &self.shared, tmem, warp);
                    },
                    |b| self.emit_issue_and_load(b, tmem, warp),
                );
            },
        );
        b.warp_sync();
        b.tcgen05_fence_before();
        b.barrier_all();
        let owns = b.setp(Cmp::Eq, warp, ISSUING_WARP);
        b.if_(owns, |b| {
            b.tcgen05_fence_after();
            b.tmem_dealloc(CtaGroup::One, tmem.base, self.frame.map.allocation);
        });
    }

    fn emit_issue_and_load(&self, b: &mut Builder, tmem: TmemPtr, warp: Reg<u32>) {
        b.shrink_registers(OTHER_REGISTERS);
        let issues = b.setp(Cmp::Eq, warp, ISSUING_WARP);
        b.if_(issues, |b| issuer::emit(b, &self.frame, &self.shared, tmem));
        let loads = b.setp(Cmp::Eq, warp, LOADING_WARP);
        b.if_(loads, |b| loader::emit(b, &self.frame, &self.shared));
    }

    /// One thread initialises the barriers, one warp allocates tensor memory; everyone waits for both,
    /// and for the previous grid, whose tail this prologue overlaps.
    fn init(&self, b: &mut Builder, warp: Reg<u32>) -> TmemPtr {
        let shared = &self.shared;
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        b.if_(first, |b| {
            shared.q_ring.init(b, 1, 1);
            shared.kv_ring.init(b, 1, 1);
            shared.scores.init(b, 1);
            shared.factors.init(b, ROW_WARPS);
            shared.probabilities.init(b, 2 * ROW_WARPS);
            shared.output.init(b, 1);
            shared.sums.init(b, ROW_WARPS);
            shared.tail.init(b, 1);
            b.fence_mbarrier_init();
        });
        let allocates = b.setp(Cmp::Eq, warp, ISSUING_WARP);
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

//! The kernel: parameters, shared memory, barriers, roles.

use super::{correction, issuer, softmax};
use crate::blackwell::allocation::Allocation;
use crate::blackwell::config::{Config, ROWS};
use crate::blackwell::epilogue::staging_tile;
use crate::blackwell::fill::{self, Buffers};
use crate::blackwell::frame::Frame;
use crate::blackwell::rows::ROW_WARPS;
use crate::blackwell::tensor_memory::{SCORE_TILES, TensorMemory};
use crate::call::task::{Order as Sharing, Params};
use crate::roles::loader::Order;
use layout::Layout;
use ptx::build::{Budget, Builder, CtaGroup, Reg, SharedArray, SharedTile, Signals, SmemPtr};

/// Row blocks of a CTA.
pub const BLOCKS: u32 = 2;
/// Threads of a CTA: two softmax warpgroups, one that corrects, one whose first warps issue and load.
pub const THREADS: u32 = 4 * 128;
/// Warp of the last warpgroup that owns tensor memory and issues multiplies.
const ISSUING_WARP: u32 = 12;
/// Warp that loads.
const LOADING_WARP: u32 = 13;
/// Registers of a thread that neither exponentiates nor corrects.
const OTHER_REGISTERS: Budget = Budget::Shrunk(32);
const _: () = assert!(BLOCKS == SCORE_TILES, "each block has its own tile of scores");

/// Registers of a softmax and of a correction thread; with the others what 512 threads of 128 have. Correction threads
/// need more where they add parts of other CTAs.
fn registers(params: &Params) -> (Budget, Budget) {
    match params.order {
        Sharing::List(_) => (Budget::Grown(200), Budget::Shrunk(80)),
        Sharing::Shares(_) => (Budget::Grown(192), Budget::Shrunk(96)),
    }
}

/// One float per row of every block, in `buffers` buffers that are used in turn.
pub struct PerRow(SharedArray<f32>);

impl PerRow {
    fn reserve(b: &mut Builder, base: SmemPtr, buffers: u32) -> Self {
        let shape = (u64::from(ROWS), u64::from(BLOCKS), u64::from(buffers));
        let layout = Layout::column_major(shape).expect("a small layout");
        PerRow(SharedArray::reserve(b, base, &layout))
    }

    /// The place of row `row` of block `block`.
    #[track_caller]
    pub fn of_row(&self, b: &mut Builder, block: Reg<u32>, row: Reg<u32>) -> SmemPtr {
        self.0.element(b, &[row, block])
    }

    /// The same in buffer `buffer`.
    #[track_caller]
    pub fn of_row_in(
        &self,
        b: &mut Builder,
        buffer: Reg<u32>,
        block: Reg<u32>,
        row: Reg<u32>,
    ) -> SmemPtr {
        self.0.element(b, &[row, block, buffer])
    }
}

/// Buffers of maxima and sums.
const SUM_BUFFERS: u32 = 2;

/// Shared memory and barriers.
pub struct Shared {
    /// Queries, keys and values.
    pub buffers: Buffers,
    /// Finished rows on their way out.
    pub staging: SharedTile,
    pub factors_at: PerRow,
    pub maxima_at: PerRow,
    pub sums_at: PerRow,
    pub scores: Signals,
    pub factors: Signals,
    pub probabilities: Signals,
    pub rest: Signals,
    pub output: Signals,
    /// Of each block and buffer of sums: softmax may be a work tile ahead of who waits, and a barrier tells two phases apart.
    pub sums: Signals,
}

/// Emits the kernel with these parameters.
pub fn emit(b: &mut Builder, config: Config, params: Params) {
    let mut frame = Frame { config, params, map: TensorMemory::of(&config) };
    let (shared, memory) = reserve(b, &frame);
    frame.params.reserve_shares(b);
    let (frame, shared) = (&frame, &shared);
    let (softmax_registers, correction_registers) = registers(&frame.params);
    memory.around(
        b,
        &frame.params,
        |b| init(b, shared),
        |b, warp, tmem| {
            b.roles(warp, |roles| {
                roles.warpgroups(0..BLOCKS, softmax_registers, |b, block| {
                    let warp = b.eval(warp.index() % 4);
                    softmax::emit(b, frame, shared, tmem, block, warp);
                });
                roles.warpgroup(BLOCKS, correction_registers, |b| {
                    let warp = b.eval(warp.index() % 4);
                    correction::emit(b, frame, shared, tmem, warp);
                });
                roles.split_warpgroup(BLOCKS + 1, OTHER_REGISTERS, |roles| {
                    roles.warp(ISSUING_WARP, |b| issuer::emit(b, frame, shared, tmem));
                    roles.warp(LOADING_WARP, |b| {
                        fill::emit(b, frame, &shared.buffers, Order::ValuesFirst);
                    });
                });
            });
        },
    );
}

fn reserve(b: &mut Builder, frame: &Frame) -> (Shared, Allocation) {
    let base = b.shared_base();
    let shared = Shared {
        staging: SharedTile::reserve(b, base, staging_tile()),
        factors_at: PerRow::reserve(b, base, 1),
        maxima_at: PerRow::reserve(b, base, SUM_BUFFERS),
        sums_at: PerRow::reserve(b, base, SUM_BUFFERS),
        buffers: Buffers::reserve(b, base, &frame.config),
        scores: Signals::reserve(b, base, BLOCKS),
        factors: Signals::reserve(b, base, BLOCKS),
        probabilities: Signals::reserve(b, base, BLOCKS),
        rest: Signals::reserve(b, base, BLOCKS),
        output: Signals::reserve(b, base, BLOCKS),
        sums: Signals::reserve(b, base, SUM_BUFFERS * BLOCKS),
    };
    let columns = frame.map.allocation;
    (shared, Allocation::reserve(b, base, CtaGroup::One, ISSUING_WARP, columns))
}

/// Initialises the barriers (one thread).
fn init(b: &mut Builder, shared: &Shared) {
    shared.buffers.init(b, 1, 1);
    shared.scores.init(b, 1);
    shared.factors.init(b, ROW_WARPS);
    shared.probabilities.init(b, 2 * ROW_WARPS);
    shared.rest.init(b, ROW_WARPS);
    shared.output.init(b, 1);
    shared.sums.init(b, ROW_WARPS);
}

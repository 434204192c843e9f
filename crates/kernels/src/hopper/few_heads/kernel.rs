//! The kernel's frame: shared memory, barriers, roles.

use super::config::{Config, PITCH, QUERY_STAGES, ROWS, STAGES, TILE, WARPS};
use super::loader::{self, Loader};
use super::queries::{self, QUERY_PITCH, QueryLoader};
use super::warp;
use crate::call::task::Params;
use layout::Layout;
use ptx::build::{Budget, Builder, Cmp, Pipeline, Reg, Scalar, SharedArray, SmemPtr};

/// Registers of a thread that loads.
const LOADER_REGISTERS: u32 = 40;
/// Registers of a thread that computes.
const REGISTERS: u32 = 232;
/// Lanes of a warp.
const LANES: u32 = 32;

/// Shared memory.
pub struct Shared {
    /// Rows as they lie in memory: words of a row, rows of a tile, stages.
    pub rows: SharedArray<u32>,
    /// Scales as they lie in memory: words of a row's, rows of a tile, stages.
    pub scales: SharedArray<u32>,
    /// Scales of a block of columns, and, in the last block's place, whether a key exists: keys in the
    /// [order](super::order) of columns, blocks, stages.
    pub key_scales: SharedArray<f32>,
    /// The same scales as [factors](super::unpack::factor) on probabilities.
    pub factors: SharedArray<u16>,
    /// Probabilities: words of a lane's A operand, lanes, products of 16 keys, two tiles.
    pub probabilities: SharedArray<u32>,
    /// A number of each warp for each row, which all warps want to know.
    pub of_warps: SharedArray<f32>,
    pub ring: Pipeline,
    /// Queries: words of a row, rows, row blocks.
    pub queries: SharedArray<u32>,
    /// What they are [multiplied](super::queries) with to be the queries again, and sinks: rows, which of both, row blocks.
    pub of_queries: SharedArray<f32>,
    pub query_ring: Pipeline,
}

/// The kernel being emitted.
pub struct Frame {
    pub config: Config,
    pub params: Params,
    pub shared: Shared,
}

/// Emits the kernel with these parameters.
pub fn emit(b: &mut Builder, config: Config, mut params: Params) {
    let shared = Shared::reserve(b);
    params.reserve_watch(b);
    Frame { config, params, shared }.emit(b);
}

impl Shared {
    fn reserve(b: &mut Builder) -> Self {
        let base = b.shared_base();
        let (tile, stages) = (u64::from(TILE), u64::from(STAGES));
        let words =
            |b: &mut Builder, n: u32| array(b, Layout::column_major((u64::from(n), tile, stages)));
        let of_keys = Layout::column_major((tile, u64::from(WARPS), stages));
        let operands = (4, u64::from(LANES), u64::from(TILE / 16), 2);
        let (rows, buffers) = (u64::from(ROWS), u64::from(QUERY_STAGES));
        Shared {
            rows: words(b, PITCH / 4),
            scales: words(b, 2),
            key_scales: array(b, of_keys.clone()),
            factors: array(b, of_keys),
            probabilities: array(b, Layout::column_major(operands)),
            of_warps: array(b, Layout::column_major((u64::from(WARPS), u64::from(ROWS)))),
            ring: Pipeline::reserve(b, base, STAGES),
            queries: array(b, Layout::column_major((u64::from(QUERY_PITCH / 4), rows, buffers))),
            of_queries: array(b, Layout::column_major((rows, 2, buffers))),
            query_ring: Pipeline::reserve(b, base, QUERY_STAGES),
        }
    }
}

/// The place in stage `stage` of a ring's array that `at` is in its first stage.
#[track_caller]
pub fn at_stage<T: Scalar>(
    b: &mut Builder,
    array: &SharedArray<T>,
    at: SmemPtr,
    stage: Reg<u32>,
) -> SmemPtr {
    b.smem_add(at, stage * array.offset(&[0, 0, 1]))
}

fn array<T: Scalar>(
    b: &mut Builder,
    layout: Result<Layout, impl std::fmt::Debug>,
) -> SharedArray<T> {
    let base = b.shared_base();
    SharedArray::reserve(b, base, &layout.expect("a small layout"))
}

impl Frame {
    fn emit(&self, b: &mut Builder) {
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        b.if_(first, |b| {
            self.shared.ring.init(b, loader::ARRIVALS, WARPS);
            self.shared.query_ring.init(b, queries::LOADERS, WARPS);
            b.fence_mbarrier_init();
        });
        b.barrier_all();
        let warp = b.warp();
        b.roles(warp, |roles| {
            roles.split_warpgroup(0, Budget::Shrunk(LOADER_REGISTERS), |roles| {
                roles.warps(0..loader::WARPS, |b, warp| {
                    let loader = Loader::new(b, self, warp);
                    self.params.for_each_tile(b, |b, open| loader.bring(b, &open));
                    loader.finish(b);
                });
                roles.warps(loader::WARPS..loader::WARPS + queries::LOADERS, |b, warp| {
                    let loader = QueryLoader::new(b, self, warp);
                    self.params.for_each_tile(b, |b, open| loader.bring(b, &open));
                });
            });
            roles.warpgroups(1..3, Budget::Grown(REGISTERS), |b, _| {
                let number = b.eval(warp.index() - 4);
                warp::emit(b, self, number);
            });
        });
    }
}

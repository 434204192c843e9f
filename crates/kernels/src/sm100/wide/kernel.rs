//! The kernel: parameters, shared memory, barriers, roles.

use super::config::{CLUSTER, Config, Map};
use super::{issuer, loader, softmax};
use crate::sm100::allocation::Allocation;
use crate::sm100::rows::ROW_WARPS;
use crate::sm100::tensor_memory::SCORE_TILES;
use crate::task::Params;
use layout::Layout;
use ptx::build::{
    Builder, Cmp, CtaGroup, Pipeline, Reg, SharedArray, SharedTile, SharedTiles, Signals, SmemPtr,
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

/// Emits the kernel with these parameters.
pub fn emit(b: &mut Builder, config: Config, params: Params) {
    let (shared, memory) = reserve(b, &config);
    let rank = b.special("%cluster_ctarank");
    let frame = &Frame { config, params, shared, map: config.map(), rank };
    memory.around(
        b,
        |b| frame.init(b),
        |b, warp, tmem| {
            b.roles(warp, |roles| {
                roles.warps(0..ROW_WARPS, |b, warp| softmax::emit(b, frame, tmem, warp));
                roles.warp(ISSUING_WARP, |b| {
                    let even = b.setp(Cmp::Eq, rank, 0);
                    b.if_(even, |b| issuer::emit(b, frame, tmem));
                });
                roles.warp(LOADING_WARP, |b| loader::emit(b, frame));
            });
        },
    );
}

fn reserve(b: &mut Builder, config: &Config) -> (Shared, Allocation) {
    let base = b.shared_base();
    let exchange = Layout::column_major((u64::from(ROW_WARPS * 32), 2)).expect("a small layout");
    let shared = Shared {
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
    };
    let columns = config.map().allocation;
    (shared, Allocation::reserve(b, base, CtaGroup::Two, ISSUING_WARP, columns))
}

impl Frame {
    /// Initialises the barriers (one thread).
    fn init(&self, b: &mut Builder) {
        let shared = &self.shared;
        shared.q_ring.init(b, CLUSTER, 1 + ROW_WARPS);
        shared.kv_ring.init(b, CLUSTER, 1);
        shared.scores.init(b, 1);
        shared.probabilities.init(b, CLUSTER * ROW_WARPS);
        shared.output.init(b, 1);
        shared.tail.init(b, 1);
    }
}

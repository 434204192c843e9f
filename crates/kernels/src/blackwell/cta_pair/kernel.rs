//! The kernel: parameters, shared memory, barriers, roles.

use super::config::{CLUSTER, Config, Map};
use super::raw::RawRing;
use super::{gatherers, issuer, loader, softmax, unpackers};
use crate::blackwell::allocation::Allocation;
use crate::blackwell::gatherers::Gathered;
use crate::blackwell::rows::ROW_WARPS;
use crate::blackwell::tensor_memory::SCORE_TILES;
use crate::call::index::RowBlockIndex;
use crate::call::task::{OpenTile, Params};
use crate::moves::copies::PairFills;
use crate::moves::gather;
use layout::Layout;
use ptx::build::{
    Budget, Builder, Cmp, CtaGroup, Pipeline, Reg, Roles, SharedArray, SharedTile, SharedTiles,
    Signals, SmemPtr, TmemPtr, Warp,
};

/// The warp that owns tensor memory and, in the even CTA, issues multiplies.
const ISSUING_WARP: u32 = 4;
/// The warp that loads.
const LOADING_WARP: u32 = 5;
/// The first of the warps that gather, where there are some.
const GATHERING_WARPS: u32 = 6;
/// Both CTAs of the CTA pair.
pub const BOTH: u16 = 0b11;
/// Two places of one float per softmax thread.
pub const EXCHANGE_BYTES: u32 = 2 * ROW_WARPS * 32 * 4;

/// The first of the warps that unpack, whole warpgroups.
const UNPACKING_WARPS: u32 = 8;
/// Registers of a thread by role beside warps that unpack; together no more than 512 threads of 128 have.
const SOFTMAX_REGISTERS: Budget = Budget::Grown(168);
const SINGLE_REGISTERS: Budget = Budget::Shrunk(72);
const UNPACKING_REGISTERS: Budget = Budget::Grown(136);

/// Threads of a CTA.
pub fn threads(config: &Config) -> u32 {
    let first = if config.unpacks_quarters() { UNPACKING_WARPS } else { GATHERING_WARPS };
    32 * (first + config.gathering_warps())
}

/// Shared memory and barriers.
pub struct Shared {
    /// Queries; also where finished rows are staged.
    pub q: SharedTiles,
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
    /// What gathering takes.
    pub gathered: Option<Gathered>,
    /// Where bytes of packed rows wait, if tensor copies bring them.
    pub raw: Option<RawRing>,
}

/// The kernel being emitted.
pub struct Frame {
    pub config: Config,
    pub params: Params,
    pub shared: Shared,
    pub map: Map,
    /// Rank of this CTA in its CTA pair.
    pub rank: Reg<u32>,
}

/// Emits the kernel with these parameters.
pub fn emit(b: &mut Builder, config: Config, params: Params) {
    let (shared, memory) = reserve(b, &config);
    let rank = b.special("%cluster_ctarank");
    let frame = &Frame { config, params, shared, map: config.map(), rank };
    memory.around(
        b,
        &frame.params,
        |b| frame.init(b),
        |b, warp, tmem| {
            b.roles(warp, |roles| match config.unpacks_quarters() {
                true => frame.declare_unpacking_roles(roles, warp, tmem),
                false => frame.declare_roles(roles, tmem),
            });
        },
    );
}

fn reserve(b: &mut Builder, config: &Config) -> (Shared, Allocation) {
    let base = b.shared_base();
    let exchange = Layout::column_major((u64::from(ROW_WARPS * 32), 2)).expect("a small layout");
    let shared = Shared {
        q: SharedTiles::reserve(b, base, config.query_tile(), 1),
        kv: SharedTiles::reserve(b, base, config.key_tile(), config.slots),
        p: SharedTile::reserve(b, base, config.probability_tile()),
        exchange: SharedArray::<f32>::reserve(b, base, &exchange).at(),
        q_ring: Pipeline::reserve(b, base, 1),
        kv_ring: Pipeline::reserve(b, base, config.slots),
        scores: Signals::reserve(b, base, SCORE_TILES),
        probabilities: Signals::reserve(b, base, SCORE_TILES),
        output: Signals::reserve(b, base, 1),
        tail: Signals::reserve(b, base, 1),
        gathered: config.gathering.map(|how| Gathered::reserve(b, base, how, config.slots)),
        raw: config.raw.then(|| RawRing::reserve(b, base)),
    };
    let columns = config.map().allocation;
    (shared, Allocation::reserve(b, base, CtaGroup::Two, ISSUING_WARP, columns))
}

impl Frame {
    /// Initialises the barriers (one thread).
    fn init(&self, b: &mut Builder) {
        let shared = &self.shared;
        shared.q_ring.init(b, PairFills::Copies.arrivals(), 1 + ROW_WARPS);
        let fills = match self.config.gathering {
            None => self.fills().arrivals(),
            Some(how) => how.arrivals(CtaGroup::Two),
        };
        shared.kv_ring.init(b, fills, 1);
        shared.scores.init(b, 1);
        shared.probabilities.init(b, CLUSTER * ROW_WARPS);
        shared.output.init(b, 1);
        shared.tail.init(b, 1);
        if let Some(gathered) = &shared.gathered {
            gathered.init(b);
        }
        if let Some(raw) = &shared.raw {
            raw.init(b);
        }
    }

    /// Who arrives for the slots that loaders fill.
    pub fn fills(&self) -> PairFills {
        match self.params.keys().dirty_tail {
            true => PairFills::CopiesAndThreads,
            false => PairFills::Copies,
        }
    }

    fn declare_roles(&self, roles: &mut Roles<'_>, tmem: TmemPtr) {
        roles.warps(0..ROW_WARPS, |b, warp| softmax::emit(b, self, tmem, warp));
        self.declare_single_warps(roles, tmem);
        if let Some(gathered) = &self.shared.gathered {
            let warps = GATHERING_WARPS..GATHERING_WARPS + self.config.gathering_warps();
            roles.warps(warps, |b, warp| gatherers::emit(b, self, gathered, warp));
        }
    }

    /// The warps that issue multiplies, and that load.
    fn declare_single_warps(&self, roles: &mut Roles<'_>, tmem: TmemPtr) {
        roles.warp(ISSUING_WARP, |b| {
            let even = b.setp(Cmp::Eq, self.rank, 0);
            b.if_(even, |b| issuer::emit(b, self, tmem));
        });
        roles.warp(LOADING_WARP, |b| match &self.shared.gathered {
            Some(gathered) => gatherers::emit_publisher(b, self, gathered),
            None => loader::emit(b, self),
        });
    }

    /// Roles of whole warpgroups, which have the registers that each needs: two of them unpack.
    fn declare_unpacking_roles(&self, roles: &mut Roles<'_>, warp: Warp, tmem: TmemPtr) {
        let gathered = self.shared.gathered.as_ref().expect("rows are gathered");
        roles.warpgroup(0, SOFTMAX_REGISTERS, |b| softmax::emit(b, self, tmem, warp.index()));
        roles.split_warpgroup(1, SINGLE_REGISTERS, |roles| {
            self.declare_single_warps(roles, tmem);
        });
        let last = UNPACKING_WARPS + gather::UNPACKING_WARPS;
        roles.warpgroups(UNPACKING_WARPS / 4..last / 4, UNPACKING_REGISTERS, |b, _| {
            let number = b.eval(warp.index() - UNPACKING_WARPS);
            unpackers::emit(b, self, gathered, number);
        });
    }

    /// The number of this CTA's row block: where the CTA pair works on one, the odd CTA's is behind the last token.
    #[track_caller]
    pub fn block_number(&self, b: &mut Builder, open: &OpenTile) -> RowBlockIndex {
        if self.config.blocks == CLUSTER {
            return open.first_block.plus(b, self.rank);
        }
        let Config { packing, group, .. } = self.config;
        let behind = b.eval(open.sequence.q_len * packing.head_blocks(group));
        let even = b.setp(Cmp::Eq, self.rank, 0);
        RowBlockIndex::new(b.select::<u32>(even, open.first_block.reg(), behind))
    }
}

//! The wide kernel's frame: shared memory, barriers, roles.

use super::config::{Config, ROW_WARPS, TILE};
use super::merge::Meeting;
use super::{gatherers, loaders, right_columns, scoring};
use crate::call::index::SplitIndex;
use crate::call::rows::Block;
use crate::call::task::{OpenTile, Params};
use crate::call::tensors::CHUNK;
use crate::hopper::ROWS;
use crate::hopper::parts::HeldRows;
use crate::hopper::tile::TileShape;
use crate::moves::gather;
use crate::moves::marks::Marks;
use crate::moves::output::BlockOutput;
use layout::Layout;
use ptx::build::{
    Budget, Builder, Cmp, Consumer, Pipeline, Reg, SharedArray, SharedTiles, Signals, Slot, SmemPtr,
};

/// Warps of a warpgroup.
pub const WARPS: u32 = 4;

/// Shared memory.
pub struct Shared {
    pub q: SharedTiles,
    pub k: SharedTiles,
    /// Values: the keys' tiles where they are the same.
    pub v: SharedTiles,
    pub p: SharedTiles,
    /// One factor per row for each tile of probabilities.
    pub factors: SharedArray<f32>,
    /// One sum per row, where work tiles are cut: the last message then has the rows' states.
    pub sums: Option<SharedArray<f32>>,
    pub q_ring: Pipeline,
    /// Barriers of the pieces of the keys of a KV tile.
    pub k_rings: Vec<Pipeline>,
    /// Barriers of the two pieces of the values of a KV tile: those of keys where K = V.
    pub v_rings: [Pipeline; 2],
    pub p_ring: Pipeline,
    /// Which keys of a tile exist, where they are listed.
    pub marks: Option<Marks>,
    /// Where packed rows wait until they are unpacked.
    pub waiting: Option<SharedArray<u32>>,
    /// Counts a piece of values whose tail must be cleared before it is published.
    pub tail: Signals,
    /// Says that the scores of the next tile are computed, where the right warpgroup's products wait for them.
    pub scored: Option<Signals>,
    /// Where the parts of the keys meet.
    pub meeting: Meeting,
}

/// The kernel being emitted.
pub struct Frame {
    pub config: Config,
    pub params: Params,
    pub shared: Shared,
    /// Which of the row blocks that get the same copies is this CTA's.
    pub block: Reg<u32>,
    /// Which part of the keys is this CTA's.
    pub part: SplitIndex,
}

/// Emits the kernel with these parameters.
pub fn emit(b: &mut Builder, config: Config, mut params: Params) {
    let shared = reserve(b, &config, params.cuts());
    params.reserve_watch(b);
    params.reserve_shares(b);
    let rank = match config.cluster() {
        1 => b.value(0),
        _ => b.special("%cluster_ctarank"),
    };
    let block = b.eval(rank % config.multicast);
    let part = params.part.unwrap_or_else(|| SplitIndex::new(b.value(0)));
    Frame { config, params, shared, block, part }.emit(b);
}

fn reserve(b: &mut Builder, config: &Config, cuts: bool) -> Shared {
    let base = b.shared_base();
    let mut tiles = |shape: TileShape, n| SharedTiles::reserve(b, base, shape.layout(), n);
    let q = tiles(config.queries(), 1);
    let k = tiles(config.keys(), config.stages);
    let v = if config.shared_kv { k } else { tiles(config.values(), config.stages) };
    let p = tiles(config.probabilities(), config.p_stages);
    let rows_of_stages = Layout::column_major((u64::from(ROWS), u64::from(config.p_stages)));
    let rows_of_stages = rows_of_stages.expect("a small layout");
    let factors = SharedArray::reserve(b, base, &rows_of_stages);
    let sums = cuts.then(|| SharedArray::reserve(b, base, &rows_of_stages));
    let mut ring = || Pipeline::reserve(b, base, config.stages);
    let k_rings: Vec<Pipeline> = config.key_pieces().iter().map(|_| ring()).collect();
    let v_rings = match (config.shared_kv, &k_rings[..]) {
        (false, _) => [ring(), ring()],
        (true, [left]) => [*left; 2],
        (true, pieces) => [pieces[0], pieces[1]],
    };
    Shared {
        q,
        k,
        v,
        p,
        factors,
        sums,
        q_ring: Pipeline::reserve(b, base, 1),
        k_rings,
        v_rings,
        p_ring: Pipeline::reserve(b, base, config.p_stages),
        marks: config.listed.then(|| Marks::reserve(b, base, TILE, config.stages)),
        waiting: config.format().and_then(|format| gather::waiting(b, base, format)),
        tail: Signals::reserve(b, base, 1),
        // As many as tiles of probabilities: the left warpgroup is that far ahead, and a barrier tells two phases apart.
        scored: config.right_waits().then(|| Signals::reserve(b, base, config.p_stages)),
        meeting: Meeting::reserve(b, base, k.at(), p.at()),
    }
}

impl Frame {
    fn emit(&self, b: &mut Builder) {
        self.init(b);
        let warp = b.warp();
        b.roles(warp, |roles| {
            let [loader, left, right] = self.config.registers();
            let loaders = self.config.loading_warpgroups();
            if self.config.unpacks {
                roles.warpgroups(0..loaders, Budget::Shrunk(loader), |b, _| {
                    gatherers::emit_unpacking(b, self, warp.index());
                });
            } else {
                roles.split_warpgroup(0, Budget::Shrunk(loader), |roles| {
                    if self.config.gathers {
                        gatherers::emit(roles, self);
                    } else {
                        roles.warp(0, |b| loaders::emit_keys(b, self));
                        roles.warp(1, |b| loaders::emit_queries_and_values(b, self));
                    }
                });
            }
            roles.warpgroup(loaders, Budget::Grown(left), |b| scoring::emit(b, self));
            roles.warpgroup(loaders + 1, Budget::Grown(right), |b| {
                if self.has_right() {
                    right_columns::emit(b, self);
                }
            });
        });
        if self.config.cluster() > 1 {
            // Nobody's memory goes away while another CTA writes to it.
            b.cluster_barrier();
        }
    }

    /// One thread initialises the barriers; everyone waits for it (in the whole cluster, whose CTAs
    /// arrive on each other's barriers), and finds the cluster's work.
    fn init(&self, b: &mut Builder) {
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        let Config { multicast, parts, shared_kv, gathers, .. } = self.config;
        b.if_(first, |b| {
            self.params.prefetch_maps(b);
            let shared = &self.shared;
            let arrivals = self.config.arrivals();
            // The warps that bring values wait for queries, too.
            let values = match shared_kv {
                true => 0,
                false if gathers => gather::WARPS,
                false => 1,
            };
            shared.q_ring.init(b, 1, WARPS + values);
            for (piece, ring) in shared.k_rings.iter().enumerate() {
                // With K = V the right warpgroup reads the second piece too.
                let readers = if shared_kv && self.has_right() && piece == 1 { 2 } else { 1 };
                let marks = match self.config {
                    Config { listed: true, unpacks: false, .. } if piece == 0 => gather::WARPS,
                    _ => 0,
                };
                ring.init(b, arrivals + marks, readers * WARPS * multicast);
            }
            if !shared_kv {
                shared.v_rings.iter().for_each(|ring| ring.init(b, arrivals, WARPS * multicast));
            }
            shared.p_ring.init(b, WARPS, WARPS);
            shared.tail.init(b, 1);
            if let Some(scored) = &shared.scored {
                scored.init(b, WARPS);
            }
            if parts > 1 {
                shared.meeting.init(b, parts);
            }
            b.fence_mbarrier_init();
        });
        self.params.share_out(b);
    }

    /// Waits for a piece of keys or values.
    #[track_caller]
    pub fn await_rows(&self, b: &mut Builder, slot: &Slot<Consumer>) {
        slot.wait(b);
        // The warps that unpack have fenced what they stored; copies fence nothing.
        if self.config.gathers && !self.config.unpacks {
            b.fence_proxy_async();
        }
    }

    /// Whether there are output columns for the right warpgroup.
    pub fn has_right(&self) -> bool {
        self.config.right_columns() > 0
    }

    /// Says, once per warp and in every CTA that gets the copies, that a piece has been read.
    #[track_caller]
    pub fn release(&self, b: &mut Builder, slot: &Slot<Consumer>, lead: Reg<bool>) {
        if self.config.multicast == 1 {
            return slot.release_if(b, lead);
        }
        b.if_(lead, |b| {
            let empty = slot.empty(b);
            for block in 0..self.config.multicast {
                let rank = b.eval(self.part.reg() * self.config.multicast + block);
                empty.arrive_remote(b, rank);
            }
        });
    }

    /// The row block of this CTA in a tile.
    #[track_caller]
    pub fn block(&self, b: &mut Builder, open: &OpenTile) -> Block {
        let number = open.first_block.plus(b, self.block);
        Block::at(b, self.config.packing, self.config.group, number)
    }

    /// Number of a warp of the left or the right warpgroup among those of the cluster that have rows.
    #[track_caller]
    pub fn row_warp(&self, b: &mut Builder, thread: Reg<u32>, right: bool) -> Reg<u32> {
        let first = if right { WARPS } else { 0 };
        b.eval(self.block * ROW_WARPS + thread / 32 + first)
    }

    /// Exchanges what a thread holds of the rows of a block with other CTAs, where there are queries, or
    /// finishes them by `finish`.
    #[track_caller]
    pub fn exchange(
        &self,
        b: &mut Builder,
        output: &BlockOutput<'_>,
        held: &HeldRows<'_>,
        warp: Reg<u32>,
        finish: impl FnOnce(&mut Builder),
    ) {
        let exchange = self.params.exchange(output.open).expect("work tiles that are cut");
        let live = b.setp(Cmp::Lt, output.block.token.reg(), output.open.sequence.q_len);
        b.if_(live, |b| held.exchange(b, exchange, warp, finish));
    }

    /// Where piece `piece` of a stage of keys is.
    #[track_caller]
    pub fn key_piece(&self, b: &mut Builder, slot: &Slot<Consumer>, piece: usize) -> SmemPtr {
        let first = self.config.key_pieces()[..piece].iter().sum();
        slot.tile(b, self.shared.k).block(first)
    }

    /// The output columns of piece `piece` of values that one product makes, each as its registers of `out` and a
    /// descriptor of the values at `slot`.
    #[track_caller]
    pub fn products<'o>(
        &self,
        b: &mut Builder,
        slot: &Slot<Consumer>,
        piece: usize,
        out: &'o [Reg<f32>],
    ) -> Vec<(&'o [Reg<f32>], Reg<u64>)> {
        let columns = self.config.product_columns();
        let first = piece as u32 * self.config.value_pieces()[0];
        let (tile, operand) = (slot.tile(b, self.shared.v), self.config.values().mn_major());
        let panels = (first..).step_by((columns / CHUNK) as usize);
        let products = out.chunks(columns as usize / 2).zip(panels);
        products.map(|(out, panel)| (out, operand.at(b, tile.block(panel)))).collect()
    }
}

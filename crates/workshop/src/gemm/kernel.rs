//! Shared memory, barriers and roles.

use super::config::{self, Config, STORE_BOX, Share, WARPGROUPS};
use super::order::{Tile, Work};
use super::{consumer, producer};
use layout::hw::SmemTile;
use ptx::build::{
    Budget, Builder, Cmp, Pipeline, Reg, SharedTile, SharedTiles, Slot, TensorMapParam,
};

/// Warps that multiply, and give stages back.
const READERS: u32 = 4 * WARPGROUPS;

/// What all roles know.
pub struct Frame {
    pub config: Config,
    pub work: Work,
    /// Steps along K of a tile.
    pub steps: Reg<u32>,
    /// Maps of `A`, `B` and `C`.
    pub maps: [TensorMapParam; 3],
    /// The CTA's number in its cluster.
    pub rank: Reg<u32>,
    pub ring: Pipeline,
    left: SharedTiles,
    right: SharedTiles,
    /// Blocks on their way to memory, those of one warpgroup side by side.
    pub stores: SharedTiles,
}

impl Frame {
    /// Reserves shared memory.
    pub fn reserve(
        b: &mut Builder,
        config: Config,
        maps: [TensorMapParam; 3],
        work: Work,
        steps: Reg<u32>,
    ) -> Self {
        let base = b.shared_base();
        let tiles =
            |b: &mut Builder, tile: SmemTile, count| SharedTiles::reserve(b, base, tile, count);
        let left = tiles(b, config::operand(config::WARPGROUP_ROWS), 2 * config.stages);
        let right = tiles(b, config::operand(config::COLUMNS / 2), 2 * config.stages);
        let stores = tiles(b, config::operand(STORE_BOX[0]), WARPGROUPS * config.store_stages);
        let ring = Pipeline::reserve(b, base, config.stages);
        let rank = match config.share {
            Share::Nothing => b.value(0),
            _ => b.special("%cluster_ctarank"),
        };
        Frame { config, work, steps, maps, rank, ring, left, right, stores }
    }

    /// Emits the kernel.
    pub fn emit(&self, b: &mut Builder) {
        self.init(b);
        let warp = b.warp();
        b.roles(warp, |roles| {
            roles.split_warpgroup(0, Budget::Shrunk(24), |roles| {
                roles.warp(0, |b| producer::emit(b, self));
            });
            roles.warpgroups(1..1 + WARPGROUPS, Budget::Grown(240), |b, number| {
                consumer::emit(b, self, number);
            });
        });
        if self.config.cluster() > 1 {
            // The other CTA may still copy to this one, or arrive on its barriers.
            b.cluster_barrier();
        }
    }

    fn init(&self, b: &mut Builder) {
        let thread = b.thread();
        let first = b.setp(Cmp::Eq, thread, 0);
        b.if_(first, |b| {
            self.maps.iter().for_each(|map| b.prefetch_tensor_map(*map));
            self.ring.init(b, 1, READERS * self.config.cluster());
            b.fence_mbarrier_init();
        });
        match self.config.cluster() {
            1 => b.barrier_all(),
            _ => b.cluster_barrier(),
        }
    }

    /// The halves of both operands in a stage.
    #[track_caller]
    pub fn halves<Side: Copy>(&self, b: &mut Builder, slot: &Slot<Side>) -> [SharedTiles; 2] {
        [self.left, self.right].map(|ring| slot.tiles(b, ring))
    }

    /// A whole operand of `rows` rows, whose halves these are.
    pub fn whole(&self, halves: SharedTiles, rows: u32) -> SharedTile {
        SharedTile::new(halves.at(), config::operand(rows))
    }

    /// First row and column of this CTA in its cluster's tile.
    #[track_caller]
    pub fn own(&self, b: &mut Builder, tile: Tile) -> Tile {
        match self.config.share {
            Share::Nothing => tile,
            Share::Left => Tile { column: b.mad(self.rank, config::COLUMNS, tile.column), ..tile },
            Share::Right => Tile { row: b.mad(self.rank, config::ROWS, tile.row), ..tile },
        }
    }
}

//! Which tile a CTA works on, and in which order.
//!
//! The grid is persistent: cluster `c` of `g` (a CTA by itself is a cluster of one) takes jobs `c`, `c + g`, `c + 2g`, …
//! A job is one tile, or, where later tiles have more keys (a causal mask), a long and a short one of
//! the same KV head: tile `i` from the end and tile `i` from the start, which together are as long as
//! any other job. Jobs of a KV head are neighbours, so that its keys and values stay in L2. The list
//! is balanced without a counter that would have to be reset.

use crate::call::index::{KvHead, SequenceIndex, SplitIndex, WorkTileIndex};
use program::build::{Arguments, Divisor};
use ptx::build::{Builder, Cmp, Reg};

/// The list of tiles of a launch.
#[derive(Clone, Copy, Debug)]
pub struct TileList {
    /// Tiles of one KV head.
    pub tiles: u32,
    /// Parts the keys are split into.
    pub splits: u32,
    /// KV heads of one sequence.
    pub kv_heads: u32,
    /// Sequences.
    pub batch: u32,
    /// Whether a job is a tile and its mirror image, a long one and a short one.
    pub mirrored: bool,
}

impl TileList {
    /// Number of tiles.
    pub fn len(&self) -> u32 {
        self.tiles * self.splits * self.kv_heads * self.batch
    }

    /// Number of jobs.
    pub fn jobs(&self) -> u32 {
        self.jobs_per_head() * self.kv_heads * self.batch
    }

    fn jobs_per_head(&self) -> u32 {
        let tiles = self.tiles * self.splits;
        if self.mirrored { tiles.div_ceil(2) } else { tiles }
    }
}

/// One work tile.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// Sequence.
    pub sequence: SequenceIndex,
    /// KV head.
    pub kv_head: KvHead,
    /// Tile within the KV head, in query order.
    pub index: WorkTileIndex,
    /// Part of the keys.
    pub split: SplitIndex,
}

/// The list, in a kernel.
#[derive(Clone, Copy, Debug)]
pub struct TileOrder {
    jobs: Reg<u32>,
    jobs_per_head: Divisor,
    last_of_head: Option<Reg<u32>>,
    splits: Option<Divisor>,
    kv_heads: Divisor,
    cluster: u32,
}

impl TileOrder {
    /// Declares the list's parameters; `cluster` CTAs work on a tile together.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, list: &TileList, cluster: u32) -> Self {
        // Without queries there are no tiles.
        let last = (list.tiles * list.splits).saturating_sub(1);
        TileOrder {
            jobs: args.u32(b, "jobs", list.jobs()),
            jobs_per_head: Divisor::declare(b, args, "jobs_per_head", list.jobs_per_head()),
            last_of_head: list.mirrored.then(|| args.u32(b, "last_of_head", last)),
            splits: (list.splits > 1).then(|| Divisor::declare(b, args, "splits", list.splits)),
            kv_heads: Divisor::declare(b, args, "kv_heads", list.kv_heads),
            cluster,
        }
    }

    /// Runs `body` for every tile of this CTA.
    #[track_caller]
    pub fn for_each(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, Tile)) {
        let (mut cluster, mut clusters) = (b.special("%ctaid.x"), b.special("%nctaid.x"));
        if self.cluster > 1 {
            (cluster, clusters) = (b.eval(cluster / self.cluster), b.eval(clusters / self.cluster));
        }
        let job = b.value(cluster);
        match self.last_of_head {
            None => b.while_(
                |b| b.setp(Cmp::Lt, job, self.jobs),
                |b| {
                    let (head, index) = self.jobs_per_head.divide(b, job);
                    let tile = self.tile(b, head, index);
                    body(b, tile);
                    b.assign(job, job + clusters);
                },
            ),
            Some(last) => self.for_each_mirrored(b, job, clusters, last, body),
        }
    }

    /// Both tiles of each job: the long one, then the short one unless it is the same.
    #[track_caller]
    fn for_each_mirrored(
        &self,
        b: &mut Builder,
        job: Reg<u32>,
        clusters: Reg<u32>,
        last: Reg<u32>,
        body: impl FnOnce(&mut Builder, Tile),
    ) {
        let long = b.value::<u32>(1);
        b.while_(
            |b| b.setp(Cmp::Lt, job, self.jobs),
            |b| {
                let (head, rank) = self.jobs_per_head.divide(b, job);
                let mirror = b.eval(last - rank);
                let is_long = b.setp(Cmp::Ne, long, 0);
                let index = b.select::<u32>(is_long, mirror, rank);
                let distinct = b.setp(Cmp::Ne, mirror, rank);
                let exists = b.or(is_long, distinct);
                b.if_(exists, |b| {
                    let tile = self.tile(b, head, index);
                    body(b, tile);
                });
                let next = b.eval(job + clusters);
                let next = b.select::<u32>(is_long, job, next);
                b.assign(job, next);
                b.assign(long, long ^ 1);
            },
        );
    }

    #[track_caller]
    fn tile(&self, b: &mut Builder, head: Reg<u32>, index: Reg<u32>) -> Tile {
        let (sequence, kv_head) = self.kv_heads.divide(b, head);
        let (index, split) = match self.splits {
            None => (index, b.value::<u32>(0)),
            Some(splits) => splits.divide(b, index),
        };
        Tile {
            sequence: SequenceIndex::new(sequence),
            kv_head: KvHead::new(kv_head),
            index: WorkTileIndex::new(index),
            split: SplitIndex::new(split),
        }
    }
}

//! Which tile a CTA works on, and in which order.
//!
//! The grid is persistent: unit `c` of `g` (a CTA, or a cluster) takes tiles `c`, then `2g-1-c`, then
//! `2g+c`, … (a snake), out of a list sorted by length: within a section of KV heads whose keys and
//! values fit L2 together, the tiles with the most keys (the last queries, under a causal mask) come
//! first. A static snake over a sorted list balances as well as a work queue and needs no counter.

use crate::arguments::Arguments;
use ptx::build::{Builder, Cmp, Reg};

/// Bytes of keys and values that neighbouring tiles may share in L2.
const SECTION_BYTES: u64 = 24 << 20;

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
    /// Bytes of keys and values of one KV head of one sequence.
    pub head_bytes: u64,
    /// Whether tiles have different lengths.
    pub uneven: bool,
}

impl TileList {
    /// Number of tiles.
    pub fn len(&self) -> u32 {
        self.tiles * self.splits * self.kv_heads * self.batch
    }

    fn section(&self) -> u32 {
        if !self.uneven {
            return 1;
        }
        (SECTION_BYTES / self.head_bytes.max(1)).clamp(1, (self.kv_heads * self.batch) as u64)
            as u32
    }
}

/// One tile of work.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// Sequence.
    pub batch: Reg<u32>,
    /// KV head.
    pub kv_head: Reg<u32>,
    /// Tile within the KV head, in query order.
    pub index: Reg<u32>,
    /// Part of the keys.
    pub split: Reg<u32>,
}

/// The list, in a kernel.
#[derive(Clone, Copy, Debug)]
pub struct TileOrder {
    len: Reg<u32>,
    per_head: Reg<u32>,
    splits: Option<Reg<u32>>,
    section: Reg<u32>,
    kv_heads: Reg<u32>,
    heads: Reg<u32>,
    cluster: u32,
}

impl TileOrder {
    /// Declares the list's parameters; `cluster` CTAs work on a tile together.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, list: &TileList, cluster: u32) -> Self {
        TileOrder {
            len: args.u32(b, "tiles", list.len()),
            per_head: args.u32(b, "tiles_per_head", list.tiles * list.splits),
            splits: (list.splits > 1).then(|| args.u32(b, "splits", list.splits)),
            section: args.u32(b, "section", list.section()),
            kv_heads: args.u32(b, "kv_heads", list.kv_heads),
            heads: args.u32(b, "batch_kv_heads", list.kv_heads * list.batch),
            cluster,
        }
    }

    /// Runs `body` for every tile of this CTA.
    #[track_caller]
    pub fn for_each(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, Tile)) {
        let (mut unit, mut units) = (b.special("%ctaid.x"), b.special("%nctaid.x"));
        if self.cluster > 1 {
            (unit, units) = (b.div(unit, self.cluster), b.div(units, self.cluster));
        }
        let mirrored = b.sub(units, unit);
        let mirrored = b.sub(mirrored, 1);
        let (round, place, other) = (b.value::<u32>(0), b.value(unit), b.value(mirrored));
        b.while_(
            |b| b.setp(Cmp::Lt, round, self.len),
            |b| {
                let number = b.add(round, place);
                let exists = b.setp(Cmp::Lt, number, self.len);
                b.if_(exists, |b| {
                    let tile = self.tile(b, number);
                    body(b, tile);
                });
                let next = b.add(round, units);
                b.assign(round, next);
                let swapped = b.value(place);
                b.assign(place, other);
                b.assign(other, swapped);
            },
        );
    }

    #[track_caller]
    fn tile(&self, b: &mut Builder, number: Reg<u32>) -> Tile {
        let section_tiles = b.mul(self.section, self.per_head);
        let section = b.div(number, section_tiles);
        let skipped = b.mul(section, section_tiles);
        let within = b.sub(number, skipped);
        let first_head = b.mul(section, self.section);
        let heads_left = b.sub(self.heads, first_head);
        let width = b.min(self.section, heads_left);
        let rank = b.div(within, width);
        let before = b.mul(rank, width);
        let head = b.sub(within, before);
        let head = b.add(first_head, head);
        let last = b.sub(self.per_head, 1);
        let index = b.sub(last, rank);
        let batch = b.div(head, self.kv_heads);
        let kv_head = b.rem(head, self.kv_heads);
        match self.splits {
            None => Tile { batch, kv_head, index, split: b.value::<u32>(0) },
            Some(splits) => {
                let (index, split) = (b.div(index, splits), b.rem(index, splits));
                Tile { batch, kv_head, index, split }
            }
        }
    }
}

//! Which tile a CTA works on, and in which order.
//!
//! The grid is persistent: unit `c` of `g` (a CTA, or a cluster) takes tiles `c`, then `2g-1-c`, then
//! `2g+c`, … (a snake). Where tiles have different lengths (under a causal mask, later queries have
//! more keys) the list is sorted, longest first, over all heads: a static snake over a sorted list
//! balances as well as a work queue and needs no counter. Else the tiles of a KV head are neighbours,
//! so that its keys and values are read together.

use crate::arguments::Arguments;
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
    /// Whether tiles have different lengths.
    pub uneven: bool,
}

impl TileList {
    /// Number of tiles.
    pub fn len(&self) -> u32 {
        self.tiles * self.splits * self.kv_heads * self.batch
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
    uneven: bool,
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
            uneven: list.uneven,
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
        let (head, index) = if self.uneven {
            let rank = b.div(number, self.heads);
            let last = b.sub(self.per_head, 1);
            (b.rem(number, self.heads), b.sub(last, rank))
        } else {
            (b.div(number, self.per_head), b.rem(number, self.per_head))
        };
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

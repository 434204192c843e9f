//! Which tile a CTA works on, and in which order.
//!
//! The grid is persistent: cluster `c` of `g` (a CTA by itself is a cluster of one) takes tiles `c`, `c + g`, `c + 2g`, …
//! Tiles of a KV head are neighbours, so that its keys and values stay in L2.
//!
//! Where later tiles have more keys (a causal mask), the longest come first, over a section of several KV heads. The
//! clusters take them in turns that go back and forth: in one round cluster 0 takes the longest tile, in the next the
//! shortest. A section begins with a round of its own, in the other direction than the section before. So all clusters
//! end at about the same time, without a counter that would have to be reset.

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
    /// Sections in which the longest tiles come first; `None` where tiles are equally long.
    pub sections: Option<Sections>,
}

/// How the longest tiles come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections {
    /// KV heads of a section, a divisor of those of all sequences.
    heads: u32,
    /// Clusters of the grid.
    clusters: u32,
}

impl TileList {
    /// Number of tiles.
    pub fn len(&self) -> u32 {
        self.tiles * self.splits * self.kv_heads * self.batch
    }

    /// KV heads of all sequences.
    fn heads(&self) -> u32 {
        self.kv_heads * self.batch
    }

    fn tiles_per_head(&self) -> u32 {
        self.tiles * self.splits
    }

    /// The same list for `clusters` clusters, the longest tiles first, in sections of at most `most` KV heads if that
    /// leaves no cluster without work for long. Where there is a tile for each cluster, or one of queries for each head,
    /// the order means nothing.
    pub fn longest_first(self, clusters: u32, most: u32) -> Self {
        if self.len() <= clusters || self.tiles == 1 {
            return self;
        }
        let divisors = (1..=self.heads()).filter(|n| self.heads().is_multiple_of(*n));
        let sections = divisors.map(|heads| Sections { heads, clusters });
        let turns: Vec<_> = sections.map(|sections| (sections, sections.turn(&self))).collect();
        let least = turns.iter().map(|(_, turn)| *turn).min().unwrap_or(0);
        let near = |turn: u64| turn <= least + least / 20;
        let small = turns.iter().filter(|(sections, _)| sections.heads <= most.max(1));
        let small = small.min_by_key(|(_, turn)| *turn).filter(|(_, turn)| near(*turn));
        let best = small.or_else(|| turns.iter().find(|(_, turn)| near(*turn)));
        TileList { sections: best.map(|(sections, _)| *sections), ..self }
    }
}

/// Sections of more tiles are balanced by their number.
const MOST_COMPARED: u32 = 1 << 14;

impl Sections {
    fn tiles(&self, list: &TileList) -> u32 {
        self.heads * list.tiles_per_head()
    }

    fn rounds(&self, list: &TileList) -> u32 {
        self.tiles(list).div_ceil(self.clusters)
    }

    fn count(&self, list: &TileList) -> u32 {
        list.heads() / self.heads
    }

    /// What the cluster with the most work has, or its share where that is near enough.
    fn turn(&self, list: &TileList) -> u64 {
        if self.tiles(list) <= MOST_COMPARED {
            return self.longest_turn(list);
        }
        let (tiles, heads) = (u64::from(list.tiles_per_head()), u64::from(list.heads()));
        heads * tiles * (tiles + 3) / 2 / u64::from(self.clusters)
    }

    /// What the cluster with the most work has, where a tile takes as long as its place in its head, and one more for
    /// its beginning and end.
    fn longest_turn(&self, list: &TileList) -> u64 {
        let mut section = vec![0; self.clusters as usize];
        for n in 0..self.tiles(list) {
            let place = self.cluster(n / self.clusters % 2 == 1, n % self.clusters);
            section[place as usize] += u64::from(list.tiles_per_head() - n / self.heads + 1);
        }
        let (back, forth) =
            (u64::from(self.count(list) / 2), u64::from(self.count(list).div_ceil(2)));
        let turns = section.iter().zip(section.iter().rev());
        turns.map(|(this, other)| this * forth + other * back).max().unwrap_or(0)
    }

    /// The cluster that takes place `place` of a round.
    fn cluster(&self, back: bool, place: u32) -> u32 {
        if back { self.clusters - 1 - place } else { place }
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
    /// What the loop over the list counts by, where there is one.
    pub counter: Option<Reg<u32>>,
}

/// The list, in a kernel.
#[derive(Clone, Copy, Debug)]
pub struct TileOrder {
    turns: Turns,
    splits: Option<Divisor>,
    kv_heads: Divisor,
    cluster: u32,
}

/// The order of tiles, in a kernel.
#[derive(Clone, Copy, Debug)]
enum Turns {
    InOrder { tiles: Reg<u32>, tiles_per_head: Divisor },
    LongestFirst(Longest),
}

/// Sections, in a kernel.
#[derive(Clone, Copy, Debug)]
struct Longest {
    /// Rounds of all sections.
    rounds: Reg<u32>,
    rounds_per_section: Divisor,
    /// Tiles of a section.
    tiles: Reg<u32>,
    /// KV heads of a section.
    heads: Divisor,
    last_of_head: Reg<u32>,
}

impl Longest {
    #[track_caller]
    fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        list: &TileList,
        sections: &Sections,
    ) -> Self {
        let rounds = sections.rounds(list);
        Longest {
            rounds: args.u32(b, "rounds", rounds * sections.count(list)),
            rounds_per_section: Divisor::declare(b, args, "rounds_per_section", rounds),
            tiles: args.u32(b, "tiles_of_section", sections.tiles(list)),
            heads: Divisor::declare(b, args, "heads_of_section", sections.heads),
            last_of_head: args.u32(b, "last_of_head", list.tiles_per_head() - 1),
        }
    }
}

impl TileOrder {
    /// Declares the list's parameters; `cluster` CTAs work on a tile together.
    #[track_caller]
    pub fn declare(b: &mut Builder, args: &mut Arguments, list: &TileList, cluster: u32) -> Self {
        let turns = match &list.sections {
            None => Turns::InOrder {
                tiles: args.u32(b, "jobs", list.len()),
                tiles_per_head: Divisor::declare(b, args, "jobs_per_head", list.tiles_per_head()),
            },
            Some(sections) => Turns::LongestFirst(Longest::declare(b, args, list, sections)),
        };
        TileOrder {
            turns,
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
        match &self.turns {
            Turns::InOrder { tiles, tiles_per_head } => {
                let n = b.value(cluster);
                b.while_(
                    |b| b.setp(Cmp::Lt, n, *tiles),
                    |b| {
                        let (head, index) = tiles_per_head.divide(b, n);
                        let tile = self.tile(b, head, index);
                        body(b, Tile { counter: Some(n), ..tile });
                        b.assign(n, n + clusters);
                    },
                );
            }
            Turns::LongestFirst(longest) => {
                self.for_each_longest_first(b, longest, cluster, clusters, body);
            }
        }
    }

    #[track_caller]
    fn for_each_longest_first(
        &self,
        b: &mut Builder,
        longest: &Longest,
        cluster: Reg<u32>,
        clusters: Reg<u32>,
        body: impl FnOnce(&mut Builder, Tile),
    ) {
        b.range(0, longest.rounds, |b, round| {
            let (section, turn) = longest.rounds_per_section.divide(b, round);
            let back = b.eval((section ^ turn) & 1);
            let back = b.setp(Cmp::Ne, back, 0);
            let mirror = b.eval(clusters - cluster - 1);
            let place = b.select::<u32>(back, mirror, cluster);
            let n = b.eval(turn * clusters + place);
            let exists = b.setp(Cmp::Lt, n, longest.tiles);
            b.if_(exists, |b| {
                let (rank, head) = longest.heads.divide(b, n);
                let head = b.eval(section * longest.heads.value() + head);
                let index = b.eval(longest.last_of_head - rank);
                let tile = self.tile(b, head, index);
                body(b, Tile { counter: Some(round), ..tile });
            });
        });
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
            counter: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causal(tiles: u32, kv_heads: u32) -> TileList {
        TileList { tiles, splits: 1, kv_heads, batch: 1, sections: None }
    }

    #[test]
    fn the_busiest_cluster_has_hardly_more_than_its_share() {
        // 16,384 tokens in all, for 132 processors: head dims 64 (192 rows a tile), 128 and 256.
        for (tiles, heads) in
            [(86, 32), (43, 64), (128, 16), (64, 32), (32, 64), (128, 8), (32, 32)]
        {
            let list = causal(tiles, heads).longest_first(132, 64);
            let sections = list.sections.expect("more tiles than clusters");
            let all = u64::from(heads) * u64::from(tiles) * u64::from(tiles + 3) / 2;
            let share = all as f64 / 132.0;
            let most = sections.longest_turn(&list) as f64;
            assert!(most < 1.02 * share, "{tiles} tiles, {heads} heads: {most} of {share}");
        }
    }

    #[test]
    fn clusters_are_busy_though_few_heads_fit_in_l2() {
        // A chunk of a long prompt, as one head or two; and many short ones.
        for (tiles, heads) in [(16, 8), (64, 8), (2, 264), (3, 512), (5, 1000)] {
            for most in [1, 2, 32] {
                let list = causal(tiles, heads).longest_first(132, most);
                let Some(sections) = list.sections else { continue };
                let all = f64::from(heads * tiles * (tiles + 3)) / 2.0;
                // A cluster has whole tiles.
                let share = all / 132.0 + f64::from(tiles + 1);
                let turn = sections.longest_turn(&list) as f64;
                assert!(
                    turn < 1.1 * share,
                    "{tiles} tiles, {heads} heads, {most}: {turn} of {share}"
                );
            }
        }
    }

    #[test]
    fn equal_tiles_need_no_order() {
        assert_eq!(causal(1, 512).longest_first(264, 32).sections, None);
    }

    #[test]
    fn a_tile_for_each_cluster_needs_no_order() {
        assert_eq!(causal(4, 33).longest_first(132, 64).sections, None);
        let sections = causal(4, 34).longest_first(132, 64).sections;
        assert!(sections.is_some_and(|sections| 34 % sections.heads == 0));
    }
}

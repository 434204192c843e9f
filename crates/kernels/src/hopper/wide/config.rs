//! Pieces, stages and clusters of the wide schedule.

use crate::call::rows::Packing;
use crate::call::task::Tiling;
use crate::call::tensors::{CHUNK, Panel};
use crate::hopper::parts;
use crate::hopper::tile::TileShape;
use crate::hopper::{ROWS, SHARED_LIMIT, SHARED_RESERVE};
use crate::moves::gather::{self, Format};
use crate::work::exchange::Size;
use problem::{DType, Problem, QueryLengths, Storage, Values};
use ptx::build::HalfType;

/// Keys per tile.
pub const TILE: u32 = 64;

/// Warps of a CTA that have rows: those of both warpgroups.
pub const ROW_WARPS: u32 = 8;

/// Everything a wide kernel is specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Element type.
    pub half: HalfType,
    /// Length of a query or key row.
    pub key_dim: u32,
    /// Length of a value row.
    pub value_dim: u32,
    /// How queries fill a row block.
    pub packing: Packing,
    /// Query heads per KV head.
    pub group: u32,
    /// CTAs, each with a row block of its own, that get every copy of keys and values.
    pub multicast: u32,
    /// Parts of the keys, in CTAs of the same cluster, which merges their results.
    pub parts: u32,
    /// KV tiles in shared memory.
    pub stages: u32,
    /// Tiles of probabilities in shared memory.
    pub p_stages: u32,
    /// Whether values are the first columns of the keys.
    pub shared_kv: bool,
    /// Whether the output of a tile goes before the scores of the next one: its place is filled again meanwhile,
    /// which takes threads longer than tensor copies.
    pub output_first: bool,
    /// Whether threads copy keys and values, not tensor copies.
    pub gathers: bool,
    /// Whether each token has a list of its keys.
    pub listed: bool,
    /// How rows lie in memory.
    pub storage: Storage,
    /// Whether rows are packed.
    pub unpacks: bool,
    /// Whether rows that are gathered come to L2 ahead of time: few row blocks share them.
    pub prefetches: bool,
}

impl Config {
    /// The largest key dim.
    pub const MOST_KEY_COLUMNS: u64 = 576;
    /// The largest value dim.
    pub const MOST_VALUE_COLUMNS: u64 = 512;

    /// Whether a problem needs this schedule.
    pub fn suits(problem: &Problem) -> bool {
        problem.key_dim().max(problem.value_dim()) > 256
    }

    /// The stages that fit, and a cluster where there are two row blocks.
    pub fn choose(problem: &Problem, n: usize) -> Self {
        let listed = problem.segments.iter().any(|segment| segment.indices.is_some());
        let storage = problem.segments[n].storage;
        let alone = problem.segments.len() == 1 && storage == Storage::Elements;
        let ragged = alone && problem.query_lengths != QueryLengths::Full;
        let packing = match listed {
            true => Packing::of_one_token(problem, ROWS),
            // Some have one token, others many: both fill rows with heads.
            false if ragged => Packing::of_heads(problem, ROWS),
            false => Packing::choose(problem, ROWS),
        };
        let group = problem.group() as u32;
        let blocks = packing.blocks(group, problem.longest_query());
        let shared_kv = matches!(problem.segments[n].values, Values::SameAsKeys { .. });
        // A launch gathers the rows of all its segments, or of none.
        let suits = |segment| gather::suits(segment, TILE, u64::MAX);
        let gathers =
            problem.segments.iter().any(suits) && problem.segments.iter().all(gather::reaches);
        let config = Config {
            half: if problem.dtype() == DType::F16 { HalfType::F16 } else { HalfType::Bf16 },
            key_dim: problem.key_dim() as u32,
            value_dim: problem.value_dim() as u32,
            packing,
            group,
            // Threads copy for their own CTA only.
            multicast: if blocks >= 2 && !gathers { 2 } else { 1 },
            parts: 1,
            stages: 1,
            p_stages: 1,
            shared_kv,
            output_first: shared_kv && gathers,
            gathers,
            listed,
            storage,
            unpacks: storage != Storage::Elements,
            prefetches: gathers && blocks <= 4,
        };
        let choices = [(2, 2), (2, 1), (1, 2)];
        let with = |(stages, p_stages)| Config { stages, p_stages, ..config };
        choices.into_iter().map(with).find(Config::fits).unwrap_or(config)
    }

    fn fits(&self) -> bool {
        let bytes = self.queries().bytes()
            + self.ring_bytes()
            + self.p_stages * self.probabilities().bytes()
            + self.format().map_or(0, gather::waiting_bytes);
        bytes <= SHARED_LIMIT - SHARED_RESERVE
    }

    /// The format of packed rows.
    pub fn format(&self) -> Option<Format> {
        self.unpacks.then(|| Format::of(self.storage))
    }

    /// Bytes of all KV tiles.
    fn ring_bytes(&self) -> u32 {
        let values = if self.shared_kv { 0 } else { self.values().bytes() };
        self.stages * (self.keys().bytes() + values)
    }

    /// The same kernel on parts of the keys that a cluster merges, in all ways there are, those that
    /// multicast first.
    pub fn merging(&self) -> impl Iterator<Item = Config> {
        let multicasts = (1..=self.multicast).rev();
        let ways = multicasts.flat_map(|multicast| [2, 4].map(|parts| (multicast, parts)));
        ways.map(|(multicast, parts)| Config { multicast, parts, ..*self }).filter(Config::merges)
    }

    fn merges(&self) -> bool {
        let (parts, strips) = (self.parts, self.parts / 2);
        let even = [self.left_columns(), self.right_columns()]
            .iter()
            .all(|columns| *columns > 0 && columns.is_multiple_of(8 * strips));
        let columns = parts * self.strip_columns() * ROWS * 4;
        even && columns <= self.ring_bytes() && parts * ROWS * 8 <= self.probabilities().bytes()
    }

    /// Columns that a CTA of a merging cluster finishes, at most.
    fn strip_columns(&self) -> u32 {
        self.left_columns().max(self.right_columns()) * 2 / self.parts
    }

    /// CTAs of a cluster.
    pub fn cluster(&self) -> u32 {
        self.multicast * self.parts
    }

    /// A block of queries.
    pub fn queries(&self) -> TileShape {
        TileShape::new(ROWS, self.key_dim)
    }

    /// The keys of a KV tile.
    pub fn keys(&self) -> TileShape {
        TileShape::new(TILE, self.key_dim)
    }

    /// The values of a KV tile.
    pub fn values(&self) -> TileShape {
        TileShape::new(TILE, self.value_dim)
    }

    /// A tile of probabilities.
    pub fn probabilities(&self) -> TileShape {
        TileShape::new(ROWS, TILE)
    }

    /// Panels of values of the left warpgroup.
    fn left_panels(&self) -> u32 {
        self.values().chunks.div_ceil(2)
    }

    /// Output columns of the left warpgroup.
    pub fn left_columns(&self) -> u32 {
        (self.left_panels() * CHUNK).min(self.value_dim)
    }

    /// Output columns of the right warpgroup: none where one panel holds all.
    pub fn right_columns(&self) -> u32 {
        self.value_dim - self.left_columns()
    }

    /// Panels of the pieces of the keys of a KV tile. Where values are the same, the first piece is the left
    /// warpgroup's and the second the right one's.
    pub fn key_pieces(&self) -> Vec<u32> {
        let chunks = self.keys().chunks;
        let first = match self.shared_kv {
            true => self.left_panels().min(chunks),
            false => chunks.div_ceil(2),
        };
        [first, chunks - first].into_iter().filter(|panels| *panels > 0).collect()
    }

    /// Panels of the two pieces of the values of a KV tile.
    pub fn value_pieces(&self) -> [u32; 2] {
        [self.left_panels(), self.values().chunks - self.left_panels()]
    }

    /// How a cluster's tile covers queries and keys.
    pub fn tiling(&self) -> Tiling {
        Tiling {
            packing: self.packing,
            group: self.group,
            blocks: self.multicast,
            cluster: self.cluster(),
            tile: TILE,
            copied_rows: TILE,
            whole_queries: true,
            slices: 1,
            panel: Panel::Swizzled,
            gathers: self.gathers,
            raw: false,
            finds_rows: false,
        }
    }

    /// Whether its work can be shared out by lengths on the device.
    pub fn shares_out(&self) -> bool {
        !self.listed && !self.unpacks
    }

    /// What the warps of a cluster hold of a work tile.
    pub fn part_size(&self) -> Size {
        let words = parts::words(self.left_columns().max(self.right_columns()));
        Size { warps: self.multicast * ROW_WARPS, words }
    }

    /// Arrivals that make a piece of keys or values full.
    pub fn arrivals(&self) -> u32 {
        match self {
            Config { unpacks: true, .. } => gather::UNPACKING_WARPS,
            Config { gathers: true, .. } => gather::ARRIVALS,
            _ => 1,
        }
    }

    /// Whether the right warpgroup multiplies while the left one computes a softmax, not while that one multiplies: all
    /// wait for the left one. With one stage of keys they would wait for the right one.
    pub fn right_waits(&self) -> bool {
        self.output_first && self.stages > 1 && self.right_columns() > 0
    }

    /// Registers of a loader thread, and of the left and the right warpgroup's.
    pub fn registers(&self) -> [u32; 3] {
        match self.storage {
            Storage::Elements => [40, 232, 232],
            Storage::V32 => [72, 208, 160],
            _ => [64, 208, 176],
        }
    }

    /// Output columns of one product. The assembler takes no instruction that needs more registers than a thread
    /// gets at launch, which are fewer where more warps load.
    pub fn product_columns(&self) -> u32 {
        if self.unpacks { 128 } else { 256 }
    }

    /// Warpgroups that bring queries, keys and values.
    pub fn loading_warpgroups(&self) -> u32 {
        if self.unpacks { gather::UNPACKING_WARPS / 4 } else { 1 }
    }

    /// Threads of a CTA: loaders, left, right.
    pub fn threads(&self) -> u32 {
        (self.loading_warpgroups() + 2) * 128
    }
}

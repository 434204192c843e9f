//! Tile sizes, stages and registers of a Hopper kernel, and the budget that limits them.
//!
//! Shared memory: 227 KiB per CTA. Registers: 64 Ki per SM; with `W` consumer warpgroups and one
//! producer the split is 24–40 for the producer and 240 (W = 2) or 160 (W = 3) for consumers.
//! A consumer thread holds `S` (tile/2), `P` (tile/4) and `O` (value dim/2) registers.

use crate::call::rows::Packing;
use crate::call::task::Tiling;
use crate::call::tensors::Panel;
use crate::hopper::parts;
use crate::hopper::tile::TileShape;
use crate::hopper::{ROWS, SHARED_LIMIT, SHARED_RESERVE};
use crate::moves::gather;
use crate::plan::options::PlanOptions;
use crate::plan::tuning::hopper::{SHORT_RUN, lonely, time_of_a_tile};
use crate::work::exchange::Size;
use problem::{DType, Mask, Problem, QueryLengths, Values};
use ptx::build::HalfType;

/// Rows of a copy from pages at most. Of the last tile of a sequence copies of fewer rows bring fewer that are not there.
const PAGED_COPY: u32 = 64;

/// Everything a kernel is specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Element type.
    pub half: HalfType,
    /// Length of a query or key row.
    pub key_dim: u32,
    /// Length of a value row.
    pub value_dim: u32,
    /// How queries fill the rows of a warpgroup.
    pub packing: Packing,
    /// Query heads per KV head.
    pub group: u32,
    /// Consumer warpgroups.
    pub warpgroups: u32,
    /// Keys per tile.
    pub tile: u32,
    /// Keys per tensor copy at most.
    pub copied_rows: u32,
    /// Buffers of queries.
    pub q_stages: u32,
    /// Buffers of keys (and of values, where they are separate).
    pub stages: u32,
    /// Whether values are the first columns of the keys.
    pub shared_kv: bool,
    /// Whether threads copy keys and values, not tensor copies.
    pub gathers: bool,
    /// Whether each token has a list of its keys.
    pub listed: bool,
}

/// How often the processors' CTAs of `warpgroups` blocks each must be filled anew.
fn rounds(blocks: u64, heads: u64, warpgroups: u32, options: &PlanOptions) -> f64 {
    (blocks.div_ceil(warpgroups as u64) * heads).div_ceil(options.processors as u64) as f64
}

impl Config {
    /// The measured best tile for the problem's segment `n`.
    pub fn choose(problem: &Problem, n: usize, options: &PlanOptions) -> Self {
        let (key_dim, value_dim) = (problem.key_dim() as u32, problem.value_dim() as u32);
        let group = problem.group() as u32;
        let segment = &problem.segments[n];
        let listed = segment.indices.is_some();
        let ragged = problem.query_lengths != QueryLengths::Full && !listed;
        let packing = match (listed, ragged) {
            (true, _) => Packing::of_one_token(problem, ROWS),
            // Some have one token, others many: both fill rows with heads.
            (_, true) => Packing::of_heads(problem, ROWS),
            _ => Packing::choose(problem, ROWS),
        };
        let blocks = packing.blocks(group, problem.longest_query());
        let full = segment.mask == Mask::Full;
        // Three warpgroups leave no registers for the elements of a mask tensor.
        let roomy = segment.attn_mask.is_none();
        let (warpgroups, tile) = match key_dim.max(value_dim) {
            // Under a short causal mask a third of 192 rows would be past the end too often.
            0..=64 if roomy && (full || problem.longest_query() > 1024) => (3, 128),
            0..=128 => (2, 128),
            129..=192 if value_dim <= 128 => (2, 128),
            129..=192 => (2, 96),
            _ => (2, 80),
        };
        // Long queries wait for products rather than for memory, which threads that copy slow down.
        let short_run = if blocks > 1 { SHORT_RUN / 2 } else { SHORT_RUN };
        let gathers = gather::suits(segment, tile, short_run);
        // A CTA's rows are one token's where it has its own keys.
        let warpgroups = if listed { 1 } else { warpgroups };
        let heads = problem.kv_heads() * problem.batch();
        let fewest = if ragged && blocks > 1 { warpgroups } else { 1 };
        let warpgroups = (fewest..=warpgroups)
            .min_by(|a, b| {
                let time = |w| rounds(blocks, heads, w, options) * time_of_a_tile(w);
                time(*a).total_cmp(&time(*b))
            })
            .unwrap_or(1);
        // Keys that are values are held until their output is done, which is after the next keys but one
        // are awaited.
        let shared_kv = matches!(segment.values, Values::SameAsKeys { .. });
        let mut config = Config {
            half: if problem.dtype() == DType::F16 { HalfType::F16 } else { HalfType::Bf16 },
            key_dim,
            value_dim,
            packing,
            group,
            warpgroups,
            tile,
            copied_rows: match segment.paging {
                Some(_) if tile.is_multiple_of(PAGED_COPY) => PAGED_COPY,
                _ => tile,
            },
            q_stages: 2,
            stages: if shared_kv { 3 } else { 2 },
            shared_kv,
            gathers,
            listed,
        };
        if config.shared_bytes() > SHARED_LIMIT - SHARED_RESERVE {
            config.q_stages = 1;
        }
        while config.stages < 4 && (Config { stages: config.stages + 1, ..config }).fits() {
            config.stages += 1;
        }
        config
    }

    fn fits(&self) -> bool {
        self.shared_bytes() <= SHARED_LIMIT - SHARED_RESERVE
    }

    fn shared_bytes(&self) -> u32 {
        let values = if self.shared_kv { 0 } else { self.values().bytes() };
        self.q_stages * self.warpgroups * self.queries().bytes()
            + self.stages * (self.keys().bytes() + values)
    }

    /// A warpgroup's queries.
    pub fn queries(&self) -> TileShape {
        TileShape::new(ROWS, self.key_dim)
    }

    /// The keys of a KV tile.
    pub fn keys(&self) -> TileShape {
        TileShape::new(self.tile, self.key_dim)
    }

    /// The values of a KV tile.
    pub fn values(&self) -> TileShape {
        let dim = if self.shared_kv { self.key_dim } else { self.value_dim };
        TileShape::new(self.tile, dim)
    }

    /// How a CTA's tile covers queries and keys.
    pub fn tiling(&self) -> Tiling {
        Tiling {
            packing: self.packing,
            group: self.group,
            blocks: self.warpgroups,
            cluster: 1,
            tile: self.tile,
            copied_rows: self.copied_rows,
            whole_queries: false,
            slices: 1,
            panel: Panel::Swizzled,
            gathers: self.gathers,
            raw: false,
            finds_rows: false,
        }
    }

    /// What a KV tile costs where only one warpgroup has queries, the others passing by.
    pub fn lonely_tile(&self) -> f32 {
        lonely(self.value_dim)
    }

    /// What the warps of a CTA hold of a work tile.
    pub fn part_size(&self) -> Size {
        Size { warps: self.warpgroups * 4, words: parts::words(self.value_dim) }
    }

    /// Arrivals that make the keys or the values of a KV tile full.
    pub fn arrivals(&self) -> u32 {
        if self.gathers { gather::ARRIVALS } else { 1 }
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        (self.warpgroups + 1) * 128
    }

    /// Registers of a producer and of a consumer thread.
    pub fn registers(&self) -> (u32, u32) {
        match self.warpgroups {
            1 => (56, 256 - 16),
            2 if self.gathers => (40, 232),
            2 => (24, 240),
            _ => (32, 160),
        }
    }

    /// Whether warpgroups take turns, so that some multiply while others exponentiate. Two fall into step
    /// by themselves.
    pub fn takes_turns(&self) -> bool {
        self.warpgroups > 2
    }

    /// Whether the accumulator is rescaled while the next scores are computed, not after.
    pub fn rescales_early(&self) -> bool {
        self.value_dim > 128
    }
}

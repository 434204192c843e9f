//! What the kernel is specialised on, and its fixed sizes.

use crate::call::rows::Packing;
use crate::call::task::Tiling;
use crate::call::tensors::Panel;
use crate::plan::options::{FewHeads, PlanOptions};
use problem::{Problem, Segment, Storage};

/// Rows of queries of a CTA.
pub const ROWS: u32 = 16;
/// Keys per tile.
pub const TILE: u32 = 64;
/// Tiles in shared memory.
pub const STAGES: u32 = 4;
/// Row blocks whose queries are in shared memory.
pub const QUERY_STAGES: u32 = 2;
/// Warps that compute.
pub const WARPS: u32 = 8;
/// Threads of a CTA: a warpgroup that loads, and two that compute.
pub const THREADS: u32 = 128 + WARPS * 32;
/// Columns of a scale, and of a warp's output.
pub const BLOCK: u32 = 64;
/// Columns of a row.
pub const DIM: u32 = WARPS * BLOCK;
/// Leading blocks of a row that are fp8 numbers with a scale each; the last one is bf16.
pub const SCALED: u32 = WARPS - 1;
/// Bytes of a row.
pub const ROW_BYTES: u32 = SCALED * BLOCK + BLOCK * 2;
/// Bytes from one row in shared memory to the next: four neighbours begin in different banks, eight bytes apart.
pub const PITCH: u32 = ROW_BYTES + 32;

/// Everything a kernel is specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// How queries fill the 16 rows.
    pub packing: Packing,
    /// Query heads per KV head.
    pub group: u32,
}

impl Config {
    /// Whether the kernel is asked for and can take a problem.
    pub fn suits(problem: &Problem, options: &PlanOptions) -> bool {
        let asked_for = match options.few_heads {
            FewHeads::Auto => problem.group() <= ROWS.into(),
            FewHeads::Never => false,
            FewHeads::Always => true,
        };
        let plain =
            |segment: &Segment| segment.storage == Storage::Model1 && segment.attn_mask.is_none();
        asked_for && problem.segments.iter().all(plain) && problem.value_dim() == u64::from(DIM)
    }

    /// One token's heads, as many as fit.
    pub fn choose(problem: &Problem) -> Self {
        let group = problem.group() as u32;
        Config { packing: Packing::of_one_token(problem, ROWS), group }
    }

    /// How a CTA's tile covers queries and keys.
    pub fn tiling(&self) -> Tiling {
        Tiling {
            packing: self.packing,
            group: self.group,
            blocks: 1,
            cluster: 1,
            tile: TILE,
            copied_rows: TILE,
            whole_queries: false,
            slices: 1,
            panel: Panel::Swizzled,
            gathers: true,
            raw: false,
            finds_rows: false,
        }
    }
}

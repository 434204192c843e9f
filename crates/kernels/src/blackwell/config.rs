//! Tile sizes, buffers and placements of a Blackwell kernel, and the budget that limits them.

use super::epilogue::staging_tile;
use super::gatherers::Gathering;
use super::parts;
use super::rows::ROW_WARPS;
use crate::call::rows::Packing;
use crate::call::task::Tiling;
use crate::call::tensors::Panel;
use crate::plan::options::{Loads, PlanOptions, Probabilities, RowBlocks};
use crate::work::exchange::Size;
use layout::hw::{Major, SmemSwizzle, SmemTile};
use problem::{DType, Problem, QueryLengths, Values};
use ptx::build::HalfType;

/// Rows of a block: lanes of tensor memory.
pub const ROWS: u32 = 128;
/// Keys per tile.
pub const TILE: u32 = 128;
/// Value columns that fit tensor memory beside two score tiles.
const MOST_VALUE_COLUMNS: u32 = 256;
/// Shared memory a CTA can have, less what barriers and alignment need.
const SHARED_LIMIT: u32 = 226 * 1024;
/// Words per row that a CTA of two blocks passes from softmax to correction.
const ROW_WORDS: u32 = 5;
/// Bits of an element.
pub const ELEMENT_BITS: u64 = 16;

/// Everything a kernel is specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Element type.
    pub half: HalfType,
    /// Length of a query or key row.
    pub key_dim: u32,
    /// Length of a value row.
    pub value_dim: u32,
    /// CTAs that share the columns of a value row.
    pub slices: u32,
    /// How queries fill the rows of a block.
    pub packing: Packing,
    /// Row blocks per CTA.
    pub blocks: u32,
    /// Query heads per KV head.
    pub group: u32,
    /// How copies arrange rows in shared memory.
    pub panel: Panel,
    /// Where probabilities go between softmax and the second product.
    pub probabilities: Probabilities,
    /// Buffers of queries.
    pub q_stages: u32,
    /// Columns of one slot of the ring of keys and values.
    pub slot_columns: u32,
    /// Slots of the ring.
    pub slots: u32,
    /// Whether values are the first columns of the keys, and come with them: one copy feeds both
    /// products.
    pub shared_kv: bool,
    /// What is gathered by warps, where tensor copies cannot bring rows.
    pub gathering: Option<Gathering>,
}

/// The columns of the keys or the values of a KV tile that one slot of the ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First column.
    pub column: u32,
    /// Columns in shared memory: whole panels.
    pub stored: u32,
    /// Columns the product uses: whole steps of 16 of the keys, whole panels of the values.
    pub used: u32,
}

impl Config {
    /// The tile and buffers for segment `n` of a problem.
    pub fn choose(problem: &Problem, n: usize, options: &PlanOptions) -> Self {
        let (key_dim, value_dim) = (problem.key_dim() as u32, problem.value_dim() as u32);
        let slices = value_dim.div_ceil(MOST_VALUE_COLUMNS);
        let gathering = Gathering::of(&problem.segments[n]);
        let packing = packing(problem, gathering);
        let two = gathering.is_none() && wants_two_blocks(problem, packing, options);
        let blocks = if two { 2 } else { 1 };
        let narrow = key_dim > 256 / blocks || key_dim.max(value_dim / slices) <= 64;
        let mut config = Config {
            half: if problem.dtype() == DType::F16 { HalfType::F16 } else { HalfType::Bf16 },
            key_dim,
            value_dim,
            slices,
            packing,
            blocks,
            group: problem.group() as u32,
            panel: match options.loads {
                Loads::Plain if gathering.is_none() => Panel::Plain,
                _ => Panel::Swizzled,
            },
            probabilities: options.probabilities,
            q_stages: if key_dim * blocks <= 128 { 2 } else { 1 },
            slot_columns: if narrow { 64 } else { 128 },
            slots: 0,
            shared_kv: false,
            gathering,
        };
        let free = SHARED_LIMIT - config.shared_bytes();
        config.slots = (free / config.slot_bytes()).min(12);
        let same = matches!(problem.segments[n].values, Values::SameAsKeys { .. });
        config.shared_kv = same && config.holds_two_tiles();
        config
    }

    /// Whether the ring holds the keys of a KV tile, whole rows of values among them, while the scores of
    /// the next one are computed.
    fn holds_two_tiles(&self) -> bool {
        self.slices == 1 && self.slots as usize >= 2 * self.key_pieces().len()
    }

    /// Shared memory of all buffers.
    pub fn shared_bytes(&self) -> u32 {
        let probabilities = match self.probabilities {
            Probabilities::TensorMemory => 0,
            Probabilities::SharedMemory => self.probability_tile().bytes() as u32,
        };
        let staging = match self.blocks {
            1 => 0,
            blocks => staging_tile().bytes() as u32 + blocks * ROW_WORDS * ROWS * 4,
        };
        staging
            + self.q_stages * self.blocks * self.query_bytes()
            + self.slots * self.slot_bytes()
            + probabilities
    }

    /// The largest key dim: queries, and three slots of keys and values.
    pub const MOST_KEY_COLUMNS: u32 = 576;

    /// Value columns of one CTA.
    pub fn slice_dim(&self) -> u32 {
        self.value_dim / self.slices
    }

    /// Bytes of a buffer of queries.
    pub fn query_bytes(&self) -> u32 {
        self.query_tile().bytes() as u32
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> u32 {
        TILE * self.slot_columns * ELEMENT_BITS as u32 / 8
    }

    fn swizzle(&self) -> SmemSwizzle {
        match self.panel {
            Panel::Swizzled => SmemSwizzle::B128,
            Panel::Plain => SmemSwizzle::None,
        }
    }

    fn tile(&self, mn: u32, k: u32, major: Major) -> SmemTile {
        SmemTile::new(mn.into(), k.into(), ELEMENT_BITS, major, self.swizzle())
            .expect("tiles are whole panels")
    }

    /// Columns in shared memory of rows of `dim`: whole panels and whole steps of 16.
    fn stored(&self, dim: u32) -> u32 {
        dim.next_multiple_of(self.panel.columns().max(16))
    }

    /// Queries: the A operand of the scores.
    pub fn query_tile(&self) -> SmemTile {
        self.tile(ROWS, self.stored(self.key_dim), Major::K)
    }

    /// Keys of one slot: the B operand of the scores.
    pub fn key_tile(&self) -> SmemTile {
        self.tile(TILE, self.slot_columns, Major::K)
    }

    /// Values of one slot: the B operand of the output, read along its rows.
    pub fn value_tile(&self) -> SmemTile {
        self.tile(self.slot_columns, TILE, Major::Mn)
    }

    /// Probabilities in shared memory: the A operand of the output.
    pub fn probability_tile(&self) -> SmemTile {
        self.tile(ROWS, TILE, Major::K)
    }

    /// How the keys of a KV tile are cut into slots.
    pub fn key_pieces(&self) -> Vec<Piece> {
        self.pieces(self.key_dim, self.key_dim.next_multiple_of(16))
    }

    /// How a CTA's values of a KV tile are cut into slots.
    pub fn value_pieces(&self) -> Vec<Piece> {
        self.pieces(self.slice_dim(), self.value_columns())
    }

    /// Value columns of one CTA that are multiplied. Values are read across their rows, by atoms of the swizzle: all
    /// columns of an atom take part. Those past the end of a row are accumulated too, and nothing reads them.
    pub fn value_columns(&self) -> u32 {
        self.stored(self.slice_dim())
    }

    fn pieces(&self, dim: u32, used: u32) -> Vec<Piece> {
        let stored = self.stored(dim);
        let starts = (0..stored).step_by(self.slot_columns as usize);
        starts
            .map(|column| Piece {
                column,
                stored: (stored - column).min(self.slot_columns),
                used: (used - column).min(self.slot_columns),
            })
            .collect()
    }

    /// Whether the CTA works on two row blocks.
    pub fn has_two_blocks(&self) -> bool {
        self.blocks == 2
    }

    /// How a CTA's tile covers queries and keys.
    pub fn tiling(&self) -> Tiling {
        Tiling {
            packing: self.packing,
            group: self.group,
            blocks: self.blocks,
            cluster: 1,
            tile: TILE,
            copied_rows: TILE,
            whole_queries: false,
            slices: self.slices,
            panel: self.panel,
            gathers: self.gathering.is_some(),
            raw: false,
            finds_rows: false,
        }
    }

    /// Slots of a KV tile.
    pub fn slots_per_tile(&self) -> u32 {
        let values = if self.shared_kv { 0 } else { self.value_pieces().len() };
        (self.key_pieces().len() + values) as u32
    }

    /// Whether work can be shared out by lengths on the device. Where each token has its own list, lengths say little;
    /// slices of the columns remain as an option, on lists of tiles.
    pub fn shares_out(&self) -> bool {
        self.slices == 1 && self.gathering.is_none_or(|how| !how.listed)
    }

    /// What the warps of a CTA hold of a work tile: a row per thread, its maximum and its sum.
    pub fn part_size(&self) -> Size {
        Size { warps: self.blocks * ROW_WARPS, words: parts::words(self) }
    }

    /// Warps of a CTA that gather.
    pub fn gathering_warps(&self) -> u32 {
        self.gathering.map_or(0, |how| how.warps)
    }
}

/// Whether two row blocks fit a CTA: two outputs beside two tiles of scores in tensor memory, two
/// blocks of queries beside the slots of one KV tile in shared memory. The 128 registers of its threads
/// have no room for the elements of a mask tensor.
fn fits_two_blocks(problem: &Problem, options: &PlanOptions) -> bool {
    problem.key_dim() <= 192
        && problem.value_dim() <= 128
        && options.probabilities == Probabilities::TensorMemory
        && !problem.has_attn_mask()
}

/// How queries fill the rows of a block.
fn packing(problem: &Problem, gathering: Option<Gathering>) -> Packing {
    match gathering {
        Some(Gathering { listed: true, .. }) => Packing::of_one_token(problem, ROWS),
        // Some sequences have one token, others many: both fill rows with heads.
        _ if problem.query_lengths != QueryLengths::Full => Packing::of_heads(problem, ROWS),
        _ => Packing::choose(problem, ROWS),
    }
}

fn wants_two_blocks(problem: &Problem, packing: Packing, options: &PlanOptions) -> bool {
    let per_head = packing.blocks(problem.group() as u32, problem.longest_query());
    let all = per_head * problem.kv_heads() * problem.batch();
    let enough = per_head >= 4 && all >= 2 * u64::from(options.processors);
    fits_two_blocks(problem, options)
        && match options.row_blocks {
            RowBlocks::One => false,
            RowBlocks::Two => true,
            RowBlocks::Auto => enough,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::options::Arch;
    use problem::{Segment, View};

    fn config(dim: u64, row_blocks: RowBlocks, loads: Loads) -> Config {
        let options = PlanOptions { row_blocks, loads, ..PlanOptions::for_arch(Arch::Sm100) };
        let view = View::bhsd(DType::Bf16, [1, 8, 4096, dim]);
        let problem = Problem::builder(view).segment(Segment::new(view, view)).build();
        Config::choose(&problem.expect("valid"), 0, &options)
    }

    #[test]
    fn values_are_multiplied_by_whole_atoms() {
        for dim in (8..=512).step_by(8) {
            for row_blocks in [RowBlocks::One, RowBlocks::Two] {
                let config = config(dim, row_blocks, Loads::Swizzled);
                let (atom, pieces) = (Panel::Swizzled.columns(), config.value_pieces());
                assert!(pieces.iter().all(|piece| piece.used.is_multiple_of(atom)), "{dim}");
                assert!(config.value_columns() < config.slice_dim() + atom, "{dim}");
            }
        }
    }

    #[test]
    fn without_swizzle_steps_of_sixteen_columns_are_enough() {
        assert_eq!(config(40, RowBlocks::One, Loads::Plain).value_columns(), 48);
    }
}

//! Tiles of the CTA pair, per CTA.

use super::raw::RawRing;
use crate::blackwell::config::{ELEMENT_BITS, TILE};
use crate::blackwell::gatherers::Gathering;
use crate::call::rows::Packing;
use crate::call::task::Tiling;
use crate::call::tensors::Panel;
use crate::moves::gather;
use crate::plan::options::{Loads, PlanOptions, Probabilities, RowBlocks};
use layout::hw::tmem::allocation_columns;
use layout::hw::{DataPath, Major, SmemSwizzle, SmemTile, TmemAddress, TmemTile};
use problem::{DType, Problem};
use ptx::build::HalfType;

/// CTAs of a CTA pair.
pub const CLUSTER: u32 = 2;
/// Rows of one CTA.
pub const ROWS: u32 = 64;
/// Rows of a slot: a CTA's keys of a tile, or half the tile's keys of its value columns.
pub const SLOT_ROWS: u32 = TILE / 2;
/// Columns of a slot.
pub const SLOT_COLUMNS: u32 = 256;
/// Value columns of one instruction, both CTAs together.
const MOST_COLUMNS: u32 = 256;
/// Accumulators of the value columns, a panel of each in a slot.
const MOST_ACCUMULATORS: u32 = SLOT_COLUMNS / PANEL;
/// Columns of a panel.
pub const PANEL: u32 = Panel::Swizzled.columns();
/// Bytes of a panel of a CTA's rows.
pub const PANEL_BYTES: u32 = ROWS * PANEL * ELEMENT_BITS as u32 / 8;
/// Bytes of a slot.
pub const SLOT_BYTES: u32 = SLOT_ROWS * SLOT_COLUMNS * ELEMENT_BITS as u32 / 8;
/// Shared memory a CTA can have, less what barriers and exchanges need.
const SHARED_LIMIT: u32 = 224 * 1024;

/// Everything a kernel is specialised on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Element type.
    pub half: HalfType,
    /// Length of a query or key row.
    pub key_dim: u32,
    /// Length of a value row.
    pub value_dim: u32,
    /// How queries fill the rows of a CTA.
    pub packing: Packing,
    /// Query heads per KV head.
    pub group: u32,
    /// Slots of the ring.
    pub slots: u32,
    /// Row blocks of the CTA pair. Where each token has its own keys both CTAs work on one token, and if that has an
    /// odd number of blocks, on one block of it: the odd CTA's rows are no queries.
    pub blocks: u32,
    /// What is gathered by warps, where tensor copies cannot bring rows.
    pub gathering: Option<Gathering>,
    /// Whether tensor copies bring the bytes of packed rows, and warps unpack them from shared memory.
    pub raw: bool,
}

impl Config {
    /// Whether the schedule is for this problem: value rows that one CTA cannot hold, and that two
    /// hold in halves of whole steps.
    pub fn suits(problem: &Problem, options: &PlanOptions) -> bool {
        let value_dim = problem.value_dim() as u32;
        value_dim > MOST_COLUMNS
            && value_dim.is_multiple_of(64)
            && options.row_blocks != RowBlocks::One
            && options.probabilities == Probabilities::TensorMemory
            && options.loads == Loads::Swizzled
    }

    /// The buffers for segment `n` of a problem.
    pub fn choose(problem: &Problem, n: usize, options: &PlanOptions) -> Self {
        let (group, gathering) = (problem.group() as u32, Gathering::of(&problem.segments[n]));
        let listed = gathering.is_some_and(|how| how.listed);
        let packing = match listed {
            true => Packing::of_one_token(problem, ROWS),
            false => Packing::choose(problem, ROWS),
        };
        let odd = !packing.head_blocks(group).is_multiple_of(CLUSTER);
        let mut config = Config {
            half: if problem.dtype() == DType::F16 { HalfType::F16 } else { HalfType::Bf16 },
            key_dim: problem.key_dim() as u32,
            value_dim: problem.value_dim() as u32,
            packing,
            group,
            slots: 0,
            blocks: if listed && odd { 1 } else { CLUSTER },
            gathering,
            raw: false,
        };
        // Elements of a mask tensor take softmax threads more registers than sixteen warps leave them.
        let roomy = problem.segments[n].attn_mask.is_none();
        config.gathering =
            gathering.map(|how| match how.unpacks() && config.fills_slots() && roomy {
                true => Gathering { warps: gather::UNPACKING_WARPS, ..how },
                false => how,
            });
        config.raw =
            options.packed_copies && config.unpacks_quarters() && gather::raw(&problem.segments[n]);
        let raw = if config.raw { RawRing::bytes() } else { 0 };
        let taken = config.query_bytes() + config.probability_tile().bytes() as u32 + raw;
        config.slots = (SHARED_LIMIT - taken) / SLOT_BYTES;
        config
    }

    fn tile(mn: u32, k: u32, major: Major) -> SmemTile {
        SmemTile::new(mn.into(), k.into(), ELEMENT_BITS, major, SmemSwizzle::B128)
            .expect("tiles are whole panels")
    }

    /// A CTA's queries.
    pub fn query_tile(&self) -> SmemTile {
        Self::tile(ROWS, self.key_dim.next_multiple_of(PANEL), Major::K)
    }

    /// Bytes of a CTA's queries.
    pub fn query_bytes(&self) -> u32 {
        self.query_tile().bytes() as u32
    }

    /// A CTA's keys in one slot.
    pub fn key_tile(&self) -> SmemTile {
        Self::tile(SLOT_ROWS, SLOT_COLUMNS, Major::K)
    }

    /// A CTA's columns of one accumulator in one slot.
    pub fn value_tile(&self) -> SmemTile {
        Self::tile(SLOT_COLUMNS / 2, SLOT_ROWS, Major::Mn)
    }

    /// A CTA's probabilities.
    pub fn probability_tile(&self) -> SmemTile {
        Self::tile(ROWS, TILE, Major::K)
    }

    /// Accumulators that the value columns take: so many that a CTA's columns of one are whole panels, if they can be.
    pub fn accumulators(&self) -> u32 {
        let (panels, fewest) = (CLUSTER * PANEL, self.value_dim.div_ceil(MOST_COLUMNS));
        let whole = |n: &u32| self.value_dim.is_multiple_of(n * panels);
        (fewest..=MOST_ACCUMULATORS).find(whole).unwrap_or(fewest)
    }

    /// Value columns of an accumulator, both CTAs together.
    pub fn accumulator_columns(&self) -> u32 {
        self.value_dim / self.accumulators()
    }

    /// The columns of an accumulator that are multiplied. Values are read across their rows, by atoms of the swizzle:
    /// all columns of an atom take part. Those behind a CTA's columns are accumulated too, and nothing reads them.
    pub fn multiplied_columns(&self) -> u32 {
        CLUSTER * PANEL * self.accumulator_panels()
    }

    /// Slots of the keys of a KV tile, with the steps of 16 columns of each.
    pub fn key_pieces(&self) -> impl Iterator<Item = (u32, u32)> {
        let used = self.key_dim.next_multiple_of(16);
        let starts = (0..used).step_by(SLOT_COLUMNS as usize);
        starts.map(move |column| (column, (used - column).min(SLOT_COLUMNS) / 16))
    }

    /// Whether a CTA's columns of the values fill the panels of a slot.
    fn fills_slots(&self) -> bool {
        self.value_dim == CLUSTER * SLOT_COLUMNS
    }

    /// Whether packed rows are unpacked by warps that share rows in quarters of panels.
    pub fn unpacks_quarters(&self) -> bool {
        self.gathering_warps() == gather::UNPACKING_WARPS
    }

    /// Panels of a CTA's columns of one accumulator.
    pub fn accumulator_panels(&self) -> u32 {
        (self.accumulator_columns() / 2).div_ceil(PANEL)
    }

    /// Slots of a KV tile.
    pub fn slots_per_tile(&self) -> u32 {
        self.key_pieces().count() as u32 + TILE / SLOT_ROWS
    }

    /// Warps of a CTA that gather.
    pub fn gathering_warps(&self) -> u32 {
        self.gathering.map_or(0, |how| how.warps)
    }

    /// How a CTA pair's tile covers queries and keys.
    pub fn tiling(&self) -> Tiling {
        Tiling {
            packing: self.packing,
            group: self.group,
            blocks: self.blocks,
            cluster: CLUSTER,
            tile: TILE,
            copied_rows: SLOT_ROWS,
            whole_queries: false,
            slices: 1,
            panel: Panel::Swizzled,
            gathers: self.gathering.is_some(),
            raw: self.raw,
            finds_rows: false,
        }
    }

    /// Columns of tensor memory by use.
    pub fn map(&self) -> Map {
        let width = |columns: u32| {
            let tile = TmemTile::accumulator(DataPath::B, columns.into(), TmemAddress::default());
            tile.and_then(|tile| tile.width()).expect("an accumulator").0
        };
        let (score_stride, accumulator_stride) = (width(TILE), width(self.multiplied_columns()));
        let output = 2 * score_stride;
        let end = output + self.accumulators() * accumulator_stride;
        let allocation = allocation_columns(end).expect("half rows fit").0;
        Map { score_stride, output, accumulator_stride, allocation }
    }
}

/// Columns of tensor memory by use.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// Columns from one tile of scores to the next.
    pub score_stride: u32,
    /// First column of the output.
    pub output: u32,
    /// Columns from one accumulator to the next.
    pub accumulator_stride: u32,
    /// Columns to allocate.
    pub allocation: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arch;
    use problem::{Segment, View};

    /// Accumulators, and columns of each that exist and that are multiplied.
    fn accumulators(value_dim: u64) -> (u32, u32, u32) {
        let view = |dim| View::bhsd(DType::Bf16, [1, 1, 128, dim]);
        let segment = Segment::new(view(512), view(value_dim));
        let problem = Problem::builder(view(512)).segment(segment).build().expect("valid");
        let config = Config::choose(&problem, 0, &PlanOptions::for_arch(Arch::Sm100));
        (config.accumulators(), config.accumulator_columns(), config.multiplied_columns())
    }

    #[test]
    fn a_cta_multiplies_whole_atoms_of_values() {
        assert_eq!(accumulators(320), (2, 160, 256));
        assert_eq!(accumulators(384), (3, 128, 128));
        assert_eq!(accumulators(448), (2, 224, 256));
        assert_eq!(accumulators(512), (2, 256, 256));
    }
}

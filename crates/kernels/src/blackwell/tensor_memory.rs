//! The map of tensor memory: two tiles of scores, then the output of each row block.
//!
//! ```text
//! column 0         128       256                256 + value columns
//!        │ S₀ / P₀ │ S₁ / P₁ │ O of block 0 … │ O of block 1 … │
//! ```
//!
//! `P` (16-bit, two per column) takes the first 64 columns of the `S` it was computed from: a thread
//! has its whole row of `S` in registers before it stores `P`.

use super::config::{Config, ELEMENT_BITS, TILE};
use layout::hw::tmem::allocation_columns;
use layout::hw::{DataPath, TmemAddress, TmemColumn, TmemLane, TmemTile};

/// Tiles of scores.
pub const SCORE_TILES: u32 = 2;

/// Columns of tensor memory by use.
#[derive(Clone, Copy, Debug)]
pub struct TensorMemory {
    /// Columns from one tile of scores to the next.
    pub score_stride: u32,
    /// First column of the output.
    pub output: u32,
    /// Columns from one block's output to the next.
    pub output_stride: u32,
    /// Columns of a row of output, whole steps of 16; what is accumulated behind them is nothing.
    pub output_columns: u32,
    /// Columns of one step (16 keys) of probabilities.
    pub probability_step: u32,
    /// Columns to allocate.
    pub allocation: u32,
}

impl TensorMemory {
    /// The map of a kernel.
    pub fn of(config: &Config) -> Self {
        let origin = TmemAddress::default();
        let scores =
            TmemTile::accumulator(DataPath::D, TILE.into(), origin).expect("a tile of scores");
        let score_stride = scores.end().expect("a tile of scores").0;
        let step = TmemTile::operand_a(DataPath::D, 16, ELEMENT_BITS, origin);
        let probability_step = step.and_then(|p| p.width()).expect("a step of probabilities").0;
        let output = SCORE_TILES * score_stride;
        let output_stride = config.value_columns();
        let output_columns = config.slice_dim().next_multiple_of(16);
        let columns: u64 = (config.blocks * output_stride).into();
        let base = TmemAddress::new(TmemLane(0), TmemColumn(output)).expect("behind the scores");
        let end = TmemTile::accumulator(DataPath::D, columns, base).and_then(|o| o.end());
        let end = end.expect("an output slice fits beside the scores");
        let allocation = allocation_columns(end.0).expect("it fits").0;
        TensorMemory {
            score_stride,
            output,
            output_stride,
            output_columns,
            probability_step,
            allocation,
        }
    }

    /// Columns of the probabilities of `keys` keys, whole steps.
    pub fn probability_columns(&self, keys: u32) -> u32 {
        keys / 16 * self.probability_step
    }
}

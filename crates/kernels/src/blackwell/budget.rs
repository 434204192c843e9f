//! What a configuration takes of an SM, as the table in `docs/blackwell.md` shows it.
//!
//! Floors per tile of 128 keys, in cycles of one SM: products at 8192 dense 16-bit FLOP, exponentials
//! at 16, operands read from shared memory at 128 bytes per cycle.

use super::config::{Config, ELEMENT_BITS, ROWS, TILE};
use super::tensor_memory::TensorMemory;
use crate::plan::options::Probabilities;
use std::fmt;

const FLOPS_PER_CYCLE: u32 = 8192;
const EXPONENTIALS_PER_CYCLE: u32 = 16;
const SHARED_BYTES_PER_CYCLE: u32 = 128;

/// A row of the table.
pub struct Budget<'c>(pub &'c Config);

impl Budget<'_> {
    /// The table's head.
    pub const HEAD: &'static str = "\
| key/value dim | warps | rows | CTAs per row | tensor memory (columns) | allocated | queries | ring | other | total | products | exponentials | operands |
|---|---|---|---|---|---|---|---|---|---|---|---|---|";

    fn products(&self) -> u32 {
        let dims = self.0.key_dim.next_multiple_of(16) + self.0.value_columns();
        self.0.blocks * (2 * ROWS * TILE / FLOPS_PER_CYCLE) * dims
    }

    fn exponentials(&self) -> u32 {
        let all = self.0.blocks * ROWS * TILE / EXPONENTIALS_PER_CYCLE;
        if self.0.has_two_blocks() { all * 3 / 4 } else { all }
    }

    /// Q and K for the scores, V and, where it is in shared memory, P for the output.
    fn operands(&self) -> u32 {
        let c = self.0;
        let p = if c.probabilities == Probabilities::SharedMemory { TILE } else { 0 };
        let columns = 2 * c.key_dim.next_multiple_of(16) + c.value_columns() + p;
        c.blocks * columns * TILE * (ELEMENT_BITS as u32 / 8) / SHARED_BYTES_PER_CYCLE
    }

    fn columns(&self) -> String {
        let map = TensorMemory::of(self.0);
        let scores = (0..2).map(|i| format!("S{i} {}", i * map.score_stride));
        let outputs = (0..self.0.blocks).map(|i| match self.0.blocks {
            1 => format!("O {}", map.output),
            _ => format!("O{i} {}", map.output + i * map.output_stride),
        });
        scores.chain(outputs).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Budget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (c, kib) = (self.0, |bytes: u32| format!("{} KiB", bytes.div_ceil(1024)));
        let queries = c.q_stages * c.blocks * c.query_bytes();
        let ring = c.slots * c.slot_bytes();
        write!(
            f,
            "| {}/{} | {} | {} | {} | {} | {} | {} | {} × {} | {} | {} | {} | {} | {} |",
            c.key_dim,
            c.value_dim,
            if c.has_two_blocks() { 16 } else { 6 },
            c.blocks * ROWS,
            c.slices,
            self.columns(),
            TensorMemory::of(c).allocation,
            kib(queries),
            c.slots,
            kib(c.slot_bytes()),
            kib(c.shared_bytes() - queries - ring),
            kib(c.shared_bytes()),
            self.products(),
            self.exponentials(),
            self.operands(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::options::{Arch, PlanOptions, RowBlocks};
    use problem::{DType, Problem, Segment, View};

    const DIMS: [(u64, u64); 9] = [
        (16, 16),
        (32, 32),
        (64, 64),
        (96, 96),
        (128, 128),
        (192, 128),
        (256, 256),
        (512, 512),
        (576, 512),
    ];

    fn row(dims: (u64, u64), row_blocks: RowBlocks) -> Option<String> {
        let options = PlanOptions { row_blocks, ..PlanOptions::for_arch(Arch::Sm100) };
        let view = |dim| View::bhsd(DType::Bf16, [1, 8, 4096, dim]);
        let segment = Segment::new(view(dims.0), view(dims.1));
        let problem = Problem::builder(view(dims.0)).segment(segment).build().expect("valid");
        let config = Config::choose(&problem, 0, &options);
        let wanted = row_blocks == RowBlocks::Two;
        (config.has_two_blocks() == wanted).then(|| Budget(&config).to_string())
    }

    #[test]
    fn the_table_in_the_documentation_is_this_one() {
        let kinds = [RowBlocks::One, RowBlocks::Two];
        let rows = kinds.iter().flat_map(|kind| DIMS.iter().filter_map(|dims| row(*dims, *kind)));
        let table =
            std::iter::once(Budget::HEAD.to_string()).chain(rows).collect::<Vec<_>>().join("\n");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/blackwell.md");
        let text = std::fs::read_to_string(path).expect("the documentation is there");
        assert!(text.contains(&table), "docs/blackwell.md should contain:\n{table}");
    }
}

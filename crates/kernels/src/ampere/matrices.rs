//! Matrices of 8 × 8 that `ldmatrix` reads from tiles in shared memory.
//!
//! Four of them are 16 rows × 16 columns, in the order that lanes name their rows in. The registers of a B operand
//! must be neighbours, so that the order of keys differs from that of queries and values ([`Order`]). Rows further
//! down by a multiple of eight, and other panels, are at the same distance in every lane: an address per 16 columns of
//! a panel serves the whole tile.

use crate::call::tensors::CHUNK;
use ptx::build::{Builder, Reg, SharedTile, SmemPtr};

/// Columns of four matrices.
pub const STEP: u32 = 16;
/// Steps of a panel.
const STEPS: u32 = CHUNK / STEP;

/// The order of four matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Upper left, lower left, upper right, lower right: an A operand, or, transposed, two B operands.
    Columns,
    /// Upper left, upper right, lower left, lower right: two B operands whose columns are these rows.
    Rows,
}

impl Order {
    /// Row, and whether it is in the right half, that a lane names.
    #[track_caller]
    fn of_lane(self, b: &mut Builder) -> [Reg<u32>; 2] {
        let lane = b.special("%laneid");
        match self {
            Order::Columns => [b.eval(lane % 16), b.eval(lane / 16)],
            Order::Rows => [b.eval((lane % 8) | ((lane & 16) >> 1)), b.eval(lane / 8 % 2)],
        }
    }
}

/// Places of a lane in a tile of shared memory.
pub trait Places: Clone {
    /// The same places of what lies `bytes` further on: another tile, rows further down, or columns further right.
    fn further(&self, b: &mut Builder, bytes: Reg<u32>) -> Self;

    /// Bytes from a panel to the next.
    fn block_bytes(&self) -> u32;
}

/// Where a lane's rows of a tile are.
#[derive(Clone, Debug)]
pub struct Matrices {
    /// Of the first 16 rows: each 16 columns of the first panel.
    steps: Vec<SmemPtr>,
    block_bytes: u32,
    row_bytes: u32,
    /// Whether places further on are found from the first step's: one register is kept, not one per step.
    toggles: bool,
}

impl Matrices {
    /// The matrices of `tile`, in this order.
    #[track_caller]
    pub fn new(b: &mut Builder, tile: SharedTile, order: Order) -> Self {
        let [row, right] = order.of_lane(b);
        let vectors = tile.row(b, row).from_vector(b, right);
        let layout = tile.layout();
        Matrices {
            steps: (0..STEPS).map(|step| vectors.vector(b, step * STEP)).collect(),
            block_bytes: layout.block_bytes() as u32,
            row_bytes: layout.swizzle().span_bytes() as u32,
            toggles: false,
        }
    }

    /// Where the first columns are.
    pub fn first(&self) -> SmemPtr {
        self.steps[0]
    }

    /// The same matrices, the first columns at `first`, found by toggled bits.
    pub fn with_first(&self, first: SmemPtr) -> Self {
        let mut steps = self.steps.clone();
        steps[0] = first;
        Matrices { steps, ..*self }
    }

    /// The same matrices in few registers: the columns of a step are toggled bits of a swizzled address.
    pub fn toggled(self, toggles: bool) -> Self {
        Matrices { toggles, ..self }
    }

    /// Bytes from a tile's first row to row `row`, a multiple of 8.
    #[track_caller]
    pub fn bytes_to(b: &mut Builder, tile: SharedTile, row: Reg<u32>) -> Reg<u32> {
        b.eval(row * tile.layout().swizzle().span_bytes() as u32)
    }

    /// Loads 16 rows from `row` on × the 16 columns of step `step`, each matrix transposed if asked.
    #[track_caller]
    pub fn load(&self, b: &mut Builder, row: u32, step: u32, transposed: bool) -> [Reg<u32>; 4] {
        let at = self.steps[(step % STEPS) as usize];
        let at = at.plus(step / STEPS * self.block_bytes + row * self.row_bytes);
        b.ldmatrix4(at, transposed)
    }
}

impl Places for Matrices {
    #[track_caller]
    fn further(&self, b: &mut Builder, bytes: Reg<u32>) -> Self {
        let steps = match self.toggles {
            false => self.steps.iter().map(|at| b.smem_add(*at, bytes)).collect(),
            true => {
                let first = b.smem_add(self.steps[0], bytes);
                (0..STEPS).map(|step| b.smem_toggle(first, step * STEP * 2)).collect()
            }
        };
        Matrices { steps, ..*self }
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }
}

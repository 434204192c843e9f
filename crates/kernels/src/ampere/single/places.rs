//! Where a lane finds queries and values of f32.

use super::super::matrices::{Matrices, Places};
use super::super::tf32::{self, Split};
use super::super::warp::View;
use super::PANEL;
use crate::hopper::epilogue;
use crate::moves::output::{BlockOutput, RowPlace};
use ptx::build::{Builder, GlobalPtr, Reg, SharedTile, SmemPtr};

/// Where a lane's vectors of rows `2t` and `2t + 1` of a tile are, `t` being its number among four.
#[derive(Clone)]
pub struct RowPairs {
    at: [SmemPtr; 2],
    block_bytes: u32,
    row_bytes: u32,
}

impl RowPairs {
    /// Those of `tile`.
    #[track_caller]
    pub fn new(b: &mut Builder, tile: SharedTile) -> Self {
        let lane = b.special("%laneid");
        let vector = b.eval(lane / 4);
        let row = b.eval((lane % 4) << 1);
        let at = [0, 1].map(|odd| {
            let row = b.eval(row + odd);
            tile.row(b, row).from_vector(b, vector).vector(b, 0)
        });
        let layout = tile.layout();
        RowPairs {
            at,
            block_bytes: layout.block_bytes() as u32,
            row_bytes: layout.swizzle().span_bytes() as u32,
        }
    }

    /// The right operands of four products: of rows `row` to `row + 7`, in a panel.
    #[track_caller]
    pub fn load(&self, b: &mut Builder, row: u32, panel: u32) -> [[Reg<f32>; 2]; 4] {
        let offset = panel * self.block_bytes + row * self.row_bytes;
        let rows = self.at.map(|at| b.ld_shared_vector::<f32>(at.plus(offset), 4));
        std::array::from_fn(|n| [rows[0][n], rows[1][n]])
    }
}

impl Places for RowPairs {
    #[track_caller]
    fn further(&self, b: &mut Builder, bytes: Reg<u32>) -> Self {
        RowPairs { at: self.at.map(|at| b.smem_add(at, bytes)), ..*self }
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }
}

/// A thread's two query rows in memory, from its first column on.
#[derive(Clone, Copy)]
pub struct QueryRows([GlobalPtr; 2]);

impl QueryRows {
    /// Those of a row block; rows that are no queries are the first query.
    #[track_caller]
    pub fn new(b: &mut Builder, thread: Reg<u32>, output: &BlockOutput<'_>) -> Self {
        let places = epilogue::places(b, thread, output);
        let column = b.eval((thread % 4).widening_mul(4));
        QueryRows(places.map(|RowPlace { live, token, head }| {
            let at = [output.open.sequence.q_batch.reg(), head.reg(), token.reg()];
            let at = at.map(|number| b.select::<u32>(live, number, 0));
            let row = output.params.exact_queries.row(b, at);
            b.global_add(row, column)
        }))
    }

    /// Eight columns, as a left operand.
    #[track_caller]
    fn load(&self, b: &mut Builder, step: u32) -> [Reg<u32>; 4] {
        let [upper, lower] = self.0;
        [(upper, 0), (lower, 0), (upper, 4), (lower, 4)].map(|(row, column)| {
            b.ld_global::<u32>(row.plus(i64::from(step * tf32::STEP + column) * 4))
        })
    }
}

/// Where a fragment's queries are.
pub enum QueryPlaces {
    Shared(Matrices),
    Memory(QueryRows),
}

impl QueryPlaces {
    /// Those of a fragment: in `shared` memory, or in `view`'s rows.
    pub fn of(shared: &Option<Matrices>, view: &View) -> Self {
        match (shared, view.queries) {
            (Some(queries), _) => QueryPlaces::Shared(queries.clone()),
            (None, Some(rows)) => QueryPlaces::Memory(rows),
            (None, None) => panic!("queries of f32 are in shared memory, or read from memory"),
        }
    }

    /// Those from a panel on.
    #[track_caller]
    pub fn in_panel(&self, b: &mut Builder, panel: Reg<u32>) -> Self {
        match self {
            QueryPlaces::Shared(queries) => {
                let offset = b.eval(panel * queries.block_bytes());
                QueryPlaces::Shared(queries.further(b, offset))
            }
            QueryPlaces::Memory(QueryRows(rows)) => {
                let offset = b.eval(panel.widening_mul(PANEL * 4));
                QueryPlaces::Memory(QueryRows(rows.map(|row| b.global_add(row, offset))))
            }
        }
    }

    /// Eight columns.
    #[track_caller]
    pub fn load(&self, b: &mut Builder, step: u32) -> Split<4> {
        let bits = match self {
            QueryPlaces::Shared(queries) => queries.load(b, 0, step, false),
            QueryPlaces::Memory(rows) => rows.load(b, step),
        };
        Split::of_bits(b, bits)
    }
}

//! Rows of f32: scores, output and its epilogue.
//!
//! The scores of a thread are columns `2t` and `2t + 1` of every eight keys, `t` being its number among the four lanes
//! of a row. The left operand of `mma.m16n8k8` has columns `t` and `t + 4` there, so its columns are taken for those
//! keys: `t` for key `2t`, `t + 4` for key `2t + 1`. The right operand then needs, of a column, rows `2t` and `2t + 1`.
//! A lane loads 16 bytes of each, columns `4g` to `4g + 3` of a panel of 32, and has the operands of four products: of
//! columns `4g`, `4g + 1` and so on for `g` from 0 to 7. What it accumulates are the panel's columns `8t` to `8t + 7`.

use super::config::{Shape, shape};
use super::matrices::{Matrices, Places};
use super::tf32::{self, Split};
use super::warp::{View, Warp, four};
use super::MOST_COLUMNS;
use crate::hopper::{epilogue, fragment};
use crate::math::exact::Watch;
use crate::moves::output::{BlockOutput, RowPlace};
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, SharedTile, SmemPtr};

/// Columns of a panel: 128 bytes.
pub const PANEL: u32 = 32;
/// Key columns up to which shared memory has room for queries.
pub const MOST_SHARED_COLUMNS: u32 = 256;
/// Columns of a panel that a lane accumulates.
const OF_LANE: u32 = 8;
/// Output registers of a panel.
const REGISTERS: usize = PANEL as usize / 2;

/// Shapes for rows of so many columns of keys and of values, the best first: the first one that fits is taken.
pub fn shapes(keys: u32, values: u32, blocks: u32) -> &'static [Shape] {
    match (keys.max(values.min(MOST_COLUMNS)), blocks) {
        (0..=64, 2..) => const { &[shape(4, 2, 32, 2), shape(4, 1, 32, 2)] },
        (65..=128, 2..) => const { &[shape(8, 1, 32, 1), shape(4, 1, 32, 1)] },
        (129..=256, 2..) => const { &[shape(8, 1, 16, 1), shape(4, 1, 16, 1)] },
        (0..=128, _) => const { &[shape(4, 1, 32, 2), shape(4, 1, 32, 1)] },
        (129..=256, _) => const { &[shape(4, 1, 32, 1), shape(4, 1, 16, 1)] },
        _ => const { &[shape(4, 1, 16, 1)] },
    }
}

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
        let vector = b.shr(lane, 2);
        let row = b.and(lane, 3);
        let row = b.shl(row, 1);
        let at = [0, 1].map(|odd| {
            let row = b.add(row, odd);
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
    fn load(&self, b: &mut Builder, row: u32, panel: u32) -> [[Reg<f32>; 2]; 4] {
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

impl Warp<'_> {
    /// `S = Q·Kᵀ`, added to scores that are 0. The products of a panel are one run.
    pub fn score_single(
        &self,
        b: &mut Builder,
        keys: &Matrices,
        queries: &[Option<Matrices>],
        views: &[View],
    ) {
        let config = &self.frame.config;
        let steps: Vec<u32> = (0..config.key_dim.div_ceil(tf32::STEP)).collect();
        let scores: Vec<_> = self.fragments.iter().map(|f| f.scores.scores.clone()).collect();
        let mut runs = scores.clone();
        for (n, steps) in steps.chunks((PANEL / tf32::STEP) as usize).enumerate() {
            if n == 1 {
                runs = scores.iter().map(|scores| tf32::zeros(b, scores.len())).collect();
            }
            for &step in steps {
                let left: Vec<_> = queries
                    .iter()
                    .zip(views)
                    .map(|(queries, view)| load_queries(b, queries, view, step))
                    .collect();
                self.score_step_single(b, keys, &left, &runs, step);
            }
            if n > 0 {
                scores.iter().zip(&runs).for_each(|(scores, run)| tf32::add(b, scores, run));
            }
        }
    }

    /// Adds the products of eight columns to `sums`, those of each fragment.
    fn score_step_single(
        &self,
        b: &mut Builder,
        keys: &Matrices,
        left: &[Split<4>],
        sums: &[Vec<Reg<f32>>],
        step: u32,
    ) {
        for row in (0..self.frame.config.shape.tile).step_by(2 * tf32::STEP as usize) {
            let k = keys.load(b, row, step, false);
            for (n, k) in [[k[0], k[1]], [k[2], k[3]]].into_iter().enumerate() {
                let k = Split::of_bits(b, k);
                for (sums, q) in sums.iter().zip(left) {
                    tf32::multiply(b, &four(sums, row as usize / 8 + n), q, &k);
                }
            }
        }
    }

    /// `O += P·V`. The products of a tile are one run.
    pub fn add_singles(&self, b: &mut Builder, values: &RowPairs) {
        let config = &self.frame.config;
        assert!(config.shape.tile <= tf32::RUN, "a tile is one run");
        let left: Vec<Vec<Split<4>>> =
            self.fragments.iter().map(|f| split_probabilities(b, &f.scores.scores)).collect();
        let panels = self.fragments[0].out.len() / REGISTERS;
        for panel in 0..panels {
            let runs: Vec<_> = left.iter().map(|_| tf32::zeros(b, REGISTERS)).collect();
            for step in 0..config.shape.tile / tf32::STEP {
                let v = values.load(b, step * tf32::STEP, panel as u32);
                for (n, v) in v.into_iter().enumerate() {
                    let v = Split::new(b, v);
                    for (run, p) in runs.iter().zip(&left) {
                        tf32::multiply(b, &four(run, n), &p[step as usize], &v);
                    }
                }
            }
            for (fragment, run) in self.fragments.iter().zip(&runs) {
                tf32::add(b, &fragment.out[panel * REGISTERS..][..REGISTERS], run);
            }
        }
    }
}

/// Eight columns of a fragment's queries.
#[track_caller]
fn load_queries(b: &mut Builder, shared: &Option<Matrices>, view: &View, step: u32) -> Split<4> {
    let bits = match (shared, &view.queries) {
        (Some(queries), _) => queries.load(b, 0, step, false),
        (None, Some(rows)) => rows.load(b, step),
        (None, None) => panic!("queries of f32 are in shared memory or read from memory"),
    };
    Split::of_bits(b, bits)
}

/// The left operands that a tile's probabilities are, eight keys each.
#[track_caller]
fn split_probabilities(b: &mut Builder, scores: &[Reg<f32>]) -> Vec<Split<4>> {
    let eights = scores.chunks_exact(4);
    eights.map(|of| Split::new(b, [of[0], of[2], of[1], of[3]])).collect()
}

/// Finished output columns of a warp.
pub struct Columns<'a> {
    /// Thread within the row block.
    pub thread: Reg<u32>,
    /// Accumulators, of whole panels.
    pub out: &'a [Reg<f32>],
    /// First column.
    pub first: u32,
    /// How many there are.
    pub count: u32,
    /// Whether they are finite.
    pub watch: Watch,
}

impl Columns<'_> {
    /// Multiplies rows by `factors` and writes them; partial results are f32 too.
    pub fn write(&self, b: &mut Builder, output: &BlockOutput<'_>, factors: [Reg<f32>; 2]) {
        fragment::scale_rows(b, self.out, factors);
        let finite = self.watch.finite(b);
        finite.look(b, self.out);
        self.watch.note(b, &finite);
        let lane = b.eval(self.thread % 4);
        let column = b.eval(lane.widening_mul(OF_LANE * 4));
        let places = epilogue::places(b, self.thread, output);
        for (half, place) in places.iter().enumerate() {
            let to = match output.params.output.partial {
                Some(partial) => output.partial_row(b, place, partial, column),
                None => output.output_row(b, place, column),
            };
            let to = to.plus(i64::from(self.first) * 4);
            for (panel, registers) in (0..).zip(self.out.chunks_exact(REGISTERS)) {
                let writes = self.within(b, lane, panel, place.live);
                let to = to.plus(i64::from(panel * PANEL) * 4);
                b.if_(writes, |b| write_columns(b, to, registers, half));
            }
        }
    }

    /// `live`, where the lane has columns of a panel: the last one may not be whole.
    #[track_caller]
    fn within(&self, b: &mut Builder, lane: Reg<u32>, panel: u32, live: Reg<bool>) -> Reg<bool> {
        let lanes = self.count.saturating_sub(panel * PANEL) / OF_LANE;
        if lanes >= PANEL / OF_LANE {
            return live;
        }
        let has = b.setp(Cmp::Lt, lane, lanes);
        b.and(live, has)
    }
}

/// Writes the eight columns that a lane has of a panel in row `half`.
#[track_caller]
fn write_columns(b: &mut Builder, to: GlobalPtr, registers: &[Reg<f32>], half: usize) {
    for upper in [0, 1] {
        let columns: Vec<_> = (0..4).map(|n| registers[4 * n + 2 * half + upper]).collect();
        b.st_global_vector(to.plus(16 * upper as i64), &columns);
    }
}

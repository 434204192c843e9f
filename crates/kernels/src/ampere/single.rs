//! Rows of f32: scores, output and its epilogue.
//!
//! The scores of a thread are columns `2t` and `2t + 1` of every eight keys, `t` being its number among the four lanes
//! of a row. The left operand of `mma.m16n8k8` has columns `t` and `t + 4` there, so its columns are taken for those
//! keys: `t` for key `2t`, `t + 4` for key `2t + 1`. The right operand then needs, of a column, rows `2t` and `2t + 1`.
//! A lane loads 16 bytes of each, columns `4g` to `4g + 3` of a panel of 32, and has the operands of four products: of
//! columns `4g`, `4g + 1` and so on for `g` from 0 to 7. What it accumulates are the panel's columns `8t` to `8t + 7`.

use super::config::{Shape, shape, shared_rows};
use super::matrices::{Matrices, Places};
use super::tf32::{self, Split};
use super::warp::{View, Warp, four};
use crate::hopper::{epilogue, fragment};
use crate::math::exact::Watch;
use crate::moves::output::{BlockOutput, RowPlace};
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, SharedTile, SmemPtr};

/// Columns of a panel: 128 bytes.
pub const PANEL: u32 = 32;
/// Value columns that a warp has accumulators for, beside numbers that are split.
pub const MOST_COLUMNS: u32 = 128;
/// Columns of a panel that a lane accumulates.
const OF_LANE: u32 = 8;
/// Output registers of a panel.
const REGISTERS: usize = PANEL as usize / 2;

/// Shapes for rows of so many columns of keys and of values, the best first: the first one that fits is taken.
pub fn shapes(keys: u32, values: u32, blocks: u32) -> &'static [Shape] {
    if values > MOST_COLUMNS {
        return const { &[shared_rows(32), shared_rows(16)] };
    }
    match (keys.max(values), blocks) {
        (0..=64, 2..) => const { &[shape(4, 2, 32, 2), shape(4, 1, 32, 2)] },
        (0..=128, 0..=1) => const { &[shape(4, 1, 32, 2), shape(4, 1, 32, 1)] },
        (_, 0..=1) => const { &[shape(4, 1, 32, 1), shape(4, 1, 16, 1)] },
        _ => const { &[shape(8, 1, 32, 1), shape(4, 1, 32, 1)] },
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
enum QueryPlaces {
    Shared(Matrices),
    Memory(QueryRows),
}

impl QueryPlaces {
    fn of(shared: &Option<Matrices>, view: &View) -> Self {
        match (shared, view.queries) {
            (Some(queries), _) => QueryPlaces::Shared(queries.clone()),
            (None, Some(rows)) => QueryPlaces::Memory(rows),
            (None, None) => panic!("queries of f32 are in shared memory, or read from memory"),
        }
    }

    /// Those from a panel on.
    #[track_caller]
    fn in_panel(&self, b: &mut Builder, panel: Reg<u32>) -> Self {
        match self {
            QueryPlaces::Shared(queries) => {
                let offset = b.mul(panel, queries.block_bytes());
                QueryPlaces::Shared(queries.further(b, offset))
            }
            QueryPlaces::Memory(QueryRows(rows)) => {
                let offset = b.mul_wide(panel, PANEL * 4);
                QueryPlaces::Memory(QueryRows(rows.map(|row| b.global_add(row, offset))))
            }
        }
    }

    /// Eight columns.
    #[track_caller]
    fn load(&self, b: &mut Builder, step: u32) -> Split<4> {
        let bits = match self {
            QueryPlaces::Shared(queries) => queries.load(b, 0, step, false),
            QueryPlaces::Memory(rows) => rows.load(b, step),
        };
        Split::of_bits(b, bits)
    }
}

impl Warp<'_> {
    /// `S = Q·Kᵀ`, added to scores that are 0. The products of a panel are one run, and panels a loop: unrolled, it
    /// would take more registers than there are.
    pub fn score_single(
        &self,
        b: &mut Builder,
        keys: &Matrices,
        queries: &[Option<Matrices>],
        views: &[View],
    ) {
        let columns = self.frame.config.key_dim;
        let queries: Vec<_> =
            queries.iter().zip(views).map(|(shared, view)| QueryPlaces::of(shared, view)).collect();
        let steps = PANEL / tf32::STEP;
        let (first, end) = self.key_panels(b);
        b.range(first, end, |b, panel| {
            let queries: Vec<_> = queries.iter().map(|at| at.in_panel(b, panel)).collect();
            let offset = b.mul(panel, keys.block_bytes());
            let keys = keys.further(b, offset);
            self.score_run(b, &keys, &queries, 0..steps);
        });
        let rest = columns / PANEL * steps..columns / tf32::STEP;
        match self.half {
            _ if rest.is_empty() => {}
            None => self.score_run(b, keys, &queries, rest),
            Some(half) => {
                let of = columns / PANEL / self.frame.config.key_panels();
                let has = b.setp(Cmp::Eq, half, of);
                b.if_(has, |b| self.score_run(b, keys, &queries, rest));
            }
        }
    }

    /// The whole panels of keys that the warp multiplies: the first, and one past the last.
    #[track_caller]
    fn key_panels(&self, b: &mut Builder) -> (Reg<u32>, Reg<u32>) {
        let (all, share) = (self.frame.config.key_dim / PANEL, self.frame.config.key_panels());
        match self.half {
            None => (b.value(0), b.value(all)),
            Some(half) => {
                let first = b.mul(half, share);
                let end = b.add(first, share);
                (first, b.min(end, all))
            }
        }
    }

    /// Adds the products of some steps of eight columns to the scores, as one run.
    fn score_run(
        &self,
        b: &mut Builder,
        keys: &Matrices,
        queries: &[QueryPlaces],
        steps: std::ops::Range<u32>,
    ) {
        let tile = self.frame.config.shape.tile;
        let runs: Vec<_> = queries.iter().map(|_| tf32::zeros(b, tile as usize / 2)).collect();
        for step in steps {
            let left: Vec<_> = queries.iter().map(|at| at.load(b, step)).collect();
            for row in (0..tile).step_by(2 * tf32::STEP as usize) {
                let k = keys.load(b, row, step, false);
                for (n, k) in [[k[0], k[1]], [k[2], k[3]]].into_iter().enumerate() {
                    let k = Split::of_bits(b, k);
                    for (run, q) in runs.iter().zip(&left) {
                        tf32::multiply(b, &four(run, row as usize / 8 + n), q, &k);
                    }
                }
            }
        }
        for (fragment, run) in self.fragments.iter().zip(&runs) {
            tf32::add(b, &fragment.scores.scores, run);
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

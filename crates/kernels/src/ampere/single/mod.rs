//! Rows of f32: scores, output and its epilogue.
//!
//! The scores of a thread are columns `2t` and `2t + 1` of every eight keys, `t` being its number among the four lanes
//! of a row. The left operand of `mma.m16n8k8` has columns `t` and `t + 4` there, so its columns are taken for those
//! keys: `t` for key `2t`, `t + 4` for key `2t + 1`. The right operand then needs, of a column, rows `2t` and `2t + 1`.
//! A lane loads 16 bytes of each, columns `4g` to `4g + 3` of a panel of 32, and has the operands of four products: of
//! columns `4g`, `4g + 1` and so on for `g` from 0 to 7. What it accumulates are the panel's columns `8t` to `8t + 7`.

mod output;
mod places;

pub use output::Columns;
pub use places::{QueryRows, RowPairs};

use super::config::{Shape, shape, shared_rows};
use super::matrices::{Matrices, Places};
use super::tf32::{self, Split};
use super::warp::{View, Warp, four};
use places::QueryPlaces;
use ptx::build::{Builder, Cmp, Reg};

/// Columns of a panel: 128 bytes.
pub const PANEL: u32 = 32;
/// Value columns that a warp has accumulators for, beside numbers that are split.
pub const MOST_COLUMNS: u32 = 128;
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
            let offset = b.eval(panel * keys.block_bytes());
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
                let first = b.eval(half * share);
                (first, b.eval((first + share).min(all)))
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

//! Scores of 64 rows in the registers of a warpgroup, and their softmax.

use super::fragment;
use crate::rows::Block;
use crate::softmax::{RowState, Softmax};
use crate::task::OpenTile;
use crate::visible::RowWindow;
use ptx::build::{Builder, HalfType, Reg};

/// Scores, probabilities and row states of a warpgroup.
pub struct Scores {
    /// Thread within the warpgroup.
    pub thread: Reg<u32>,
    /// Scores, then probabilities: `tile / 2` per thread.
    pub scores: Vec<Reg<f32>>,
    /// Probabilities rounded to 16 bits: registers 2i, 2i+1 of the accumulator are A register i.
    pub probabilities: Vec<Reg<u32>>,
    /// The two rows of a thread, 8 apart.
    pub rows: [RowState; 2],
    /// Factors on what was accumulated before the current probabilities.
    pub rescale: [Reg<f32>; 2],
    half: HalfType,
    tile: u32,
}

/// The keys that a thread's two rows see.
pub type Windows = [RowWindow; 2];

impl Scores {
    /// Registers for tiles of `tile` keys.
    #[track_caller]
    pub fn new(b: &mut Builder, thread: Reg<u32>, half: HalfType, tile: u32) -> Self {
        Scores {
            thread,
            scores: b.regs(tile as usize / 2),
            probabilities: b.regs(tile as usize / 4),
            rows: [RowState::new(b), RowState::new(b)],
            rescale: [b.value(1.0), b.value(1.0)],
            half,
            tile,
        }
    }

    /// Forgets the last block of rows.
    #[track_caller]
    pub fn reset(&self, b: &mut Builder) {
        for row in &self.rows {
            row.reset(b);
        }
        for &factor in &self.rescale {
            b.assign(factor, 1.0);
        }
    }

    /// What this thread's rows of `block` see.
    #[track_caller]
    pub fn windows(&self, b: &mut Builder, open: &OpenTile, block: &Block) -> Windows {
        let row = fragment::first_row(b, self.thread);
        [0, 8].map(|offset| {
            let row = b.add(row, offset);
            let (token, _) = block.query(b, row);
            RowWindow::of(b, &open.bounds, token)
        })
    }

    /// Replaces the scores of tile `n` by probabilities.
    #[track_caller]
    pub fn softmax(
        &self,
        b: &mut Builder,
        softmax: &Softmax,
        windows: &Windows,
        n: Reg<i32>,
        masked: bool,
    ) {
        softmax.prepare(b, &self.scores);
        let columns = fragment::columns(self.scores.len());
        let origin = masked.then(|| fragment::first_key(b, self.thread, n, self.tile));
        for half in 0..2 {
            let scores = fragment::of_row(&self.scores, half);
            if let Some(origin) = origin {
                windows[half].relative_to(b, origin).apply(b, &scores, &columns);
            }
            let factor = softmax.step(b, &self.rows[half], &scores, masked, |b, x| {
                b.join_lanes(x, 4, |b, x, y| b.max(x, y))
            });
            b.assign(self.rescale[half], factor);
        }
    }

    /// Rounds probabilities to 16 bits.
    #[track_caller]
    pub fn round(&self, b: &mut Builder) {
        for (pair, &packed) in self.scores.chunks_exact(2).zip(&self.probabilities) {
            let rounded = b.pack(self.half, pair[0], pair[1]);
            b.assign(packed, rounded);
        }
    }

    /// The rows' states with sums over the four threads that share a row.
    #[track_caller]
    pub fn totals(&self, b: &mut Builder) -> [RowState; 2] {
        self.rows.map(|row| {
            let sum = b.join_lanes(row.sum, 4, |b, x, y| b.add(x, y));
            RowState { max: row.max, sum }
        })
    }
}

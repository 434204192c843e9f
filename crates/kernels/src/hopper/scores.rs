//! Scores of 64 rows in the registers of a warpgroup, and their softmax.

use super::fragment;
use crate::call::index::KvTile;
use crate::call::rows::Block;
use crate::call::task::{OpenTile, Tiling};
use crate::call::visible::RowWindow;
use crate::math::bias::{MaskRow, MaskTensor, RowScores};
use crate::math::softmax::{Reference, RowState, Softmax};
use crate::moves::marks;
use ptx::build::{Builder, Cmp, HalfType, Reg};

/// Scores, probabilities and row states of a warpgroup.
pub struct Scores {
    /// Thread within the warpgroup.
    pub thread: Reg<u32>,
    /// Scores, then probabilities: `tile / 2` per thread.
    pub scores: Vec<Reg<f32>>,
    /// Probabilities rounded to 16 bits, where they are: registers 2i, 2i+1 of the accumulator are A register i.
    pub probabilities: Vec<Reg<u32>>,
    /// The two rows of a thread, 8 apart.
    pub rows: [RowState; 2],
    references: [Reference; 2],
    /// Factors on what was accumulated before the current probabilities, mostly 1.
    pub rescale: [Reg<f32>; 2],
    /// What probabilities are rounded to.
    half: Option<HalfType>,
    tile: u32,
    /// Whether what to add to scaled scores stays in registers from one tile to the next.
    keeps_shift: bool,
}

/// The keys that a thread's two rows see.
pub type Windows = [RowWindow; 2];

/// The rows of a mask tensor that are added to a thread's two.
pub type MaskRows = [MaskRow; 2];

/// What a thread's two rows are to make of the keys of one tile.
pub struct SeenTile<'a> {
    pub seen: Seen<'a>,
    /// What is added to the scores of tile `.1`.
    pub biases: Option<(&'a MaskRows, KvTile)>,
}

/// The keys of one tile that a thread's two rows see.
pub enum Seen<'a> {
    /// All.
    All,
    /// Of tile `.1`, those in the rows' windows.
    Within(&'a Windows, KvTile),
    /// Those that exist, by what was read of their marks.
    Marked(&'a [Reg<u32>]),
}

impl SeenTile<'_> {
    /// One past the last key that row `half` sees, counted from `origin`, where it may not see all.
    #[track_caller]
    fn end_in(&self, b: &mut Builder, half: usize, origin: Reg<i32>) -> Option<Reg<i32>> {
        match self.seen {
            Seen::Within(windows, _) => Some(windows[half].relative_to(b, origin).end()),
            Seen::All | Seen::Marked(_) => None,
        }
    }
}

/// Bits that no sum of probabilities has: those of a negative number.
const NO_SUM: u32 = 0x8000_0001;

impl Scores {
    /// `p`, the same in all lanes, once the probabilities of the tile in work are added up.
    ///
    /// A branch on it keeps the assembler from sinking the additions behind that branch: beside exponentials they cost
    /// nothing. The vote tells it that lanes do not part there, which would serialise products.
    #[track_caller]
    pub fn once_added_up(&self, b: &mut Builder, p: Reg<bool>) -> Reg<bool> {
        let added = self.rows.iter().fold(p, |p, row| {
            let sum = b.bits(row.sum);
            let added = b.setp(Cmp::Ne, sum, NO_SUM);
            b.and(p, added)
        });
        b.vote_any(added)
    }

    /// Registers for tiles of `tile` keys.
    #[track_caller]
    pub fn new(b: &mut Builder, thread: Reg<u32>, half: HalfType, tile: u32) -> Self {
        Self::rounded_to(b, thread, Some(half), tile)
    }

    /// The same, with probabilities that stay f32 if they are rounded to nothing.
    #[track_caller]
    pub fn rounded_to(
        b: &mut Builder,
        thread: Reg<u32>,
        half: Option<HalfType>,
        tile: u32,
    ) -> Self {
        Scores {
            thread,
            scores: b.regs(tile as usize / 2),
            probabilities: b.regs(half.map_or(0, |_| tile as usize / 4)),
            rows: [RowState::new(b), RowState::new(b)],
            references: [Reference::new(b), Reference::new(b)],
            rescale: [b.value(1.0), b.value(1.0)],
            half,
            tile,
            keeps_shift: true,
        }
    }

    /// The same, but what to add to scaled scores is found anew for each tile: warps of the `mma.sync` family have no
    /// register for it.
    pub fn without_shift(self) -> Self {
        Scores { keeps_shift: false, ..self }
    }

    /// Forgets the last row block.
    #[track_caller]
    pub fn reset(&self, b: &mut Builder) {
        for (row, reference) in self.rows.iter().zip(&self.references) {
            row.reset(b);
            reference.reset(b);
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
            let row = b.eval(row + offset);
            let (token, _) = block.query(b, row);
            RowWindow::of(b, &open.bounds, token)
        })
    }

    /// The rows of a mask tensor that are added to this thread's rows of `block`.
    #[track_caller]
    pub fn mask_rows(
        &self,
        b: &mut Builder,
        mask: &MaskTensor,
        tiling: &Tiling,
        open: &OpenTile,
        block: &Block,
    ) -> MaskRows {
        let row = fragment::first_row(b, self.thread);
        [0, 8].map(|offset| {
            let row = b.eval(row + offset);
            mask.row(b, tiling, open, block, row)
        })
    }

    /// Replaces the scores of the first tile of a row block by probabilities.
    #[track_caller]
    pub fn first_softmax(&self, b: &mut Builder, softmax: &Softmax, keys: &SeenTile<'_>) {
        let of_rows = self.visible(b, softmax, keys);
        for (half, scores) in of_rows.iter().enumerate() {
            // Nothing was accumulated that the factor would be for.
            self.follow(b, softmax, half, scores);
            let shift = self.shift(b, softmax, half);
            softmax.add_row(b, &self.rows[half], scores, shift);
        }
    }

    /// Replaces the scores of a tile by probabilities.
    ///
    /// References seldom move: lanes that share a row do not compare their scores, nor is anything
    /// rescaled, unless one of the warp's rows asks for it.
    #[track_caller]
    pub fn softmax(&self, b: &mut Builder, softmax: &Softmax, keys: &SeenTile<'_>) {
        let of_rows = self.visible(b, softmax, keys);
        let [upper, lower] = [0, 1].map(|half| self.references[half].may_move(b, &of_rows[half]));
        let either = b.or(upper, lower);
        let any = b.vote_any(either);
        for factor in self.rescale {
            b.assign(factor, 1.0);
        }
        b.if_(any, |b| {
            for (half, scores) in of_rows.iter().enumerate() {
                let factor = self.follow(b, softmax, half, scores);
                b.assign(self.rescale[half], factor);
            }
        });
        for (half, scores) in of_rows.iter().enumerate() {
            let shift = self.shift(b, softmax, half);
            softmax.add_row(b, &self.rows[half], scores, shift);
        }
    }

    /// The prepared scores of both rows, `-inf` where a row does not see the key.
    #[track_caller]
    fn visible(
        &self,
        b: &mut Builder,
        softmax: &Softmax,
        keys: &SeenTile<'_>,
    ) -> [Vec<Reg<f32>>; 2] {
        softmax.prepare(b, &self.scores);
        let of_rows = [0, 1].map(|half| fragment::of_row(&self.scores, half));
        let columns = fragment::columns(self.scores.len());
        match keys.biases {
            None => softmax.without_bias(b, &self.scores),
            Some((rows, n)) => {
                let origin = fragment::first_key(b, self.thread, n, self.tile);
                for (half, scores) in of_rows.iter().enumerate() {
                    let end = keys.end_in(b, half, origin);
                    let row = RowScores { scores, columns: &columns, origin, end };
                    rows[half].add_to(b, softmax, &row);
                }
            }
        }
        match keys.seen {
            Seen::All => {}
            Seen::Within(windows, n) => {
                let origin = fragment::first_key(b, self.thread, n, self.tile);
                for (window, scores) in windows.iter().zip(&of_rows) {
                    window.relative_to(b, origin).apply(b, scores, &columns);
                }
            }
            Seen::Marked(words) => {
                marks::hide(b, words, &of_rows, &columns);
            }
        }
        of_rows
    }

    /// Moves a row's reference along with its new scores; returns the factor on what was accumulated.
    #[track_caller]
    fn follow(
        &self,
        b: &mut Builder,
        softmax: &Softmax,
        half: usize,
        scores: &[Reg<f32>],
    ) -> Reg<f32> {
        let largest = b.max_tree(scores);
        let largest = b.join_lanes(largest, 4, |b, x, y| b.max(x, y));
        self.references[half].follow(b, softmax, &self.rows[half], largest)
    }

    /// What to add to the scaled scores of a row.
    #[track_caller]
    fn shift(&self, b: &mut Builder, softmax: &Softmax, half: usize) -> Reg<f32> {
        match self.keeps_shift {
            true => self.references[half].shift,
            false => softmax.shift_of(b, self.rows[half].max),
        }
    }

    /// Rounds probabilities to 16 bits, where they are.
    #[track_caller]
    pub fn round(&self, b: &mut Builder) {
        let Some(half) = self.half else { return };
        for (pair, &packed) in self.scores.chunks_exact(2).zip(&self.probabilities) {
            let rounded = b.pack(half, pair[0], pair[1]);
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

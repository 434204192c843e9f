use super::buffer::Buffer;
use super::rows::MOST_NEIGHBOURS;
use std::cell::Cell;
use std::f32::consts::{LN_2, LOG2_E};
use std::ops::{Deref, DerefMut, Range};

/// How far, in base 2, scores may exceed the largest one that exponentials are relative to before
/// everything accumulated is rescaled. Rescaling at every new largest score costs a pass over the
/// output; exponentials up to 2^8 cost no precision.
pub(crate) const SLACK: f32 = 8.0;

/// The running softmax of an item's rows: reference score and sum in base 2, unnormalised output.
///
/// Rows lie in panels of `width`; within a panel, each output column holds its rows side by side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partial {
    /// Rows of a panel.
    pub width: usize,
    /// Columns of a panel, at least the value dim.
    pub columns: usize,
    /// What each row's exponentials are relative to: its largest score, or up to [`SLACK`] less.
    pub max: Buffer<f32>,
    /// Sum of each row's exponentials.
    pub sum: Buffer<f32>,
    /// Weighted values, `[panel][column][row]`.
    pub out: Buffer<f32>,
}

impl Partial {
    /// Empties the state of `panels` panels.
    pub fn reset(&mut self, panels: usize, width: usize, columns: usize) {
        (self.width, self.columns) = (width, columns);
        self.max.refill(panels * width, f32::NEG_INFINITY);
        self.sum.refill(panels * width, 0.0);
        self.out.refill(panels * width * columns, 0.0);
    }

    /// Rows from `row` on that can be written side by side.
    pub fn neighbours(&self, row: usize) -> usize {
        (self.width - row % self.width).min(MOST_NEIGHBOURS)
    }

    /// Where one column of neighbouring rows begins.
    #[inline(always)]
    pub fn at(&self, row: usize, column: usize) -> usize {
        row / self.width * self.width * self.columns + column * self.width + row % self.width
    }

    /// What a row's output is multiplied with: one over its sum, sink included; 0 without keys.
    pub fn factor(&self, row: usize, sink: f32) -> f32 {
        let max = self.max[row];
        if max == f32::NEG_INFINITY {
            return 0.0;
        }
        1.0 / (self.sum[row] + (sink * LOG2_E - max).exp2())
    }

    /// A row's log-sum-exp, natural and without the sink.
    pub fn lse(&self, row: usize) -> f32 {
        (self.max[row] + self.sum[row].log2()) * LN_2
    }

    /// The state after all of `parts`, which have the same shape.
    pub fn merge(mut parts: Vec<Partial>) -> Partial {
        let Some(mut total) = parts.pop() else { return Partial::default() };
        for part in &parts {
            for row in 0..total.max.len() {
                total.merge_row(part, row);
            }
        }
        total
    }

    fn merge_row(&mut self, part: &Partial, row: usize) {
        let max = self.max[row].max(part.max[row]);
        if max == f32::NEG_INFINITY {
            return;
        }
        let (mine, theirs) = ((self.max[row] - max).exp2(), (part.max[row] - max).exp2());
        self.max[row] = max;
        self.sum[row] = self.sum[row] * mine + part.sum[row] * theirs;
        for column in 0..self.columns {
            let at = self.at(row, column);
            self.out[at] = self.out[at] * mine + part.out[at] * theirs;
        }
    }
}

/// Memory that a thread reuses from item to item; none of it grows with the number of keys.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The running softmax.
    pub partial: Partial,
    /// Scaled queries: `[panel][dim][row]` in lanes, `[row][dim]` when streaming.
    pub queries: Buffer<f32>,
    /// Scores, then probabilities, of one panel and tile.
    pub scores: Buffer<f32>,
    /// Widened key rows of a tile.
    pub keys: Buffer<f32>,
    /// Widened value rows of a tile.
    pub values: Buffer<f32>,
    /// First and end of each row's visible keys.
    pub visible: Vec<Range<u64>>,
    /// Operands of tile registers.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub operands: super::matrix::Operands,
}

thread_local! {
    /// A thread's scratch memory between items and calls, so that it is not faulted in again.
    static KEPT: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// The thread's scratch memory, on loan; an item that waits for its splits may lend it again, which
/// then gives a fresh one.
pub(crate) struct Loan(Option<Box<Scratch>>);

impl Scratch {
    /// Borrows the thread's scratch memory.
    pub fn lend() -> Loan {
        Loan(Some(KEPT.take().unwrap_or_default()))
    }
}

impl Deref for Loan {
    type Target = Scratch;
    fn deref(&self) -> &Scratch {
        self.0.as_ref().expect("on loan until dropped")
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut Scratch {
        self.0.as_mut().expect("on loan until dropped")
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        KEPT.set(self.0.take());
    }
}

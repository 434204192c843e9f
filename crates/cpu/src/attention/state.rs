use super::buffer::Buffer;
use super::rows::MOST_NEIGHBOURS;
use crate::simd::Simd;
use std::cell::Cell;
use std::f32::consts::{LN_2, LOG2_E};
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Mutex, PoisonError};

/// Rows of the widest panel.
pub(crate) const MOST_WIDTH: usize = 64;

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

    /// As [`Partial::reset`] of rows by themselves, leaving open what their output is.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    pub fn reset_rows(&mut self, rows: usize, columns: usize) {
        (self.width, self.columns) = (1, columns);
        self.max.refill(rows, f32::NEG_INFINITY);
        self.sum.refill(rows, 0.0);
        self.out.reserve(rows * columns);
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

    /// What a row's output is multiplied with: one over its sum, sink included; `None` if it sees no key.
    pub fn factor(&self, row: usize, sink: f32) -> Option<f32> {
        let (max, sum) = (self.max[row], self.sum[row]);
        if sum == 0.0 {
            return None;
        }
        let sink = if sink == f32::NEG_INFINITY { 0.0 } else { (sink * LOG2_E - max).exp2() };
        Some(1.0 / (sum + sink))
    }

    /// Whether the output of each of `count` neighbouring rows from `row` on is finite.
    #[inline(always)]
    pub fn are_finite(&self, row: usize, count: usize) -> [bool; MOST_NEIGHBOURS] {
        // 0 times anything else is NaN, and stays it.
        let mut sums = [0.0; MOST_NEIGHBOURS];
        let add = |sums: &mut [f32; MOST_NEIGHBOURS], values: &[f32]| {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * 0.0);
        };
        if self.width == 1 {
            let row = &self.out[row * self.columns..][..self.columns];
            row.chunks(MOST_NEIGHBOURS).for_each(|some| add(&mut sums, some));
            return [sums.iter().all(|sum| *sum == 0.0); MOST_NEIGHBOURS];
        }
        for column in 0..self.columns {
            add(&mut sums, &self.out[self.at(row, column)..][..count]);
        }
        sums.map(|sum| sum == 0.0)
    }

    /// A row's log-sum-exp, natural and without the sink.
    pub fn lse(&self, row: usize) -> f32 {
        (self.max[row] + self.sum[row].log2()) * LN_2
    }

    /// The state after all of `parts`, which have the same shape, in the first of them.
    #[inline(always)]
    pub fn merge<S: Simd>(simd: S, parts: &mut [Partial]) -> &Partial {
        let (total, others) = parts.split_first_mut().expect("an item has a part");
        for part in others {
            total.add(simd, part);
        }
        total
    }

    #[inline(always)]
    fn add<S: Simd>(&mut self, simd: S, part: &Partial) {
        let (width, columns) = (self.width, self.columns);
        for first in (0..self.max.len()).step_by(MOST_WIDTH) {
            let [mine, theirs] = self.join(simd, part, first);
            let rows = first..self.max.len().min(first + MOST_WIDTH);
            let span = first * columns..rows.end * columns;
            let outs = self.out[span.clone()].chunks_exact_mut(width * columns);
            let panels = outs.zip(part.out[span].chunks_exact(width * columns));
            for (panel, (out, other)) in panels.enumerate() {
                if width == 1 {
                    let (mine, theirs) = (mine[panel], theirs[panel]);
                    out.iter_mut().zip(other).for_each(|(a, b)| *a = *a * mine + b * theirs);
                    continue;
                }
                let factors = mine[panel * width..].iter().zip(&theirs[panel * width..]);
                for (column, other) in out.chunks_exact_mut(width).zip(other.chunks_exact(width)) {
                    for ((a, b), (mine, theirs)) in
                        column.iter_mut().zip(other).zip(factors.clone())
                    {
                        *a = *a * mine + b * theirs;
                    }
                }
            }
        }
    }

    /// Adds another part's rows from `first` on to the largest scores and sums; returns what either
    /// side's output is to be multiplied with.
    #[inline(always)]
    fn join<S: Simd>(&mut self, simd: S, part: &Partial, first: usize) -> [[f32; MOST_WIDTH]; 2] {
        let rows = first..self.max.len().min(first + MOST_WIDTH);
        let (mut mine, mut theirs) =
            ([f32::NEG_INFINITY; MOST_WIDTH], [f32::NEG_INFINITY; MOST_WIDTH]);
        mine[..rows.len()].copy_from_slice(&self.max[rows.clone()]);
        theirs[..rows.len()].copy_from_slice(&part.max[rows.clone()]);
        for (max, other) in self.max[rows.clone()].iter_mut().zip(&theirs) {
            *max = max.max(*other);
        }
        for at in (0..rows.len()).step_by(S::LANES) {
            let (mine, theirs) = (mine[at..].as_mut_ptr(), theirs[at..].as_mut_ptr());
            // SAFETY: vectors divide the arrays.
            unsafe {
                let (a, b) = (simd.load(mine), simd.load(theirs));
                let most = simd.finite_or_zero(simd.max(a, b));
                simd.store(mine, simd.exp2(simd.sub(a, most)));
                simd.store(theirs, simd.exp2(simd.sub(b, most)));
            }
        }
        let sums = self.sum[rows.clone()].iter_mut().zip(&part.sum[rows]);
        for ((sum, other), (mine, theirs)) in sums.zip(mine.iter().zip(&theirs)) {
            *sum = *sum * mine + other * theirs;
        }
        [mine, theirs]
    }
}

/// The parts of an item that have been computed.
pub(crate) struct Gather(Mutex<Vec<Option<Partial>>>);

impl Gather {
    /// Waits for `splits` parts.
    pub fn new(splits: usize) -> Self {
        Self(Mutex::new(vec![None; splits]))
    }

    /// Adds the part of split `split`; returns all of them, in their order, with the last.
    pub fn add(&self, split: usize, part: Partial) -> Option<Vec<Partial>> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts[split] = Some(part);
        match parts.iter().all(Option::is_some) {
            true => parts.drain(..).collect(),
            false => None,
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

/// Partials that calls are done with, for the next: their memory is not faulted in again.
static SPARE: Mutex<Vec<Partial>> = Mutex::new(Vec::new());
/// The most of them that are kept.
const MOST_SPARE: usize = 32;

impl Partial {
    /// One that a call is done with, or a new one.
    pub fn spare() -> Self {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Keeps those that a call is done with.
    pub fn keep(parts: Vec<Partial>) {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_SPARE - spare.len();
        spare.extend(parts.into_iter().take(room));
    }
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

//! Parts of work tiles that several CTAs share ([`crate::work::exchange`]): a thread's row is in tensor memory, its maximum
//! and its sum are in registers.
//!
//! The parts of other CTAs are added to the row where it is, some columns at a time, so that threads of few registers
//! can do it. Whoever accumulates next waits for these threads anyway.

use super::config::Config;
use super::rows::RowThread;
use super::tensor_memory::TensorMemory;
use crate::call::task::OpenTile;
use crate::math::softmax::RowState;
use crate::work::exchange::Given;
use ptx::build::{Builder, Reg, TmemPtr};

/// Words before a row's columns: its maximum and its sum, and two that keep vectors of four apart.
const STATE: u32 = 4;

/// Columns that a thread adds at a time, while as many more are on their way: what it has registers for beside the
/// state of sixteen warps' correction.
const AT_ONCE: u32 = 16;

/// Words that a thread leaves of its row.
pub fn words(config: &Config) -> u32 {
    STATE + TensorMemory::of(config).output_columns
}

/// The part of a row that a thread holds.
pub struct HeldRow<'a> {
    pub thread: &'a RowThread<'a>,
    /// First column of the row.
    pub accumulated: TmemPtr,
    /// Columns of the row, whole steps of 16.
    pub columns: u32,
    pub state: &'a RowState,
}

impl HeldRow<'_> {
    /// Adds the parts of other CTAs to that of warp `warp`, and gives the sum away where another CTA finishes the
    /// work tile. Returns whether this one does; `None` where work tiles are not cut.
    #[track_caller]
    pub fn exchange(&self, b: &mut Builder, open: &OpenTile, warp: Reg<u32>) -> Option<Reg<bool>> {
        let (exchange, part) = self.thread.params.exchange(open)?;
        let flag_value = exchange.take(b, part, warp, |b, given| self.add(b, given));
        b.if_(part.gives, |b| {
            exchange.give(b, part, warp, flag_value, |b, given| self.leave(b, given));
        });
        Some(b.not(part.gives))
    }

    /// Sets the columns to zero: the part has no keys.
    #[track_caller]
    pub fn clear(&self, b: &mut Builder) {
        let zeros = vec![b.value::<f32>(0.0); AT_ONCE as usize];
        for run in self.runs() {
            b.tmem_store(run.at, &zeros[..run.columns as usize]);
        }
        b.tmem_wait_store();
    }

    /// Adds what another CTA's thread left of the row.
    fn add(&self, b: &mut Builder, given: Given) {
        let words = given.load(b, 0, STATE as usize);
        let other = RowState { max: words[0], sum: words[1] };
        let (state, factors) = self.thread.params.softmax.merge(b, &[*self.state, other]);
        b.assign(self.state.max, state.max);
        b.assign(self.state.sum, state.sum);
        let runs: Vec<_> = self.runs().collect();
        let mut others = runs[0].load(b, given);
        for (n, run) in runs.iter().enumerate() {
            // The assembler would load everything first, and spill.
            b.warp_sync();
            let next = runs.get(n + 1).map(|next| next.load(b, given));
            self.add_run(b, run, &others, [factors[0], factors[1]]);
            others = next.unwrap_or_default();
        }
        b.tmem_wait_store();
    }

    /// A run of the row times the first of `factors`, and `others` times the second.
    fn add_run(&self, b: &mut Builder, run: &Run, others: &[Reg<f32>], factors: [Reg<f32>; 2]) {
        let own = self.thread.load(b, run.at, run.columns);
        for (&own, &other) in own.iter().zip(others) {
            b.scale(own, factors[0]);
            let sum = b.fma(other, factors[1], own);
            b.assign(own, sum);
        }
        b.tmem_store(run.at, &own);
    }

    /// Leaves the row to another CTA's thread.
    fn leave(&self, b: &mut Builder, given: Given) {
        let RowState { max, sum } = *self.state;
        given.store(b, 0, &[max, sum, max, sum]);
        for run in self.runs() {
            let own = self.thread.load(b, run.at, run.columns);
            given.store(b, run.word, &own);
        }
    }

    /// The columns, some at a time.
    fn runs(&self) -> impl Iterator<Item = Run> {
        let (at, columns) = (self.accumulated, self.columns);
        (0..columns).step_by(AT_ONCE as usize).map(move |first| Run {
            at: at.columns(first),
            columns: (columns - first).min(AT_ONCE),
            word: (STATE + first) as usize,
        })
    }
}

/// Some columns of a row.
struct Run {
    /// The first one.
    at: TmemPtr,
    /// How many there are.
    columns: u32,
    /// The word that stands for the first one where rows are left.
    word: usize,
}

impl Run {
    /// What another CTA's thread left of these columns.
    #[track_caller]
    fn load(&self, b: &mut Builder, given: Given) -> Vec<Reg<f32>> {
        given.load(b, self.word, self.columns as usize)
    }
}

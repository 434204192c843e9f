use super::exact;
use super::plan::Item;
use super::state::Partial;
use crate::inputs::Inputs;
use crate::reference::dense_row;
use crate::simd::{Element, Simd};
use problem::{InvalidProblem, Problem, Slot, View};
use std::ops::Range;

/// The most rows written side by side.
pub(crate) const MOST_NEIGHBOURS: usize = 16;

/// Output memory that tasks write disjoint rows of.
pub(crate) struct OutputRows<E> {
    view: View,
    out: *mut E,
    out_len: usize,
    lse: *mut f32,
    lse_len: usize,
}

// SAFETY: the pointers come from exclusive slices that outlive the call, a problem's output rows do
// not overlap (rule 8), and each row belongs to exactly one item.
unsafe impl<E: Send> Send for OutputRows<E> {}
// SAFETY: as above; writing is the only access.
unsafe impl<E: Send> Sync for OutputRows<E> {}

impl<E: Element> OutputRows<E> {
    pub fn new(problem: &Problem) -> Self {
        let (out, lse) = (std::ptr::null_mut(), std::ptr::null_mut());
        Self { view: problem.out, out, out_len: 0, lse, lse_len: 0 }
    }

    pub fn set_out(&mut self, memory: Option<&mut [E]>) -> Result<(), InvalidProblem> {
        let memory = memory.ok_or_else(|| wrong_type(Slot::Out))?;
        (self.out, self.out_len) = (memory.as_mut_ptr(), memory.len());
        Ok(())
    }

    pub fn set_lse(&mut self, memory: Option<&mut [f32]>) -> Result<(), InvalidProblem> {
        let memory = memory.ok_or_else(|| wrong_type(Slot::Lse))?;
        (self.lse, self.lse_len) = (memory.as_mut_ptr(), memory.len());
        Ok(())
    }

    /// Checks that the memory is large enough for the problem.
    pub fn check(&self, problem: &Problem) -> Result<(), InvalidProblem> {
        let out = problem.slot_bytes(Slot::Out) / problem.dtype().bytes();
        check_len(Slot::Out, self.out_len, out)?;
        let lse = if problem.return_lse { problem.lse_len() } else { 0 };
        check_len(Slot::Lse, self.lse_len, lse)
    }

    /// Normalises, applies the sink, and writes the item's rows `rows`, which are neighbours in
    /// `partial`; those that are not finite but should be are computed again.
    #[inline(always)]
    pub fn write<S: Simd>(
        &self,
        simd: S,
        inputs: &Inputs,
        item: &Item,
        partial: &Partial,
        rows: Range<usize>,
    ) {
        let factors = self.write_sums(simd, inputs, item, partial, rows.clone());
        let finite = partial.are_finite(rows.start, rows.len());
        for (i, row) in rows.enumerate() {
            if !finite[i] && factors[i].is_some_and(|factor| !factor.is_nan()) {
                self.write_again(inputs, item, row);
            }
        }
    }

    /// Computes a row the exact way, and writes it.
    #[cold]
    fn write_again(&self, inputs: &Inputs, item: &Item, row: usize) {
        let at = item.row(inputs, row);
        let offset = self.view.row_offset(at.q_batch, at.head, at.token) as usize;
        for (column, value) in exact::row(inputs, item, row).into_iter().enumerate() {
            debug_assert!(offset + column < self.out_len);
            // SAFETY: `check` found room for the whole view; this row is this item's alone.
            unsafe { self.out.add(offset + column).write(E::from_f32(value as f32)) };
        }
    }

    /// Normalises sums, applies the sink, and writes rows and their log-sum-exps; returns the rows' factors.
    #[inline(always)]
    fn write_sums<S: Simd>(
        &self,
        simd: S,
        inputs: &Inputs,
        item: &Item,
        partial: &Partial,
        rows: Range<usize>,
    ) -> [Option<f32>; MOST_NEIGHBOURS] {
        let mut to = [self.out; MOST_NEIGHBOURS];
        let mut factor = [None; MOST_NEIGHBOURS];
        for (i, row) in rows.clone().enumerate() {
            let at = item.row(inputs, row);
            let sink = inputs.sinks.map_or(f32::NEG_INFINITY, |s| s[at.head as usize]);
            factor[i] = partial.factor(row, sink);
            let offset = self.view.row_offset(at.q_batch, at.head, at.token) as usize;
            debug_assert!(offset + self.view.dim() as usize <= self.out_len);
            to[i] = self.out.wrapping_add(offset);
            if !self.lse.is_null() {
                let dense = dense_row(inputs.problem, at.q_batch, at.head, at.token);
                debug_assert!(dense < self.lse_len);
                // SAFETY: `check` found room for every row; this row is this item's alone.
                unsafe { self.lse.add(dense).write(partial.lse(row)) };
            }
        }
        let dim = self.view.dim() as usize;
        if partial.width == 1 {
            let from = &partial.out[partial.at(rows.start, 0)..][..dim];
            // SAFETY: `check` found room for the whole view; this row is this item's alone.
            let to = unsafe { std::slice::from_raw_parts_mut(to[0], dim) };
            to.iter_mut().zip(from).for_each(|(to, value)| *to = scaled(*value, factor[0]));
            return factor;
        }
        let blocks = if rows.len() == MOST_NEIGHBOURS { dim / MOST_NEIGHBOURS } else { 0 };
        for column in (0..blocks).map(|block| block * MOST_NEIGHBOURS) {
            let from = partial.out[partial.at(rows.start, column)..].as_ptr();
            // SAFETY: 16 neighbouring rows of 16 columns lie `width` apart.
            let block = unsafe { simd.transpose(from, partial.width) };
            for (i, values) in block.iter().enumerate() {
                let mut rounded = [E::default(); MOST_NEIGHBOURS];
                for (rounded, value) in rounded.iter_mut().zip(values) {
                    *rounded = scaled(*value, factor[i]);
                }
                // SAFETY: `check` found room for the whole view; this row is this item's alone.
                unsafe {
                    to[i].add(column).cast::<[E; MOST_NEIGHBOURS]>().write_unaligned(rounded)
                };
            }
        }
        for column in blocks * MOST_NEIGHBOURS..dim {
            let values = &partial.out[partial.at(rows.start, column)..][..rows.len()];
            for (i, value) in values.iter().enumerate() {
                // SAFETY: as above.
                unsafe { to[i].add(column).write(scaled(*value, factor[i])) };
            }
        }
        factor
    }
}

/// A row without keys is 0 whatever was accumulated.
#[inline(always)]
fn scaled<E: Element>(value: f32, factor: Option<f32>) -> E {
    E::from_f32(factor.map_or(0.0, |factor| value * factor))
}

fn wrong_type(slot: Slot) -> InvalidProblem {
    InvalidProblem::new(slot, "must have the problem's element type", "another")
}

fn check_len(slot: Slot, found: usize, needed: u64) -> Result<(), InvalidProblem> {
    if found as u64 >= needed {
        return Ok(());
    }
    let rule = format!("must hold {needed} elements (memory rule 1)");
    Err(InvalidProblem::new(slot, rule, found))
}

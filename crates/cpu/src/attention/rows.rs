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
    /// `partial`.
    #[inline(always)]
    pub fn write<S: Simd>(
        &self,
        simd: S,
        inputs: &Inputs,
        item: &Item,
        partial: &Partial,
        rows: Range<usize>,
    ) {
        let mut to = [self.out; MOST_NEIGHBOURS];
        let mut factor = [0.0; MOST_NEIGHBOURS];
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
            let pairs = to.iter_mut().zip(from);
            return pairs.for_each(|(to, value)| *to = scaled(*value, factor[0]));
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
    }
}

/// A row without keys or with an overwhelming sink is 0 whatever was accumulated.
#[inline(always)]
fn scaled<E: Element>(value: f32, factor: f32) -> E {
    E::from_f32(if factor == 0.0 { 0.0 } else { value * factor })
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

//! Mask tensors: biases of a tile's scores, which are to base 2.

use super::plan::Item;
use crate::inputs::{Inputs, LoadRows, SegmentInputs};
use crate::mask::MaskTensor;

/// The mask tensor of a segment, over the keys of a tile and the rows of an item.
pub(super) struct TileBias<'a> {
    mask: MaskTensor<'a>,
    inputs: &'a Inputs<'a>,
    item: &'a Item,
    first_key: u64,
}

impl<'a> TileBias<'a> {
    /// Over keys from `first_key` on, where the segment has such a tensor.
    pub fn new(
        inputs: &'a Inputs<'a>,
        segment: &SegmentInputs<'a>,
        item: &'a Item,
        first_key: u64,
    ) -> Option<Self> {
        segment.mask().map(|mask| Self { mask, inputs, item, first_key })
    }

    /// Adds to the scores `[key][row]` of `count` keys and a panel of `width` rows from `first_row` on.
    pub fn add_to_columns(&self, first_row: usize, width: usize, count: usize, scores: &mut [f32]) {
        let rows = first_row..self.item.rows.min(first_row + width);
        if self.mask.has_one_row() {
            return self.mask.for_each_key(self.first_of(first_row), count, |key, bias| {
                scores[key * width..][..rows.len()].iter_mut().for_each(|score| add(score, bias));
            });
        }
        for (n, row) in rows.enumerate() {
            self.mask.for_each_key(self.first_of(row), count, |key, bias| {
                add(&mut scores[key * width + n], bias);
            });
        }
    }

    /// Adds to the scores `[row][key]` of `count` keys, rows `pitch` apart.
    pub fn add_to_rows(&self, pitch: usize, count: usize, scores: &mut [f32]) {
        for (row, scores) in scores.chunks_mut(pitch).take(self.item.rows).enumerate() {
            let add_to = |key: usize, bias| add(&mut scores[key], bias);
            self.mask.for_each_key(self.first_of(row), count, add_to);
        }
    }

    /// Batch, head, query and key of the first element of the item's row `row`.
    fn first_of(&self, row: usize) -> [u64; 4] {
        // Packed sequences have no mask tensors, so that a token of `q` is a query of its sequence.
        let at = self.item.row(self.inputs, row);
        [self.item.b, at.head, at.token, self.first_key]
    }
}

/// Adds a bias to a score. A key that is hidden is so whatever its score.
#[inline(always)]
fn add(score: &mut f32, bias: f32) {
    *score = if bias == f32::NEG_INFINITY { bias } else { *score + bias };
}

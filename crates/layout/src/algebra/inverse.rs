//! Inverses: from indices back to coordinates.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::error::{LayoutError, Result, exact_div};
use crate::layout::Layout;

impl Layout {
    /// The largest layout `r` with `self(r(i)) == i` for every `i < r.size()`.
    ///
    /// ```
    /// use layout::Layout;
    /// let layout: Layout = "(4,8):(8,1)".parse()?;
    /// assert_eq!(layout.right_inverse()?.to_string(), "(8,4):(4,1)");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn right_inverse(&self) -> Result<Layout> {
        let chain = longest_chain(leaves_with_position(self));
        let leaves: Vec<(u64, u64)> =
            chain.iter().map(|leaf| (leaf.extent, leaf.position)).collect();
        Ok(Layout::from_leaves(&leaves)?.coalesce())
    }

    /// A layout `l` with `l(self(i)) == i` for every `i < self.size()`; needs an injective `self`
    /// whose strides divide each other. What it gives for indices that `self` skips is not said.
    ///
    /// ```
    /// use layout::Layout;
    /// let padded: Layout = "(3,4):(1,8)".parse()?;
    /// assert_eq!(padded.left_inverse()?.to_string(), "(8,4):(1,3)");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn left_inverse(&self) -> Result<Layout> {
        let overlap =
            || LayoutError::Overlap { operation: "left inverse", layout: self.to_string() };
        let mut by_stride = leaves_with_position(self);
        by_stride.retain(|leaf| leaf.extent != 1);
        by_stride.sort_by_key(|leaf| leaf.stride);
        let Some(first) = by_stride.first() else { return Ok(Layout::unit()) };
        if first.stride == 0 {
            return Err(overlap());
        }
        // The index is read in the mixed radix of the strides; a digit is a leaf's coordinate.
        let mut result = vec![(first.stride, 0)];
        for (leaf, next) in by_stride.iter().zip(&by_stride[1..]) {
            let radix = exact_div("left inverse", next.stride, leaf.stride)?;
            if radix < leaf.extent {
                return Err(overlap());
            }
            result.push((radix, leaf.position));
        }
        result.extend(by_stride.last().map(|leaf| (leaf.extent, leaf.position)));
        Ok(Layout::from_leaves(&result)?.coalesce())
    }
}

#[derive(Clone, Copy)]
struct PlacedLeaf {
    extent: u64,
    stride: u64,
    /// Step of this leaf in the one-number coordinate.
    position: u64,
}

fn leaves_with_position(layout: &Layout) -> Vec<PlacedLeaf> {
    let mut position = 1;
    let mut placed = Vec::new();
    for (extent, stride) in layout.leaves() {
        placed.push(PlacedLeaf { extent, stride, position });
        position *= extent;
    }
    placed
}

/// The leaves that reach the most indices from 0 without a gap: each starts where the one before
/// it ends.
fn longest_chain(mut leaves: Vec<PlacedLeaf>) -> Vec<PlacedLeaf> {
    leaves.retain(|leaf| leaf.extent != 1 && leaf.stride != 0);
    leaves.sort_by_key(|leaf| Reverse(leaf.stride));
    // For each stride at which a leaf starts, the leaf that leads farthest from there.
    let mut best: BTreeMap<u64, (u64, PlacedLeaf)> = BTreeMap::new();
    for leaf in leaves {
        let end = leaf.stride.saturating_mul(leaf.extent);
        let reach = best.get(&end).map_or(end, |(reach, _)| *reach);
        let start = best.entry(leaf.stride).or_insert((reach, leaf));
        if reach > start.0 {
            *start = (reach, leaf);
        }
    }
    let mut chain = Vec::new();
    let mut next = 1;
    while let Some((_, leaf)) = best.remove(&next) {
        chain.push(leaf);
        next = leaf.stride.saturating_mul(leaf.extent);
    }
    chain
}

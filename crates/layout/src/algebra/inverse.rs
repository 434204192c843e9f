//! Inverses: from indices back to coordinates.

use crate::error::{LayoutError, Result, checked_mul};
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
        let mut by_stride = leaves_with_position(self);
        by_stride.retain(|leaf| leaf.extent != 1 && leaf.stride != 0);
        by_stride.sort_by_key(|leaf| leaf.stride);
        let mut result = Vec::new();
        let mut next = 1;
        for leaf in by_stride {
            if leaf.stride != next {
                break;
            }
            result.push((leaf.extent, leaf.position));
            next = checked_mul("right inverse", next, leaf.extent)?;
        }
        Ok(Layout::from_leaves(&result)?.coalesce())
    }

    /// A layout `l` with `l(self(i)) == i` for every `i < self.size()`; needs an injective `self`.
    ///
    /// ```
    /// use layout::Layout;
    /// let every_other: Layout = "4:2".parse()?;
    /// assert_eq!(every_other.left_inverse()?.to_string(), "(2,4):(4,1)");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn left_inverse(&self) -> Result<Layout> {
        if self.leaves().iter().any(|&(extent, stride)| extent != 1 && stride == 0) {
            return Err(LayoutError::NotInjective {
                operation: "left inverse",
                layout: self.to_string(),
            });
        }
        let gaps = self.complement(1)?;
        Layout::from_modes([self.clone(), gaps])?.right_inverse()
    }
}

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

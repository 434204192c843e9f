//! Complement: the layout of what a layout leaves out.

use crate::error::{LayoutError, Result, checked_mul};
use crate::layout::Layout;

impl Layout {
    /// An increasing layout of indices that `self` skips, up to at least `bound`.
    ///
    /// Post-conditions: its indices and those of `self` meet only in 0; it is increasing; and
    /// `(self, complement)` is injective. When each stride of `self` is a multiple of what lies
    /// below it, the two together reach `bound` and leave no hole.
    ///
    /// ```
    /// use layout::Layout;
    /// let layout: Layout = "(2,2):(1,6)".parse()?;
    /// assert_eq!(layout.complement(24)?.to_string(), "(3,2):(2,12)");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn complement(&self, bound: u64) -> Result<Layout> {
        let mut result = Vec::new();
        let mut covered = 1;
        for (extent, stride) in self.leaves_by_stride() {
            if stride < covered {
                return Err(LayoutError::Overlap {
                    operation: "complement",
                    layout: self.to_string(),
                });
            }
            result.push((stride / covered, covered));
            covered = checked_mul("complement", extent, stride)?;
        }
        result.push((bound.div_ceil(covered).max(1), covered));
        Ok(Layout::from_leaves(&result)?.coalesce())
    }

    /// Whether the gaps between the leaves are whole multiples of what lies below them, so that a
    /// complement fills them completely; the offending stride and span otherwise.
    pub(super) fn check_gaps(&self, operation: &'static str) -> Result<()> {
        let mut covered = 1;
        for (extent, stride) in self.leaves_by_stride() {
            if !stride.is_multiple_of(covered) {
                return Err(LayoutError::NotDivisible {
                    operation,
                    dividend: stride,
                    divisor: covered,
                });
            }
            covered = checked_mul(operation, extent, stride)?;
        }
        Ok(())
    }

    /// The leaves that matter for the image, smallest stride first.
    fn leaves_by_stride(&self) -> Vec<(u64, u64)> {
        let mut leaves = self.leaves();
        leaves.retain(|&(extent, stride)| extent != 1 && stride != 0);
        leaves.sort_unstable_by_key(|&(extent, stride)| (stride, extent));
        leaves
    }
}

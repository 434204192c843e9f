//! Complement: the layout of what a layout leaves out.

use crate::error::{LayoutError, Result, checked_mul, exact_div};
use crate::layout::Layout;

impl Layout {
    /// The ordered layout of the indices that `self` skips, up to at least `bound`.
    ///
    /// Post-conditions: its indices and those of `self` meet only in 0; it is increasing; and
    /// `(self, complement)` reaches every index below `bound` when `self` is injective.
    ///
    /// ```
    /// use layout::Layout;
    /// let layout: Layout = "(2,2):(1,6)".parse()?;
    /// assert_eq!(layout.complement(24)?.to_string(), "(3,2):(2,12)");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn complement(&self, bound: u64) -> Result<Layout> {
        let mut leaves = self.leaves();
        leaves.retain(|&(extent, stride)| extent != 1 && stride != 0);
        leaves.sort_unstable_by_key(|&(extent, stride)| (stride, extent));
        let mut result = Vec::new();
        let mut covered = 1;
        for (extent, stride) in leaves {
            if stride < covered {
                return Err(LayoutError::NotInjective {
                    operation: "complement",
                    layout: self.to_string(),
                });
            }
            result.push((exact_div("complement", stride, covered)?, covered));
            covered = checked_mul("complement", extent, stride)?;
        }
        result.push((bound.div_ceil(covered).max(1), covered));
        Ok(Layout::from_leaves(&result)?.coalesce())
    }
}

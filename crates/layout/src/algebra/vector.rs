//! What two layouts of one domain have in common: the longest run contiguous in both.

use crate::error::{LayoutError, Result};
use crate::layout::Layout;

impl Layout {
    /// The layout `v` of the longest run with `self(v(i)) == i` and `other(v(i)) == i`.
    pub fn max_common_layout(&self, other: &Layout) -> Result<Layout> {
        if self.size() != other.size() {
            return Err(LayoutError::NotCongruent {
                operation: "common vector",
                expected: self.shape().to_string(),
                found: other.shape().to_string(),
            });
        }
        let inverse = other.right_inverse()?;
        let common = self.compose(&inverse)?.coalesce();
        match common.leaves()[0] {
            (extent, 1) => inverse.compose(&Layout::strided(extent, 1)?),
            _ => Ok(Layout::unit()),
        }
    }

    /// The number of elements a copy between the two layouts can move as one vector.
    ///
    /// ```
    /// use layout::Layout;
    /// let a: Layout = "(8,16):(16,1)".parse()?;
    /// let b: Layout = "(8,(4,4)):(4,(1,32))".parse()?;
    /// assert_eq!(a.max_common_vector(&b)?, 4);
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn max_common_vector(&self, other: &Layout) -> Result<u64> {
        Ok(self.max_common_layout(other)?.size())
    }
}

//! Coalescing: the same function with as few leaves as possible.

use crate::error::{LayoutError, Result};
use crate::int_tuple::IntTuple;
use crate::layout::Layout;

impl Layout {
    /// The flattest layout that gives the same index for every one-number coordinate.
    ///
    /// ```
    /// use layout::Layout;
    /// let layout: Layout = "(2,(1,6)):(1,(6,2))".parse()?;
    /// assert_eq!(layout.coalesce().to_string(), "12:1");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn coalesce(&self) -> Layout {
        let leaves = merge_leaves(self.leaves());
        Layout::from_leaves(&leaves).expect("merging leaves keeps size and cosize")
    }

    /// Coalesces below each leaf of `profile`, so that the top-level structure survives.
    pub fn coalesce_by(&self, profile: &IntTuple) -> Result<Layout> {
        let IntTuple::Tuple(profiles) = profile else {
            return Ok(self.coalesce());
        };
        if profiles.len() > self.rank() {
            return Err(LayoutError::Rank {
                operation: "coalesce",
                asked: profiles.len(),
                rank: self.rank(),
            });
        }
        let mut modes = self.modes();
        for (mode, profile) in modes.iter_mut().zip(profiles) {
            *mode = mode.coalesce_by(profile)?;
        }
        Layout::from_modes(modes)
    }
}

/// Drops leaves of extent 1 and joins neighbours where one continues the other.
fn merge_leaves(leaves: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (extent, stride) in leaves.into_iter().filter(|(extent, _)| *extent != 1) {
        match merged.last_mut() {
            Some(last) if last.0.checked_mul(last.1) == Some(stride) => last.0 *= extent,
            _ => merged.push((extent, stride)),
        }
    }
    merged
}

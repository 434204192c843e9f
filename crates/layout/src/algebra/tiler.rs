//! [`Tiler`]: the second operand of by-mode operations.

use std::fmt;

use crate::error::{LayoutError, Result};
use crate::layout::Layout;

/// A layout for the whole, or one tiler per mode, written `<4:1,_,8:2>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tiler {
    /// Applies to everything below its place.
    Layout(Layout),
    /// One tiler for each of the first modes.
    ByMode(Vec<Tiler>),
    /// `_`: leaves its mode alone.
    Keep,
}

impl Tiler {
    /// One contiguous tile extent per mode: `<8,64>` is an 8 by 64 tile.
    pub fn tile(extents: &[u64]) -> Result<Tiler> {
        let modes: Result<Vec<Tiler>> =
            extents.iter().map(|&extent| Layout::strided(extent, 1).map(Tiler::Layout)).collect();
        Ok(Tiler::ByMode(modes?))
    }

    /// Applies `operation` wherever a layout stands against the mode at the same place.
    pub(crate) fn apply(
        &self,
        layout: &Layout,
        operation: &impl Fn(&Layout, &Layout) -> Result<Layout>,
    ) -> Result<Layout> {
        match self {
            Tiler::Keep => Ok(layout.clone()),
            Tiler::Layout(tile) => operation(layout, tile),
            Tiler::ByMode(tilers) => {
                let mut modes = self.check_rank(layout)?.modes();
                for (mode, tiler) in modes.iter_mut().zip(tilers) {
                    *mode = tiler.apply(mode, operation)?;
                }
                Layout::from_modes(modes)
            }
        }
    }

    /// A by-mode tiler must not name more modes than the layout has.
    pub(crate) fn check_rank<'a>(&self, layout: &'a Layout) -> Result<&'a Layout> {
        match self {
            Tiler::ByMode(tilers) if tilers.len() > layout.rank() => Err(LayoutError::Rank {
                operation: "tiler",
                asked: tilers.len(),
                rank: layout.rank(),
            }),
            _ => Ok(layout),
        }
    }
}

impl From<Layout> for Tiler {
    fn from(layout: Layout) -> Self {
        Tiler::Layout(layout)
    }
}

impl fmt::Display for Tiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tiler::Keep => f.write_str("_"),
            Tiler::Layout(layout) => layout.fmt(f),
            Tiler::ByMode(tilers) => {
                let modes: Vec<String> = tilers.iter().map(Tiler::to_string).collect();
                write!(f, "<{}>", modes.join(","))
            }
        }
    }
}

//! Slicing: fix some coordinates, keep the modes that are left open.

use std::fmt;

use crate::composed::ComposedLayout;
use crate::error::{LayoutError, Result};
use crate::int_tuple::Shape;
use crate::layout::Layout;

/// A coordinate in which `_` leaves a mode open, such as `(_,3)` or `((_,1),_)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slice {
    /// `_`: keep the whole mode.
    All,
    /// Fix this mode at a position.
    At(u64),
    /// One slice per mode.
    Modes(Vec<Slice>),
}

impl Layout {
    /// The layout of the open modes and the index at which the fixed ones put it.
    ///
    /// ```
    /// use layout::Layout;
    /// let tile: Layout = "(4,8):(8,1)".parse()?;
    /// let (row, start) = tile.slice(&"(2,_)".parse()?)?;
    /// assert_eq!((row.to_string().as_str(), start), ("8:1", 16));
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn slice(&self, slice: &Slice) -> Result<(Layout, u64)> {
        if *slice == Slice::All {
            return Ok((self.clone(), 0));
        }
        let mut open = Vec::new();
        let offset = collect_open(self, slice, &mut open)?;
        let kept = match open.len() {
            0 => Layout::unit(),
            1 => open.remove(0),
            _ => Layout::from_modes(open)?,
        };
        Ok((kept, offset))
    }
}

impl ComposedLayout {
    /// The open modes; the fixed ones move the offset, which stays inside the swizzle.
    pub fn slice(&self, slice: &Slice) -> Result<ComposedLayout> {
        let (layout, extra) = self.layout().slice(slice)?;
        self.with_layout(layout)?.shifted(extra)
    }
}

fn collect_open(layout: &Layout, slice: &Slice, open: &mut Vec<Layout>) -> Result<u64> {
    match slice {
        Slice::All => {
            open.push(layout.clone());
            Ok(0)
        }
        Slice::At(position) => layout.at(*position),
        Slice::Modes(slices) => {
            if layout.shape().is_int() || layout.rank() != slices.len() {
                return Err(mismatch(slice, layout.shape()));
            }
            let modes = layout.modes();
            modes.iter().zip(slices).map(|(mode, slice)| collect_open(mode, slice, open)).sum()
        }
    }
}

fn mismatch(slice: &Slice, shape: &Shape) -> LayoutError {
    LayoutError::Coordinate { coordinate: slice.to_string(), shape: shape.to_string() }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Slice::All => f.write_str("_"),
            Slice::At(position) => write!(f, "{position}"),
            Slice::Modes(slices) => {
                let modes: Vec<String> = slices.iter().map(Slice::to_string).collect();
                write!(f, "({})", modes.join(","))
            }
        }
    }
}

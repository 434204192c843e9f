//! [`CoordLayout`]: layouts whose values are coordinates of a tile instead of memory indices.
//!
//! CuTe calls these identity (or coordinate) tensors and gives them strides such as `1@0` ("one
//! step along mode 0"). Here the coordinate is carried as its one-number form within the tile, so
//! the whole algebra applies unchanged; only evaluation and printing turn it back into a tuple.

use std::fmt;

use crate::error::{LayoutError, Result};
use crate::int_tuple::{Coord, IntTuple, Shape};
use crate::layout::Layout;
use crate::slice::Slice;

/// A function from coordinates to coordinates of `tile`.
///
/// ```
/// use layout::CoordLayout;
/// let tile = CoordLayout::identity((128, 64))?;
/// assert_eq!(tile.to_string(), "(128,64):(1@0,1@1)");
/// assert_eq!(tile.at((5, 7))?.to_string(), "(5,7)");
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CoordLayout {
    layout: Layout,
    tile: Shape,
}

impl CoordLayout {
    /// Reads the indices of `layout` as one-number coordinates of `tile`; all must lie inside it.
    pub fn new(layout: Layout, tile: impl Into<Shape>) -> Result<CoordLayout> {
        let tile = tile.into();
        if layout.cosize() > tile.product()? {
            return Err(LayoutError::Coordinate {
                coordinate: (layout.cosize() - 1).to_string(),
                shape: tile.to_string(),
            });
        }
        Ok(CoordLayout { layout, tile })
    }

    /// The layout that gives every coordinate of `tile` as itself.
    pub fn identity(tile: impl Into<Shape>) -> Result<CoordLayout> {
        let tile = tile.into();
        CoordLayout::new(Layout::column_major(tile.clone())?, tile)
    }

    /// The tile whose coordinates are the values.
    pub fn tile(&self) -> &Shape {
        &self.tile
    }

    /// The layout to one-number coordinates of the tile.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The tile coordinate at `coord`.
    pub fn at(&self, coord: impl Into<Coord>) -> Result<Coord> {
        self.tile.coord_of(self.layout.at(coord)?)
    }

    /// The function `i -> self(inner(i))`.
    pub fn compose(&self, inner: &Layout) -> Result<CoordLayout> {
        CoordLayout::new(self.layout.compose(inner)?, self.tile.clone())
    }

    /// The open modes of a slice and the tile coordinate the fixed ones contribute.
    pub fn slice(&self, slice: &Slice) -> Result<(CoordLayout, Coord)> {
        let (layout, start) = self.layout.slice(slice)?;
        Ok((CoordLayout::new(layout, self.tile.clone())?, self.tile.coord_of(start)?))
    }
}

impl fmt::Display for CoordLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.layout.shape())?;
        write_bases(f, self.layout.shape(), self.layout.stride(), &self.tile)
    }
}

impl fmt::Debug for CoordLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes each stride as steps along the modes of the tile.
fn write_bases(
    f: &mut fmt::Formatter<'_>,
    shape: &Shape,
    stride: &IntTuple,
    tile: &Shape,
) -> fmt::Result {
    match (shape, stride) {
        (IntTuple::Tuple(shapes), IntTuple::Tuple(strides)) => {
            f.write_str("(")?;
            for (i, (shape, stride)) in shapes.iter().zip(strides).enumerate() {
                if i > 0 {
                    f.write_str(",")?;
                }
                write_bases(f, shape, stride, tile)?;
            }
            f.write_str(")")
        }
        (_, IntTuple::Int(step)) => f.write_str(&basis_terms(*step, tile)),
        _ => Err(fmt::Error),
    }
}

/// `3@0+1@1` for a step of 3 along mode 0 and 1 along mode 1; nested modes innermost first.
fn basis_terms(step: u64, tile: &Shape) -> String {
    // A step past the tile belongs to an extent of 1 and is never taken.
    let Ok(coord) = tile.coord_of(step) else { return "0".to_owned() };
    let mut terms = Vec::new();
    collect_terms(&coord, "", &mut terms);
    if terms.is_empty() { "0".to_owned() } else { terms.join("+") }
}

fn collect_terms(coord: &Coord, path: &str, terms: &mut Vec<String>) {
    match coord {
        IntTuple::Int(0) => {}
        IntTuple::Int(steps) => terms.push(format!("{steps}{path}")),
        IntTuple::Tuple(modes) => {
            for (i, mode) in modes.iter().enumerate() {
                collect_terms(mode, &format!("@{i}{path}"), terms);
            }
        }
    }
}

//! [`ComposedLayout`]: a swizzle after an offset after a layout, the form of every swizzled tile.

use std::fmt;

use crate::error::{LayoutError, Result, checked_add};
use crate::int_tuple::{Coord, Shape};
use crate::layout::Layout;
use crate::swizzle::Swizzle;

/// The function `coordinate -> swizzle(offset + layout(coordinate))`.
///
/// Written `S<3,4,3> o 0 o (8,64):(64,1)`. A plain layout is a composed layout with
/// [`Swizzle::NONE`] and offset 0, and is printed as such.
///
/// ```
/// use layout::ComposedLayout;
/// let tile: ComposedLayout = "S<3,4,3> o 0 o (8,128):(128,1)".parse()?;
/// assert_eq!(tile.at((1, 0))?, 128 + 16);
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ComposedLayout {
    swizzle: Swizzle,
    offset: u64,
    layout: Layout,
}

impl ComposedLayout {
    /// Composes the three parts; the largest index before swizzling must fit in 63 bits.
    pub fn new(swizzle: Swizzle, offset: u64, layout: Layout) -> Result<ComposedLayout> {
        if checked_add("composed layout", offset, layout.cosize())? > 1 << 63 {
            return Err(LayoutError::Overflow { what: "composed layout" });
        }
        Ok(ComposedLayout { swizzle, offset, layout })
    }

    /// The permutation applied last.
    pub fn swizzle(&self) -> Swizzle {
        self.swizzle
    }

    /// The number added before the swizzle.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The layout applied first.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The extents of the domain.
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }

    /// Number of coordinates in the domain.
    pub fn size(&self) -> u64 {
        self.layout.size()
    }

    /// One more than the largest index reached, found by visiting every coordinate.
    pub fn cosize(&self) -> u64 {
        if self.swizzle.is_identity() {
            return self.offset + self.layout.cosize();
        }
        1 + self.indices().max().unwrap_or(0)
    }

    /// The index of a coordinate in any of the three coordinate forms.
    pub fn at(&self, coord: impl Into<Coord>) -> Result<u64> {
        Ok(self.swizzle.apply(self.offset + self.layout.at(coord)?))
    }

    /// The indices of all coordinates, in one-number order.
    pub fn indices(&self) -> impl Iterator<Item = u64> + use<> {
        let (swizzle, offset) = (self.swizzle, self.offset);
        self.layout.indices().map(move |index| swizzle.apply(offset + index))
    }

    /// The same function with another layout inside; the domain changes, the memory does not.
    pub fn with_layout(&self, layout: Layout) -> Result<ComposedLayout> {
        ComposedLayout::new(self.swizzle, self.offset, layout)
    }

    /// Applies a domain-changing operation (composition, division, coalescing) to the layout.
    pub fn map_layout(&self, f: impl FnOnce(&Layout) -> Result<Layout>) -> Result<ComposedLayout> {
        self.with_layout(f(&self.layout)?)
    }

    /// The tile moved by `extra` indices before swizzling.
    pub fn shifted(&self, extra: u64) -> Result<ComposedLayout> {
        let offset = checked_add("composed layout", self.offset, extra)?;
        ComposedLayout::new(self.swizzle, offset, self.layout.clone())
    }

    /// Whether no two coordinates share an index.
    pub fn is_injective(&self) -> bool {
        self.layout.is_injective()
    }

    /// The plain layout, when there is neither swizzle nor offset.
    pub fn as_plain(&self) -> Option<&Layout> {
        (self.swizzle.is_identity() && self.offset == 0).then_some(&self.layout)
    }
}

impl From<Layout> for ComposedLayout {
    fn from(layout: Layout) -> Self {
        ComposedLayout { swizzle: Swizzle::NONE, offset: 0, layout }
    }
}

impl fmt::Display for ComposedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.swizzle == Swizzle::NONE && self.offset == 0 {
            return self.layout.fmt(f);
        }
        write!(f, "{} o {} o {}", self.swizzle, self.offset, self.layout)
    }
}

impl fmt::Debug for ComposedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

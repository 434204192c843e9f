//! What a TMA box leaves in shared memory, and how to fill an operand tile with boxes.
//!
//! From the PTX ISA (`cp.async.bulk.tensor`, "Swizzling modes") and the CUDA driver API
//! (`cuTensorMapEncodeTiled`). The box is packed with its first coordinate fastest; the swizzle
//! permutes the resulting *addresses*, so a destination on the pattern's repeat sees the same
//! permutation as the matrix descriptors.
//!
//! Rules checked here: one to five dimensions; each extent 1 to 256; the first extent times the
//! element size is a multiple of 16 bytes and, with a swizzle, at most the span.

use super::address::SmemOffset;
use super::smem::{Major, SmemSwizzle, SmemTile};
use crate::composed::ComposedLayout;
use crate::error::{LayoutError, Result};
use crate::int_tuple::IntTuple;
use crate::layout::Layout;

/// Largest extent of a box in any dimension.
pub const MAX_BOX: u64 = 256;

/// The box of a tensor map, innermost dimension first.
///
/// ```
/// use layout::hw::{SmemSwizzle, TmaBox};
/// let tma = TmaBox::new(&[64, 128], 16, SmemSwizzle::B128)?;
/// assert_eq!(tma.bytes(), 16384);
/// assert_eq!(tma.layout()?.to_string(), "S<3,3,3> o 0 o (64,128):(1,64)");
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmaBox {
    extents: Vec<u64>,
    element_bits: u64,
    swizzle: SmemSwizzle,
}

impl TmaBox {
    /// A box; see the module's rules.
    pub fn new(extents: &[u64], element_bits: u64, swizzle: SmemSwizzle) -> Result<TmaBox> {
        if !(1..=5).contains(&extents.len()) {
            return Err(LayoutError::hardware(
                "a tensor map has one to five dimensions",
                format!("box of {} dimensions", extents.len()),
            ));
        }
        if let Some(extent) = extents.iter().find(|extent| !(1..=MAX_BOX).contains(*extent)) {
            return Err(LayoutError::hardware(
                "box extents are 1 to 256",
                format!("box extent {extent}"),
            ));
        }
        if !matches!(element_bits, 8 | 16 | 32 | 64) {
            return Err(LayoutError::hardware(
                "tensor map elements have 8, 16, 32 or 64 bits here",
                format!("element of {element_bits} bits"),
            ));
        }
        let line = extents[0] * element_bits / 8;
        if !line.is_multiple_of(16) {
            return Err(LayoutError::hardware(
                "the first box extent must be a multiple of 16 bytes",
                format!("{} elements, {line} bytes", extents[0]),
            ));
        }
        if swizzle != SmemSwizzle::None && line > swizzle.span_bytes() {
            return Err(LayoutError::hardware(
                "the first box extent must not exceed the swizzle span",
                format!("{} elements, {line} bytes, swizzle {swizzle}", extents[0]),
            ));
        }
        Ok(TmaBox { extents: extents.to_vec(), element_bits, swizzle })
    }

    /// Extents, innermost first.
    pub fn extents(&self) -> &[u64] {
        &self.extents
    }

    /// The swizzle mode.
    pub fn swizzle(&self) -> SmemSwizzle {
        self.swizzle
    }

    /// Bytes the copy adds to its mbarrier's transaction count, also where it is out of bounds.
    pub fn bytes(&self) -> u64 {
        self.extents.iter().product::<u64>() * self.element_bits / 8
    }

    /// The layout from box coordinates, innermost first, to element indices at the destination.
    pub fn layout(&self) -> Result<ComposedLayout> {
        let swizzle = self.swizzle.on_bytes().coarser((self.element_bits / 8).trailing_zeros())?;
        ComposedLayout::new(swizzle, 0, Layout::column_major(IntTuple::from(self.extents.clone()))?)
    }
}

/// One TMA copy of an operand tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmaCopy {
    /// First coordinate along the contiguous dimension (box dimension 0).
    pub contiguous: u64,
    /// First coordinate along the other dimension (box dimension 1).
    pub line: u64,
    /// Destination from the start of the tile.
    pub offset: SmemOffset,
}

impl SmemTile {
    /// The two-dimensional box that fills the tile, one span wide.
    ///
    /// Lines are split evenly when there are more than 256.
    pub fn tma_box(&self) -> Result<TmaBox> {
        TmaBox::new(&[self.span(), self.lines_per_box()], self.element_bits(), self.swizzle())
    }

    /// All copies that fill the tile, with box coordinates relative to the tile.
    ///
    /// ```
    /// use layout::hw::{Major, SmemSwizzle, SmemTile};
    /// let keys = SmemTile::new(128, 128, 16, Major::K, SmemSwizzle::B128)?;
    /// let copies = keys.tma_copies()?;
    /// assert_eq!(copies.len(), 2);
    /// assert_eq!((copies[1].contiguous, copies[1].offset.bytes()), (64, 16384));
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn tma_copies(&self) -> Result<Vec<TmaCopy>> {
        let lines_per_box = self.lines_per_box();
        let mut copies = Vec::new();
        for block in 0..self.blocks() {
            for line in (0..self.lines()).step_by(lines_per_box as usize) {
                let bytes = block * self.block_bytes() + line * self.swizzle().span_bytes();
                let offset = SmemOffset::from_bytes(bytes)?;
                copies.push(TmaCopy { contiguous: block * self.span(), line, offset });
            }
        }
        Ok(copies)
    }

    /// The most lines, in whole groups of 8, that one box can carry and that divide the tile.
    fn lines_per_box(&self) -> u64 {
        let groups = self.lines() / 8;
        let most = (1..=MAX_BOX / 8).rev().find(|group| groups.is_multiple_of(*group));
        8 * most.unwrap_or(1)
    }

    /// Box coordinates of element `(mn, k)`: contiguous dimension first.
    pub fn box_coord(&self, mn: u64, k: u64) -> (u64, u64) {
        match self.major() {
            Major::K => (k, mn),
            Major::Mn => (mn, k),
        }
    }
}

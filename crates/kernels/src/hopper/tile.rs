//! Tiles in shared memory as wgmma reads them.
//!
//! A tile of `rows × 64·chunks` 16-bit elements is kept as `chunks` panels of 64 columns: the blocks of
//! a [`SmemTile`] with the 128-byte swizzle, each what TMA writes with a box of 64 columns. Read along
//! its columns (K-major: Q and K) a panel holds four k-steps of 16; read along its rows (MN-major: V)
//! panels are 64 output columns each. Descriptors and steps come from the layout.

use crate::call::tensors::CHUNK;
use layout::hw::{Major, SmemSwizzle, SmemTile};
use ptx::build::{MatrixOperand, Target};

/// Bits of an element.
const ELEMENT_BITS: u32 = 16;

/// A tile's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileShape {
    /// Rows.
    pub rows: u32,
    /// Panels of 64 columns.
    pub chunks: u32,
}

impl TileShape {
    /// The tile of `rows` rows of `dim` elements.
    pub fn new(rows: u32, dim: u32) -> Self {
        TileShape { rows, chunks: dim.div_ceil(CHUNK) }
    }

    /// How its elements lie, as a K-major operand.
    pub fn layout(self) -> SmemTile {
        let (rows, columns) = (self.rows.into(), (self.chunks * CHUNK).into());
        SmemTile::new(rows, columns, ELEMENT_BITS.into(), Major::K, SmemSwizzle::B128)
            .expect("whole panels of whole swizzle atoms")
    }

    /// Bytes of the tile.
    pub fn bytes(self) -> u32 {
        self.layout().bytes() as u32
    }

    /// As a K-major operand: Q, K, and P where it is in shared memory.
    pub fn k_major(self) -> MatrixOperand {
        MatrixOperand::new(Target::Sm90a, self.layout())
    }

    /// As an MN-major operand: V.
    pub fn mn_major(self) -> MatrixOperand {
        MatrixOperand::new(Target::Sm90a, self.layout().transposed())
    }
}

//! Tiles in shared memory as wgmma reads them.
//!
//! A tile of `rows × 64·chunks` 16-bit elements is kept as `chunks` panels of 64 columns. A panel row
//! is 128 bytes; eight rows are one swizzle atom of 1024 bytes, and TMA writes exactly this with a
//! box of 64 columns and the 128-byte swizzle. Read along its columns (K-major: Q and K) a panel
//! holds four k-steps of 16; read along its rows (MN-major: V) panels are 64 output columns each.

use crate::tensors::CHUNK;
use ptx::build::{Builder, Reg, SmemPtr};

/// Bytes of a panel row.
pub const ROW_BYTES: u32 = CHUNK * 2;
/// Bytes of eight panel rows.
const ATOM_BYTES: u32 = 8 * ROW_BYTES;
/// Bits 63:62 of a descriptor: 128-byte swizzle.
const SWIZZLE_128: u64 = 1 << 62;

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

    /// Bytes of one panel.
    pub const fn panel_bytes(self) -> u32 {
        self.rows * ROW_BYTES
    }

    /// Bytes of the tile.
    pub const fn bytes(self) -> u32 {
        self.chunks * self.panel_bytes()
    }

    /// Byte offset of k-step `step` of a K-major operand: 16 columns further on.
    pub const fn k_step(self, step: u32) -> u32 {
        (step / 4) * self.panel_bytes() + (step % 4) * 32
    }

    /// Byte offset of k-step `step` of an MN-major operand: 16 rows further down.
    pub const fn row_step(self, step: u32) -> u32 {
        step * 16 * ROW_BYTES
    }

    /// Descriptor of a K-major operand at `at`.
    #[track_caller]
    pub fn k_major(self, b: &mut Builder, at: SmemPtr) -> Reg<u64> {
        descriptor(b, at, 16, ATOM_BYTES)
    }

    /// Descriptor of an MN-major operand at `at`.
    #[track_caller]
    pub fn mn_major(self, b: &mut Builder, at: SmemPtr) -> Reg<u64> {
        descriptor(b, at, self.panel_bytes(), ATOM_BYTES)
    }
}

/// Matrix descriptor with 128-byte swizzle: leading and stride offsets in bytes.
#[track_caller]
fn descriptor(b: &mut Builder, at: SmemPtr, leading: u32, stride: u32) -> Reg<u64> {
    let fields = SWIZZLE_128 | ((stride as u64 >> 4) << 32) | ((leading as u64 >> 4) << 16);
    let address = b.smem_address(at);
    let address = b.shr(address, 4);
    let address = b.and(address, 0x3fff);
    let address = b.widen(address);
    b.or(address, fields)
}

/// The descriptor `bytes` further on.
#[track_caller]
pub fn advance(b: &mut Builder, descriptor: Reg<u64>, bytes: u32) -> Reg<u64> {
    if bytes == 0 { descriptor } else { b.add(descriptor, (bytes as u64) >> 4) }
}

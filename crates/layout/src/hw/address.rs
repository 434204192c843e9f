//! Addresses of on-chip memories as types, so that a TMEM column cannot be added to a
//! shared-memory byte.

use std::fmt;
use std::ops::Add;

use crate::error::{LayoutError, Result};

/// A byte offset in the shared memory of one CTA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SmemOffset(pub u32);

/// A lane (row) of tensor memory: 0 to 127.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TmemLane(pub u32);

/// A 32-bit column of tensor memory: 0 to 511.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TmemColumn(pub u32);

/// A cell of tensor memory. PTX encodes it as `lane << 16 | column`.
///
/// ```
/// use layout::hw::{TmemAddress, TmemColumn, TmemLane};
/// let p = TmemAddress::new(TmemLane(32), TmemColumn(64))?;
/// assert_eq!(p.encode(), 0x0020_0040);
/// assert_eq!(p.to_string(), "tmem[32,64]");
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TmemAddress {
    /// The row.
    pub lane: TmemLane,
    /// The column.
    pub column: TmemColumn,
}

impl SmemOffset {
    /// An offset from a 64-bit number of bytes; a CTA has at most 228 KiB.
    pub fn from_bytes(bytes: u64) -> Result<SmemOffset> {
        match u32::try_from(bytes) {
            Ok(bytes) if bytes < 1 << 18 => Ok(SmemOffset(bytes)),
            _ => Err(LayoutError::hardware(
                "a shared-memory byte offset has 18 bits",
                format!("offset {bytes}"),
            )),
        }
    }

    /// The offset in bytes.
    pub fn bytes(self) -> u32 {
        self.0
    }
}

impl TmemAddress {
    /// Lanes of tensor memory per CTA.
    pub const LANES: u32 = 128;
    /// 32-bit columns of tensor memory per CTA.
    pub const COLUMNS: u32 = 512;

    /// An address inside the 128 by 512 cells of one CTA.
    pub fn new(lane: TmemLane, column: TmemColumn) -> Result<TmemAddress> {
        if lane.0 >= Self::LANES || column.0 >= Self::COLUMNS {
            return Err(LayoutError::hardware(
                "tensor memory has 128 lanes and 512 columns (PTX ISA, Tensor Memory)",
                format!("tmem[{},{}]", lane.0, column.0),
            ));
        }
        Ok(TmemAddress { lane, column })
    }

    /// The 32-bit form PTX uses.
    pub fn encode(self) -> u32 {
        self.lane.0 << 16 | self.column.0
    }

    /// Reads the 32-bit form PTX uses.
    pub fn decode(bits: u32) -> Result<TmemAddress> {
        TmemAddress::new(TmemLane(bits >> 16), TmemColumn(bits & 0xffff))
    }
}

// Sums saturate: offsets have 18 bits and columns 9, so a sum that does is refused wherever it is
// used as an address.
impl Add for SmemOffset {
    type Output = SmemOffset;
    fn add(self, other: SmemOffset) -> SmemOffset {
        SmemOffset(self.0.saturating_add(other.0))
    }
}

impl Add for TmemColumn {
    type Output = TmemColumn;
    fn add(self, other: TmemColumn) -> TmemColumn {
        TmemColumn(self.0.saturating_add(other.0))
    }
}

impl Add<TmemColumn> for TmemAddress {
    type Output = TmemAddress;
    fn add(self, columns: TmemColumn) -> TmemAddress {
        TmemAddress { lane: self.lane, column: self.column + columns }
    }
}

impl fmt::Display for SmemOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "smem+{}", self.0)
    }
}

impl fmt::Display for TmemColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}", self.0)
    }
}

impl fmt::Display for TmemLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {}", self.0)
    }
}

impl fmt::Display for TmemAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tmem[{},{}]", self.lane.0, self.column.0)
    }
}

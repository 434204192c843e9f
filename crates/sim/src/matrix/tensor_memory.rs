//! Tensor memory: 128 lanes by 512 columns of 32 bits in every CTA.

use super::error::OperandError;
use std::ops::Range;

/// Lanes of tensor memory.
pub const TMEM_LANES: usize = 128;
/// 32-bit columns of tensor memory.
pub const TMEM_COLUMNS: usize = 512;

/// A tensor-memory address, `lane << 16 | column`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmemAddress {
    /// Lane.
    pub lane: usize,
    /// Column.
    pub column: usize,
}

impl From<u32> for TmemAddress {
    fn from(word: u32) -> TmemAddress {
        TmemAddress { lane: (word >> 16) as usize, column: (word & 0xFFFF) as usize }
    }
}

/// A rectangle of tensor memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmemRect {
    /// Lanes.
    pub lanes: Range<usize>,
    /// Columns.
    pub columns: Range<usize>,
}

impl TmemRect {
    /// Fails when the rectangle is not inside tensor memory.
    pub fn check(&self) -> Result<(), OperandError> {
        if self.lanes.end <= TMEM_LANES && self.columns.end <= TMEM_COLUMNS {
            return Ok(());
        }
        OperandError::illegal(format!(
            "tensor-memory lanes {}..{}, columns {}..{} are outside the {TMEM_LANES} lanes by \
             {TMEM_COLUMNS} columns there are",
            self.lanes.start, self.lanes.end, self.columns.start, self.columns.end
        ))
    }
}

/// The contents of a CTA's tensor memory.
#[derive(Clone, Debug)]
pub struct TensorMemory {
    cells: Box<[u32]>,
}

impl Default for TensorMemory {
    fn default() -> TensorMemory {
        TensorMemory { cells: vec![0; TMEM_LANES * TMEM_COLUMNS].into_boxed_slice() }
    }
}

impl TensorMemory {
    /// The columns of a lane.
    pub fn lane(&self, lane: usize) -> &[u32] {
        &self.cells[lane * TMEM_COLUMNS..][..TMEM_COLUMNS]
    }

    /// The columns of a lane.
    pub fn lane_mut(&mut self, lane: usize) -> &mut [u32] {
        &mut self.cells[lane * TMEM_COLUMNS..][..TMEM_COLUMNS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_bounds() {
        let address = TmemAddress::from(0x0060_0010);
        assert_eq!((address.lane, address.column), (96, 16));
        let rect = TmemRect { lanes: 96..128, columns: 500..516 };
        assert!(rect.check().unwrap_err().to_string().contains("columns 500..516"));
        assert!(TmemRect { lanes: 0..128, columns: 0..512 }.check().is_ok());
    }
}

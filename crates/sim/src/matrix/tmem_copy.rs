//! `tcgen05.cp` (shared memory to tensor memory) and `tcgen05.shift`.

use super::error::OperandError;
use super::shared_matrix::{Major, SharedMatrix};
use super::tensor_memory::{TensorMemory, TmemAddress, TmemRect};
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// 128 rows to 128 lanes.
    Full,
    /// 4 rows to the first lane of each quarter.
    Four,
    /// 64 rows, to lanes r and r + 64.
    Pairs02x13,
    /// 64 rows: each half of 32 to two neighbouring quarters.
    Pairs01x23,
    /// 32 rows to all four quarters.
    Quarters,
}

/// A `tcgen05.cp` as its modifiers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmemCopy {
    shape: Shape,
    /// 16-byte chunks of a row.
    chunks: usize,
    /// Width of packed source elements that are spread to bytes.
    decompress: Option<u32>,
}

impl TmemCopy {
    /// Reads the modifiers of a `tcgen05.cp`.
    pub fn from_modifiers<'m>(
        modifiers: impl IntoIterator<Item = &'m str>,
    ) -> Result<TmemCopy, OperandError> {
        let (mut size, mut multicast, mut decompress) = (None, None, None);
        for name in modifiers {
            match name {
                "cp" | "cta_group::1" | "cta_group::2" | "b8x16" => {}
                "128x256b" | "128x128b" | "4x256b" | "64x128b" | "32x128b" => size = Some(name),
                "warpx2::02_13" | "warpx2::01_23" | "warpx4" => multicast = Some(name),
                "b6x16_p32" => decompress = Some(6),
                "b4x16_p64" => decompress = Some(4),
                _ => return OperandError::unsupported(format!("tcgen05.cp with .{name}")),
            }
        }
        let (shape, chunks) = match (size, multicast) {
            (Some("128x256b"), None) => (Shape::Full, 2),
            (Some("128x128b"), None) => (Shape::Full, 1),
            (Some("4x256b"), None) => (Shape::Four, 2),
            (Some("64x128b"), Some("warpx2::02_13")) => (Shape::Pairs02x13, 1),
            (Some("64x128b"), Some("warpx2::01_23")) => (Shape::Pairs01x23, 1),
            (Some("32x128b"), Some("warpx4")) => (Shape::Quarters, 1),
            _ => {
                return OperandError::illegal(format!(
                    "tcgen05.cp with shape {size:?} and multicast {multicast:?} does not exist"
                ));
            }
        };
        Ok(TmemCopy { shape, chunks, decompress })
    }

    const fn rows(&self) -> usize {
        match self.shape {
            Shape::Full => 128,
            Shape::Four => 4,
            Shape::Pairs02x13 | Shape::Pairs01x23 => 64,
            Shape::Quarters => 32,
        }
    }

    /// Lanes a row goes to.
    fn lanes(&self, row: usize) -> Vec<usize> {
        match self.shape {
            Shape::Full => vec![row],
            Shape::Four => vec![32 * row],
            Shape::Pairs02x13 => vec![row, row + 64],
            Shape::Pairs01x23 => {
                let first = row % 32 + row / 32 * 64;
                vec![first, first + 32]
            }
            Shape::Quarters => (0..4).map(|quarter| row + 32 * quarter).collect(),
        }
    }

    /// Shared memory read, and how.
    pub fn shared_footprint(
        &self,
        descriptor: u64,
    ) -> Result<(SharedMatrix, Vec<Range<u32>>), OperandError> {
        let matrix = SharedMatrix::from_sm100(descriptor, Major::K)?;
        // A 16-byte chunk holds 16 bytes whatever their meaning.
        Ok((matrix, matrix.footprint(self.rows(), 16 * self.chunks, super::Element::U8)))
    }

    /// Tensor memory written.
    pub fn rects(&self, address: TmemAddress) -> Vec<TmemRect> {
        let columns = address.column..address.column + 4 * self.chunks;
        let (rows, height) = match self.shape {
            Shape::Four => (4, 1),
            _ => (1, 128),
        };
        let first = (0..rows).map(|row| address.lane + 32 * row);
        first
            .map(|lane| TmemRect { lanes: lane..lane + height, columns: columns.clone() })
            .collect()
    }

    /// Performs the copy within one CTA.
    pub fn execute(
        &self,
        shared: &[u8],
        tensor: &mut TensorMemory,
        descriptor: u64,
        address: TmemAddress,
    ) -> Result<(), OperandError> {
        let matrix = SharedMatrix::from_sm100(descriptor, Major::K)?;
        self.rects(address).iter().try_for_each(TmemRect::check)?;
        for row in 0..self.rows() {
            for chunk in 0..self.chunks {
                let bytes = matrix.read_chunk(shared, chunk as u32, row as u32)?;
                let bytes = self.decompress.map_or(*bytes, |bits| spread(bytes, bits));
                for lane in self.lanes(row) {
                    let cells = &mut tensor.lane_mut(address.lane + lane)[address.column..];
                    for (cell, word) in cells[4 * chunk..].iter_mut().zip(bytes.as_chunks::<4>().0)
                    {
                        *cell = u32::from_le_bytes(*word);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Sixteen packed elements as bytes: 6-bit ones in bits 5:0, 4-bit ones in bits 5:2, where the
/// matrix instructions look for them. (The manual shows both in figures only; the second is how
/// CUTLASS prepares fp4 for the same kind of MMA.)
fn spread(chunk: &[u8; 16], bits: u32) -> [u8; 16] {
    let packed = u128::from_le_bytes(*chunk);
    let mask = (1u8 << bits) - 1;
    std::array::from_fn(|i| {
        let element = (packed >> (bits as usize * i)) as u8 & mask;
        element << if bits == 4 { 2 } else { 0 }
    })
}

/// The part of tensor memory that a `tcgen05.shift` moves down by a lane.
pub fn shifted(address: TmemAddress) -> TmemRect {
    let (lane, column) = (address.lane, address.column);
    TmemRect { lanes: lane..lane + 32, columns: column..column + 8 }
}

/// `tcgen05.shift.down`: within 32 lanes, 8 columns of every lane but the last move one lane up in
/// number; the first lane stays.
///
/// The manual's text does not say which way "down" is. Higher lane numbers are taken: the pairing
/// of `shift` with `cp.4x256b`, which refills the first lane of each quarter, needs that.
pub fn shift_down(tensor: &mut TensorMemory, address: TmemAddress) -> Result<(), OperandError> {
    let rect = shifted(address);
    let columns = rect.columns.clone();
    if !address.lane.is_multiple_of(32) {
        return OperandError::illegal(format!(
            "tcgen05.shift at lane {}: it must be a multiple of 32",
            address.lane
        ));
    }
    rect.check()?;
    for lane in (address.lane..address.lane + 31).rev() {
        let moved: Vec<u32> = tensor.lane(lane)[columns.clone()].to_vec();
        tensor.lane_mut(lane + 1)[columns.clone()].copy_from_slice(&moved);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No swizzle, 16-byte rows in groups of 8, groups of 128 bytes, second chunk 2048 bytes on.
    const DESCRIPTOR: u64 = 1 << 46 | 8 << 32 | 128 << 16;

    fn run(modifiers: &str) -> TensorMemory {
        let copy = TmemCopy::from_modifiers(modifiers.split('.')).unwrap();
        let shared: Vec<u8> = (0..4096u32).flat_map(|i| (i / 4).to_le_bytes()).collect();
        let mut tensor = TensorMemory::default();
        copy.execute(&shared, &mut tensor, DESCRIPTOR, TmemAddress { lane: 0, column: 10 })
            .unwrap();
        tensor
    }

    #[test]
    fn shapes_and_multicasts() {
        // Word 0 of row r, chunk c is the chunk's number r + 128 * c.
        let full = run("cp.cta_group::1.128x256b");
        assert_eq!((full.lane(77)[10], full.lane(77)[14]), (77, 77 + 128));
        let narrow = run("cp.cta_group::1.128x128b");
        assert_eq!((narrow.lane(127)[13], narrow.lane(127)[14]), (127, 0));
        let four = run("cp.cta_group::1.4x256b");
        assert_eq!((four.lane(96)[10], four.lane(3)[10]), (3, 0));
        let pairs = run("cp.cta_group::1.64x128b.warpx2::02_13");
        assert_eq!((pairs.lane(40)[10], pairs.lane(104)[10]), (40, 40));
        let pairs = run("cp.cta_group::1.64x128b.warpx2::01_23");
        assert_eq!((pairs.lane(40)[10], pairs.lane(104)[10], pairs.lane(72)[10]), (8, 40, 40));
        let quarters = run("cp.cta_group::1.32x128b.warpx4");
        assert!((0..128).all(|lane| quarters.lane(lane)[10] == lane as u32 % 32));
    }

    #[test]
    fn decompression() {
        let chunk: [u8; 16] = [0x21, 0x43, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9];
        assert_eq!(spread(&chunk, 4)[..4], [1 << 2, 2 << 2, 3 << 2, 4 << 2]);
        let six = (0..16u128).fold(0, |bits, i| bits | (i + 40) << (6 * i));
        assert_eq!(spread(&six.to_le_bytes(), 6), std::array::from_fn(|i| i as u8 + 40));
    }

    #[test]
    fn shift_moves_lanes_within_a_quarter() {
        let mut tensor = TensorMemory::default();
        (0..128).for_each(|lane| tensor.lane_mut(lane)[4..12].fill(lane as u32));
        shift_down(&mut tensor, TmemAddress { lane: 32, column: 4 }).unwrap();
        assert_eq!([32, 33, 63, 64].map(|lane| tensor.lane(lane)[4]), [32, 32, 62, 64]);
    }

    #[test]
    fn shapes_without_their_multicast_are_refused() {
        let error = TmemCopy::from_modifiers("cp.cta_group::1.32x128b".split('.')).unwrap_err();
        assert!(error.to_string().contains("does not exist"), "{error}");
    }
}

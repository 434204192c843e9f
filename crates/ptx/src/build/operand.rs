//! Operand tiles in shared memory at run time: matrix descriptors, and addresses under a swizzle.
//!
//! Constants come from the layout when the kernel is emitted; what is left to do at run time is to put
//! an address into a descriptor, or a row into an address.

use super::builder::{Builder, Target};
use super::memory::SmemPtr;
use super::value::Reg;
use layout::hw::{Generation, Major, SmemTile};

/// Makes the matrix descriptors of one tile layout.
#[derive(Clone, Copy, Debug)]
pub struct MatrixOperand {
    tile: SmemTile,
    fields: u64,
}

impl MatrixOperand {
    /// Operands that lie as `tile` says, for the tensor cores of `target`.
    pub fn new(target: Target, tile: SmemTile) -> Self {
        let generation = match target {
            Target::Sm80 | Target::Sm86 | Target::Sm89 | Target::Sm120 => {
                panic!("{} has no matrix descriptors", target.name())
            }
            Target::Sm90a => Generation::Hopper,
            Target::Sm100a | Target::Sm103a => Generation::Blackwell,
        };
        let fields = tile.descriptor(generation).unwrap_or_else(|e| panic!("{tile}: {e}"));
        MatrixOperand { tile, fields: fields.encode() }
    }

    /// The descriptor of the tile at `at`.
    #[track_caller]
    pub fn at(&self, b: &mut Builder, at: SmemPtr) -> Reg<u64> {
        let address = b.smem_address(at);
        let address = b.shr(address, 4);
        let address = b.and(address, 0x3fff);
        let address = b.widen(address);
        b.or(address, self.fields)
    }

    /// The descriptor of step `step` along K (32 bytes of every row).
    #[track_caller]
    pub fn step(&self, b: &mut Builder, descriptor: Reg<u64>, step: u32) -> Reg<u64> {
        let advance = self.tile.descriptor_advance(0, step.into()).expect("a step of the tile");
        if advance == 0 { descriptor } else { b.add(descriptor, u64::from(advance)) }
    }
}

/// Where the 16-byte vectors of a row of a K-major tile are: one address per row, then one exclusive or
/// per vector. The swizzle reads only address bits that the row sets, so both parts are constants of
/// the tile.
#[derive(Clone, Copy, Debug)]
pub struct RowVectors {
    tile: SmemTile,
    line: SmemPtr,
    /// What a vector's number in its block is exclusive-ored with, where there is a swizzle.
    mask: Option<Reg<u32>>,
}

/// Bytes of a vector: what a swizzle moves as a whole, and the widest access.
pub const VECTOR_BYTES: u32 = 16;

/// What the swizzle does to the vectors of a tile's row: `(row >> shift) & mask` is exclusive-ored to
/// their numbers. `None` without swizzle.
fn row_swizzle(tile: &SmemTile) -> Option<(u32, u32)> {
    let swizzle = tile.swizzle();
    // The last row of a swizzle atom moves vector 0 furthest: it sets every bit of the mask.
    let last = swizzle.atom_lines() - 1;
    let start = last * swizzle.span_bytes();
    let mask = (swizzle.on_bytes().apply(start) ^ start) / u64::from(VECTOR_BYTES);
    (mask != 0).then(|| ((last / mask).ilog2(), mask as u32))
}

impl RowVectors {
    /// The vectors of row `row` (a register) of a tile at `at`.
    #[track_caller]
    pub fn new(b: &mut Builder, tile: SmemTile, at: SmemPtr, row: Reg<u32>) -> Self {
        assert_eq!(tile.major(), Major::K, "vectors lie along a row of a K-major tile");
        let mask = row_swizzle(&tile).map(|(shift, mask)| {
            let bits = if shift == 0 { row } else { b.shr(row, shift) };
            b.and(bits, mask)
        });
        let base = b.mad(row, tile.swizzle().span_bytes() as u32, at.base);
        RowVectors { tile, line: SmemPtr { base, ..at }, mask }
    }

    /// The same row of a swizzled tile, from vector `vector` (a register) of each block on. Vectors asked for
    /// next must be numbered by bits that `vector` does not set: their sum is one exclusive or.
    #[track_caller]
    pub fn from_vector(&self, b: &mut Builder, vector: Reg<u32>) -> Self {
        let mask = self.mask.expect("without a swizzle a block is one vector wide");
        RowVectors { mask: Some(b.xor(mask, vector)), ..*self }
    }

    /// The address of the vector that begins at `column`.
    #[track_caller]
    pub fn vector(&self, b: &mut Builder, column: u32) -> SmemPtr {
        let start = self.tile.offset(0, column.into()).expect("a column of the tile").bytes();
        let within = start % self.tile.swizzle().span_bytes() as u32;
        let block = start - within;
        match self.mask {
            None => self.line.plus(start),
            Some(mask) => {
                let vector = b.xor(mask, within / VECTOR_BYTES);
                let base = b.mad(vector, VECTOR_BYTES, self.line.base);
                SmemPtr { base, ..self.line }.plus(block)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::hw::SmemSwizzle;

    #[test]
    fn units_of_a_row_lie_where_the_layout_says() {
        for swizzle in [SmemSwizzle::None, SmemSwizzle::B32, SmemSwizzle::B64, SmemSwizzle::B128] {
            let tile = SmemTile::new(128, 128, 16, Major::K, swizzle).expect("a tile");
            let span = swizzle.span_bytes() as u32;
            for row in 0..128u32 {
                for column in (0..128).step_by(VECTOR_BYTES as usize / 2) {
                    let start = tile.offset(0, column).expect("in the tile").bytes();
                    let within = start % span;
                    let mask = row_swizzle(&tile).map_or(0, |(shift, mask)| row >> shift & mask);
                    let vector = mask ^ (within / VECTOR_BYTES);
                    let ours = row * span + vector * VECTOR_BYTES + (start - within);
                    let wanted = tile.offset(row.into(), column).expect("in the tile").bytes();
                    assert_eq!(ours, wanted, "row {row}, column {column}, swizzle {swizzle}");
                }
            }
        }
    }
}

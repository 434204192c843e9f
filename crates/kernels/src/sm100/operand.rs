//! Operands of tcgen05.mma: descriptors of tiles in shared memory, and the instruction's shape.

use super::config::{ELEMENT_BITS, ROWS};
use layout::hw::{Generation, InstructionDescriptor, Major, MmaKind, OperandType, SmemTile};
use ptx::build::{Builder, HalfType, Reg, SmemPtr};

/// An operand tile in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    tile: SmemTile,
    fields: u64,
}

impl Operand {
    /// The operand that `tile` describes.
    pub fn new(tile: SmemTile) -> Self {
        let descriptor = tile.descriptor(Generation::Blackwell).expect("a canonical layout");
        Operand { tile, fields: descriptor.encode() }
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

    /// The descriptor of step `step` along K (16 elements each).
    #[track_caller]
    pub fn step(&self, b: &mut Builder, descriptor: Reg<u64>, step: u32) -> Reg<u64> {
        let advance = self.tile.descriptor_advance(0, step.into()).expect("a step of the tile");
        if advance == 0 { descriptor } else { b.add(descriptor, u64::from(advance)) }
    }
}

/// The instruction descriptor of a 128 × `columns` product; `b_major` is the contiguous dimension of
/// its right operand.
pub fn instruction(half: HalfType, columns: u32, b_major: Major) -> u32 {
    let operand = match half {
        HalfType::Bf16 => OperandType::Bf16,
        HalfType::F16 => OperandType::F16,
    };
    let shape = InstructionDescriptor::new(MmaKind::F16, operand, operand, ROWS, columns);
    let shape = InstructionDescriptor { b_major, ..shape };
    shape.encode().expect("a shape the instruction has")
}

/// Where the 16-byte units of a row go in a K-major tile: one address per row, then one exclusive or
/// per unit. The swizzle reads only address bits that the row sets, so both parts are constants of
/// the tile.
#[derive(Clone, Copy, Debug)]
pub struct RowUnits {
    tile: SmemTile,
    line: SmemPtr,
    mask: Option<Reg<u32>>,
}

/// Elements of a 16-byte unit.
pub const UNIT: u32 = 128 / ELEMENT_BITS as u32;

/// What the swizzle does to a tile's row: the bits of the row's address it reads, and how far down
/// they move. `None` without swizzle.
fn row_swizzle(tile: &SmemTile) -> Option<(u32, u32)> {
    let span = tile.swizzle().span_bytes() as u32;
    // The row of a swizzle atom that moves unit 0 furthest sets every bit of the mask.
    let last = tile.swizzle().atom_lines() - 1;
    let moved = tile.swizzle().on_bytes().apply(last * u64::from(span)) as u32;
    let mask = moved ^ (last as u32 * span);
    let source = last as u32 * span;
    (mask != 0).then(|| {
        (mask, (source.leading_zeros() as i32 - mask.leading_zeros() as i32).unsigned_abs())
    })
}

impl RowUnits {
    /// The units of row `row` (a register) of a tile at `at`.
    #[track_caller]
    pub fn new(b: &mut Builder, tile: SmemTile, at: SmemPtr, row: Reg<u32>) -> Self {
        assert_eq!(tile.major(), Major::K, "units lie along a row of a K-major tile");
        let offset = b.mul(row, tile.swizzle().span_bytes() as u32);
        let mask = row_swizzle(&tile).map(|(mask, shift)| {
            let moved = b.shr(offset, shift);
            b.and(moved, mask)
        });
        RowUnits { tile, line: b.smem_add(at, offset), mask }
    }

    /// The address of the unit that begins at `column`.
    #[track_caller]
    pub fn unit(&self, b: &mut Builder, column: u32) -> SmemPtr {
        let start = self.tile.offset(0, column.into()).expect("a column of the tile").bytes();
        let within = start % self.tile.swizzle().span_bytes() as u32;
        let block = start - within;
        match self.mask {
            None => self.line.plus(start),
            Some(mask) => {
                let moved = b.xor(mask, within);
                b.smem_add(self.line, moved).plus(block)
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
            let tile = SmemTile::new(128, 128, ELEMENT_BITS, Major::K, swizzle).expect("a tile");
            let span = swizzle.span_bytes() as u32;
            for row in 0..128u32 {
                for column in (0..128).step_by(UNIT as usize) {
                    let start = tile.offset(0, column).expect("in the tile").bytes();
                    let within = start % span;
                    let mask =
                        row_swizzle(&tile).map_or(0, |(mask, shift)| (row * span) >> shift & mask);
                    let ours = row * span + (mask ^ within) + (start - within);
                    let wanted = tile.offset(row.into(), column).expect("in the tile").bytes();
                    assert_eq!(ours, wanted, "row {row}, column {column}, swizzle {swizzle}");
                }
            }
        }
    }

    #[test]
    fn storing_a_row_per_thread_is_wide_and_free_of_conflicts() {
        use layout::hw::{TmemAccess, TmemShape};
        let rows = TmemAccess::new(TmemShape::S32x32b, 128).and_then(|a| a.warpgroup_tv());
        for swizzle in [SmemSwizzle::None, SmemSwizzle::B128] {
            let tile = SmemTile::new(128, 128, ELEMENT_BITS, Major::K, swizzle).expect("a tile");
            let layout = tile.layout().expect("a layout");
            let store = layout::transform(rows.clone().expect("rows"), layout, ELEMENT_BITS)
                .expect("the same elements");
            assert!(store.is_bijection());
            assert_eq!(store.vector_bits(), 128);
            assert_eq!(store.conflict_degree(), Ok(1));
        }
    }
}

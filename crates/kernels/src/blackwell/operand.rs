//! Operands of tcgen05.mma: elements, and the instruction's shape.

use super::config::{ELEMENT_BITS, ROWS};
use layout::hw::{InstructionDescriptor, Major, MmaKind, OperandType};
use ptx::build::{HalfType, VECTOR_BYTES};

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

/// Elements of a 16-byte vector.
pub const VECTOR: u32 = VECTOR_BYTES * 8 / ELEMENT_BITS as u32;

#[cfg(test)]
mod tests {
    use super::*;
    use layout::hw::{SmemSwizzle, SmemTile};

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

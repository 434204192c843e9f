use crate::matrix::OperandError;
use crate::numeric::{Format, Rounding, add_narrow, canonical};
use program::ElementType;

/// The operation of a `cp.reduce.async.bulk`, `red` or `atom`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Sum.
    Add,
    /// Smaller one.
    Min,
    /// Larger one.
    Max,
    /// `old >= operand ? 0 : old + 1`.
    Inc,
    /// `old == 0 || old > operand ? operand : old - 1`.
    Dec,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
}

impl ReduceOp {
    /// The operation a modifier names.
    pub fn from_modifier(name: &str) -> Option<ReduceOp> {
        Some(match name {
            "add" => ReduceOp::Add,
            "min" => ReduceOp::Min,
            "max" => ReduceOp::Max,
            "inc" => ReduceOp::Inc,
            "dec" => ReduceOp::Dec,
            "and" => ReduceOp::And,
            "or" => ReduceOp::Or,
            "xor" => ReduceOp::Xor,
            _ => return None,
        })
    }
}

/// The type a reduction works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReduceType {
    U32,
    S32,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    F64,
}

impl ReduceType {
    /// The type a modifier names; bit types count as unsigned.
    pub fn from_modifier(name: &str) -> Option<ReduceType> {
        Some(match name {
            "u32" | "b32" => ReduceType::U32,
            "s32" => ReduceType::S32,
            "u64" | "b64" => ReduceType::U64,
            "s64" => ReduceType::S64,
            "f16" => ReduceType::F16,
            "bf16" => ReduceType::Bf16,
            "f32" => ReduceType::F32,
            "f64" => ReduceType::F64,
            _ => return None,
        })
    }

    /// The type of a tensor map's elements.
    pub fn of_element(element: ElementType) -> Result<ReduceType, OperandError> {
        Ok(match element {
            ElementType::U32 => ReduceType::U32,
            ElementType::S32 => ReduceType::S32,
            ElementType::U64 => ReduceType::U64,
            ElementType::S64 => ReduceType::S64,
            ElementType::F16 => ReduceType::F16,
            ElementType::Bf16 => ReduceType::Bf16,
            ElementType::F32 | ElementType::F32Ftz | ElementType::Tf32 | ElementType::Tf32Ftz => {
                ReduceType::F32
            }
            ElementType::F64 => ReduceType::F64,
            ElementType::U8
            | ElementType::U16
            | ElementType::B4x16
            | ElementType::B4x16P64
            | ElementType::B6x16P32 => {
                return OperandError::illegal(format!("no reduction over {element:?} elements"));
            }
        })
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            ReduceType::F16 | ReduceType::Bf16 => 2,
            ReduceType::U32 | ReduceType::S32 | ReduceType::F32 => 4,
            _ => 8,
        }
    }
}

/// Replaces each element of `memory` by its combination with that of `operand`.
pub fn reduce(
    op: ReduceOp,
    ty: ReduceType,
    memory: &mut [u8],
    operand: &[u8],
) -> Result<(), OperandError> {
    let size = ty.bytes();
    for (old, new) in memory.chunks_exact_mut(size).zip(operand.chunks_exact(size)) {
        let result = combine(op, ty, word(old), word(new))?;
        old.copy_from_slice(&result.to_le_bytes()[..size]);
    }
    Ok(())
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn combine(op: ReduceOp, ty: ReduceType, old: u64, new: u64) -> Result<u64, OperandError> {
    use ReduceType::*;
    Ok(match (op, ty) {
        (ReduceOp::And, U32 | S32 | U64 | S64) => old & new,
        (ReduceOp::Or, U32 | S32 | U64 | S64) => old | new,
        (ReduceOp::Xor, U32 | S32 | U64 | S64) => old ^ new,
        (ReduceOp::Inc, U32) => {
            if old >= new {
                0
            } else {
                old + 1
            }
        }
        (ReduceOp::Dec, U32) => {
            if old == 0 || old > new {
                new
            } else {
                old - 1
            }
        }
        (ReduceOp::Add, U32 | S32 | U64 | S64) => old.wrapping_add(new),
        (ReduceOp::Min, U32 | U64) => old.min(new),
        (ReduceOp::Max, U32 | U64) => old.max(new),
        (ReduceOp::Min, S32) => (old as i32).min(new as i32) as u64,
        (ReduceOp::Max, S32) => (old as i32).max(new as i32) as u64,
        (ReduceOp::Min, S64) => (old as i64).min(new as i64) as u64,
        (ReduceOp::Max, S64) => (old as i64).max(new as i64) as u64,
        (ReduceOp::Add, F32) => {
            let sum = f32::from_bits(old as u32) + f32::from_bits(new as u32);
            u64::from(canonical(sum).to_bits())
        }
        (ReduceOp::Add, F64) => (f64::from_bits(old) + f64::from_bits(new)).to_bits(),
        (_, F16) => narrow(op, ty, Format::F16, old, new)?,
        (_, Bf16) => narrow(op, ty, Format::BF16, old, new)?,
        _ => return OperandError::illegal(format!("reduction {op:?} over {ty:?} does not exist")),
    })
}

fn narrow(
    op: ReduceOp,
    ty: ReduceType,
    format: Format,
    old: u64,
    new: u64,
) -> Result<u64, OperandError> {
    let (a, b) = (format.decode(old as u32), format.decode(new as u32));
    Ok(match op {
        ReduceOp::Add => u64::from(add_narrow(format, old as u32, new as u32, Rounding::Nearest)),
        // A NaN loses against a number.
        ReduceOp::Min => {
            if b < a || a.is_nan() {
                new
            } else {
                old
            }
        }
        ReduceOp::Max => {
            if b > a || a.is_nan() {
                new
            } else {
                old
            }
        }
        _ => return OperandError::illegal(format!("reduction {op:?} over {ty:?} does not exist")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(op: ReduceOp, ty: ReduceType, old: u64, new: u64) -> u64 {
        let size = ty.bytes();
        let mut memory = old.to_le_bytes()[..size].to_vec();
        reduce(op, ty, &mut memory, &new.to_le_bytes()[..size]).unwrap();
        word(&memory)
    }

    #[test]
    fn integers() {
        assert_eq!(one(ReduceOp::Add, ReduceType::U32, 0xFFFF_FFFF, 2), 1);
        assert_eq!(one(ReduceOp::Min, ReduceType::S32, 0xFFFF_FFFF, 2), 0xFFFF_FFFF);
        assert_eq!(one(ReduceOp::Min, ReduceType::U32, 0xFFFF_FFFF, 2), 2);
        assert_eq!(one(ReduceOp::Inc, ReduceType::U32, 7, 7), 0);
        assert_eq!(one(ReduceOp::Inc, ReduceType::U32, 6, 7), 7);
        assert_eq!(one(ReduceOp::Dec, ReduceType::U32, 0, 7), 7);
        assert_eq!(one(ReduceOp::Max, ReduceType::S64, u64::MAX, 0), 0);
        assert_eq!(one(ReduceOp::Xor, ReduceType::U64, 5, 3), 6);
    }

    #[test]
    fn floats() {
        let bits = |x: f32| u64::from(x.to_bits());
        assert_eq!(one(ReduceOp::Add, ReduceType::F32, bits(1.5), bits(2.0)), bits(3.5));
        assert_eq!(one(ReduceOp::Add, ReduceType::F16, 0x3C00, 0x4000), 0x4200);
        assert_eq!(one(ReduceOp::Max, ReduceType::Bf16, 0x3F80, 0xC000), 0x3F80);
        assert_eq!(one(ReduceOp::Min, ReduceType::F16, 0x7FFF, 0x3C00), 0x3C00);
        let error = reduce(ReduceOp::Min, ReduceType::F32, &mut [0; 4], &[0; 4]).unwrap_err();
        assert!(error.to_string().contains("Min over F32 does not exist"));
    }
}

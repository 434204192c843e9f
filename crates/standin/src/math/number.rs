//! Types of numbers, as `cudaDataType` numbers them.

use crate::result::{CudaResult, Outcome};
use half::{bf16, f16};

/// A type of numbers in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// 32 bits.
    F32,
    /// 64 bits.
    F64,
    /// IEEE's 16 bits.
    F16,
    /// The upper half of 32 bits.
    Bf16,
}

impl Number {
    /// The type that a program names.
    pub fn of(kind: u32) -> Outcome<Number> {
        match kind {
            0 => Ok(Number::F32),
            1 => Ok(Number::F64),
            2 => Ok(Number::F16),
            14 => Ok(Number::Bf16),
            _ => Err(CudaResult::NOT_SUPPORTED),
        }
    }

    /// The type of the factors of a product, by the type that it is computed in (`cublasComputeType_t`).
    pub fn of_factors(computed_in: u32) -> Outcome<Number> {
        match computed_in {
            64 | 65 => Ok(Number::F16),
            68 | 69 | 74 | 75 | 77 => Ok(Number::F32),
            70 | 71 => Ok(Number::F64),
            _ => Err(CudaResult::NOT_SUPPORTED),
        }
    }

    /// Bytes of one.
    pub fn bytes(self) -> u64 {
        match self {
            Number::F16 | Number::Bf16 => 2,
            Number::F32 => 4,
            Number::F64 => 8,
        }
    }

    /// Numbers from their bytes.
    pub fn read(self, bytes: &[u8]) -> Vec<f64> {
        fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
            bytes.as_chunks().0.iter().map(|chunk| read(*chunk)).collect()
        }
        match self {
            Number::F16 => each(bytes, |chunk| f16::from_le_bytes(chunk).into()),
            Number::Bf16 => each(bytes, |chunk| bf16::from_le_bytes(chunk).into()),
            Number::F32 => each(bytes, |chunk| f32::from_le_bytes(chunk).into()),
            Number::F64 => each(bytes, f64::from_le_bytes),
        }
    }

    /// The bytes of a number, rounded to the nearest.
    pub fn write(self, value: f64, to: &mut Vec<u8>) {
        match self {
            Number::F16 => to.extend(f16::from_f64(value).to_le_bytes()),
            Number::Bf16 => to.extend(bf16::from_f64(value).to_le_bytes()),
            Number::F32 => to.extend((value as f32).to_le_bytes()),
            Number::F64 => to.extend(value.to_le_bytes()),
        }
    }
}

use crate::{DType, E4m3, HostMut, HostRef};
use half::{bf16, f16};

/// Host memory that owns its elements.
#[derive(Clone, Debug, PartialEq)]
pub enum HostVec {
    /// f64 elements.
    F64(Vec<f64>),
    /// f32 elements.
    F32(Vec<f32>),
    /// f16 elements.
    F16(Vec<f16>),
    /// bf16 elements.
    Bf16(Vec<bf16>),
    /// e4m3 elements.
    E4m3(Vec<E4m3>),
    /// i32 elements.
    I32(Vec<i32>),
    /// Bytes of a packed row format, or of a boolean mask.
    U8(Vec<u8>),
}

impl HostVec {
    /// `len` elements of `dtype`, all `value` (rounded to nearest even).
    pub fn filled(dtype: DType, len: usize, value: f32) -> Self {
        match dtype {
            DType::F64 => HostVec::F64(vec![value.into(); len]),
            DType::F32 => HostVec::F32(vec![value; len]),
            DType::F16 => HostVec::F16(vec![f16::from_f32(value); len]),
            DType::Bf16 => HostVec::Bf16(vec![bf16::from_f32(value); len]),
            DType::E4m3 => HostVec::E4m3(vec![E4m3::from_f32(value); len]),
        }
    }

    /// Little-endian elements of `dtype`; a partial element at the end is dropped.
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Self {
        let halves = || bytes.as_chunks::<2>().0.iter();
        match dtype {
            DType::F64 => HostVec::F64(
                bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            ),
            DType::F32 => HostVec::F32(
                bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            ),
            DType::F16 => HostVec::F16(halves().map(|b| f16::from_le_bytes(*b)).collect()),
            DType::Bf16 => HostVec::Bf16(halves().map(|b| bf16::from_le_bytes(*b)).collect()),
            DType::E4m3 => HostVec::E4m3(bytes.iter().map(|b| E4m3::from_bits(*b)).collect()),
        }
    }

    /// The elements as little-endian bytes, as a device holds them.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.as_ref().to_bytes()
    }

    /// Writes `value`, rounded to nearest even, at `index`.
    ///
    /// # Panics
    /// If `index` is out of range or the elements are not floating-point numbers.
    pub fn set(&mut self, index: usize, value: impl Into<f64>) {
        match self.as_mut() {
            Some(mut memory) => memory.set(index, value),
            None => panic!("not a floating-point tensor"),
        }
    }

    /// The elements, to read.
    pub fn as_ref(&self) -> HostRef<'_> {
        match self {
            HostVec::F64(v) => HostRef::F64(v),
            HostVec::F32(v) => HostRef::F32(v),
            HostVec::F16(v) => HostRef::F16(v),
            HostVec::Bf16(v) => HostRef::Bf16(v),
            HostVec::E4m3(v) => HostRef::E4m3(v),
            HostVec::I32(v) => HostRef::I32(v),
            HostVec::U8(v) => HostRef::U8(v),
        }
    }

    /// The elements, to write; `None` for integers and bytes, which no engine writes.
    pub fn as_mut(&mut self) -> Option<HostMut<'_>> {
        match self {
            HostVec::F64(v) => Some(HostMut::F64(v)),
            HostVec::F32(v) => Some(HostMut::F32(v)),
            HostVec::F16(v) => Some(HostMut::F16(v)),
            HostVec::Bf16(v) => Some(HostMut::Bf16(v)),
            HostVec::E4m3(v) => Some(HostMut::E4m3(v)),
            HostVec::I32(_) | HostVec::U8(_) => None,
        }
    }
}

use crate::{DType, E4m3, Element, Slot};
use half::{bf16, f16};

/// Host memory to read a slot from.
#[derive(Clone, Copy, Debug)]
pub enum HostRef<'a> {
    /// f64 elements.
    F64(&'a [f64]),
    /// f32 elements.
    F32(&'a [f32]),
    /// f16 elements.
    F16(&'a [f16]),
    /// bf16 elements.
    Bf16(&'a [bf16]),
    /// e4m3 elements.
    E4m3(&'a [E4m3]),
    /// i32 elements (offsets, lengths, tables).
    I32(&'a [i32]),
    /// Bytes of a packed row format (see [`Storage`](crate::Storage)), or of a boolean mask.
    U8(&'a [u8]),
}

/// Host memory to write a slot to.
#[derive(Debug)]
pub enum HostMut<'a> {
    /// f64 elements.
    F64(&'a mut [f64]),
    /// f32 elements.
    F32(&'a mut [f32]),
    /// f16 elements.
    F16(&'a mut [f16]),
    /// bf16 elements.
    Bf16(&'a mut [bf16]),
    /// e4m3 elements.
    E4m3(&'a mut [E4m3]),
}

macro_rules! from_slices {
    ($($variant:ident $element:ty),*) => {$(
        impl<'a> From<&'a [$element]> for HostRef<'a> {
            fn from(slice: &'a [$element]) -> Self { HostRef::$variant(slice) }
        }
        impl<'a> From<&'a Vec<$element>> for HostRef<'a> {
            fn from(vec: &'a Vec<$element>) -> Self { HostRef::$variant(vec) }
        }
    )*};
}
macro_rules! from_mut_slices {
    ($($variant:ident $element:ty),*) => {$(
        impl<'a> From<&'a mut [$element]> for HostMut<'a> {
            fn from(slice: &'a mut [$element]) -> Self { HostMut::$variant(slice) }
        }
        impl<'a> From<&'a mut Vec<$element>> for HostMut<'a> {
            fn from(vec: &'a mut Vec<$element>) -> Self { HostMut::$variant(vec) }
        }
    )*};
}
from_slices!(F64 f64, F32 f32, F16 f16, Bf16 bf16, E4m3 E4m3, I32 i32, U8 u8);
from_mut_slices!(F64 f64, F32 f32, F16 f16, Bf16 bf16, E4m3 E4m3);

impl HostRef<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            HostRef::F64(s) => s.len(),
            HostRef::F32(s) => s.len(),
            HostRef::F16(s) => s.len(),
            HostRef::Bf16(s) => s.len(),
            HostRef::E4m3(s) => s.len(),
            HostRef::I32(s) => s.len(),
            HostRef::U8(s) => s.len(),
        }
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element `index` as f64.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn get(&self, index: usize) -> f64 {
        match self {
            HostRef::F64(s) => s[index],
            HostRef::F32(s) => s[index] as f64,
            HostRef::F16(s) => s[index].to_f64(),
            HostRef::Bf16(s) => s[index].to_f64(),
            HostRef::E4m3(s) => s[index].to_f32() as f64,
            HostRef::I32(s) => s[index] as f64,
            HostRef::U8(s) => s[index] as f64,
        }
    }

    /// The elements as little-endian bytes, as a device holds them.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            HostRef::F64(s) => s.iter().flat_map(|x| x.to_le_bytes()).collect(),
            HostRef::F32(s) => s.iter().flat_map(|x| x.to_le_bytes()).collect(),
            HostRef::F16(s) => s.iter().flat_map(|x| x.to_le_bytes()).collect(),
            HostRef::Bf16(s) => s.iter().flat_map(|x| x.to_le_bytes()).collect(),
            HostRef::E4m3(s) => s.iter().map(|x| x.to_bits()).collect(),
            HostRef::I32(s) => s.iter().flat_map(|x| x.to_le_bytes()).collect(),
            HostRef::U8(s) => s.to_vec(),
        }
    }

    /// What the elements are.
    pub fn element(&self) -> Element {
        match self {
            HostRef::F64(_) => Element::Float(DType::F64),
            HostRef::F32(_) => Element::Float(DType::F32),
            HostRef::F16(_) => Element::Float(DType::F16),
            HostRef::Bf16(_) => Element::Float(DType::Bf16),
            HostRef::E4m3(_) => Element::Float(DType::E4m3),
            HostRef::I32(_) => Element::I32,
            HostRef::U8(_) => Element::U8,
        }
    }

    /// The floating-point type, `None` for integers and bytes.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            HostRef::F64(_) => Some(DType::F64),
            HostRef::F32(_) => Some(DType::F32),
            HostRef::F16(_) => Some(DType::F16),
            HostRef::Bf16(_) => Some(DType::Bf16),
            HostRef::E4m3(_) => Some(DType::E4m3),
            HostRef::I32(_) | HostRef::U8(_) => None,
        }
    }
}

impl HostMut<'_> {
    /// The same memory, to read.
    pub fn as_ref(&self) -> HostRef<'_> {
        match self {
            HostMut::F64(s) => HostRef::F64(s),
            HostMut::F32(s) => HostRef::F32(s),
            HostMut::F16(s) => HostRef::F16(s),
            HostMut::Bf16(s) => HostRef::Bf16(s),
            HostMut::E4m3(s) => HostRef::E4m3(s),
        }
    }

    /// Writes `value`, rounded to nearest even, at `index`.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn set(&mut self, index: usize, value: impl Into<f64>) {
        let value = value.into();
        match self {
            HostMut::F64(s) => s[index] = value,
            HostMut::F32(s) => s[index] = value as f32,
            HostMut::F16(s) => s[index] = f16::from_f64(value),
            HostMut::Bf16(s) => s[index] = bf16::from_f64(value),
            HostMut::E4m3(s) => s[index] = E4m3::from_f32(value as f32),
        }
    }

    /// Overwrites the leading elements with little-endian bytes.
    pub fn copy_from_bytes(&mut self, bytes: &[u8]) {
        let halves = bytes.as_chunks::<2>().0.iter();
        match self {
            HostMut::F64(s) => {
                let words = bytes.as_chunks::<8>().0.iter();
                s.iter_mut().zip(words).for_each(|(x, b)| *x = f64::from_le_bytes(*b));
            }
            HostMut::F32(s) => {
                let words = bytes.as_chunks::<4>().0.iter();
                s.iter_mut().zip(words).for_each(|(x, b)| *x = f32::from_le_bytes(*b));
            }
            HostMut::F16(s) => {
                s.iter_mut().zip(halves).for_each(|(x, b)| *x = f16::from_le_bytes(*b));
            }
            HostMut::Bf16(s) => {
                s.iter_mut().zip(halves).for_each(|(x, b)| *x = bf16::from_le_bytes(*b));
            }
            HostMut::E4m3(s) => {
                s.iter_mut().zip(bytes).for_each(|(x, b)| *x = E4m3::from_bits(*b));
            }
        }
    }
}

/// Host memory for the slots of a problem.
#[derive(Debug, Default)]
pub struct HostBuffers<'a> {
    inputs: Vec<(Slot, HostRef<'a>)>,
    outputs: Vec<(Slot, HostMut<'a>)>,
}

impl<'a> HostBuffers<'a> {
    /// No memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads `slot` from `memory`.
    pub fn input(mut self, slot: Slot, memory: impl Into<HostRef<'a>>) -> Self {
        self.inputs.push((slot, memory.into()));
        self
    }

    /// Writes `slot` to `memory`.
    pub fn output(mut self, slot: Slot, memory: impl Into<HostMut<'a>>) -> Self {
        self.outputs.push((slot, memory.into()));
        self
    }

    /// The memory `slot` is read from.
    pub fn get(&self, slot: Slot) -> Option<HostRef<'a>> {
        self.inputs.iter().find(|(s, _)| *s == slot).map(|(_, memory)| *memory)
    }

    /// Every slot that is written, with its memory.
    pub fn outputs_mut(&mut self) -> impl Iterator<Item = (Slot, &mut HostMut<'a>)> {
        self.outputs.iter_mut().map(|(slot, memory)| (*slot, memory))
    }

    /// The memory `slot` is written to.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut HostMut<'a>> {
        self.outputs.iter_mut().find(|(s, _)| *s == slot).map(|(_, memory)| memory)
    }
}

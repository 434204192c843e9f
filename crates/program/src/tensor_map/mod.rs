//! Tensor maps: what a TMA copy is told about global memory.

pub mod check;
pub mod descriptor;
#[cfg(test)]
mod tests;

pub use descriptor::{DecodeError, MAX_RANK, TensorDescriptor};

use crate::BufferId;

/// Element types of a tensor map (those the attention kernels and common GEMMs use).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 8-bit integers and fp8.
    U8,
    /// 16-bit integers.
    U16,
    /// 32-bit unsigned integers.
    U32,
    /// 32-bit signed integers.
    S32,
    /// 64-bit unsigned integers.
    U64,
    /// 64-bit signed integers.
    S64,
    /// Half precision.
    F16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// bfloat16.
    Bf16,
    /// Single precision, subnormals flushed to zero.
    F32Ftz,
    /// f32 rounded to tf32 on the way.
    Tf32,
    /// f32 rounded to tf32, subnormals flushed to zero.
    Tf32Ftz,
    /// 4-bit numbers, two per byte in both memories.
    B4x16,
    /// 4-bit numbers; in shared memory 8 bytes of padding follow each 16 of them.
    B4x16P64,
    /// 6-bit numbers; in shared memory 4 bytes of padding follow each 16 of them.
    B6x16P32,
}

impl ElementType {
    /// All element types.
    pub const ALL: [ElementType; 16] = {
        use ElementType::*;
        [
            U8, U16, U32, S32, U64, S64, F16, F32, F64, Bf16, F32Ftz, Tf32, Tf32Ftz, B4x16,
            B4x16P64, B6x16P32,
        ]
    };

    /// Bits of one element in global memory.
    pub const fn bits(self) -> u64 {
        use ElementType::*;
        match self {
            B4x16 | B4x16P64 => 4,
            B6x16P32 => 6,
            U8 => 8,
            U16 | F16 | Bf16 => 16,
            U32 | S32 | F32 | F32Ftz | Tf32 | Tf32Ftz => 32,
            U64 | S64 | F64 => 64,
        }
    }

    /// Bytes that `elements` neighbours take in global memory, saturating.
    pub const fn bytes_of(self, elements: u64) -> u64 {
        elements.saturating_mul(self.bits()).div_ceil(8)
    }

    /// Bytes that `elements` neighbours take in shared memory, padding included, saturating.
    pub const fn shared_bytes_of(self, elements: u64) -> u64 {
        match self.padded_unit() {
            Some(_) => elements.next_multiple_of(16),
            None => self.bytes_of(elements),
        }
    }

    /// Where 16 elements fill 16 bytes of shared memory only in part: the bytes they do fill.
    pub const fn padded_unit(self) -> Option<u64> {
        match self {
            ElementType::B4x16P64 | ElementType::B6x16P32 => Some(self.bits() * 2),
            _ => None,
        }
    }

    /// Whether elements are floating-point numbers.
    pub const fn is_float(self) -> bool {
        use ElementType::*;
        matches!(self, F16 | F32 | F64 | Bf16 | F32Ftz | Tf32 | Tf32Ftz)
    }
}

/// How a copy permutes 16-byte chunks in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// Rows as they are.
    None,
    /// Within 32 bytes.
    B32,
    /// Within 64 bytes.
    B64,
    /// Within 128 bytes.
    B128,
    /// Within 128 bytes in units of 32 bytes (sm_100 and later).
    B128Atom32,
    /// As [`Swizzle::B128Atom32`], and 8-byte halves swapped on odd lines.
    B128Atom32Flip8,
    /// Within 128 bytes in units of 64 bytes (sm_100 and later).
    B128Atom64,
}

impl Swizzle {
    /// All swizzles.
    pub const ALL: [Swizzle; 7] = {
        use Swizzle::*;
        [None, B32, B64, B128, B128Atom32, B128Atom32Flip8, B128Atom64]
    };

    /// Whether only `sm_100` and later have it.
    pub const fn needs_sm100(self) -> bool {
        use Swizzle::*;
        matches!(self, B128Atom32 | B128Atom32Flip8 | B128Atom64)
    }

    /// The most bytes a box row may have, `None` without swizzle.
    pub const fn span(self) -> Option<u64> {
        match self {
            Swizzle::None => None,
            Swizzle::B32 => Some(32),
            Swizzle::B64 => Some(64),
            _ => Some(128),
        }
    }
}

/// What a load writes where a box reaches outside the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OobFill {
    /// Zero.
    Zero,
    /// A NaN that arithmetic treats as zero (floats only).
    Nan,
}

/// How much of a line L2 fetches at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum L2Promotion {
    /// As asked for.
    None,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
}

/// The box that the pixels of an im2col copy come from, in dimensions 1 to rank − 2 (width first).
///
/// A copy takes pixels one after the other, dimension 1 fastest, and steps from one image to the next
/// behind the last pixel of the box. Corners beyond those dimensions are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PixelBox {
    /// The first pixel of each dimension.
    pub lower: [i32; MAX_RANK - 2],
    /// The last pixel of each dimension, counted from the last of the tensor: 0 is that one, −1 the
    /// one before it.
    pub upper: [i32; MAX_RANK - 2],
}

impl PixelBox {
    /// The largest corner that a map of `rank` dimensions can hold; the smallest is one further from 0.
    pub const fn largest_corner(rank: usize) -> i32 {
        match rank {
            3 => i16::MAX as i32,
            4 => i8::MAX as i32,
            _ => 15,
        }
    }

    /// The largest offset that a copy through a map of `rank` dimensions can have; the smallest is 0.
    pub const fn largest_offset(rank: usize) -> u32 {
        2 * Self::largest_corner(rank) as u32 + 1
    }
}

/// A tensor map: how a TMA copy sees global memory, and what it moves.
///
/// Dimension 0 is the innermost, contiguous one. `strides[i]` belongs to dimension `i + 1` and counts
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Memory it reads or writes.
    pub buffer: BufferId,
    /// Byte offset of element 0.
    pub offset: u64,
    /// Element type.
    pub element: ElementType,
    /// Elements per dimension.
    pub dims: Vec<u64>,
    /// Bytes between neighbours of dimension `i + 1`; one entry fewer than `dims`.
    pub strides: Vec<u64>,
    /// Elements per dimension of one copy; of an im2col map, channels per pixel and pixels.
    pub box_dims: Vec<u32>,
    /// Every how many elements one is taken (1 is all).
    pub element_strides: Vec<u32>,
    /// Of an im2col map, where its pixels come from. `None` is a tiled map.
    pub im2col: Option<PixelBox>,
    /// Permutation in shared memory.
    pub swizzle: Swizzle,
    /// Fill outside the tensor.
    pub oob_fill: OobFill,
    /// L2 fetch size.
    pub l2_promotion: L2Promotion,
}

impl TensorMap {
    /// The map of a row-major matrix of `rows` × `columns` elements without gaps, moved in boxes of
    /// `box_rows` × `box_columns`. What a box has outside the matrix is loaded as zeros, and not stored.
    pub fn matrix(
        buffer: BufferId,
        element: ElementType,
        [rows, columns]: [u64; 2],
        [box_rows, box_columns]: [u32; 2],
        swizzle: Swizzle,
    ) -> Self {
        TensorMap {
            buffer,
            offset: 0,
            element,
            dims: vec![columns, rows],
            strides: vec![element.bytes_of(columns)],
            box_dims: vec![box_columns, box_rows],
            element_strides: vec![1, 1],
            im2col: None,
            swizzle,
            oob_fill: OobFill::Zero,
            l2_promotion: L2Promotion::B128,
        }
    }
}

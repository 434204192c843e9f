//! The 128 bytes that `cp.async.bulk.tensor` reads.
//!
//! Only the first 64 carry meaning; little-endian:
//!
//! | byte | bits | field |
//! |---|---|---|
//! | 0x00 | 63:0 | global address |
//! | 0x08 | 3:0 | 0 (the driver) or 2 (CuTe DSL): tiled; 1: im2col |
//! | | 6:4 | rank − 1 |
//! | | 10:7 | element type |
//! | | 12:11 | interleave (0: none; nothing else is supported) |
//! | | 14:13 | swizzle: none, 32, 64, 128 bytes |
//! | | 15 | fill outside the tensor: zero, NaN |
//! | | 16 | round f32 to tf32 |
//! | | 18:17 | L2 promotion: none, 64, 128, 256 bytes |
//! | | 20:19 | swizzle atom: 16, 32, 32 with 8-byte flip, 64 bytes |
//! | | 21 | footprint of 128 KiB or more, a hint |
//! | | 22 | further swizzle (not supported) |
//! | 0x0C–0x18 | 31:0 | stride of dimension `i + 1`, over 16, low 32 bits |
//! | 0x1C | 4i+3:4i | the same, bits 35:32 |
//! | 0x20–0x30 | 31:0 | dimension − 1 |
//! | 0x34 | 3i+2:3i | element stride − 1 |
//! | | 31:24 | box 0 − 1 |
//! | 0x38 | 8i+7:8i | tiled: box `i + 1` − 1 |
//! | | 15:0, 31:16 | im2col: lower and upper corners, width first |
//! | 0x3C | 9:0 | im2col: pixels − 1 |
//! | 0x40 | 31:0 | bytes of a box, as the driver writes it; no copy reads it |
//!
//! The format is not published. It follows from what `ptxas` makes of `tensormap.replace`, and
//! agrees with what the driver and CuTe DSL write. The fields of im2col maps are those that
//! `cuTensorMapEncodeIm2col` writes (driver 580.159.04 with an H200).

use super::{ElementType, L2Promotion, OobFill, PixelBox, Swizzle, TensorMap};
use std::fmt;

/// The most dimensions a tensor map has.
pub const MAX_RANK: usize = 5;

/// A tensor map over an address: what the hardware reads.
///
/// Dimensions beyond the rank have extent, box and element stride 1 and stride 0, so code that walks
/// all five is right for every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorDescriptor {
    /// Address of element 0.
    pub address: u64,
    /// Number of dimensions, 1 to 5.
    pub rank: usize,
    /// Element type.
    pub element: ElementType,
    /// Elements per dimension, innermost first.
    pub dims: [u64; MAX_RANK],
    /// Bytes between neighbours of each dimension; `strides[0]` is the element size, 0 if an element
    /// is less than a byte.
    pub strides: [u64; MAX_RANK],
    /// Elements per dimension of one copy; of an im2col map, channels per pixel and pixels.
    pub box_dims: [u32; MAX_RANK],
    /// Every how many elements one is taken.
    pub element_strides: [u32; MAX_RANK],
    /// Of an im2col map, where its pixels come from.
    pub im2col: Option<PixelBox>,
    /// Permutation in shared memory.
    pub swizzle: Swizzle,
    /// Fill outside the tensor.
    pub oob_fill: OobFill,
    /// L2 fetch size.
    pub l2_promotion: L2Promotion,
}

/// Why 128 bytes are not a tensor map that can be read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    field: &'static str,
    value: u64,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a tensor map: {} is {}", self.field, self.value)
    }
}

impl std::error::Error for DecodeError {}

impl TensorMap {
    /// The map over a buffer at `address`; element 0 lies [`TensorMap::offset`] bytes behind it.
    ///
    /// Right only for a map that passes [`TensorMap::check`].
    pub fn descriptor(&self, address: u64) -> TensorDescriptor {
        let mut strides = [0; MAX_RANK];
        strides[0] = self.element.bits() / 8;
        strides.iter_mut().skip(1).zip(&self.strides).for_each(|(to, &from)| *to = from);
        TensorDescriptor {
            address: address.wrapping_add(self.offset),
            rank: self.dims.len(),
            element: self.element,
            dims: padded(&self.dims, 1),
            strides,
            box_dims: padded(&self.box_dims, 1),
            element_strides: padded(&self.element_strides, 1),
            im2col: self.im2col,
            swizzle: self.swizzle,
            oob_fill: self.oob_fill,
            l2_promotion: self.l2_promotion,
        }
    }

    /// The bytes of the map over a buffer at `address`.
    ///
    /// Right only for a map that passes [`TensorMap::check`].
    pub fn encode(&self, address: u64) -> [u8; 128] {
        self.descriptor(address).encode()
    }
}

fn padded<T: Copy>(values: &[T], rest: T) -> [T; MAX_RANK] {
    std::array::from_fn(|i| values.get(i).copied().unwrap_or(rest))
}

impl TensorDescriptor {
    /// Bytes one copy moves into shared memory and completes on its mbarrier, out-of-bounds part
    /// included.
    pub fn box_bytes(&self) -> u64 {
        self.box_rows() * self.element.shared_bytes_of(self.box_dims[0].into())
    }

    /// Bytes of shared memory that a box reaches over: a row that is narrower than the swizzle's span takes
    /// the whole span.
    pub fn pitched_bytes(&self) -> u64 {
        let row = self.element.shared_bytes_of(self.box_dims[0].into());
        self.box_rows() * self.swizzle.span().map_or(row, |span| span.max(row))
    }

    /// Bytes by which a copy of a box completes an mbarrier's transaction: without the padding of 4- and
    /// 6-bit numbers in shared memory (so CUTLASS and CuTe DSL announce them).
    pub fn transaction_bytes(&self) -> u64 {
        self.box_rows() * self.element.bytes_of(self.box_dims[0].into())
    }

    /// Rows of a box: of an im2col map, its pixels.
    fn box_rows(&self) -> u64 {
        if self.im2col.is_some() {
            return self.box_dims[1].into();
        }
        let taken = |i: usize| u64::from(self.box_dims[i].div_ceil(self.element_strides[i]));
        (1..MAX_RANK).map(taken).product()
    }

    /// The bytes the hardware reads.
    pub fn encode(&self) -> [u8; 128] {
        let mut words = [0u32; 32];
        words[0] = self.address as u32;
        words[1] = (self.address >> 32) as u32;
        words[2] = self.mode_word();
        for i in 1..MAX_RANK {
            let units = self.strides[i] >> 4;
            words[2 + i] = units as u32;
            words[7] |= ((units >> 32) as u32 & 0xF) << (4 * (i - 1));
        }
        for i in 0..MAX_RANK {
            words[8 + i] = self.dims[i].wrapping_sub(1) as u32;
            words[13] |= (self.element_strides[i].wrapping_sub(1) & 7) << (3 * i);
        }
        words[13] |= (self.box_dims[0].wrapping_sub(1) & 0xFF) << 24;
        match &self.im2col {
            Some(pixels) => {
                words[14] = pixels.encode(self.rank);
                words[15] = self.box_dims[1].wrapping_sub(1) & 0x3FF;
            }
            None => {
                for i in 1..MAX_RANK {
                    words[14] |= (self.box_dims[i].wrapping_sub(1) & 0xFF) << (8 * (i - 1));
                }
            }
        }
        words[16] = self.box_bytes() as u32;
        bytes_of(&words)
    }

    fn mode_word(&self) -> u32 {
        let (element, round) = element_code(self.element);
        let (swizzle, atom) = swizzle_code(self.swizzle);
        u32::from(self.im2col.is_some())
            | (self.rank as u32).wrapping_sub(1) << 4
            | element << 7
            | swizzle << 13
            | u32::from(self.oob_fill == OobFill::Nan) << 15
            | u32::from(round) << 16
            | l2_code(self.l2_promotion) << 17
            | atom << 19
    }

    /// Reads 128 bytes as an engine must: whoever wrote them.
    pub fn decode(bytes: &[u8; 128]) -> Result<Self, DecodeError> {
        let word = |i: usize| {
            let word = &bytes[4 * i..4 * i + 4];
            u32::from_le_bytes([word[0], word[1], word[2], word[3]])
        };
        let mode = Mode::decode(word(2))?;
        let rank = mode.rank;
        let stride = |i: usize| {
            let high = u64::from(word(7) >> (4 * (i - 1)) & 0xF);
            (high << 32 | u64::from(word(2 + i))) << 4
        };
        let im2col = mode.im2col.then(|| PixelBox::decode(word(14), rank));
        let box_dim = |i: usize| match (i, im2col) {
            (0, _) => (word(13) >> 24) + 1,
            (1, Some(_)) => (word(15) & 0x3FF) + 1,
            (_, Some(_)) => 1,
            (_, None) => (word(14) >> (8 * (i - 1)) & 0xFF) + 1,
        };
        Ok(TensorDescriptor {
            address: u64::from(word(1)) << 32 | u64::from(word(0)),
            rank,
            element: mode.element,
            dims: filled(rank, 1, |i| u64::from(word(8 + i)) + 1),
            strides: filled(rank, 0, |i| if i == 0 { mode.element.bits() / 8 } else { stride(i) }),
            box_dims: filled(rank, 1, box_dim),
            element_strides: filled(rank, 1, |i| (word(13) >> (3 * i) & 7) + 1),
            im2col,
            swizzle: mode.swizzle,
            oob_fill: mode.oob_fill,
            l2_promotion: mode.l2_promotion,
        })
    }
}

impl PixelBox {
    /// Bits of a corner.
    fn corner_bits(rank: usize) -> u32 {
        (Self::largest_corner(rank) as u32).count_ones() + 1
    }

    /// The word at 0x38: the lower corners in its low half, the upper ones in its high half.
    fn encode(&self, rank: usize) -> u32 {
        let bits = Self::corner_bits(rank);
        let half = |corners: &[i32]| {
            let fields = corners.iter().take(rank - 2).zip(0..);
            fields.fold(0, |word, (&c, i)| word | (c as u32 & ((1 << bits) - 1)) << (bits * i))
        };
        half(&self.lower) | half(&self.upper) << 16
    }

    fn decode(word: u32, rank: usize) -> Self {
        let bits = Self::corner_bits(rank);
        let corner = |half: u32, i: usize| match i < rank - 2 {
            true => ((half >> (bits * i as u32)) << (32 - bits)) as i32 >> (32 - bits),
            false => 0,
        };
        PixelBox {
            lower: std::array::from_fn(|i| corner(word, i)),
            upper: std::array::from_fn(|i| corner(word >> 16, i)),
        }
    }
}

/// The fields of the word at 0x08.
struct Mode {
    im2col: bool,
    rank: usize,
    element: ElementType,
    swizzle: Swizzle,
    oob_fill: OobFill,
    l2_promotion: L2Promotion,
}

impl Mode {
    fn decode(word: u32) -> Result<Self, DecodeError> {
        let field = |low: u32, bits: u32| word >> low & ((1 << bits) - 1);
        let refuse = |field, value| Err(DecodeError { field, value: u64::from(value) });
        let im2col = field(0, 4) == 1;
        if !im2col && !matches!(field(0, 4), 0 | 2) {
            return refuse("the mode (bits 3:0 at 0x08)", field(0, 4));
        }
        let rank = field(4, 3) as usize + 1;
        if rank > MAX_RANK || im2col && rank < 3 {
            return refuse("the rank", field(4, 3) + 1);
        }
        if field(11, 2) != 0 {
            return refuse("the interleave (0 is none)", field(11, 2));
        }
        let Some(element) = element_of(field(7, 4), field(16, 1) == 1) else {
            return refuse("the element type", field(7, 4));
        };
        let Some(swizzle) = swizzle_of(field(13, 2) + 4 * field(22, 1), field(19, 2)) else {
            return refuse("the swizzle", field(13, 2) + 4 * field(22, 1));
        };
        let oob_fill = if field(15, 1) == 1 { OobFill::Nan } else { OobFill::Zero };
        let l2_promotion = L2_PROMOTIONS[field(17, 2) as usize];
        Ok(Mode { im2col, rank, element, swizzle, oob_fill, l2_promotion })
    }
}

fn filled<T: Copy>(rank: usize, rest: T, value: impl Fn(usize) -> T) -> [T; MAX_RANK] {
    std::array::from_fn(|i| if i < rank { value(i) } else { rest })
}

fn bytes_of(words: &[u32; 32]) -> [u8; 128] {
    let mut bytes = [0; 128];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The hardware's number of an element type, and whether f32 is rounded to tf32.
const fn element_code(element: ElementType) -> (u32, bool) {
    match element {
        ElementType::U8 => (0, false),
        ElementType::U16 => (1, false),
        ElementType::U32 => (2, false),
        ElementType::S32 => (3, false),
        ElementType::U64 => (4, false),
        ElementType::S64 => (5, false),
        ElementType::F16 => (6, false),
        ElementType::F32 => (7, false),
        ElementType::Tf32 => (7, true),
        ElementType::F32Ftz => (8, false),
        ElementType::Tf32Ftz => (8, true),
        ElementType::F64 => (9, false),
        ElementType::Bf16 => (10, false),
        ElementType::B4x16 => (11, false),
        ElementType::B4x16P64 => (12, false),
        ElementType::B6x16P32 => (13, false),
    }
}

fn element_of(code: u32, round: bool) -> Option<ElementType> {
    ElementType::ALL.into_iter().find(|&element| element_code(element) == (code, round))
}

/// Swizzle span and atom.
const fn swizzle_code(swizzle: Swizzle) -> (u32, u32) {
    match swizzle {
        Swizzle::None => (0, 0),
        Swizzle::B32 => (1, 0),
        Swizzle::B64 => (2, 0),
        Swizzle::B128 => (3, 0),
        Swizzle::B128Atom32 => (3, 1),
        Swizzle::B128Atom32Flip8 => (3, 2),
        Swizzle::B128Atom64 => (3, 3),
    }
}

fn swizzle_of(span: u32, atom: u32) -> Option<Swizzle> {
    Swizzle::ALL.into_iter().find(|&swizzle| swizzle_code(swizzle) == (span, atom))
}

const L2_PROMOTIONS: [L2Promotion; 4] =
    [L2Promotion::None, L2Promotion::B64, L2Promotion::B128, L2Promotion::B256];

fn l2_code(promotion: L2Promotion) -> u32 {
    L2_PROMOTIONS.iter().position(|&p| p == promotion).unwrap_or(0) as u32
}

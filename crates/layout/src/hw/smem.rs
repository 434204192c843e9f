//! MMA operand tiles in shared memory: the canonical layouts of `wgmma` and `tcgen05.mma`.
//!
//! From the PTX ISA ("Canonical layouts", "Strides", `wgmma` and `tcgen05`) and CUTLASS's
//! `mma_traits_sm90_gmma.hpp` and `mma_sm100_desc.hpp`.
//!
//! A tile is cut into *blocks* one swizzle span wide (16 bytes without swizzle, else 32, 64 or
//! 128) along its contiguous dimension. A block holds every line of the other dimension at the
//! pitch of the span, so it is what one TMA box of that width leaves behind, and blocks follow
//! each other:
//!
//! ```text
//!  K-major, 128B, bf16, 128 x 128:           MN-major, 128B, bf16, 128 (mn) x 64 (k):
//!        k 0..63     k 64..127                     mn 0..63    mn 64..127
//!  mn 0 [128 bytes]  [128 bytes] +16384      k 0  [128 bytes]  [128 bytes] +8192
//!  mn 1 [128 bytes]  [128 bytes]             k 1  [128 bytes]  [128 bytes]
//!   ... 8 lines = one swizzle atom            ...
//! ```

use std::fmt;

use super::address::SmemOffset;
use crate::composed::ComposedLayout;
use crate::coord::out_of_shape;
use crate::error::{LayoutError, Result, checked_mul, exact_div};
use crate::int_tuple::IntTuple;
use crate::layout::Layout;
use crate::swizzle::Swizzle;

/// Which dimension of an operand is contiguous in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Major {
    /// The reduction dimension: row-major A, column-major B.
    K,
    /// The M or N dimension; needs the transpose bit of the instruction.
    Mn,
}

/// The shared-memory swizzle modes that TMA and both MMA generations agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SmemSwizzle {
    /// No swizzle: 8 lines of 16 bytes form a core matrix.
    None,
    /// 16-byte units XORed over a span of 32 bytes.
    B32,
    /// 16-byte units XORed over a span of 64 bytes.
    B64,
    /// 16-byte units XORed over a span of 128 bytes.
    B128,
    /// 32-byte units XORed over a span of 128 bytes; `tcgen05` with 32-bit MN-major data only.
    B128Atom32,
}

impl SmemSwizzle {
    /// Every mode.
    pub const ALL: [SmemSwizzle; 5] = [
        SmemSwizzle::None,
        SmemSwizzle::B32,
        SmemSwizzle::B64,
        SmemSwizzle::B128,
        SmemSwizzle::B128Atom32,
    ];

    /// Bytes per line of a block; without a swizzle, the 16 bytes of a core-matrix row.
    pub fn span_bytes(self) -> u64 {
        match self {
            SmemSwizzle::None => 16,
            SmemSwizzle::B32 => 32,
            SmemSwizzle::B64 => 64,
            SmemSwizzle::B128 | SmemSwizzle::B128Atom32 => 128,
        }
    }

    /// The permutation of byte addresses.
    pub fn on_bytes(self) -> Swizzle {
        let (bits, base, shift) = match self {
            SmemSwizzle::None => return Swizzle::NONE,
            SmemSwizzle::B32 => (1, 4, 3),
            SmemSwizzle::B64 => (2, 4, 3),
            SmemSwizzle::B128 => (3, 4, 3),
            SmemSwizzle::B128Atom32 => (2, 5, 2),
        };
        Swizzle::new(bits, base, shift).expect("the fields of the hardware's swizzles are disjoint")
    }

    /// The mode whose byte permutation this is.
    pub fn from_byte_swizzle(swizzle: Swizzle) -> Option<SmemSwizzle> {
        if swizzle.is_identity() {
            return Some(SmemSwizzle::None);
        }
        SmemSwizzle::ALL.into_iter().find(|mode| mode.on_bytes() == swizzle)
    }

    /// The widest mode whose span divides `bytes` of contiguous data.
    pub fn widest_for(bytes: u64) -> SmemSwizzle {
        let modes = [SmemSwizzle::B128, SmemSwizzle::B64, SmemSwizzle::B32];
        modes
            .into_iter()
            .find(|mode| bytes.is_multiple_of(mode.span_bytes()))
            .unwrap_or(SmemSwizzle::None)
    }

    /// Bytes after which the pattern repeats: tiles start on a multiple of it.
    pub fn alignment(self) -> u64 {
        self.on_bytes().period().max(128)
    }

    /// Lines of a swizzle atom (or core matrix): the unit of the descriptor's stride offset.
    pub fn atom_lines(self) -> u64 {
        if self == SmemSwizzle::B128Atom32 { 4 } else { 8 }
    }
}

impl fmt::Display for SmemSwizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SmemSwizzle::None => "none",
            SmemSwizzle::B32 => "32B",
            SmemSwizzle::B64 => "64B",
            SmemSwizzle::B128 => "128B",
            SmemSwizzle::B128Atom32 => "128B with 32B atoms",
        })
    }
}

/// An MMA operand of `mn` by `k` elements in shared memory.
///
/// ```
/// use layout::hw::{Generation, Major, SmemSwizzle, SmemTile};
/// let k_tile = SmemTile::new(128, 128, 16, Major::K, SmemSwizzle::B128)?;
/// assert_eq!(k_tile.layout()?.to_string(), "S<3,3,3> o 0 o ((8,16),(64,2)):((64,512),(1,8192))");
/// // Each k-step of 16 bf16 is 32 bytes on, i.e. +2 in the descriptor; step 4 is the next block.
/// let advance: Vec<u32> = (0..6).map(|step| k_tile.descriptor_advance(0, step).unwrap()).collect();
/// assert_eq!(advance, [0, 2, 4, 6, 1024, 1026]);
/// assert_eq!(k_tile.descriptor(Generation::Blackwell)?.encode(), 0x4000_4040_0001_0000);
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmemTile {
    mn: u64,
    k: u64,
    element_bits: u64,
    major: Major,
    swizzle: SmemSwizzle,
}

impl SmemTile {
    /// Bytes of K that one MMA instruction consumes per row, for every dense kind.
    pub const K_STEP_BYTES: u64 = 32;

    /// A tile; the contiguous extent must fill whole spans and the other one whole atoms.
    pub fn new(
        mn: u64,
        k: u64,
        element_bits: u64,
        major: Major,
        swizzle: SmemSwizzle,
    ) -> Result<SmemTile> {
        if !matches!(element_bits, 4 | 8 | 16 | 32) {
            return Err(LayoutError::hardware(
                "MMA operands have elements of 4, 8, 16 or 32 bits",
                format!("element of {element_bits} bits"),
            ));
        }
        let tile = SmemTile { mn, k, element_bits, major, swizzle };
        if tile.contiguous() == 0 || !tile.contiguous().is_multiple_of(tile.span()) {
            return Err(LayoutError::hardware(
                "the contiguous extent must be a multiple of the swizzle span",
                format!("{} elements, span {} ({swizzle})", tile.contiguous(), tile.span()),
            ));
        }
        if tile.lines() == 0 || !tile.lines().is_multiple_of(8) {
            return Err(LayoutError::hardware(
                "the extent across the contiguous one must be a multiple of 8",
                format!("{} lines", tile.lines()),
            ));
        }
        checked_mul("shared-memory tile", checked_mul("shared-memory tile", mn, k)?, element_bits)?;
        Ok(tile)
    }

    /// The same bytes read with the other dimension as K: a tile of keys that is one of values, too.
    ///
    /// ```
    /// use layout::hw::{Major, SmemSwizzle, SmemTile};
    /// let keys = SmemTile::new(128, 192, 16, Major::K, SmemSwizzle::B128)?;
    /// let values = keys.transposed();
    /// assert_eq!(values.major(), Major::Mn);
    /// assert_eq!(values.offset(70, 5)?, keys.offset(5, 70)?);
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn transposed(self) -> SmemTile {
        let major = match self.major {
            Major::K => Major::Mn,
            Major::Mn => Major::K,
        };
        SmemTile { mn: self.k, k: self.mn, major, ..self }
    }

    /// The tile of `blocks` such blocks: narrower or wider, everything else the same.
    pub fn with_blocks(self, blocks: u64) -> Result<SmemTile> {
        let contiguous = checked_mul("blocks of a tile", blocks, self.span())?;
        let (mn, k) = match self.major {
            Major::K => (self.mn, contiguous),
            Major::Mn => (contiguous, self.k),
        };
        SmemTile::new(mn, k, self.element_bits, self.major, self.swizzle)
    }

    /// Extent along M or N.
    pub fn mn(&self) -> u64 {
        self.mn
    }

    /// Extent along K.
    pub fn k(&self) -> u64 {
        self.k
    }

    /// Bits per element.
    pub fn element_bits(&self) -> u64 {
        self.element_bits
    }

    /// The contiguous dimension.
    pub fn major(&self) -> Major {
        self.major
    }

    /// The swizzle mode.
    pub fn swizzle(&self) -> SmemSwizzle {
        self.swizzle
    }

    /// Size of the tile in bytes.
    pub fn bytes(&self) -> u64 {
        self.mn * self.k * self.element_bits / 8
    }

    /// Alignment the tile's start needs, in bytes.
    pub fn alignment(&self) -> u64 {
        self.swizzle.alignment()
    }

    /// Elements of the contiguous dimension in one block.
    pub fn span(&self) -> u64 {
        self.swizzle.span_bytes() * 8 / self.element_bits
    }

    /// Extent of the contiguous dimension, in elements.
    pub fn contiguous(&self) -> u64 {
        match self.major {
            Major::K => self.k,
            Major::Mn => self.mn,
        }
    }

    /// Extent of the other dimension: lines per block.
    pub fn lines(&self) -> u64 {
        match self.major {
            Major::K => self.mn,
            Major::Mn => self.k,
        }
    }

    /// Number of span-wide blocks.
    pub fn blocks(&self) -> u64 {
        self.contiguous() / self.span()
    }

    /// Bytes from one block to the next.
    pub fn block_bytes(&self) -> u64 {
        self.lines() * self.swizzle.span_bytes()
    }

    /// Elements of K that one instruction consumes.
    pub fn k_per_step(&self) -> u64 {
        Self::K_STEP_BYTES * 8 / self.element_bits
    }

    /// The layout `(mn, k) -> element index`, swizzle included.
    pub fn layout(&self) -> Result<ComposedLayout> {
        let unit = self.element_bits.trailing_zeros();
        // The byte swizzle in units of elements; 4-bit elements make the unit finer.
        let swizzle = match unit {
            2 => self.swizzle.on_bytes().finer(1)?,
            _ => self.swizzle.on_bytes().coarser(unit - 3)?,
        };
        ComposedLayout::new(swizzle, 0, self.unswizzled()?)
    }

    /// The layout `(mn, k) -> element index` before swizzling.
    pub fn unswizzled(&self) -> Result<Layout> {
        let span = self.span();
        let atom_lines = self.swizzle.atom_lines();
        let along = Layout::new((span, self.blocks()), (1, self.lines() * span))?;
        let across =
            Layout::new((atom_lines, self.lines() / atom_lines), (span, atom_lines * span))?;
        match self.major {
            Major::K => Layout::from_modes([across, along]),
            Major::Mn => Layout::from_modes([along, across]),
        }
    }

    /// The swizzled byte offset of element `(mn, k)` from the start of an aligned tile.
    pub fn offset(&self, mn: u64, k: u64) -> Result<SmemOffset> {
        SmemOffset::from_bytes(self.swizzle.on_bytes().apply(self.unswizzled_byte(mn, k)?))
    }

    /// [`SmemTile::unswizzled`] in bytes, without building the layout for each element.
    fn unswizzled_byte(&self, mn: u64, k: u64) -> Result<u64> {
        if mn >= self.mn || k >= self.k {
            let shape = IntTuple::from((self.mn, self.k));
            return Err(out_of_shape(&IntTuple::from((mn, k)), &shape));
        }
        let (along, line) = self.box_coord(mn, k);
        let block = along / self.span() * self.lines() * self.span();
        let index = block + line * self.span() + along % self.span();
        exact_div("byte offset", index * self.element_bits, 8)
    }

    /// What to add to the low word of the tile's descriptor so that an instruction starts at row
    /// or column `mn_offset` and at K step `k_step` (of 32 bytes of K each).
    ///
    /// `mn_offset` must start a whole atom: a multiple of 8 lines for K-major, of the span for
    /// MN-major, so that the instruction sees the same pattern as from the tile's start.
    pub fn descriptor_advance(&self, mn_offset: u64, k_step: u64) -> Result<u32> {
        let unit = match self.major {
            Major::K => 8,
            Major::Mn => self.span(),
        };
        if !mn_offset.is_multiple_of(unit) {
            return Err(LayoutError::hardware(
                "a descriptor starts on a whole swizzle atom along M or N",
                format!("offset {mn_offset}, atom of {unit}"),
            ));
        }
        let k = checked_mul("k step", k_step, self.k_per_step())?;
        let bytes = SmemOffset::from_bytes(self.unswizzled_byte(mn_offset, k)?)?;
        Ok(bytes.bytes() >> 4)
    }

    /// Number of instruction steps along K.
    pub fn k_steps(&self) -> u64 {
        self.k / self.k_per_step()
    }
}

impl fmt::Display for SmemTile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let major = if self.major == Major::K { "K" } else { "MN" };
        write!(
            f,
            "{} x {} of {} bits, {major}-major, swizzle {}",
            self.mn, self.k, self.element_bits, self.swizzle
        )
    }
}

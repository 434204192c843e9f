//! The 64-bit shared-memory matrix descriptors of `wgmma` (sm_90a) and `tcgen05.mma` (sm_100a).
//!
//! From CUTLASS's `mma_sm90_desc.hpp` and `mma_sm100_desc.hpp` and the PTX ISA ("Matrix
//! descriptor", "Shared memory descriptor"):
//!
//! | bits | sm_90a | sm_100a |
//! |---|---|---|
//! | 13:0 | start address >> 4 | same |
//! | 29:16 | leading byte offset >> 4 | same |
//! | 45:32 | stride byte offset >> 4 | same |
//! | 48:46 | 0 | 0b001 |
//! | 51:49 | base offset | base offset |
//! | 52 | 0 | leading offset mode, 0 here |
//! | 63:62 / 63:61 | swizzle: 0, 1 = 128B, 2 = 64B, 3 = 32B | 0, 1 = 128B atom 32B, 2 = 128B, 4 = 64B, 6 = 32B |
//!
//! Rules checked here, each named in the error:
//! 1. start address, leading and stride offsets are multiples of 16 below 2^18;
//! 2. the swizzle is one the generation has;
//! 3. `wgmma` reads MN-major only with 16-bit elements; `tcgen05` reads 32-bit MN-major only with
//!    32-byte atoms, and nothing else with them;
//! 4. every element lies where the descriptor's formula puts it.

use super::descriptor_fit::fit;
use super::smem::{Major, SmemSwizzle, SmemTile};
use crate::composed::ComposedLayout;
use crate::error::{LayoutError, Result};

/// Which tensor-core generation reads the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// `wgmma` on sm_90a.
    Hopper,
    /// `tcgen05.mma` on sm_100a.
    Blackwell,
}

/// A matrix descriptor with its fields in bytes.
///
/// ```
/// use layout::hw::{Generation, Major, MatrixDescriptor};
/// let tile = "S<3,3,3> o 0 o ((8,16),(64,1)):((64,512),(1,0))".parse()?;
/// let descriptor = MatrixDescriptor::from_layout(&tile, 16, Major::K, Generation::Hopper)?;
/// assert_eq!((descriptor.stride_bytes, descriptor.encode()), (1024, 0x4000_0040_0001_0000));
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixDescriptor {
    /// The generation whose encoding is used.
    pub generation: Generation,
    /// Start of the matrix in shared memory; only 18 bits are kept.
    pub start_address: u32,
    /// LBO: from one block to the next, or 16 where the hardware ignores it.
    pub leading_bytes: u32,
    /// SBO: from one group of 8 lines to the next.
    pub stride_bytes: u32,
    /// Phase of the swizzle pattern when the tile starts off its repeat; 0 for aligned tiles.
    pub base_offset: u8,
    /// The swizzle mode.
    pub swizzle: SmemSwizzle,
}

impl MatrixDescriptor {
    /// The descriptor of an operand given as `(mn, k) -> element index`.
    ///
    /// The layout may span several instructions along K; each must then follow the same formula
    /// from its own start. Fails with the rule when no descriptor describes the layout.
    pub fn from_layout(
        layout: &ComposedLayout,
        element_bits: u64,
        major: Major,
        generation: Generation,
    ) -> Result<MatrixDescriptor> {
        let fitted = fit(layout, element_bits, major)?;
        check_generation(generation, major, element_bits, fitted.swizzle)?;
        let descriptor = MatrixDescriptor {
            generation,
            start_address: offset_field("start address", fitted.start)?,
            leading_bytes: offset_field("leading byte offset", fitted.leading)?,
            stride_bytes: offset_field("stride byte offset", fitted.stride)?,
            base_offset: 0,
            swizzle: fitted.swizzle,
        };
        Ok(descriptor)
    }

    /// This descriptor with the matrix at another address.
    pub fn at(self, start_address: u32) -> Result<MatrixDescriptor> {
        let start_address = offset_field("start address", u64::from(start_address & 0x3_ffff))?;
        Ok(MatrixDescriptor { start_address, ..self })
    }

    /// The 64-bit encoding.
    pub fn encode(self) -> u64 {
        let field = |bytes: u32, at: u32| (u64::from(bytes & 0x3_ffff) >> 4) << at;
        let version = match self.generation {
            Generation::Hopper => 0,
            Generation::Blackwell => 1 << 46,
        };
        field(self.start_address, 0)
            | field(self.leading_bytes, 16)
            | field(self.stride_bytes, 32)
            | version
            | u64::from(self.base_offset & 7) << 49
            | swizzle_bits(self.generation, self.swizzle)
    }

    /// Reads an encoded descriptor; bits that must be fixed are checked.
    pub fn decode(bits: u64, generation: Generation) -> Result<MatrixDescriptor> {
        let swizzle = SmemSwizzle::ALL.into_iter().find(|&swizzle| {
            exists(generation, swizzle)
                && swizzle_bits(generation, swizzle) == bits & swizzle_mask(generation)
        });
        let swizzle = swizzle.ok_or_else(|| invalid("the swizzle field names no mode", bits))?;
        let field = |at: u32| ((bits >> at & 0x3fff) as u32) << 4;
        let descriptor = MatrixDescriptor {
            generation,
            start_address: field(0),
            leading_bytes: field(16),
            stride_bytes: field(32),
            base_offset: (bits >> 49 & 7) as u8,
            swizzle,
        };
        if descriptor.encode() != bits {
            return Err(invalid("reserved bits are 0, and bits 48:46 are 0b001 on sm_100a", bits));
        }
        Ok(descriptor)
    }
}

impl SmemTile {
    /// The descriptor of the whole tile at address 0; add the address with
    /// [`MatrixDescriptor::at`] or at run time, and [`SmemTile::descriptor_advance`] per step.
    ///
    /// K must be whole instruction steps, so that no element is left out.
    pub fn descriptor(&self, generation: Generation) -> Result<MatrixDescriptor> {
        if !self.k().is_multiple_of(self.k_per_step()) {
            return Err(LayoutError::hardware(
                "K of an MMA operand is a multiple of 32 bytes",
                format!("K = {}, steps of {}", self.k(), self.k_per_step()),
            ));
        }
        MatrixDescriptor::from_layout(
            &self.layout()?,
            self.element_bits(),
            self.major(),
            generation,
        )
    }
}

fn invalid(rule: &'static str, bits: u64) -> LayoutError {
    LayoutError::hardware(rule, format!("matrix descriptor {bits:#018x}"))
}

fn offset_field(what: &'static str, bytes: u64) -> Result<u32> {
    if bytes >= 1 << 18 || !bytes.is_multiple_of(16) {
        return Err(LayoutError::hardware(
            "descriptor fields are multiples of 16 bytes below 2^18",
            format!("{what} of {bytes} bytes"),
        ));
    }
    Ok(bytes as u32)
}

fn exists(generation: Generation, swizzle: SmemSwizzle) -> bool {
    generation == Generation::Blackwell || swizzle != SmemSwizzle::B128Atom32
}

fn swizzle_mask(generation: Generation) -> u64 {
    match generation {
        Generation::Hopper => 0b11 << 62,
        Generation::Blackwell => 0b111 << 61,
    }
}

fn swizzle_bits(generation: Generation, swizzle: SmemSwizzle) -> u64 {
    match (generation, swizzle) {
        (_, SmemSwizzle::None) => 0,
        (Generation::Hopper, SmemSwizzle::B128 | SmemSwizzle::B128Atom32) => 1 << 62,
        (Generation::Hopper, SmemSwizzle::B64) => 2 << 62,
        (Generation::Hopper, SmemSwizzle::B32) => 3 << 62,
        (Generation::Blackwell, SmemSwizzle::B128Atom32) => 1 << 61,
        (Generation::Blackwell, SmemSwizzle::B128) => 2 << 61,
        (Generation::Blackwell, SmemSwizzle::B64) => 4 << 61,
        (Generation::Blackwell, SmemSwizzle::B32) => 6 << 61,
    }
}

fn check_generation(
    generation: Generation,
    major: Major,
    element_bits: u64,
    swizzle: SmemSwizzle,
) -> Result<()> {
    let found = || format!("{major:?}-major, {element_bits}-bit, swizzle {swizzle}");
    if !exists(generation, swizzle) {
        return Err(LayoutError::hardware("wgmma has no 128B swizzle with 32B atoms", found()));
    }
    if major == Major::K {
        return match swizzle {
            SmemSwizzle::B128Atom32 => Err(LayoutError::hardware(
                "32B atoms are for 32-bit MN-major operands only",
                found(),
            )),
            _ => Ok(()),
        };
    }
    match generation {
        Generation::Hopper if element_bits != 16 => Err(LayoutError::hardware(
            "wgmma reads MN-major operands of 16-bit elements only",
            found(),
        )),
        Generation::Blackwell if element_bits == 4 => {
            Err(LayoutError::hardware("tcgen05 reads 4-bit operands K-major only", found()))
        }
        Generation::Blackwell if (element_bits == 32) != (swizzle == SmemSwizzle::B128Atom32) => {
            Err(LayoutError::hardware(
                "tcgen05 reads MN-major 32-bit operands with 32B atoms, and only those",
                found(),
            ))
        }
        _ => Ok(()),
    }
}

//! The 32-bit instruction descriptor of `tcgen05.mma`, as a typed value.
//!
//! From the PTX ISA ("Instruction descriptor") and CUTLASS's `mma_sm100_desc.hpp`:
//!
//! | bits | f16, tf32, f8f6f4, i8 | mxf8f6f4 | mxf4, mxf4nvf4 |
//! |---|---|---|---|
//! | 1:0, 2 | sparsity selector, sparse | 0, sparse | 0, sparse |
//! | 3 | saturate (i8) | 0 | 0 |
//! | 5:4 | D type | scale B id | scale B id |
//! | 9:7, 12:10 | A type, B type | same | 1, 1 (e2m1) |
//! | 13, 14 | negate A, B | same | same |
//! | 15, 16 | A, B MN-major | same | 0 |
//! | 22:17 | N >> 3 | same | same |
//! | 23 | 0 | scale format: 1 = ue8m0 | 1 = ue8m0, 0 = ue4m3 |
//! | 28:24 | M >> 4 | same | same |
//! | 30:29 | 0 | scale A id | scale A id |
//!
//! The shape rules are in `instruction_rules`.

use super::instruction_rules::check;
use super::smem::Major;
use crate::error::{LayoutError, Result};

/// The `.kind::` of a `tcgen05.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaKind {
    /// f16 and bf16 operands.
    F16,
    /// tf32 operands.
    Tf32,
    /// 8-, 6- and 4-bit float operands in 8-bit containers.
    F8f6f4,
    /// 8-bit integer operands.
    I8,
    /// Block-scaled 8-, 6- and 4-bit floats.
    Mxf8f6f4,
    /// Block-scaled packed e2m1, ue8m0 scales.
    Mxf4,
    /// Block-scaled packed e2m1, ue8m0 or ue4m3 scales.
    Mxf4nvf4,
}

/// The element type of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandType {
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// f32 read with 10 mantissa bits.
    Tf32,
    /// 8-bit float, 4 exponent bits.
    E4m3,
    /// 8-bit float, 5 exponent bits.
    E5m2,
    /// 6-bit float, 2 exponent bits.
    E2m3,
    /// 6-bit float, 3 exponent bits.
    E3m2,
    /// 4-bit float, 2 exponent bits.
    E2m1,
    /// Unsigned byte.
    U8,
    /// Signed byte.
    S8,
}

/// The element type of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulator {
    /// Half, one per 32-bit column.
    F16,
    /// Single.
    F32,
    /// 32-bit integer.
    S32,
}

/// How many CTAs work on one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CtaGroup {
    /// `.cta_group::1`.
    One,
    /// `.cta_group::2`: a pair of CTAs, each with half the rows.
    Two,
}

/// The format of block scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleFormat {
    /// Unsigned e4m3.
    Ue4m3,
    /// A power of two.
    Ue8m0,
}

/// Where the scales of a block-scaled instruction are within their TMEM columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockScale {
    /// The scale format.
    pub format: ScaleFormat,
    /// First byte of A's scales.
    pub a_id: u8,
    /// First byte of B's scales.
    pub b_id: u8,
}

/// All fields of an instruction descriptor.
///
/// ```
/// use layout::hw::{InstructionDescriptor, MmaKind, OperandType};
/// let qk = InstructionDescriptor::new(MmaKind::F16, OperandType::Bf16, OperandType::Bf16, 128, 64);
/// assert_eq!(qk.encode()?, 0x0810_0490);
/// assert_eq!(InstructionDescriptor::decode(0x0810_0490, MmaKind::F16)?, qk);
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstructionDescriptor {
    /// The instruction's kind; not part of the bits, but it gives them their meaning.
    pub kind: MmaKind,
    /// Type of A.
    pub a: OperandType,
    /// Type of B.
    pub b: OperandType,
    /// Type of D.
    pub d: Accumulator,
    /// Rows of D, over both CTAs of a pair.
    pub m: u32,
    /// Columns of D.
    pub n: u32,
    /// Contiguous dimension of A.
    pub a_major: Major,
    /// Contiguous dimension of B.
    pub b_major: Major,
    /// Multiply by -A.
    pub negate_a: bool,
    /// Multiply by -B.
    pub negate_b: bool,
    /// Clamp integer results.
    pub saturate: bool,
    /// The sparsity selector of a sparse A.
    pub sparsity: Option<u8>,
    /// Scales of the block-scaled kinds.
    pub scale: Option<BlockScale>,
}

impl InstructionDescriptor {
    /// A dense instruction with K-major operands and a 32-bit accumulator.
    pub fn new(kind: MmaKind, a: OperandType, b: OperandType, m: u32, n: u32) -> Self {
        let d = if kind == MmaKind::I8 { Accumulator::S32 } else { Accumulator::F32 };
        InstructionDescriptor {
            kind,
            a,
            b,
            d,
            m,
            n,
            a_major: Major::K,
            b_major: Major::K,
            negate_a: false,
            negate_b: false,
            saturate: false,
            sparsity: None,
            scale: None,
        }
    }

    /// With B contiguous along N, as V is in P times V.
    pub fn b_mn_major(self) -> Self {
        InstructionDescriptor { b_major: Major::Mn, ..self }
    }

    /// With A contiguous along M.
    pub fn a_mn_major(self) -> Self {
        InstructionDescriptor { a_major: Major::Mn, ..self }
    }

    /// Elements of K that one instruction consumes.
    pub fn k(&self) -> u32 {
        let dense = match self.kind {
            MmaKind::F16 => 16,
            MmaKind::Tf32 => 8,
            MmaKind::F8f6f4 | MmaKind::Mxf8f6f4 | MmaKind::I8 => 32,
            MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => 64,
        };
        if self.sparsity.is_some() { 2 * dense } else { dense }
    }

    /// Checks the shape for a CTA group on top of what [`InstructionDescriptor::encode`] checks.
    pub fn check_shape(&self, group: CtaGroup) -> Result<()> {
        super::instruction_rules::check_shape(self, group)
    }

    /// The 32 bits; fails with the rule when the types or the shape are not the kind's.
    pub fn encode(&self) -> Result<u32> {
        check(self)?;
        let flag = |set: bool, at: u32| u32::from(set) << at;
        let (a, b) = (operand_code(self.kind, self.a)?, operand_code(self.kind, self.b)?);
        let low = match self.scale {
            None => accumulator_code(self.d) << 4,
            Some(scale) => {
                u32::from(scale.b_id) << 4
                    | u32::from(scale.a_id) << 29
                    | flag(scale.format == ScaleFormat::Ue8m0, 23)
            }
        };
        Ok(low
            | u32::from(self.sparsity.unwrap_or(0))
            | flag(self.sparsity.is_some(), 2)
            | flag(self.saturate, 3)
            | a << 7
            | b << 10
            | flag(self.negate_a, 13)
            | flag(self.negate_b, 14)
            | flag(self.a_major == Major::Mn, 15)
            | flag(self.b_major == Major::Mn, 16)
            | self.n >> 3 << 17
            | self.m >> 4 << 24)
    }

    /// Reads the 32 bits of an instruction of a kind; reserved bits must be 0.
    pub fn decode(bits: u32, kind: MmaKind) -> Result<InstructionDescriptor> {
        let flag = |at: u32| bits >> at & 1 == 1;
        let major = |at: u32| if flag(at) { Major::Mn } else { Major::K };
        let scaled = kind.is_block_scaled();
        let scale = scaled.then_some(BlockScale {
            format: if flag(23) { ScaleFormat::Ue8m0 } else { ScaleFormat::Ue4m3 },
            a_id: (bits >> 29 & 3) as u8,
            b_id: (bits >> 4 & 3) as u8,
        });
        let descriptor = InstructionDescriptor {
            kind,
            a: operand_type(kind, bits >> 7 & 7)?,
            b: operand_type(kind, bits >> 10 & 7)?,
            d: if scaled { Accumulator::F32 } else { accumulator_type(bits >> 4 & 3)? },
            m: (bits >> 24 & 0x1f) << 4,
            n: (bits >> 17 & 0x3f) << 3,
            a_major: major(15),
            b_major: major(16),
            negate_a: flag(13),
            negate_b: flag(14),
            saturate: flag(3),
            sparsity: flag(2).then_some((bits & 3) as u8),
            scale,
        };
        if descriptor.encode()? != bits {
            return Err(LayoutError::hardware(
                "reserved bits of an instruction descriptor are 0",
                format!("instruction descriptor {bits:#010x} for kind {kind:?}"),
            ));
        }
        Ok(descriptor)
    }
}

impl MmaKind {
    /// Whether the kind multiplies by block scales.
    pub fn is_block_scaled(self) -> bool {
        matches!(self, MmaKind::Mxf8f6f4 | MmaKind::Mxf4 | MmaKind::Mxf4nvf4)
    }

    /// The operand types of the kind with their codes.
    fn operand_codes(self) -> &'static [(OperandType, u32)] {
        match self {
            MmaKind::F16 => &[(OperandType::F16, 0), (OperandType::Bf16, 1)],
            MmaKind::Tf32 => &[(OperandType::Tf32, 2)],
            MmaKind::F8f6f4 | MmaKind::Mxf8f6f4 => &[
                (OperandType::E4m3, 0),
                (OperandType::E5m2, 1),
                (OperandType::E2m3, 3),
                (OperandType::E3m2, 4),
                (OperandType::E2m1, 5),
            ],
            MmaKind::I8 => &[(OperandType::U8, 0), (OperandType::S8, 1)],
            MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => &[(OperandType::E2m1, 1)],
        }
    }
}

fn operand_code(kind: MmaKind, wanted: OperandType) -> Result<u32> {
    let found = kind.operand_codes().iter().find(|(operand, _)| *operand == wanted);
    found.map(|(_, code)| *code).ok_or_else(|| {
        LayoutError::hardware(
            "each kind of tcgen05.mma has its own operand types",
            format!("operand {wanted:?} for kind {kind:?}"),
        )
    })
}

fn operand_type(kind: MmaKind, code: u32) -> Result<OperandType> {
    let found = kind.operand_codes().iter().find(|(_, known)| *known == code);
    found.map(|(operand, _)| *operand).ok_or_else(|| {
        LayoutError::hardware(
            "each kind of tcgen05.mma has its own operand types",
            format!("operand code {code} for kind {kind:?}"),
        )
    })
}

fn accumulator_code(d: Accumulator) -> u32 {
    match d {
        Accumulator::F16 => 0,
        Accumulator::F32 => 1,
        Accumulator::S32 => 2,
    }
}

fn accumulator_type(code: u32) -> Result<Accumulator> {
    match code {
        0 => Ok(Accumulator::F16),
        1 => Ok(Accumulator::F32),
        2 => Ok(Accumulator::S32),
        _ => Err(LayoutError::hardware("D is f16, f32 or s32", format!("D type code {code}"))),
    }
}

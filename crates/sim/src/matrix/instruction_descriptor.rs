//! The 32-bit instruction descriptor of `tcgen05.mma`.

use super::element::Element;
use super::error::OperandError;
use super::fragment::Accumulator;
use super::shared_matrix::Major;

/// `.kind` of a `tcgen05.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaKind {
    /// f16 and bf16.
    F16,
    /// tf32.
    Tf32,
    /// 8-, 6- and 4-bit floats, mixed at will.
    F8f6f4,
    /// Bytes.
    I8,
    /// [`MmaKind::F8f6f4`] with a scale for every 32 elements of K.
    Mxf8f6f4,
    /// 4-bit floats with a ue8m0 scale for every 32 elements of K.
    Mxf4,
    /// 4-bit floats with a scale for every 16 or 32 elements of K.
    Mxf4nvf4,
}

impl MmaKind {
    /// The kind a modifier such as `kind::f16` names.
    pub fn from_modifier(name: &str) -> Option<MmaKind> {
        Some(match name.strip_prefix("kind::")? {
            "f16" => MmaKind::F16,
            "tf32" => MmaKind::Tf32,
            "f8f6f4" => MmaKind::F8f6f4,
            "i8" => MmaKind::I8,
            "mxf8f6f4" => MmaKind::Mxf8f6f4,
            "mxf4" => MmaKind::Mxf4,
            "mxf4nvf4" => MmaKind::Mxf4nvf4,
            _ => return None,
        })
    }

    /// Whether operands carry block scales.
    pub const fn is_scaled(self) -> bool {
        matches!(self, MmaKind::Mxf8f6f4 | MmaKind::Mxf4 | MmaKind::Mxf4nvf4)
    }

    /// Depth of the reduction of one instruction: 32 bytes of unpadded operand.
    pub const fn depth(self) -> usize {
        match self {
            MmaKind::Tf32 => 8,
            MmaKind::F16 => 16,
            MmaKind::F8f6f4 | MmaKind::I8 | MmaKind::Mxf8f6f4 => 32,
            MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => 64,
        }
    }

    fn element(self, code: u32) -> Option<Element> {
        Some(match (self, code) {
            (MmaKind::F16, 0) => Element::F16,
            (MmaKind::F16, 1) => Element::Bf16,
            (MmaKind::Tf32, 2) => Element::Tf32,
            (MmaKind::I8, 0) => Element::U8,
            (MmaKind::I8, 1) => Element::S8,
            (MmaKind::Mxf4 | MmaKind::Mxf4nvf4, 1) => Element::E2m1Packed,
            (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, 0) => Element::E4m3,
            (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, 1) => Element::E5m2,
            (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, 3) => Element::E2m3,
            (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, 4) => Element::E3m2,
            (MmaKind::F8f6f4 | MmaKind::Mxf8f6f4, 5) => Element::E2m1,
            _ => return None,
        })
    }
}

/// The format of block scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleFormat {
    /// A power of two.
    Ue8m0,
    /// An unsigned 8-bit float.
    Ue4m3,
}

/// A decoded instruction descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionDescriptor {
    /// Rows of D, over both CTAs of a pair.
    pub rows: usize,
    /// Columns of D.
    pub columns: usize,
    /// Element type of A.
    pub a: Element,
    /// Element type of B.
    pub b: Element,
    /// Type of D.
    pub d: Accumulator,
    /// A is negated.
    pub negate_a: bool,
    /// B is negated.
    pub negate_b: bool,
    /// Contiguous dimension of A in shared memory.
    pub a_major: Major,
    /// Contiguous dimension of B.
    pub b_major: Major,
    /// Integer sums saturate.
    pub saturate: bool,
    /// Which byte of a cell holds A's first scale.
    pub a_scale_id: usize,
    /// Which byte of a cell holds B's first scale.
    pub b_scale_id: usize,
    /// Format of the scales.
    pub scale_format: ScaleFormat,
}

impl InstructionDescriptor {
    /// Decodes the descriptor of an instruction of the given kind.
    pub fn decode(kind: MmaKind, bits: u32) -> Result<InstructionDescriptor, OperandError> {
        let field = |low: u32, width: u32| bits >> low & ((1 << width) - 1);
        let flag = |bit: u32| field(bit, 1) == 1;
        let major = |bit: u32| if flag(bit) { Major::Mn } else { Major::K };
        if flag(2) {
            return OperandError::unsupported("sparse tcgen05.mma (instruction descriptor bit 2)");
        }
        let fp4 = matches!(kind, MmaKind::Mxf4 | MmaKind::Mxf4nvf4);
        if fp4 && flag(31) {
            return OperandError::unsupported("K = 96 (instruction descriptor bit 31) of sm_103a");
        }
        let element = |name: &str, code: u32| {
            kind.element(code).ok_or_else(|| {
                OperandError::Illegal(format!(
                    "instruction descriptor {bits:#010x}: {name} type {code} does not exist for \
                     {kind:?}"
                ))
            })
        };
        Ok(InstructionDescriptor {
            rows: field(24, 5) as usize * 16,
            columns: field(17, 6) as usize * 8,
            a: element("A", field(7, 3))?,
            b: element("B", if fp4 { field(10, 2) } else { field(10, 3) })?,
            d: accumulator(kind, bits, field(4, 2))?,
            negate_a: flag(13),
            negate_b: flag(14),
            a_major: major(15),
            b_major: major(16),
            saturate: kind == MmaKind::I8 && flag(3),
            a_scale_id: if kind.is_scaled() { field(29, 2) as usize } else { 0 },
            b_scale_id: if kind.is_scaled() { field(4, 2) as usize } else { 0 },
            scale_format: if flag(23) { ScaleFormat::Ue8m0 } else { ScaleFormat::Ue4m3 },
        })
    }
}

fn accumulator(kind: MmaKind, bits: u32, code: u32) -> Result<Accumulator, OperandError> {
    match (kind, code) {
        _ if kind.is_scaled() => Ok(Accumulator::F32),
        (MmaKind::I8, 2) => Ok(Accumulator::S32),
        (MmaKind::F16 | MmaKind::F8f6f4, 0) => Ok(Accumulator::F16),
        (MmaKind::F16 | MmaKind::F8f6f4 | MmaKind::Tf32, 1) => Ok(Accumulator::F32),
        _ => OperandError::illegal(format!(
            "instruction descriptor {bits:#010x}: D type {code} does not exist for {kind:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_descriptors() {
        let d = InstructionDescriptor::decode(MmaKind::F16, 0x0840_0010).unwrap();
        assert_eq!((d.rows, d.columns, d.a, d.b), (128, 256, Element::F16, Element::F16));
        assert_eq!(d.d, Accumulator::F32);
        let d = InstructionDescriptor::decode(MmaKind::F16, 0x0810_0490).unwrap();
        assert_eq!((d.rows, d.columns, d.a, d.b), (128, 64, Element::Bf16, Element::Bf16));
        let d = InstructionDescriptor::decode(MmaKind::F16, 0x0811_8490).unwrap();
        assert_eq!((d.a_major, d.b_major), (Major::Mn, Major::Mn));
    }

    #[test]
    fn scaled_kinds_reuse_the_d_field() {
        let bits = 128 >> 4 << 24 | 128 >> 3 << 17 | 1 << 10 | 1 << 7 | 2 << 4 | 2 << 29;
        let d = InstructionDescriptor::decode(MmaKind::Mxf4nvf4, bits).unwrap();
        assert_eq!((d.a_scale_id, d.b_scale_id), (2, 2));
        assert_eq!((d.scale_format, d.d), (ScaleFormat::Ue4m3, Accumulator::F32));
    }

    #[test]
    fn wrong_types_are_named() {
        let error = InstructionDescriptor::decode(MmaKind::Tf32, 0x0810_0490).unwrap_err();
        assert!(error.to_string().contains("A type 1 does not exist for Tf32"), "{error}");
    }
}

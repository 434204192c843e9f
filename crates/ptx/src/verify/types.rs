//! Instruction types and the registers that suit them.

use crate::ast::Type;

/// The type an instruction gives an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Want {
    /// Its name, without the dot.
    pub(super) name: &'static str,
    /// Its width.
    pub(super) bits: u32,
    /// What registers it mixes with.
    pub(super) class: Class,
}

/// How strict a type is about registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Predicates only.
    Predicate,
    /// Any register but a predicate.
    Bits,
    /// Integer and untyped registers.
    Integer,
    /// Registers of exactly this type, and untyped ones.
    Float(Type),
    /// Untyped registers of exactly this width.
    Packed,
}

/// Types that only instructions have: their values live in untyped registers.
const PACKED: &[(&str, u32)] = &[
    ("bf16", 16),
    ("bf16x2", 32),
    ("f32x2", 64),
    ("tf32", 32),
    ("e4m3x2", 16),
    ("e5m2x2", 16),
    ("e2m3x2", 16),
    ("e3m2x2", 16),
    ("e2m1x2", 8),
    ("ue8m0x2", 16),
    ("e4m3x4", 32),
    ("e5m2x4", 32),
    ("e2m3x4", 32),
    ("e3m2x4", 32),
    ("e2m1x4", 16),
    ("u16x2", 32),
    ("s16x2", 32),
    ("u8x4", 32),
    ("s8x4", 32),
];

impl Want {
    /// The type that a modifier of this name is, if it is one.
    pub(super) fn named(name: &str) -> Option<Want> {
        let packed = PACKED.iter().find(|(listed, _)| *listed == name);
        packed
            .map(|&(name, bits)| Want { name, bits, class: Class::Packed })
            .or_else(|| Type::from_name(name).map(Want::of))
    }

    /// The type of a register.
    pub(super) const fn of(ty: Type) -> Want {
        use Type::*;
        let class = match ty {
            Pred => Class::Predicate,
            B8 | B16 | B32 | B64 | B128 => Class::Bits,
            U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64 => Class::Integer,
            F16 | F16x2 | F32 | F64 => Class::Float(ty),
            Bf16 | Bf16x2 | F32x2 => Class::Packed,
        };
        Want { name: ty.name(), bits: ty.bits(), class }
    }

    /// The integer type of twice the width.
    pub(super) fn widened(self) -> Want {
        match (self.name, self.bits) {
            ("s16", _) => Want::of(Type::S32),
            (_, 16) => Want::of(Type::U32),
            ("s32", _) => Want::of(Type::S64),
            _ => Want::of(Type::U64),
        }
    }

    /// Whether a register of type `register` holds such a value; a wider one too if `wide`.
    pub(super) fn suits(self, register: Type, wide: bool) -> bool {
        use Type::*;
        let untyped = matches!(register, B8 | B16 | B32 | B64 | B128);
        let integer = matches!(register, U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64);
        let fits = register.bits() == self.bits || wide && register.bits() > self.bits;
        match self.class {
            Class::Predicate => register == Pred,
            Class::Bits => register != Pred && fits,
            Class::Integer => (untyped || integer) && fits,
            Class::Float(ty) => untyped && fits || register == ty,
            Class::Packed => untyped && register.bits() == self.bits,
        }
    }
}

use crate::numeric::Format;
use crate::register::{Row32, Row64};
use ptx::ast::Type;

/// A comparison of rows: one bit per lane.
#[derive(Clone, Copy)]
pub enum Compare {
    /// Of 32-bit rows.
    A(fn(&Row32, &Row32) -> u32),
    /// Of 64-bit rows.
    B(fn(&Row64, &Row64) -> u32),
}

/// How `setp`'s third operand joins the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoolOp {
    /// `.and`.
    And,
    /// `.or`.
    Or,
    /// `.xor`.
    Xor,
}

impl BoolOp {
    /// The operation called `name`.
    pub fn from_name(name: &str) -> Option<BoolOp> {
        match name {
            "and" => Some(BoolOp::And),
            "or" => Some(BoolOp::Or),
            "xor" => Some(BoolOp::Xor),
            _ => None,
        }
    }

    /// Lane by lane.
    pub fn apply(self, a: u32, b: u32) -> u32 {
        match self {
            BoolOp::And => a & b,
            BoolOp::Or => a | b,
            BoolOp::Xor => a ^ b,
        }
    }
}

macro_rules! test32 {
    (|$a:ident, $b:ident| $e:expr) => {{
        fn f(x: &Row32, y: &Row32) -> u32 {
            let mut mask = 0;
            for i in 0..32 {
                let ($a, $b) = (x.0[i], y.0[i]);
                mask |= u32::from($e) << i;
            }
            mask
        }
        Compare::A(f)
    }};
}

macro_rules! test64 {
    (|$a:ident, $b:ident| $e:expr) => {{
        fn f(x: &Row64, y: &Row64) -> u32 {
            let mut mask = 0;
            for i in 0..32 {
                let ($a, $b) = (x.0[i], y.0[i]);
                mask |= u32::from($e) << i;
            }
            mask
        }
        Compare::B(f)
    }};
}

macro_rules! ordered {
    ($test:ident, $name:expr, $cast:ty) => {
        match $name {
            "eq" => $test!(|a, b| a as $cast == b as $cast),
            "ne" => $test!(|a, b| a as $cast != b as $cast),
            "lt" | "lo" => $test!(|a, b| (a as $cast) < (b as $cast)),
            "le" | "ls" => $test!(|a, b| a as $cast <= b as $cast),
            "gt" | "hi" => $test!(|a, b| a as $cast > b as $cast),
            "ge" | "hs" => $test!(|a, b| a as $cast >= b as $cast),
            _ => return None,
        }
    };
}

/// An integer comparison.
pub fn compare_integer(name: &str, ty: Type) -> Option<Compare> {
    use Type::*;
    Some(match ty {
        B16 | U16 => ordered!(test32, name, u16),
        S16 => ordered!(test32, name, i16),
        B32 | U32 => ordered!(test32, name, u32),
        S32 => ordered!(test32, name, i32),
        B64 | U64 => ordered!(test64, name, u64),
        S64 => ordered!(test64, name, i64),
        _ => return None,
    })
}

macro_rules! floating {
    ($test:ident, $name:expr, $of:expr) => {
        match $name {
            "eq" => $test!(|a, b| $of(a) == $of(b)),
            "ne" => $test!(|a, b| $of(a) < $of(b) || $of(a) > $of(b)),
            "lt" => $test!(|a, b| $of(a) < $of(b)),
            "le" => $test!(|a, b| $of(a) <= $of(b)),
            "gt" => $test!(|a, b| $of(a) > $of(b)),
            "ge" => $test!(|a, b| $of(a) >= $of(b)),
            "equ" => $test!(|a, b| !($of(a) < $of(b) || $of(a) > $of(b))),
            "neu" => $test!(|a, b| $of(a) != $of(b)),
            "ltu" => $test!(|a, b| !($of(a) >= $of(b))),
            "leu" => $test!(|a, b| !($of(a) > $of(b))),
            "gtu" => $test!(|a, b| !($of(a) <= $of(b))),
            "geu" => $test!(|a, b| !($of(a) < $of(b))),
            "num" => $test!(|a, b| !$of(a).is_nan() && !$of(b).is_nan()),
            "nan" => $test!(|a, b| $of(a).is_nan() || $of(b).is_nan()),
            _ => return None,
        }
    };
}

#[inline(always)]
fn single(bits: u32) -> f32 {
    f32::from_bits(bits)
}

#[inline(always)]
fn flushed(bits: u32) -> f32 {
    crate::numeric::flush(f32::from_bits(bits), crate::numeric::Flush::ToZero)
}

#[inline(always)]
fn double(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// An f32 or f64 comparison.
// `!(a >= b)` is PTX's "less or unordered"; partial_cmp would hide that.
#[allow(clippy::neg_cmp_op_on_partial_ord)]
pub fn compare_float(name: &str, ty: Type, ftz: bool) -> Option<Compare> {
    Some(match (ty, ftz) {
        (Type::F32, false) => floating!(test32, name, single),
        (Type::F32, true) => floating!(test32, name, flushed),
        (Type::F64, _) => floating!(test64, name, double),
        _ => return None,
    })
}

#[inline(always)]
fn f16(bits: u32) -> f32 {
    Format::F16.decode(bits & 0xFFFF)
}

#[inline(always)]
fn bf16(bits: u32) -> f32 {
    Format::BF16.decode(bits & 0xFFFF)
}

#[inline(always)]
fn upper_f16(bits: u32) -> f32 {
    Format::F16.decode(bits >> 16)
}

#[inline(always)]
fn upper_bf16(bits: u32) -> f32 {
    Format::BF16.decode(bits >> 16)
}

/// Which half of a packed register is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Bits 15:0, or a scalar.
    Low,
    /// Bits 31:16.
    High,
}

/// A comparison of f16 or bf16, or of one half of a packed pair.
#[allow(clippy::neg_cmp_op_on_partial_ord)]
pub fn compare_half(name: &str, ty: Type, half: Half) -> Option<Compare> {
    Some(match (ty, half) {
        (Type::F16 | Type::F16x2, Half::Low) => floating!(test32, name, f16),
        (Type::Bf16 | Type::Bf16x2, Half::Low) => floating!(test32, name, bf16),
        (Type::F16x2, Half::High) => floating!(test32, name, upper_f16),
        (Type::Bf16x2, Half::High) => floating!(test32, name, upper_bf16),
        _ => return None,
    })
}

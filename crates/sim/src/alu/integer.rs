use super::{RowFn, row};
use crate::register::{Row32, Row64};
use ptx::ast::Type;

/// Sign-extended 16-bit value.
fn s16(x: u32) -> i32 {
    i32::from(x as i16)
}

fn u16_of(x: i32) -> u32 {
    u32::from(x as u16)
}

/// The row function of an integer instruction whose operands all have type `ty`.
///
/// `name` is the opcode with the modifiers that change its arithmetic: `mul.lo`, `add.sat`,
/// `min.relu`, …
pub fn integer_op(name: &str, ty: Type) -> Option<RowFn> {
    use Type::*;
    match ty {
        U16 | B16 => unsigned16(name),
        S16 => signed16(name),
        U32 | B32 => unsigned32(name),
        S32 => signed32(name),
        U64 | B64 => unsigned64(name),
        S64 => signed64(name),
        _ => None,
    }
}

fn unsigned16(name: &str) -> Option<RowFn> {
    Some(match name {
        "add" => row!(A2 | a, b | (a.wrapping_add(b)) & 0xFFFF),
        "sub" => row!(A2 | a, b | (a.wrapping_sub(b)) & 0xFFFF),
        "mul.lo" => row!(A2 | a, b | a.wrapping_mul(b) & 0xFFFF),
        "mul.hi" => row!(A2 | a, b | (a & 0xFFFF).wrapping_mul(b & 0xFFFF) >> 16),
        "mul.wide" => row!(A2 | a, b | (a & 0xFFFF).wrapping_mul(b & 0xFFFF)),
        "mad.lo" => row!(A3 | a, b, c | a.wrapping_mul(b).wrapping_add(c) & 0xFFFF),
        "mad.hi" => {
            row!(
                A3 | a,
                b,
                c | ((a & 0xFFFF).wrapping_mul(b & 0xFFFF) >> 16).wrapping_add(c) & 0xFFFF
            )
        }
        "mad.wide" => row!(A3 | a, b, c | (a & 0xFFFF).wrapping_mul(b & 0xFFFF).wrapping_add(c)),
        "div" => row!(A2 | a, b | (a & 0xFFFF).checked_div(b & 0xFFFF).unwrap_or(0xFFFF)),
        "rem" => row!(A2 | a, b | (a & 0xFFFF).checked_rem(b & 0xFFFF).unwrap_or(a & 0xFFFF)),
        "min" => row!(A2 | a, b | (a & 0xFFFF).min(b & 0xFFFF)),
        "max" => row!(A2 | a, b | (a & 0xFFFF).max(b & 0xFFFF)),
        "sad" => row!(A3 | a, b, c | (a & 0xFFFF).abs_diff(b & 0xFFFF).wrapping_add(c) & 0xFFFF),
        _ => return None,
    })
}

fn signed16(name: &str) -> Option<RowFn> {
    Some(match name {
        "mul.hi" => row!(A2 | a, b | u16_of((s16(a) * s16(b)) >> 16)),
        "mul.wide" => row!(A2 | a, b | (s16(a) * s16(b)) as u32),
        "mad.wide" => row!(A3 | a, b, c | ((s16(a) * s16(b)) as u32).wrapping_add(c)),
        "mad.hi" => row!(A3 | a, b, c | u16_of(((s16(a) * s16(b)) >> 16).wrapping_add(s16(c)))),
        "div" => row!(A2 | a, b | u16_of(s16(a).checked_div(s16(b)).unwrap_or(-1))),
        "rem" => row!(A2 | a, b | u16_of(s16(a).checked_rem(s16(b)).unwrap_or(s16(a)))),
        "min" => row!(A2 | a, b | u16_of(s16(a).min(s16(b)))),
        "max" => row!(A2 | a, b | u16_of(s16(a).max(s16(b)))),
        "abs" => row!(A1 | a | u16_of(s16(a).abs())),
        "neg" => row!(A1 | a | u16_of(-s16(a))),
        "sad" => row!(A3 | a, b, c | (s16(a).abs_diff(s16(b))).wrapping_add(c) & 0xFFFF),
        other => return unsigned16(other),
    })
}

fn unsigned32(name: &str) -> Option<RowFn> {
    Some(match name {
        "add" => row!(A2 | a, b | a.wrapping_add(b)),
        "sub" => row!(A2 | a, b | a.wrapping_sub(b)),
        "mul.lo" => row!(A2 | a, b | a.wrapping_mul(b)),
        "mul.hi" => row!(A2 | a, b | ((u64::from(a) * u64::from(b)) >> 32) as u32),
        "mad.lo" => row!(A3 | a, b, c | a.wrapping_mul(b).wrapping_add(c)),
        "mad.hi" => {
            row!(A3 | a, b, c | (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c))
        }
        "mul24.lo" => row!(A2 | a, b | (a & 0xFF_FFFF).wrapping_mul(b & 0xFF_FFFF)),
        "mul24.hi" => {
            row!(A2 | a, b | ((u64::from(a & 0xFF_FFFF) * u64::from(b & 0xFF_FFFF)) >> 16) as u32)
        }
        "mad24.lo" => {
            row!(A3 | a, b, c | (a & 0xFF_FFFF).wrapping_mul(b & 0xFF_FFFF).wrapping_add(c))
        }
        "mad24.hi" => row!(
            A3 | a,
            b,
            c | (((u64::from(a & 0xFF_FFFF) * u64::from(b & 0xFF_FFFF)) >> 16) as u32)
                .wrapping_add(c)
        ),
        "div" => row!(A2 | a, b | a.checked_div(b).unwrap_or(u32::MAX)),
        "rem" => row!(A2 | a, b | a.checked_rem(b).unwrap_or(a)),
        "min" => row!(A2 | a, b | a.min(b)),
        "max" => row!(A2 | a, b | a.max(b)),
        "min3" => row!(A3 | a, b, c | a.min(b).min(c)),
        "max3" => row!(A3 | a, b, c | a.max(b).max(c)),
        "sad" => row!(A3 | a, b, c | a.abs_diff(b).wrapping_add(c)),
        _ => return None,
    })
}

/// The 48-bit product of the lower 24 bits, signed.
#[inline(always)]
fn product24(a: u32, b: u32) -> i64 {
    let low = |x: u32| i64::from((x << 8) as i32 >> 8);
    low(a) * low(b)
}

fn signed32(name: &str) -> Option<RowFn> {
    Some(match name {
        "add.sat" => row!(A2 | a, b | (a as i32).saturating_add(b as i32) as u32),
        "sub.sat" => row!(A2 | a, b | (a as i32).saturating_sub(b as i32) as u32),
        "mul.hi" => row!(A2 | a, b | ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32),
        "mad.hi" => row!(
            A3 | a,
            b,
            c | (((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32).wrapping_add(c)
        ),
        "mad.hi.sat" => row!(
            A3 | a,
            b,
            c | (((i64::from(a as i32) * i64::from(b as i32)) >> 32) as i32)
                .saturating_add(c as i32) as u32
        ),
        "mul24.lo" => row!(A2 | a, b | product24(a, b) as u32),
        "mul24.hi" => row!(A2 | a, b | (product24(a, b) >> 16) as u32),
        "mad24.lo" => row!(A3 | a, b, c | (product24(a, b) as u32).wrapping_add(c)),
        "mad24.hi" => row!(A3 | a, b, c | ((product24(a, b) >> 16) as u32).wrapping_add(c)),
        "mad24.hi.sat" => {
            row!(A3 | a, b, c | ((product24(a, b) >> 16) as i32).saturating_add(c as i32) as u32)
        }
        "div" => row!(
            A2 | a,
            b | match b as i32 {
                0 => u32::MAX,
                b => (a as i32).wrapping_div(b) as u32,
            }
        ),
        "rem" => row!(
            A2 | a,
            b | match b as i32 {
                0 => a,
                b => (a as i32).wrapping_rem(b) as u32,
            }
        ),
        "min" => row!(A2 | a, b | (a as i32).min(b as i32) as u32),
        "max" => row!(A2 | a, b | (a as i32).max(b as i32) as u32),
        "min3" => row!(A3 | a, b, c | (a as i32).min(b as i32).min(c as i32) as u32),
        "max3" => row!(A3 | a, b, c | (a as i32).max(b as i32).max(c as i32) as u32),
        "min.relu" => row!(A2 | a, b | (a as i32).min(b as i32).max(0) as u32),
        "max.relu" => row!(A2 | a, b | (a as i32).max(b as i32).max(0) as u32),
        "min3.relu" => row!(A3 | a, b, c | (a as i32).min(b as i32).min(c as i32).max(0) as u32),
        "max3.relu" => row!(A3 | a, b, c | (a as i32).max(b as i32).max(c as i32).max(0) as u32),
        "abs" => row!(A1 | a | (a as i32).wrapping_abs() as u32),
        "neg" => row!(A1 | a | (a as i32).wrapping_neg() as u32),
        "sad" => row!(A3 | a, b, c | (a as i32).abs_diff(b as i32).wrapping_add(c)),
        other => return unsigned32(other),
    })
}

fn unsigned64(name: &str) -> Option<RowFn> {
    Some(match name {
        "add" => row!(B2 | a, b | a.wrapping_add(b)),
        "sub" => row!(B2 | a, b | a.wrapping_sub(b)),
        "mul.lo" => row!(B2 | a, b | a.wrapping_mul(b)),
        "mul.hi" => row!(B2 | a, b | ((u128::from(a) * u128::from(b)) >> 64) as u64),
        "mad.lo" => row!(B3 | a, b, c | a.wrapping_mul(b).wrapping_add(c)),
        "mad.hi" => {
            row!(B3 | a, b, c | (((u128::from(a) * u128::from(b)) >> 64) as u64).wrapping_add(c))
        }
        "div" => row!(B2 | a, b | a.checked_div(b).unwrap_or(u64::MAX)),
        "rem" => row!(B2 | a, b | a.checked_rem(b).unwrap_or(a)),
        "min" => row!(B2 | a, b | a.min(b)),
        "max" => row!(B2 | a, b | a.max(b)),
        "sad" => row!(B3 | a, b, c | a.abs_diff(b).wrapping_add(c)),
        _ => return None,
    })
}

fn signed64(name: &str) -> Option<RowFn> {
    Some(match name {
        "mul.hi" => row!(B2 | a, b | ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64),
        "mad.hi" => row!(
            B3 | a,
            b,
            c | (((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64).wrapping_add(c)
        ),
        "div" => row!(
            B2 | a,
            b | match b as i64 {
                0 => u64::MAX,
                b => (a as i64).wrapping_div(b) as u64,
            }
        ),
        "rem" => row!(
            B2 | a,
            b | match b as i64 {
                0 => a,
                b => (a as i64).wrapping_rem(b) as u64,
            }
        ),
        "min" => row!(B2 | a, b | (a as i64).min(b as i64) as u64),
        "max" => row!(B2 | a, b | (a as i64).max(b as i64) as u64),
        "abs" => row!(B1 | a | (a as i64).wrapping_abs() as u64),
        "neg" => row!(B1 | a | (a as i64).wrapping_neg() as u64),
        "sad" => row!(B3 | a, b, c | (a as i64).abs_diff(b as i64).wrapping_add(c)),
        other => return unsigned64(other),
    })
}

/// `mul.wide` and `mad.wide` of 32-bit operands.
pub fn wide_op(name: &str, ty: Type) -> Option<RowFn> {
    Some(match (name, ty) {
        ("mul.wide", Type::U32) => row!(Wide2 | a, b | u64::from(a) * u64::from(b)),
        ("mul.wide", Type::S32) => {
            row!(Wide2 | a, b | (i64::from(a as i32) * i64::from(b as i32)) as u64)
        }
        ("mad.wide", Type::U32) => {
            row!(Wide3 | a, b, c | (u64::from(a) * u64::from(b)).wrapping_add(c))
        }
        ("mad.wide", Type::S32) => row!(
            Wide3 | a,
            b,
            c | ((i64::from(a as i32) * i64::from(b as i32)) as u64).wrapping_add(c)
        ),
        _ => return None,
    })
}

use super::{RowFn, row};
use crate::numeric::{Format, Overflow, Rounding, add_narrow, fma_narrow, mul_narrow};
use crate::register::Row32;

const RN: Rounding = Rounding::Nearest;

#[inline(always)]
fn pair1(a: u32, op: impl Fn(u32) -> u32) -> u32 {
    op(a & 0xFFFF) | op(a >> 16) << 16
}

#[inline(always)]
fn pair2(a: u32, b: u32, op: impl Fn(u32, u32) -> u32) -> u32 {
    op(a & 0xFFFF, b & 0xFFFF) | op(a >> 16, b >> 16) << 16
}

#[inline(always)]
fn pair3(a: u32, b: u32, c: u32, op: impl Fn(u32, u32, u32) -> u32) -> u32 {
    op(a & 0xFFFF, b & 0xFFFF, c & 0xFFFF) | op(a >> 16, b >> 16, c >> 16) << 16
}

fn sum(format: Format, a: u32, b: u32) -> u32 {
    add_narrow(format, a & 0xFFFF, b & 0xFFFF, RN)
}

fn difference(format: Format, a: u32, b: u32) -> u32 {
    sum(format, a, b ^ 0x8000)
}

fn product(format: Format, a: u32, b: u32) -> u32 {
    mul_narrow(format, a & 0xFFFF, b & 0xFFFF, RN)
}

fn fused(format: Format, a: u32, b: u32, c: u32) -> u32 {
    fma_narrow(format, a & 0xFFFF, b & 0xFFFF, c & 0xFFFF, RN)
}

fn fused_relu(format: Format, a: u32, b: u32, c: u32) -> u32 {
    relu(format, fused(format, a, b, c))
}

/// The one NaN instructions give.
fn canonical(format: Format, x: u32) -> u32 {
    if format.decode(x).is_nan() { format.nan() } else { x }
}

/// Subnormals become zeros of the same sign.
fn flush(format: Format, x: u32) -> u32 {
    let exponent = format.infinity();
    if x & exponent == 0 { x & 0x8000 } else { x }
}

fn relu(format: Format, x: u32) -> u32 {
    if format.decode(x).is_nan() {
        x
    } else if x & 0x8000 != 0 {
        0
    } else {
        x
    }
}

fn saturate(format: Format, x: u32) -> u32 {
    let value = format.decode(x);
    let one = format.encode(1.0, RN, Overflow::Format);
    if value > 1.0 {
        one
    } else if value > 0.0 {
        x
    } else {
        0
    }
}

/// `max`/`min` of two numbers: -0 below +0; a NaN loses, or wins with `.NaN`.
fn select(format: Format, a: u32, b: u32, larger: bool, nan: bool) -> u32 {
    let (a, b) = (a & 0xFFFF, b & 0xFFFF);
    let (x, y) = (format.decode(a), format.decode(b));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => return format.nan(),
        (true, false) => return if nan { format.nan() } else { b },
        (false, true) => return if nan { format.nan() } else { a },
        (false, false) => {}
    }
    let a_first = if x == y { a & 0x8000 != 0 } else { x < y };
    if a_first == larger { b } else { a }
}

/// `.xorsign.abs`: the magnitudes are compared, the sign is that of the product.
fn xorsign(format: Format, a: u32, b: u32, larger: bool, nan: bool) -> u32 {
    let picked = select(format, a & 0x7FFF, b & 0x7FFF, larger, nan);
    if format.decode(picked).is_nan() { picked } else { picked | (a ^ b) & 0x8000 }
}

fn through_f32(format: Format, a: u32, op: impl Fn(f64) -> f64) -> u32 {
    format.encode(op(f64::from(format.decode(a & 0xFFFF))), RN, Overflow::Format)
}

macro_rules! scalar {
    ($name:expr, $fmt:expr) => {
        Some(match $name {
            "add" => row!(A2 | a, b | sum($fmt, a, b)),
            "sub" => row!(A2 | a, b | difference($fmt, a, b)),
            "mul" => row!(A2 | a, b | product($fmt, a, b)),
            "fma" => row!(A3 | a, b, c | fused($fmt, a, b, c)),
            "fma.relu" => row!(A3 | a, b, c | fused_relu($fmt, a, b, c)),
            "neg" => row!(A1 | a | canonical($fmt, (a ^ 0x8000) & 0xFFFF)),
            "abs" => row!(A1 | a | canonical($fmt, a & 0x7FFF)),
            "flush" => row!(A1 | a | flush($fmt, a & 0xFFFF)),
            "max" => row!(A2 | a, b | select($fmt, a, b, true, false)),
            "min" => row!(A2 | a, b | select($fmt, a, b, false, false)),
            "max.NaN" => row!(A2 | a, b | select($fmt, a, b, true, true)),
            "min.NaN" => row!(A2 | a, b | select($fmt, a, b, false, true)),
            "max.xorsign.abs" => row!(A2 | a, b | xorsign($fmt, a, b, true, false)),
            "max.NaN.xorsign.abs" => row!(A2 | a, b | xorsign($fmt, a, b, true, true)),
            "min.xorsign.abs" => row!(A2 | a, b | xorsign($fmt, a, b, false, false)),
            "min.NaN.xorsign.abs" => row!(A2 | a, b | xorsign($fmt, a, b, false, true)),
            "ex2" => row!(A1 | a | through_f32($fmt, a, f64::exp2)),
            "tanh" => row!(A1 | a | through_f32($fmt, a, f64::tanh)),
            "sat" => row!(A1 | a | saturate($fmt, a & 0xFFFF)),
            _ => return None,
        })
    };
}

macro_rules! packed {
    ($name:expr, $fmt:expr) => {
        Some(match $name {
            "add" => row!(A2 | a, b | pair2(a, b, |x, y| sum($fmt, x, y))),
            "sub" => row!(A2 | a, b | pair2(a, b, |x, y| difference($fmt, x, y))),
            "mul" => row!(A2 | a, b | pair2(a, b, |x, y| product($fmt, x, y))),
            "fma" => row!(A3 | a, b, c | pair3(a, b, c, |x, y, z| fused($fmt, x, y, z))),
            "fma.relu" => row!(A3 | a, b, c | pair3(a, b, c, |x, y, z| fused_relu($fmt, x, y, z))),
            "neg" => row!(A1 | a | pair1(a ^ 0x8000_8000, |x| canonical($fmt, x))),
            "abs" => row!(A1 | a | pair1(a & 0x7FFF_7FFF, |x| canonical($fmt, x))),
            "flush" => row!(A1 | a | pair1(a, |x| flush($fmt, x))),
            "max" => row!(A2 | a, b | pair2(a, b, |x, y| select($fmt, x, y, true, false))),
            "min" => row!(A2 | a, b | pair2(a, b, |x, y| select($fmt, x, y, false, false))),
            "max.NaN" => row!(A2 | a, b | pair2(a, b, |x, y| select($fmt, x, y, true, true))),
            "min.NaN" => row!(A2 | a, b | pair2(a, b, |x, y| select($fmt, x, y, false, true))),
            "max.xorsign.abs" => {
                row!(A2 | a, b | pair2(a, b, |x, y| xorsign($fmt, x, y, true, false)))
            }
            "max.NaN.xorsign.abs" => {
                row!(A2 | a, b | pair2(a, b, |x, y| xorsign($fmt, x, y, true, true)))
            }
            "min.xorsign.abs" => {
                row!(A2 | a, b | pair2(a, b, |x, y| xorsign($fmt, x, y, false, false)))
            }
            "min.NaN.xorsign.abs" => {
                row!(A2 | a, b | pair2(a, b, |x, y| xorsign($fmt, x, y, false, true)))
            }
            "ex2" => row!(A1 | a | pair1(a, |x| through_f32($fmt, x, f64::exp2))),
            "tanh" => row!(A1 | a | pair1(a, |x| through_f32($fmt, x, f64::tanh))),
            "sat" => row!(A1 | a | pair1(a, |x| saturate($fmt, x))),
            _ => return None,
        })
    };
}

/// The row function of an f16, bf16, f16x2 or bf16x2 instruction.
pub fn half_op(name: &str, ty: &str) -> Option<RowFn> {
    match ty {
        "f16" => scalar!(name, Format::F16),
        "bf16" => scalar!(name, Format::BF16),
        "f16x2" => packed!(name, Format::F16),
        "bf16x2" => packed!(name, Format::BF16),
        _ => None,
    }
}

/// Mixed precision: f32 arithmetic with one or two narrow operands (`fma.rn.f32.bf16`,
/// `add.rn.f32.f16`).
pub fn mixed_op(name: &str, ty: &str) -> Option<RowFn> {
    macro_rules! of {
        ($fmt:expr) => {
            Some(match name {
                "add" => row!(
                    A2 | a,
                    b | {
                        crate::numeric::canonical($fmt.decode(a & 0xFFFF) + f32::from_bits(b))
                            .to_bits()
                    }
                ),
                "sub" => row!(
                    A2 | a,
                    b | {
                        crate::numeric::canonical($fmt.decode(a & 0xFFFF) - f32::from_bits(b))
                            .to_bits()
                    }
                ),
                "fma" => row!(
                    A3 | a,
                    b,
                    c | {
                        // The product of two narrow numbers is exact in f32.
                        let product = $fmt.decode(a & 0xFFFF) * $fmt.decode(b & 0xFFFF);
                        crate::numeric::canonical(product + f32::from_bits(c)).to_bits()
                    }
                ),
                _ => return None,
            })
        };
    }
    match ty {
        "f16" => of!(Format::F16),
        "bf16" => of!(Format::BF16),
        _ => None,
    }
}

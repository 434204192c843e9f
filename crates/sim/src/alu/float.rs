use super::{RowFn, row};
use crate::numeric::{self, Flush, Rounding, canonical, double, flush, mufu as unit};
use crate::register::{Row32, Row64};

const KEEP: Flush = Flush::Keep;
const FTZ: Flush = Flush::ToZero;

#[inline(always)]
fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

#[inline(always)]
fn sum(a: f32, b: f32, mode: Flush) -> u32 {
    flush(canonical(flush(a, mode) + flush(b, mode)), mode).to_bits()
}

#[inline(always)]
fn product(a: f32, b: f32, mode: Flush) -> u32 {
    flush(canonical(flush(a, mode) * flush(b, mode)), mode).to_bits()
}

/// Larger (or smaller) of two numbers as `max`/`min` order them: -0 below +0, a NaN loses.
#[inline(always)]
fn select(a: f32, b: f32, mode: Flush, larger: bool, nan: bool) -> f32 {
    let (a, b) = (flush(a, mode), flush(b, mode));
    if a.is_nan() || b.is_nan() {
        return canonical(if nan || (a.is_nan() && b.is_nan()) {
            f32::NAN
        } else if a.is_nan() {
            b
        } else {
            a
        });
    }
    let a_first = if a == b { a.is_sign_negative() } else { a < b };
    if a_first == larger { b } else { a }
}

/// `.xorsign.abs`: the magnitudes are compared, the sign is that of the product.
#[inline(always)]
fn xorsign(a: u32, b: u32, mode: Flush, larger: bool, nan: bool) -> u32 {
    let picked = select(f(a).abs(), f(b).abs(), mode, larger, nan);
    if picked.is_nan() { picked.to_bits() } else { picked.to_bits() | (a ^ b) & 0x8000_0000 }
}

/// Row functions of `add`, `mul`, … in one rounding mode and flush mode.
macro_rules! rounded {
    ($name:expr, $r:ident, $z:expr) => {
        match $name {
            "add" => row!(A2 | a, b | numeric::add(f(a), f(b), Rounding::$r, $z).to_bits()),
            "sub" => row!(A2 | a, b | numeric::add(f(a), -f(b), Rounding::$r, $z).to_bits()),
            "mul" => row!(A2 | a, b | numeric::mul(f(a), f(b), Rounding::$r, $z).to_bits()),
            "fma" | "mad" => {
                row!(A3 | a, b, c | numeric::fma(f(a), f(b), f(c), Rounding::$r, $z).to_bits())
            }
            "div" => row!(A2 | a, b | numeric::div(f(a), f(b), Rounding::$r, $z).to_bits()),
            "rcp" => row!(A1 | a | numeric::rcp(f(a), Rounding::$r, $z).to_bits()),
            "sqrt" => row!(A1 | a | numeric::sqrt(f(a), Rounding::$r, $z).to_bits()),
            _ => return None,
        }
    };
}

macro_rules! nearest {
    ($name:expr, $z:expr) => {
        Some(match $name {
            "add" => row!(A2 | a, b | sum(f(a), f(b), $z)),
            "sub" => row!(A2 | a, b | sum(f(a), -f(b), $z)),
            "mul" => row!(A2 | a, b | product(f(a), f(b), $z)),
            "neg" => row!(A1 | a | canonical(-flush(f(a), $z)).to_bits()),
            "abs" => row!(A1 | a | canonical(flush(f(a), $z).abs()).to_bits()),
            "copysign" => row!(A2 | a, b | a & 0x8000_0000 | b & 0x7FFF_FFFF),
            "max" => row!(A2 | a, b | select(f(a), f(b), $z, true, false).to_bits()),
            "min" => row!(A2 | a, b | select(f(a), f(b), $z, false, false).to_bits()),
            "max.NaN" => row!(A2 | a, b | select(f(a), f(b), $z, true, true).to_bits()),
            "min.NaN" => row!(A2 | a, b | select(f(a), f(b), $z, false, true).to_bits()),
            "max3" => row!(
                A3 | a,
                b,
                c | {
                    select(select(f(a), f(b), $z, true, false), f(c), $z, true, false).to_bits()
                }
            ),
            "min3" => row!(
                A3 | a,
                b,
                c | {
                    select(select(f(a), f(b), $z, false, false), f(c), $z, false, false).to_bits()
                }
            ),
            "max3.NaN" => row!(
                A3 | a,
                b,
                c | { select(select(f(a), f(b), $z, true, true), f(c), $z, true, true).to_bits() }
            ),
            "min3.NaN" => row!(
                A3 | a,
                b,
                c | {
                    select(select(f(a), f(b), $z, false, true), f(c), $z, false, true).to_bits()
                }
            ),
            "max.xorsign.abs" => row!(A2 | a, b | xorsign(a, b, $z, true, false)),
            "min.xorsign.abs" => row!(A2 | a, b | xorsign(a, b, $z, false, false)),
            "max.NaN.xorsign.abs" => row!(A2 | a, b | xorsign(a, b, $z, true, true)),
            "min.NaN.xorsign.abs" => row!(A2 | a, b | xorsign(a, b, $z, false, true)),
            other => rounded!(other, Nearest, $z),
        })
    };
}

/// The row function of an f32 instruction; `name` carries `.NaN` where the instruction does, and a
/// `3` where `min`/`max` take three operands.
pub fn float_op(name: &str, rounding: Rounding, mode: Flush) -> Option<RowFn> {
    if rounding == Rounding::Nearest && (name == "fma" || name == "mad") {
        return Some(RowFn::A3(if mode == FTZ { fma_rows_ftz } else { fma_rows }));
    }
    match (rounding, mode) {
        (Rounding::Nearest, Flush::Keep) => nearest!(name, KEEP),
        (Rounding::Nearest, Flush::ToZero) => nearest!(name, FTZ),
        (Rounding::Zero, Flush::Keep) => Some(rounded!(name, Zero, KEEP)),
        (Rounding::Zero, Flush::ToZero) => Some(rounded!(name, Zero, FTZ)),
        (Rounding::Down, Flush::Keep) => Some(rounded!(name, Down, KEEP)),
        (Rounding::Down, Flush::ToZero) => Some(rounded!(name, Down, FTZ)),
        (Rounding::Up, Flush::Keep) => Some(rounded!(name, Up, KEEP)),
        (Rounding::Up, Flush::ToZero) => Some(rounded!(name, Up, FTZ)),
        _ => None,
    }
}

fn fma_rows(d: &mut Row32, a: &Row32, b: &Row32, c: &Row32) {
    fused_rows(d, a, b, c);
    d.0.iter_mut().for_each(|x| *x = canonical(f(*x)).to_bits());
}

fn fma_rows_ftz(d: &mut Row32, a: &Row32, b: &Row32, c: &Row32) {
    let flushed = |row: &Row32| Row32(row.0.map(|x| flush(f(x), FTZ).to_bits()));
    fused_rows(d, &flushed(a), &flushed(b), &flushed(c));
    d.0.iter_mut().for_each(|x| *x = flush(canonical(f(*x)), FTZ).to_bits());
}

#[inline(always)]
fn fused_lanes(d: &mut Row32, a: &Row32, b: &Row32, c: &Row32) {
    for i in 0..32 {
        d.0[i] = f(a.0[i]).mul_add(f(b.0[i]), f(c.0[i])).to_bits();
    }
}

#[cfg(target_arch = "x86_64")]
fn fused_rows(d: &mut Row32, a: &Row32, b: &Row32, c: &Row32) {
    #[target_feature(enable = "avx2,fma")]
    fn hardware(d: &mut Row32, a: &Row32, b: &Row32, c: &Row32) {
        fused_lanes(d, a, b, c);
    }
    if std::is_x86_feature_detected!("fma") && std::is_x86_feature_detected!("avx2") {
        // SAFETY: the features the function needs were found on this processor.
        unsafe { hardware(d, a, b, c) };
    } else {
        fused_lanes(d, a, b, c);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn fused_rows(d: &mut Row32, a: &Row32, b: &Row32, c: &Row32) {
    fused_lanes(d, a, b, c);
}

/// The two f32 of a 64-bit register, combined half by half.
#[inline(always)]
fn halves(a: u64, b: u64, op: impl Fn(f32, f32) -> u32) -> u64 {
    let low = op(f(a as u32), f(b as u32));
    let high = op(f((a >> 32) as u32), f((b >> 32) as u32));
    u64::from(high) << 32 | u64::from(low)
}

fn fma_pairs(d: &mut Row64, a: &Row64, b: &Row64, c: &Row64) {
    pair_by_rows(d, [a, b, c], fma_rows);
}

fn fma_pairs_ftz(d: &mut Row64, a: &Row64, b: &Row64, c: &Row64) {
    pair_by_rows(d, [a, b, c], fma_rows_ftz);
}

/// Applies a 32-bit row function to low and high halves.
fn pair_by_rows(d: &mut Row64, sources: [&Row64; 3], op: super::F32x3) {
    let split = |shift: u32| sources.map(|row| Row32(row.0.map(|x| (x >> shift) as u32)));
    let (mut low, mut high) = (Row32::splat(0), Row32::splat(0));
    let [a, b, c] = split(0);
    op(&mut low, &a, &b, &c);
    let [a, b, c] = split(32);
    op(&mut high, &a, &b, &c);
    for i in 0..32 {
        d.0[i] = u64::from(high.0[i]) << 32 | u64::from(low.0[i]);
    }
}

macro_rules! paired {
    ($name:expr, $r:ident, $z:expr) => {
        match $name {
            "add" => row!(
                B2 | a,
                b | halves(a, b, |x, y| numeric::add(x, y, Rounding::$r, $z).to_bits())
            ),
            "sub" => row!(
                B2 | a,
                b | halves(a, b, |x, y| numeric::add(x, -y, Rounding::$r, $z).to_bits())
            ),
            "mul" => row!(
                B2 | a,
                b | halves(a, b, |x, y| numeric::mul(x, y, Rounding::$r, $z).to_bits())
            ),
            "fma" => row!(
                B3 | a,
                b,
                c | {
                    let low = numeric::fma(f(a as u32), f(b as u32), f(c as u32), Rounding::$r, $z);
                    let [a, b, c] = [a, b, c].map(|x| f((x >> 32) as u32));
                    let high = numeric::fma(a, b, c, Rounding::$r, $z);
                    u64::from(high.to_bits()) << 32 | u64::from(low.to_bits())
                }
            ),
            _ => return None,
        }
    };
}

/// The row function of an f32x2 instruction.
pub fn float_pair_op(name: &str, rounding: Rounding, mode: Flush) -> Option<RowFn> {
    if name == "fma" && rounding == Rounding::Nearest {
        return Some(RowFn::B3(if mode == FTZ { fma_pairs_ftz } else { fma_pairs }));
    }
    Some(match (rounding, mode) {
        (Rounding::Nearest, Flush::Keep) => paired!(name, Nearest, KEEP),
        (Rounding::Nearest, Flush::ToZero) => paired!(name, Nearest, FTZ),
        (Rounding::Zero, Flush::Keep) => paired!(name, Zero, KEEP),
        (Rounding::Zero, Flush::ToZero) => paired!(name, Zero, FTZ),
        (Rounding::Down, Flush::Keep) => paired!(name, Down, KEEP),
        (Rounding::Down, Flush::ToZero) => paired!(name, Down, FTZ),
        (Rounding::Up, Flush::Keep) => paired!(name, Up, KEEP),
        (Rounding::Up, Flush::ToZero) => paired!(name, Up, FTZ),
        _ => return None,
    })
}

/// `2^x` without a call, so that rows vectorise: the fraction's power by its series in f64, good to
/// 2^-32, then scaled by the integral part. Within one unit in the last place of [`unit::ex2`].
#[inline(always)]
fn exp2(x: f32, mode: Flush) -> f32 {
    /// ln(2)^k / k!
    const SERIES: [f64; 9] = [
        1.0,
        std::f64::consts::LN_2,
        0.240_226_506_959_100_7,
        0.055_504_108_664_821_58,
        0.009_618_129_107_628_477,
        0.001_333_355_814_642_844_3,
        0.000_154_035_303_933_816_06,
        0.000_015_252_733_804_059_84,
        0.000_001_321_548_679_014_430_6,
    ];
    /// Added and subtracted, rounds to an integer.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let clamped = f64::from(flush(x, mode)).clamp(-1000.0, 1000.0);
    let whole = (clamped + ROUND) - ROUND;
    let fraction = clamped - whole;
    let power = SERIES.iter().rev().fold(0.0, |sum, c| sum * fraction + c);
    let scale = f64::from_bits(((whole as i64 + 1023) as u64) << 52);
    flush(canonical((power * scale) as f32), mode)
}

/// The row function of an approximate function of the special function unit.
pub fn mufu(name: &str, mode: Flush) -> Option<RowFn> {
    macro_rules! of {
        ($z:expr) => {
            Some(match name {
                "ex2" => row!(A1 | a | exp2(f(a), $z).to_bits()),
                "lg2" => row!(A1 | a | unit::lg2(f(a), $z).to_bits()),
                "rcp" => row!(A1 | a | unit::rcp(f(a), $z).to_bits()),
                "rsqrt" => row!(A1 | a | unit::rsqrt(f(a), $z).to_bits()),
                "sqrt" => row!(A1 | a | unit::sqrt(f(a), $z).to_bits()),
                "sin" => row!(A1 | a | unit::sin(f(a), $z).to_bits()),
                "cos" => row!(A1 | a | unit::cos(f(a), $z).to_bits()),
                "tanh" => row!(A1 | a | unit::tanh(f(a)).to_bits()),
                "div" => row!(A2 | a, b | unit::div(f(a), f(b), $z).to_bits()),
                _ => return None,
            })
        };
    }
    match mode {
        Flush::Keep => of!(KEEP),
        Flush::ToZero => of!(FTZ),
    }
}

/// Clamps to [0, 1] (`.sat`); NaN becomes 0.
pub fn saturate() -> RowFn {
    row!(
        A1 | a | {
            let x = f(a);
            if x > 0.0 { x.min(1.0).to_bits() } else { 0 }
        }
    )
}

#[inline(always)]
fn g(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Row functions of f64 arithmetic in one directed rounding mode.
macro_rules! directed {
    ($name:expr, $r:ident) => {
        match $name {
            "add" => row!(B2 | a, b | double::add(g(a), g(b), Rounding::$r).to_bits()),
            "sub" => row!(B2 | a, b | double::add(g(a), -g(b), Rounding::$r).to_bits()),
            "mul" => row!(B2 | a, b | double::mul(g(a), g(b), Rounding::$r).to_bits()),
            "div" => row!(B2 | a, b | double::div(g(a), g(b), Rounding::$r).to_bits()),
            "fma" | "mad" => {
                row!(B3 | a, b, c | double::fma(g(a), g(b), g(c), Rounding::$r).to_bits())
            }
            "rcp" => row!(B1 | a | double::div(1.0, g(a), Rounding::$r).to_bits()),
            "sqrt" => row!(B1 | a | double::sqrt(g(a), Rounding::$r).to_bits()),
            _ => return None,
        }
    };
}

/// The row function of an f64 instruction.
pub fn double_op(name: &str, rounding: Rounding) -> Option<RowFn> {
    match rounding {
        Rounding::Zero => Some(directed!(name, Zero)),
        Rounding::Down => Some(directed!(name, Down)),
        Rounding::Up => Some(directed!(name, Up)),
        _ => nearest_double_op(name),
    }
}

fn nearest_double_op(name: &str) -> Option<RowFn> {
    Some(match name {
        "add" => row!(B2 | a, b | (g(a) + g(b)).to_bits()),
        "sub" => row!(B2 | a, b | (g(a) - g(b)).to_bits()),
        "mul" => row!(B2 | a, b | (g(a) * g(b)).to_bits()),
        "div" => row!(B2 | a, b | (g(a) / g(b)).to_bits()),
        "fma" | "mad" => row!(B3 | a, b, c | g(a).mul_add(g(b), g(c)).to_bits()),
        "copysign" => row!(B2 | a, b | a & 1 << 63 | b & !(1 << 63)),
        "neg" => row!(B1 | a | (-g(a)).to_bits()),
        "abs" => row!(B1 | a | g(a).abs().to_bits()),
        "sqrt" => row!(B1 | a | g(a).sqrt().to_bits()),
        "rcp" => row!(B1 | a | g(a).recip().to_bits()),
        "rsqrt" => row!(B1 | a | g(a).sqrt().recip().to_bits()),
        "max" => row!(B2 | a, b | g(a).max(g(b)).to_bits()),
        "min" => row!(B2 | a, b | g(a).min(g(b)).to_bits()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp2_stays_within_an_ulp() {
        for i in -152_000..130_000 {
            let x = i as f32 * 0.001;
            let (fast, exact) = (exp2(x, KEEP), unit::ex2(x, KEEP));
            let distance = (fast.to_bits() as i32 - exact.to_bits() as i32).abs();
            assert!(distance <= 1, "2^{x}: {fast} and {exact}");
        }
        for x in [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0, -0.0, 1e-40, 127.0, -149.0] {
            assert_eq!(exp2(x, FTZ).to_bits(), unit::ex2(x, FTZ).to_bits(), "{x}");
        }
    }
}

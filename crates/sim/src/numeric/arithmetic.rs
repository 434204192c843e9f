use super::format::{Format, Overflow, Rounding};

/// Whether subnormal f32 operands and results are replaced by zeros of the same sign (`.ftz`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Subnormals are kept.
    Keep,
    /// `.ftz`.
    ToZero,
}

/// `value`, with subnormals flushed when asked.
pub fn flush(value: f32, mode: Flush) -> f32 {
    if mode == Flush::ToZero && value.is_subnormal() { 0.0f32.copysign(value) } else { value }
}

/// `value`, NaNs replaced by the one NaN f32 instructions give, `0x7FFFFFFF`.
#[inline(always)]
pub fn canonical(value: f32) -> f32 {
    // On integers: to a compiler one NaN is as good as another.
    let bits = value.to_bits();
    let nan = bits & 0x7FFF_FFFF > 0x7F80_0000;
    f32::from_bits(if nan { 0x7FFF_FFFF } else { bits })
}

/// A real number as an f64 and the (tiny) rest it lost: only the rest's sign matters.
#[derive(Clone, Copy)]
struct Exact {
    value: f64,
    rest: f64,
}

impl Exact {
    fn sum(a: f64, b: f64) -> Exact {
        let value = a + b;
        let b_part = value - a;
        let rest = (a - (value - b_part)) + (b - b_part);
        Exact { value, rest }
    }

    /// The value rounded to odd: a following rounding to at most 51 bits is then correct in every
    /// mode.
    fn to_odd(self) -> f64 {
        if !self.value.is_finite() || self.rest == 0.0 || self.rest.is_nan() {
            return self.value;
        }
        let bits = self.value.to_bits();
        let shrinks = (self.rest < 0.0) != (self.value < 0.0);
        f64::from_bits((bits - u64::from(shrinks)) | 1)
    }

    fn round(self, format: Format, rounding: Rounding) -> u32 {
        format.encode(self.to_odd(), rounding, Overflow::Format)
    }

    fn round_f32(self, rounding: Rounding) -> f32 {
        f32::from_bits(self.round(Format::F32, rounding))
    }
}

/// Sums that are exactly 0 are +0, except toward negative infinity where they are -0.
fn zero_sum(a: f64, b: f64, rounding: Rounding) -> Option<f64> {
    (a == -b && a != 0.0 && rounding == Rounding::Down).then_some(-0.0)
}

/// `add{.rnd}{.ftz}.f32`.
pub fn add(a: f32, b: f32, rounding: Rounding, mode: Flush) -> f32 {
    let (a, b) = (flush(a, mode), flush(b, mode));
    if rounding == Rounding::Nearest {
        return flush(canonical(a + b), mode);
    }
    let (a, b) = (f64::from(a), f64::from(b));
    let sum = match zero_sum(a, b, rounding) {
        Some(zero) => Exact { value: zero, rest: 0.0 },
        None => Exact::sum(a, b),
    };
    flush(canonical(sum.round_f32(rounding)), mode)
}

/// `mul{.rnd}{.ftz}.f32`.
pub fn mul(a: f32, b: f32, rounding: Rounding, mode: Flush) -> f32 {
    let (a, b) = (flush(a, mode), flush(b, mode));
    let product = match rounding {
        Rounding::Nearest => a * b,
        _ => Exact { value: f64::from(a) * f64::from(b), rest: 0.0 }.round_f32(rounding),
    };
    flush(canonical(product), mode)
}

/// `fma.rnd{.ftz}.f32`.
pub fn fma(a: f32, b: f32, c: f32, rounding: Rounding, mode: Flush) -> f32 {
    let (a, b, c) = (flush(a, mode), flush(b, mode), flush(c, mode));
    let result = match rounding {
        Rounding::Nearest => a.mul_add(b, c),
        _ => f32::from_bits(fused(Format::F32, [a, b, c], rounding)),
    };
    flush(canonical(result), mode)
}

/// `div.rnd{.ftz}.f32`.
pub fn div(a: f32, b: f32, rounding: Rounding, mode: Flush) -> f32 {
    let (a, b) = (flush(a, mode), flush(b, mode));
    if rounding == Rounding::Nearest {
        return flush(canonical(a / b), mode);
    }
    let (a, b) = (f64::from(a), f64::from(b));
    let value = a / b;
    let remainder = (-value).mul_add(b, a);
    let rest = if b < 0.0 { -remainder } else { remainder };
    flush(canonical(Exact { value, rest }.round_f32(rounding)), mode)
}

/// `rcp.rnd{.ftz}.f32`.
pub fn rcp(a: f32, rounding: Rounding, mode: Flush) -> f32 {
    div(1.0, a, rounding, mode)
}

/// `sqrt.rnd{.ftz}.f32`.
pub fn sqrt(a: f32, rounding: Rounding, mode: Flush) -> f32 {
    let a = flush(a, mode);
    if rounding == Rounding::Nearest {
        return flush(canonical(a.sqrt()), mode);
    }
    let wide = f64::from(a);
    let value = wide.sqrt();
    let rest = (-value).mul_add(value, wide);
    flush(canonical(Exact { value, rest }.round_f32(rounding)), mode)
}

/// `a * b + c` rounded once to `format`; the product of two numbers of at most 24 bits is exact.
fn fused(format: Format, [a, b, c]: [f32; 3], rounding: Rounding) -> u32 {
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = match zero_sum(product, c, rounding) {
        Some(zero) => Exact { value: zero, rest: 0.0 },
        None => Exact::sum(product, c),
    };
    sum.round(format, rounding)
}

/// `add.rnd` of f16 or bf16 patterns.
pub fn add_narrow(format: Format, a: u32, b: u32, rounding: Rounding) -> u32 {
    fused(format, [format.decode(a), 1.0, format.decode(b)], rounding)
}

/// `mul.rnd` of f16 or bf16 patterns.
pub fn mul_narrow(format: Format, a: u32, b: u32, rounding: Rounding) -> u32 {
    let product = f64::from(format.decode(a)) * f64::from(format.decode(b));
    format.encode(product, rounding, Overflow::Format)
}

/// `fma.rnd` of f16 or bf16 patterns.
pub fn fma_narrow(format: Format, a: u32, b: u32, c: u32, rounding: Rounding) -> u32 {
    fused(format, [a, b, c].map(|bits| format.decode(bits)), rounding)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTED: [Rounding; 3] = [Rounding::Zero, Rounding::Down, Rounding::Up];

    fn samples() -> Vec<f32> {
        let mut state = 1u32;
        let mut values = vec![0.0, -0.0, 1.0, -1.0, f32::MAX, f32::MIN_POSITIVE, 1e-45, 3e-39];
        for _ in 0..60 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Exponents within ±40 so that sums both cancel and vanish.
            let exponent = 87 + (state >> 24) % 80;
            values.push(f32::from_bits(state & 0x807F_FFFF | exponent << 23));
        }
        values
    }

    /// The neighbours of an exact value given as a comparison with a candidate.
    fn check_directed(result: f32, rounding: Rounding, compare: impl Fn(f32) -> f64, what: &str) {
        if !result.is_finite() || result == 0.0 || result == f32::MAX || result == -f32::MAX {
            return;
        }
        // compare(x) has the sign of (exact - x).
        let excess = compare(result);
        let toward_up = match rounding {
            Rounding::Up => true,
            Rounding::Down => false,
            _ => result < 0.0,
        };
        if toward_up {
            assert!(excess <= 0.0 && compare(result.next_down()) > 0.0, "{what} {result}");
        } else {
            assert!(excess >= 0.0 && compare(result.next_up()) < 0.0, "{what} {result}");
        }
    }

    #[test]
    fn directed_sums_and_products_are_the_nearest_on_their_side() {
        for &a in &samples() {
            for &b in &samples() {
                for rounding in DIRECTED {
                    let sum = add(a, b, rounding, Flush::Keep);
                    let compare = |x: f32| {
                        let s = Exact::sum(f64::from(a), f64::from(b));
                        let d = s.value - f64::from(x);
                        if d != 0.0 { d } else { s.rest }
                    };
                    check_directed(sum, rounding, compare, "sum");
                    let product = mul(a, b, rounding, Flush::Keep);
                    let compare = |x: f32| f64::from(a) * f64::from(b) - f64::from(x);
                    check_directed(product, rounding, compare, "product");
                }
            }
        }
    }

    #[test]
    fn nearest_through_the_exact_path_equals_the_native_result() {
        for &a in &samples() {
            for &b in &samples() {
                for &c in &samples()[..12] {
                    let exact = f32::from_bits(fused(Format::F32, [a, b, c], Rounding::Nearest));
                    let native = a.mul_add(b, c);
                    assert!(exact == native || native.is_nan(), "{a} * {b} + {c}");
                }
                let (x, y) = (f64::from(a), f64::from(b));
                let value = x / y;
                let remainder = (-value).mul_add(y, x);
                let rest = if y < 0.0 { -remainder } else { remainder };
                let quotient = Exact { value, rest }.round_f32(Rounding::Nearest);
                assert!(quotient == a / b || (a / b).is_nan(), "{a} / {b}");
            }
        }
    }

    #[test]
    fn floor_by_magic_addition() {
        // The exp2 emulation of FlashAttention-4: 1.5 * 2^23 added with .rm is floor.
        let magic = 12_582_912.0f32;
        for x in [-3.7f32, -3.0, -0.2, 0.0, 0.9, 5.5] {
            let shifted = add(x, magic, Rounding::Down, Flush::Keep);
            assert_eq!(shifted - magic, x.floor());
        }
    }

    #[test]
    fn flush_keeps_the_sign() {
        let tiny = f32::from_bits(0x8000_0001);
        let zero = add(tiny, -0.0, Rounding::Nearest, Flush::ToZero);
        assert_eq!(zero.to_bits(), 0x8000_0000);
        assert_eq!(mul(1e-30, 1e-10, Rounding::Nearest, Flush::ToZero), 0.0);
        assert!(mul(1e-30, 1e-10, Rounding::Nearest, Flush::Keep) > 0.0);
    }

    #[test]
    fn nan_is_canonical() {
        let nan = add(f32::INFINITY, f32::NEG_INFINITY, Rounding::Nearest, Flush::Keep);
        assert_eq!(nan.to_bits(), 0x7FFF_FFFF);
        assert_eq!(fma_narrow(Format::F16, 0x7C00, 0, 0, Rounding::Nearest), 0x7FFF);
    }

    #[test]
    fn narrow_fma_rounds_once() {
        // 1 + 2^-10 squared is 1 + 2^-9 + 2^-20: rounding the product first would lose the tie.
        let a = 0x3C01;
        let minus_tie = Format::F16.encode(-(2f64.powi(-9)), Rounding::Nearest, Overflow::Format);
        let got = fma_narrow(Format::F16, a, a, minus_tie, Rounding::Up);
        assert_eq!(got, 0x3C01);
        assert_eq!(fma_narrow(Format::F16, a, a, minus_tie, Rounding::Nearest), 0x3C00);
    }
}

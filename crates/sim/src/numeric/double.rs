//! f64 arithmetic in the rounding modes a host does not offer: exact integers, rounded once.

use super::format::Rounding;

/// `± significand · 2^exponent`, where `lost` says that a bit below the lowest was dropped.
#[derive(Clone, Copy)]
struct Wide {
    negative: bool,
    significand: u128,
    exponent: i32,
    lost: bool,
}

/// The bit a normalised significand starts at: two bits stay free for a carry.
const TOP: u32 = 125;

impl Wide {
    fn of(value: f64) -> Wide {
        let bits = value.to_bits();
        let (field, fraction) = ((bits >> 52) as i32 & 0x7FF, bits & ((1 << 52) - 1));
        let (significand, exponent) = match field {
            0 => (fraction, -1074),
            _ => (fraction | 1 << 52, field - 1075),
        };
        let negative = value.is_sign_negative();
        Wide { negative, significand: significand.into(), exponent, lost: false }
    }

    fn normalised(mut self) -> Wide {
        if self.significand != 0 {
            let zeros = self.significand.leading_zeros();
            let free = 127 - TOP;
            if zeros >= free {
                self.significand <<= zeros - free;
            } else {
                let over = free - zeros;
                self.lost |= self.significand & ((1 << over) - 1) != 0;
                self.significand >>= over;
            }
            self.exponent -= zeros as i32 - free as i32;
        }
        self
    }

    fn product(a: Wide, b: Wide) -> Wide {
        Wide {
            negative: a.negative != b.negative,
            significand: a.significand * b.significand,
            exponent: a.exponent + b.exponent,
            lost: false,
        }
    }

    /// The sum of two numbers that are not 0.
    fn sum(a: Wide, b: Wide) -> Wide {
        let (a, b) = (a.normalised(), b.normalised());
        let larger = (a.exponent, a.significand) >= (b.exponent, b.significand);
        let (a, b) = if larger { (a, b) } else { (b, a) };
        let shift = (a.exponent - b.exponent) as u32;
        let (small, lost) = match shift {
            0..=127 => (b.significand >> shift, b.significand & ((1 << shift) - 1) != 0),
            _ => (0, true),
        };
        let significand = if a.negative == b.negative {
            a.significand + small
        } else {
            a.significand - small - u128::from(lost)
        };
        Wide { significand, lost, ..a }
    }

    fn round(self, rounding: Rounding) -> f64 {
        if self.significand == 0 {
            let zero = if rounding == Rounding::Down { -0.0 } else { 0.0 };
            return if self.lost {
                0.0f64.copysign(if self.negative { -1.0 } else { 1.0 })
            } else {
                zero
            };
        }
        let w = self.normalised();
        // Bits to drop: down to 53, or to the place of the smallest subnormal.
        let drop = (TOP as i32 - 52).max(-1074 - w.exponent).min(127) as u32;
        let (mut kept, rest) = (w.significand >> drop, w.significand & ((1 << drop) - 1));
        let half = 1u128 << (drop - 1);
        let away = match rounding {
            Rounding::Up => !w.negative && (rest != 0 || w.lost),
            Rounding::Down => w.negative && (rest != 0 || w.lost),
            Rounding::Nearest => rest > half || rest == half && (w.lost || kept & 1 == 1),
            _ => false,
        };
        kept += u128::from(away);
        let magnitude = scaled(kept as u64, (w.exponent + drop as i32).max(-1074));
        let magnitude = if magnitude.is_infinite() && !rounding.overflows(w.negative) {
            f64::MAX
        } else {
            magnitude
        };
        if w.negative { -magnitude } else { magnitude }
    }
}

/// `significand · 2^exponent`, which fits an f64 or overflows.
fn scaled(significand: u64, exponent: i32) -> f64 {
    let top = 63 - significand.leading_zeros() as i32 + exponent;
    if significand == 0 || top > 1023 {
        return if significand == 0 { 0.0 } else { f64::INFINITY };
    }
    // Two factors, each a normal power of two, reach every exponent exactly.
    let half = exponent / 2;
    let power = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
    significand as f64 * power(half) * power(exponent - half)
}

/// Whether arithmetic on these is more than a rule about zeros, infinities and NaNs.
fn ordinary(values: &[f64]) -> bool {
    values.iter().all(|v| v.is_finite() && *v != 0.0)
}

/// `add.rnd.f64`.
pub fn add(a: f64, b: f64, rounding: Rounding) -> f64 {
    if !ordinary(&[a, b]) {
        return a + b;
    }
    Wide::sum(Wide::of(a), Wide::of(b)).round(rounding)
}

/// `mul.rnd.f64`.
pub fn mul(a: f64, b: f64, rounding: Rounding) -> f64 {
    if !ordinary(&[a, b]) {
        return a * b;
    }
    Wide::product(Wide::of(a), Wide::of(b)).round(rounding)
}

/// `fma.rnd.f64`.
pub fn fma(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {
    if ordinary(&[a, b]) && c == 0.0 {
        return mul(a, b, rounding);
    }
    if !ordinary(&[a, b, c]) {
        return a.mul_add(b, c);
    }
    Wide::sum(Wide::product(Wide::of(a), Wide::of(b)), Wide::of(c)).round(rounding)
}

/// `div.rnd.f64`.
pub fn div(a: f64, b: f64, rounding: Rounding) -> f64 {
    if !ordinary(&[a, b]) {
        return a / b;
    }
    let (n, d) = (Wide::of(a).normalised(), Wide::of(b));
    let quotient = Wide {
        negative: n.negative != d.negative,
        significand: n.significand / d.significand,
        exponent: n.exponent - d.exponent,
        lost: n.significand % d.significand != 0,
    };
    quotient.round(rounding)
}

/// `sqrt.rnd.f64`.
pub fn sqrt(a: f64, rounding: Rounding) -> f64 {
    if !ordinary(&[a]) || a < 0.0 {
        return a.sqrt();
    }
    let mut w = Wide::of(a).normalised();
    if w.exponent % 2 != 0 {
        w.significand <<= 1;
        w.exponent -= 1;
    }
    let root = w.significand.isqrt();
    let lost = root * root != w.significand;
    Wide { negative: false, significand: root, exponent: w.exponent / 2, lost }.round(rounding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<f64> {
        let mut state = 1u64;
        let mut values =
            vec![1.0, -1.0, f64::MAX, -f64::MAX, f64::MIN_POSITIVE, 5e-324, 3.0, 1e-310];
        for i in 0..60 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let exponent = if i % 2 == 0 { 1023 - 30 + (state >> 58) } else { state >> 53 & 0x7FE };
            values.push(f64::from_bits(state << 63 | exponent << 52 | state >> 12));
        }
        values
    }

    #[test]
    fn nearest_equals_the_host() {
        let nearest = Rounding::Nearest;
        for &a in &samples() {
            for &b in &samples() {
                assert_eq!(add(a, b, nearest), a + b, "{a:e} + {b:e}");
                assert_eq!(mul(a, b, nearest), a * b, "{a:e} * {b:e}");
                assert_eq!(div(a, b, nearest), a / b, "{a:e} / {b:e}");
                for &c in &samples()[..20] {
                    assert_eq!(fma(a, b, c, nearest), a.mul_add(b, c), "{a:e} * {b:e} + {c:e}");
                }
            }
            assert_eq!(sqrt(a.abs(), nearest), a.abs().sqrt(), "sqrt {a:e}");
        }
    }

    #[test]
    fn directed_modes_bracket_the_result() {
        for &a in &samples() {
            for &b in &samples() {
                for f in [add, mul, div] {
                    let [down, near, up] =
                        [Rounding::Down, Rounding::Nearest, Rounding::Up].map(|r| f(a, b, r));
                    let inexact = down != up;
                    assert!(down <= near && near <= up, "{a:e} {b:e}");
                    assert!(!inexact || down.next_up() == up, "{a:e} {b:e}: {down:e} {up:e}");
                    let zero = f(a, b, Rounding::Zero);
                    assert_eq!(zero, if near > 0.0 || up > 0.0 { down } else { up }, "{a:e} {b:e}");
                }
            }
        }
        assert_eq!(add(1.0, -1.0, Rounding::Down).to_bits(), (-0.0f64).to_bits());
    }
}

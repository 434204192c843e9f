/// How a value between two representable numbers is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// `.rn`: to nearest, ties to even.
    Nearest,
    /// `.rna`: to nearest, ties away from zero.
    NearestAway,
    /// `.rz`: toward zero.
    Zero,
    /// `.rm`: toward negative infinity.
    Down,
    /// `.rp`: toward positive infinity.
    Up,
    /// `.rs`: away from zero when the discarded bits plus `random` carry out of `bits` bits.
    Stochastic {
        /// Random bits.
        random: u32,
        /// How many there are.
        bits: u32,
    },
}

impl Rounding {
    /// The mode a modifier such as `rn` names.
    pub fn from_modifier(name: &str) -> Option<Rounding> {
        Some(match name {
            "rn" => Rounding::Nearest,
            "rna" => Rounding::NearestAway,
            "rz" => Rounding::Zero,
            "rm" => Rounding::Down,
            "rp" => Rounding::Up,
            _ => return None,
        })
    }

    /// Whether a magnitude `n + fraction` (`0 < fraction < 1`) becomes `n + 1`.
    fn rounds_away(self, n: u64, fraction: f64, negative: bool) -> bool {
        match self {
            Rounding::Nearest => fraction > 0.5 || (fraction == 0.5 && n % 2 == 1),
            Rounding::NearestAway => fraction >= 0.5,
            Rounding::Zero => false,
            Rounding::Down => negative && fraction > 0.0,
            Rounding::Up => !negative && fraction > 0.0,
            Rounding::Stochastic { random, bits } => {
                let scale = (1u64 << bits) as f64;
                (fraction * scale).floor() + f64::from(random) >= scale
            }
        }
    }

    /// Whether an overflowing magnitude becomes infinity rather than the largest finite number.
    pub(super) fn overflows(self, negative: bool) -> bool {
        match self {
            Rounding::Zero | Rounding::Stochastic { .. } => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
            Rounding::Nearest | Rounding::NearestAway => true,
        }
    }
}

/// What becomes of a magnitude beyond the largest finite one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// As the rounding mode and the format say (infinity, or NaN where there is none).
    Format,
    /// `.satfinite`: the largest finite number.
    Saturate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Specials {
    /// Infinities and NaNs in the largest exponent.
    Ieee,
    /// Only the all-ones pattern is NaN; no infinity.
    NanOnly,
    /// Every pattern is a finite number.
    Finite,
}

/// A binary floating-point format of at most 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    signed: bool,
    specials: Specials,
}

impl Format {
    /// IEEE single precision.
    pub const F32: Format = Format::new(8, 23, Specials::Ieee);
    /// IEEE half precision.
    pub const F16: Format = Format::new(5, 10, Specials::Ieee);
    /// bfloat16.
    pub const BF16: Format = Format::new(8, 7, Specials::Ieee);
    /// tf32 as a 19-bit pattern (the upper bits of an f32).
    pub const TF32: Format = Format::new(8, 10, Specials::Ieee);
    /// 8 bits, 4 of exponent; no infinity.
    pub const E4M3: Format = Format::new(4, 3, Specials::NanOnly);
    /// 8 bits, 5 of exponent.
    pub const E5M2: Format = Format::new(5, 2, Specials::Ieee);
    /// 6 bits, 2 of exponent.
    pub const E2M3: Format = Format::new(2, 3, Specials::Finite);
    /// 6 bits, 3 of exponent.
    pub const E3M2: Format = Format::new(3, 2, Specials::Finite);
    /// 4 bits.
    pub const E2M1: Format = Format::new(2, 1, Specials::Finite);
    /// Unsigned e4m3, the block scale of nvfp4.
    pub const UE4M3: Format = Format { signed: false, ..Format::E4M3 };

    const fn new(exponent_bits: u32, mantissa_bits: u32, specials: Specials) -> Format {
        Format { exponent_bits, mantissa_bits, signed: true, specials }
    }

    /// Bits of a number, sign included.
    pub const fn bits(self) -> u32 {
        self.exponent_bits + self.mantissa_bits + self.signed as u32
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    const fn sign_bit(self) -> u32 {
        if self.signed { 1 << (self.exponent_bits + self.mantissa_bits) } else { 0 }
    }

    const fn magnitude_mask(self) -> u32 {
        ((1u64 << (self.exponent_bits + self.mantissa_bits)) - 1) as u32
    }

    pub(crate) const fn infinity(self) -> u32 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    /// The pattern of the largest finite number.
    pub const fn max_finite(self) -> u32 {
        match self.specials {
            Specials::Ieee => self.infinity() - 1,
            Specials::NanOnly => self.magnitude_mask() - 1,
            Specials::Finite => self.magnitude_mask(),
        }
    }

    /// The pattern a conversion gives for NaN: the canonical NaN, or the largest number where the
    /// format has no NaN.
    pub const fn nan(self) -> u32 {
        self.magnitude_mask()
    }

    /// The number a pattern stands for; bits above the format's width are ignored.
    pub fn decode(self, bits: u32) -> f32 {
        let magnitude = bits & self.magnitude_mask();
        let negative = bits & self.sign_bit() != 0;
        let value = match self.specials {
            Specials::Ieee if magnitude > self.infinity() => f32::NAN,
            Specials::Ieee if magnitude == self.infinity() => f32::INFINITY,
            Specials::NanOnly if magnitude == self.magnitude_mask() => f32::NAN,
            _ => self.finite(magnitude),
        };
        if negative { -value } else { value }
    }

    fn finite(self, magnitude: u32) -> f32 {
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let (significand, exponent) = match exponent {
            0 => (mantissa, 1),
            e => (mantissa | 1 << self.mantissa_bits, e),
        };
        let scale = exponent - self.bias() - self.mantissa_bits as i32;
        (f64::from(significand) * power_of_two(scale)) as f32
    }

    /// The pattern nearest to `value` in the sense of `rounding`.
    pub fn encode(self, value: f64, rounding: Rounding, overflow: Overflow) -> u32 {
        if value.is_nan() {
            return self.nan();
        }
        let negative = value.is_sign_negative();
        if negative && !self.signed {
            return 0;
        }
        let magnitude = self.encode_magnitude(value.abs(), negative, rounding);
        let sign = if negative { self.sign_bit() } else { 0 };
        let largest = self.max_finite();
        if magnitude <= u64::from(largest) {
            return sign | magnitude as u32;
        }
        let finite = overflow == Overflow::Saturate
            || self.specials == Specials::Finite
            || (!rounding.overflows(negative) && value.is_finite());
        match self.specials {
            _ if finite => sign | largest,
            Specials::Ieee => sign | self.infinity(),
            _ => sign | self.nan(),
        }
    }

    /// The magnitude's pattern if exponents were unbounded above.
    fn encode_magnitude(self, value: f64, negative: bool, rounding: Rounding) -> u64 {
        if value == 0.0 {
            return 0;
        }
        if value.is_infinite() {
            return u64::MAX;
        }
        let least = 1 - self.bias();
        let exponent = floor_log2(value).max(least);
        let scaled = value * power_of_two(self.mantissa_bits as i32 - exponent);
        let whole = scaled.floor();
        let mut n = whole as u64;
        let fraction = scaled - whole;
        if fraction > 0.0 && rounding.rounds_away(n, fraction, negative) {
            n += 1;
        }
        // A significand that reaches 2 carries into the exponent by itself.
        (((exponent - least) as u64) << self.mantissa_bits) + n
    }
}

/// `floor(log2(value))` of a positive finite number, not below -1023.
fn floor_log2(value: f64) -> i32 {
    (value.to_bits() >> 52) as i32 - 1023
}

/// `2^exponent` for normal f64 exponents.
pub(super) fn power_of_two(exponent: i32) -> f64 {
    debug_assert!((-1022..=1023).contains(&exponent), "2^{exponent} is not a normal f64");
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Format; 9] = [
        Format::F16,
        Format::BF16,
        Format::TF32,
        Format::E4M3,
        Format::E5M2,
        Format::E2M3,
        Format::E3M2,
        Format::E2M1,
        Format::UE4M3,
    ];

    fn patterns(format: Format) -> impl Iterator<Item = u32> {
        (0..1u32 << format.bits()).step_by(if format.bits() > 16 { 7 } else { 1 })
    }

    #[test]
    fn every_finite_pattern_survives_a_round_trip() {
        for format in ALL {
            for bits in patterns(format) {
                let value = format.decode(bits);
                if value.is_nan() {
                    continue;
                }
                let again = format.encode(f64::from(value), Rounding::Nearest, Overflow::Format);
                assert_eq!(again, bits, "{format:?} {value}");
            }
        }
    }

    #[test]
    fn f16_and_bf16_agree_with_the_half_crate() {
        for bits in (0..=u32::MAX).step_by(65_521) {
            let value = f32::from_bits(bits);
            let f16 = Format::F16.encode(value.into(), Rounding::Nearest, Overflow::Format);
            let bf16 = Format::BF16.encode(value.into(), Rounding::Nearest, Overflow::Format);
            if value.is_nan() {
                assert_eq!((f16, bf16), (0x7FFF, 0x7FFF));
            } else {
                assert_eq!(f16, u32::from(half::f16::from_f32(value).to_bits()), "{value}");
                assert_eq!(bf16, u32::from(half::bf16::from_f32(value).to_bits()), "{value}");
            }
        }
    }

    /// Directed rounding brackets the value; nearest picks the closer bracket.
    #[test]
    fn rounding_modes_bracket_the_value() {
        for format in [Format::F16, Format::E4M3, Format::E5M2, Format::E2M3, Format::E2M1] {
            for step in 1..2000 {
                let value = f64::from(step) * 0.00371 - 3.7;
                let at = |r| f64::from(format.decode(format.encode(value, r, Overflow::Format)));
                let (down, up, zero) = (at(Rounding::Down), at(Rounding::Up), at(Rounding::Zero));
                assert!(down <= value && value <= up, "{format:?} {value}");
                assert_eq!(zero, if value < 0.0 { up } else { down }, "{format:?} {value}");
                let nearest = at(Rounding::Nearest);
                let best = (value - down).min(up - value);
                assert_eq!((nearest - value).abs(), best, "{format:?} {value}");
            }
        }
    }

    #[test]
    fn overflow_follows_format_and_saturation() {
        let e4m3 = |x, o| Format::E4M3.encode(x, Rounding::Nearest, o);
        assert_eq!(e4m3(448.0, Overflow::Saturate), 0x7E);
        assert_eq!(e4m3(1e9, Overflow::Saturate), 0x7E);
        assert_eq!(e4m3(-f64::INFINITY, Overflow::Saturate), 0xFE);
        assert_eq!(e4m3(1e9, Overflow::Format), 0x7F);
        let f16 = |x, r, o| Format::F16.encode(x, r, o);
        assert_eq!(f16(70000.0, Rounding::Nearest, Overflow::Format), 0x7C00);
        assert_eq!(f16(70000.0, Rounding::Zero, Overflow::Format), 0x7BFF);
        assert_eq!(f16(f64::INFINITY, Rounding::Zero, Overflow::Format), 0x7C00);
        assert_eq!(f16(70000.0, Rounding::Nearest, Overflow::Saturate), 0x7BFF);
        assert_eq!(Format::E2M1.encode(f64::NAN, Rounding::Nearest, Overflow::Saturate), 0x7);
    }

    #[test]
    fn stochastic_rounding_carries_out_of_the_discarded_bits() {
        // 1 + 3/4 ulp of bf16: the upper two of 16 discarded bits are set.
        let value = 1.0 + 0.75 / 128.0;
        let at = |random| {
            let rounding = Rounding::Stochastic { random, bits: 16 };
            Format::BF16.encode(value, rounding, Overflow::Format)
        };
        assert_eq!(at(0x3FFF), 0x3F80);
        assert_eq!(at(0x4000), 0x3F81);
    }
}

use super::format::{Format, Overflow, Rounding};
use crate::register::Row32;

/// A `cvt` to a floating-point format, as its modifiers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// Destination format.
    pub format: Format,
    /// Rounding mode.
    pub rounding: Rounding,
    /// `.satfinite`.
    pub overflow: Overflow,
    /// `.relu`: negative numbers become 0.
    pub relu: bool,
}

impl Conversion {
    /// `cvt.rn` to `format`.
    pub const fn nearest(format: Format) -> Conversion {
        Conversion { format, rounding: Rounding::Nearest, overflow: Overflow::Format, relu: false }
    }

    /// The destination pattern of `value`.
    pub fn apply(self, value: f64) -> u32 {
        // `.relu` turns -0 into +0 as well; NaN stays NaN.
        let value = if self.relu && value <= 0.0 { 0.0 } else { value };
        self.format.encode(value, self.rounding, self.overflow)
    }

    /// Whether this is `cvt.rn` and nothing else.
    fn is_plain(self) -> bool {
        self.rounding == Rounding::Nearest && self.overflow == Overflow::Format && !self.relu
    }

    /// Two rows of f32 patterns, the first into the bits above `half`.
    pub(crate) fn pack_rows(self, high: &Row32, low: &Row32, half: u32) -> Row32 {
        if self.is_plain() && self.format == Format::BF16 {
            packed(high, low, half, f32_to_bf16_nearest)
        } else {
            packed(high, low, half, |x| self.apply_f32(x))
        }
    }

    /// The destination pattern of an f32, by bit tricks where the conversion is a common one.
    pub fn apply_f32(self, value: f32) -> u32 {
        let plain = self.is_plain();
        if plain && self.format == Format::F16 {
            return f32_to_f16_nearest(value);
        }
        if plain && self.format == Format::BF16 {
            return f32_to_bf16_nearest(value);
        }
        self.apply(f64::from(value))
    }
}

#[inline(always)]
fn packed(high: &Row32, low: &Row32, half: u32, convert: impl Fn(f32) -> u32) -> Row32 {
    Row32(std::array::from_fn(|i| {
        let [high, low] = [high.0[i], low.0[i]].map(|x| convert(f32::from_bits(x)));
        high << half | low
    }))
}

fn f32_to_f16_nearest(value: f32) -> u32 {
    if value.is_nan() {
        return Format::F16.nan();
    }
    u32::from(half::f16::from_f32(value).to_bits())
}

#[inline(always)]
fn f32_to_bf16_nearest(value: f32) -> u32 {
    let bits = value.to_bits();
    let odd = bits >> 16 & 1;
    let rounded = bits.wrapping_add(0x7FFF + odd) >> 16;
    if value.is_nan() { Format::BF16.nan() } else { rounded }
}

/// `cvt.{rn,rna,rz}.tf32.f32`: an f32 whose lower 13 mantissa bits are 0.
///
/// What a NaN becomes was read off an H200.
pub fn f32_to_tf32(value: f32, rounding: Rounding, overflow: Overflow, relu: bool) -> f32 {
    if value.is_nan() {
        return f32::from_bits(match (rounding, overflow) {
            (Rounding::NearestAway, Overflow::Format) => tf32_by_addition(value),
            (Rounding::NearestAway, _) => tf32_by_addition(value) - TF32_UNIT,
            _ => 0x7FFF_E000,
        });
    }
    let conversion = Conversion { format: Format::TF32, rounding, overflow, relu };
    f32::from_bits(conversion.apply(f64::from(value)) << 13)
}

/// The lowest mantissa bit of a tf32.
const TF32_UNIT: u32 = 0x2000;

/// Half a unit added to the pattern, whatever it stands for.
fn tf32_by_addition(value: f32) -> u32 {
    value.to_bits().wrapping_add(TF32_UNIT / 2) & !(TF32_UNIT - 1)
}

/// `cvt.{rz,rp}{.satfinite}.ue8m0x2.f32` of one number: the exponent of its magnitude.
pub fn f32_to_ue8m0(value: f32, rounding: Rounding, overflow: Overflow) -> u8 {
    const NAN: u8 = 0xFF;
    const LARGEST: u8 = 0xFE;
    let bits = value.to_bits() & 0x7FFF_FFFF;
    if value.is_nan() {
        return NAN;
    }
    if bits >= f32::INFINITY.to_bits() {
        return if overflow == Overflow::Saturate { LARGEST } else { NAN };
    }
    let exponent = (bits >> 23) as u8;
    // The smallest power, 2^-127, is the subnormal f32 with only its top mantissa bit set.
    let power = if exponent == 0 { 0x0040_0000 } else { bits & 0x7F80_0000 };
    let exact = bits <= power;
    match exponent {
        _ if exact || rounding != Rounding::Up => exponent,
        LARGEST if overflow == Overflow::Format => NAN,
        LARGEST => LARGEST,
        _ => exponent + 1,
    }
}

/// The power of two a ue8m0 block scale stands for.
pub fn ue8m0_to_f32(bits: u8) -> f32 {
    match bits {
        0xFF => f32::NAN,
        0 => f32::from_bits(0x0040_0000),
        exponent => f32::from_bits(u32::from(exponent) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_paths_equal_the_general_conversion() {
        for format in [Format::F16, Format::BF16] {
            let conversion = Conversion::nearest(format);
            for bits in (0..=u32::MAX).step_by(104_729) {
                let value = f32::from_bits(bits);
                assert_eq!(conversion.apply_f32(value), conversion.apply(value.into()), "{value}");
            }
        }
    }

    #[test]
    fn relu_clears_negatives_and_keeps_nan() {
        let relu = Conversion { relu: true, ..Conversion::nearest(Format::F16) };
        assert_eq!(relu.apply_f32(-1.0), 0);
        assert_eq!(relu.apply_f32(-0.0), 0);
        assert_eq!(relu.apply_f32(1.0), 0x3C00);
        assert_eq!(relu.apply_f32(f32::NAN), 0x7FFF);
    }

    #[test]
    fn tf32_ties() {
        let tie = f32::from_bits(0x3F80_1000);
        let at = |rounding| f32_to_tf32(tie, rounding, Overflow::Format, false).to_bits();
        assert_eq!(at(Rounding::Nearest), 0x3F80_0000);
        assert_eq!(at(Rounding::NearestAway), 0x3F80_2000);
        assert_eq!(at(Rounding::Zero), 0x3F80_0000);
    }

    #[test]
    fn ue8m0_takes_the_exponent() {
        let down = |x| f32_to_ue8m0(x, Rounding::Zero, Overflow::Format);
        let up = |x| f32_to_ue8m0(x, Rounding::Up, Overflow::Saturate);
        assert_eq!((down(1.0), up(1.0)), (127, 127));
        assert_eq!((down(1.5), up(1.5)), (127, 128));
        assert_eq!((down(-4.5), up(4.5)), (129, 130));
        assert_eq!((down(f32::NAN), up(f32::INFINITY)), (255, 254));
        for exponent in 0..=254u8 {
            assert_eq!(down(ue8m0_to_f32(exponent)), exponent);
            assert_eq!(up(ue8m0_to_f32(exponent)), exponent);
        }
    }
}

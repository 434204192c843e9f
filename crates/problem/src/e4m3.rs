use std::fmt;

/// A number of eight bits: a sign, four bits of exponent, three of mantissa (`float8_e4m3fn`).
///
/// It has no infinities, and one NaN of each sign (0x7f and 0xff). Its largest magnitude is 448; its smallest but 0 is
/// 2^-9.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct E4m3(u8);

/// The value of every bit pattern.
static VALUES: [f32; 256] = {
    let mut values = [0.0; 256];
    let mut bits = 0;
    while bits < 256 {
        values[bits] = value(bits as u8);
        bits += 1;
    }
    values
};

const fn value(bits: u8) -> f32 {
    let sign = (bits as u32 & 0x80) << 24;
    let (exponent, mantissa) = (bits as u32 >> 3 & 0xf, bits as u32 & 7);
    match (exponent, mantissa) {
        (0xf, 7) => f32::NAN,
        // Subnormals are multiples of 2^-9.
        (0, _) => f32::from_bits(sign | (mantissa as f32 / 512.0).to_bits()),
        _ => f32::from_bits(sign | (exponent + 120) << 23 | mantissa << 20),
    }
}

impl E4m3 {
    /// The largest finite number.
    pub const MAX: f32 = 448.0;

    /// The number with these bits.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn to_bits(self) -> u8 {
        self.0
    }

    /// The number whose memory is this.
    pub const fn from_le_bytes([bits]: [u8; 1]) -> Self {
        Self(bits)
    }

    /// The nearest number, ties to even, saturating at ±448; NaN stays NaN.
    ///
    /// ```
    /// use sixwarp_problem::E4m3;
    /// assert_eq!(E4m3::from_f32(1.06).to_f32(), 1.0);
    /// assert_eq!(E4m3::from_f32(-1e9).to_f32(), -448.0);
    /// ```
    pub fn from_f32(value: f32) -> Self {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        let magnitude = value.abs();
        if value.is_nan() {
            return Self(sign | 0x7f);
        }
        if magnitude >= Self::MAX {
            return Self(sign | 0x7e);
        }
        // The spacing of numbers in this binade; subnormals share the first binade's.
        let exponent = ((magnitude.to_bits() >> 23) as i32 - 127).max(-6);
        let steps = (magnitude / 2f32.powi(exponent - 3)).round_ties_even() as u32;
        // 8..=15 steps are the mantissas of this binade; 16 carries into the next, below 8 is subnormal.
        let bits = ((exponent + 6) as u32 * 8 + steps).min(0x7e);
        Self(sign | bits as u8)
    }

    /// The same number in single precision.
    pub fn to_f32(self) -> f32 {
        VALUES[self.0 as usize]
    }
}

impl fmt::Debug for E4m3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_f32().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_a_round_trip() {
        for number in (0..=255).map(E4m3::from_bits) {
            let value = number.to_f32();
            if !value.is_nan() {
                assert_eq!(E4m3::from_f32(value), number, "{value}");
            }
        }
        assert!(E4m3::from_bits(0xff).to_f32().is_nan());
        assert!(E4m3::from_f32(f32::NAN).to_f32().is_nan());
    }

    #[test]
    fn ties_go_to_the_even_neighbour() {
        for (value, nearest) in [(1.0625, 1.0), (1.1875, 1.25), (0.5 / 512.0, 0.0), (1e-30, 0.0)] {
            assert_eq!(E4m3::from_f32(value).to_f32(), nearest, "{value}");
        }
    }
}

use sim::numeric::{Format, Overflow, Rounding};

/// The type of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ElementKind {
    U8,
    S8,
    U16,
    U32,
    S32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    E4m3,
    E5m2,
}

impl ElementKind {
    const NAMES: [(&'static str, ElementKind); 12] = [
        ("u8", ElementKind::U8),
        ("s8", ElementKind::S8),
        ("u16", ElementKind::U16),
        ("u32", ElementKind::U32),
        ("s32", ElementKind::S32),
        ("u64", ElementKind::U64),
        ("f16", ElementKind::F16),
        ("bf16", ElementKind::Bf16),
        ("f32", ElementKind::F32),
        ("f64", ElementKind::F64),
        ("e4m3", ElementKind::E4m3),
        ("e5m2", ElementKind::E5m2),
    ];

    /// The type called `name`.
    pub fn from_name(name: &str) -> Option<ElementKind> {
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind)
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            ElementKind::U8 | ElementKind::S8 | ElementKind::E4m3 | ElementKind::E5m2 => 1,
            ElementKind::U16 | ElementKind::F16 | ElementKind::Bf16 => 2,
            ElementKind::U32 | ElementKind::S32 | ElementKind::F32 => 4,
            ElementKind::U64 | ElementKind::F64 => 8,
        }
    }

    const fn format(self) -> Option<Format> {
        Some(match self {
            ElementKind::F16 => Format::F16,
            ElementKind::Bf16 => Format::BF16,
            ElementKind::F32 => Format::F32,
            ElementKind::E4m3 => Format::E4M3,
            ElementKind::E5m2 => Format::E5M2,
            _ => return None,
        })
    }

    /// Whether elements are floating-point numbers.
    pub const fn is_float(self) -> bool {
        self.format().is_some() || matches!(self, ElementKind::F64)
    }

    /// The bits of a number.
    pub fn encode(self, value: f64) -> u64 {
        match (self, self.format()) {
            (ElementKind::F64, _) => value.to_bits(),
            (_, Some(format)) => {
                u64::from(format.encode(value, Rounding::Nearest, Overflow::Saturate))
            }
            _ => value as i64 as u64,
        }
    }

    /// The number some bits stand for.
    pub fn decode(self, bits: u64) -> f64 {
        match (self, self.format()) {
            (ElementKind::F64, _) => f64::from_bits(bits),
            (_, Some(format)) => f64::from(format.decode(bits as u32)),
            (ElementKind::S8, _) => f64::from(bits as i8),
            (ElementKind::S32, _) => f64::from(bits as i32),
            _ => bits as f64,
        }
    }

    /// Element `index` of `bytes`, as bits.
    pub fn read(self, bytes: &[u8], index: usize) -> u64 {
        let size = self.bytes();
        let mut word = [0; 8];
        word[..size].copy_from_slice(&bytes[index * size..][..size]);
        u64::from_le_bytes(word)
    }

    /// Representable numbers between two patterns; `None` when exactly one is NaN.
    pub fn ulps(self, a: u64, b: u64) -> Option<u64> {
        if !self.is_float() {
            return Some((self.decode(a) - self.decode(b)).abs() as u64);
        }
        match (self.decode(a).is_nan(), self.decode(b).is_nan()) {
            (true, true) => return Some(0),
            (false, false) => {}
            _ => return None,
        }
        let sign = 1u64 << (8 * self.bytes() - 1);
        let ordered = |bits: u64| {
            let magnitude = (bits & (sign - 1)) as i64;
            if bits & sign != 0 { -magnitude } else { magnitude }
        };
        Some(ordered(a).abs_diff(ordered(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ulps_cross_zero_and_refuse_nan() {
        let bits = |x: f32| u64::from(x.to_bits());
        assert_eq!(ElementKind::F32.ulps(bits(1.0), bits(1.0f32.next_up())), Some(1));
        assert_eq!(ElementKind::F32.ulps(bits(-0.0), bits(0.0)), Some(0));
        assert_eq!(ElementKind::F32.ulps(1, bits(-0.0) + 1), Some(2));
        assert_eq!(ElementKind::F32.ulps(bits(f32::NAN), bits(1.0)), None);
        assert_eq!(ElementKind::S8.ulps(0xFF, 1), Some(2));
    }
}

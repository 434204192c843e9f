use crate::numeric::Format;
use std::sync::LazyLock;

/// A multiplicand's element type, with the packing matrix instructions read it in.
///
/// Every type's values, integers included, are exact in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// Half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// f32 of which the lower 13 mantissa bits are ignored.
    Tf32,
    /// 8-bit float.
    E4m3,
    /// 8-bit float.
    E5m2,
    /// 6-bit float: in shared memory 16 in 12 bytes and 4 bytes of padding, elsewhere one a byte.
    E2m3,
    /// 6-bit float, packed as [`Element::E2m3`].
    E3m2,
    /// 4-bit float: in shared memory 16 in 8 bytes and 8 bytes of padding, elsewhere in bits 5:2
    /// of a byte.
    E2m1,
    /// 4-bit float, two to a byte everywhere (the mxf4 kinds).
    E2m1Packed,
    /// Signed byte.
    S8,
    /// Unsigned byte.
    U8,
    /// Signed integer of 4 bits.
    S4,
    /// Unsigned integer of 4 bits.
    U4,
    /// Bit.
    B1,
}

impl Element {
    /// The element type a modifier names; `e2m1` is the padded one.
    pub fn from_modifier(name: &str) -> Option<Element> {
        Some(match name {
            "f16" => Element::F16,
            "bf16" => Element::Bf16,
            "tf32" => Element::Tf32,
            "e4m3" => Element::E4m3,
            "e5m2" => Element::E5m2,
            "e2m3" => Element::E2m3,
            "e3m2" => Element::E3m2,
            "e2m1" => Element::E2m1,
            "s8" => Element::S8,
            "u8" => Element::U8,
            "s4" => Element::S4,
            "u4" => Element::U4,
            "b1" => Element::B1,
            _ => return None,
        })
    }

    /// Elements in a 16-byte chunk of shared memory.
    pub const fn per_chunk(self) -> usize {
        self.per_register() * 4
    }

    /// Elements in a 32-bit register or tensor-memory cell.
    pub const fn per_register(self) -> usize {
        match self {
            Element::Tf32 => 1,
            Element::F16 | Element::Bf16 => 2,
            Element::E2m1Packed | Element::S4 | Element::U4 => 8,
            Element::B1 => 32,
            _ => 4,
        }
    }

    /// Whether the type is an integer.
    pub const fn is_integer(self) -> bool {
        use Element::{B1, S4, S8, U4, U8};
        matches!(self, S8 | U8 | S4 | U4 | B1)
    }

    /// Writes the elements of a 16-byte chunk of shared memory to `out`.
    pub fn unpack_chunk(self, chunk: &[u8; 16], out: &mut [f32]) {
        let words = chunk.as_chunks::<4>().0;
        match self {
            Element::E2m1 => {
                for (i, value) in out.iter_mut().take(16).enumerate() {
                    *value = Format::E2M1.decode(u32::from(chunk[i / 2] >> (4 * (i % 2))));
                }
            }
            Element::E2m3 | Element::E3m2 => {
                let format = if self == Element::E2m3 { Format::E2M3 } else { Format::E3M2 };
                let bits = u128::from_le_bytes(*chunk);
                for (i, value) in out.iter_mut().take(16).enumerate() {
                    *value = format.decode((bits >> (6 * i)) as u32 & 0x3F);
                }
            }
            _ => {
                let count = self.per_register();
                for (word, out) in words.iter().zip(out.chunks_exact_mut(count)) {
                    self.unpack_register(u32::from_le_bytes(*word), out);
                }
            }
        }
    }

    /// Writes the elements of a 32-bit register to `out`.
    pub fn unpack_register(self, word: u32, out: &mut [f32]) {
        match self {
            Element::Tf32 => out[0] = f32::from_bits(word & 0xFFFF_E000),
            Element::F16 => {
                out[0] = f16_to_f32(word as u16);
                out[1] = f16_to_f32((word >> 16) as u16);
            }
            Element::Bf16 => {
                out[0] = f32::from_bits(word << 16);
                out[1] = f32::from_bits(word & 0xFFFF_0000);
            }
            Element::E2m1Packed => {
                for (i, value) in out.iter_mut().take(8).enumerate() {
                    *value = Format::E2M1.decode(word >> (4 * i));
                }
            }
            Element::S4 => {
                for (i, value) in out.iter_mut().take(8).enumerate() {
                    *value = ((word << (28 - 4 * i)) as i32 >> 28) as f32;
                }
            }
            Element::U4 => {
                for (i, value) in out.iter_mut().take(8).enumerate() {
                    *value = (word >> (4 * i) & 0xF) as f32;
                }
            }
            Element::B1 => {
                for (i, value) in out.iter_mut().take(32).enumerate() {
                    *value = (word >> i & 1) as f32;
                }
            }
            _ => {
                let table = self.byte_table();
                for (value, byte) in out.iter_mut().zip(word.to_le_bytes()) {
                    *value = table[usize::from(byte)];
                }
            }
        }
    }

    fn byte_table(self) -> &'static [f32; 256] {
        match self {
            Element::E4m3 => &TABLES[0],
            Element::E5m2 => &TABLES[1],
            Element::E2m3 => &TABLES[2],
            Element::E3m2 => &TABLES[3],
            Element::E2m1 => &TABLES[4],
            Element::S8 => &TABLES[5],
            Element::U8 => &TABLES[6],
            _ => unreachable!("{self:?} is not held in bytes"),
        }
    }
}

static TABLES: LazyLock<[[f32; 256]; 7]> = LazyLock::new(|| {
    let table = |f: &dyn Fn(u8) -> f32| std::array::from_fn(|byte| f(byte as u8));
    let float = |format: Format| table(&|byte| format.decode(u32::from(byte)));
    [
        float(Format::E4M3),
        float(Format::E5M2),
        float(Format::E2M3),
        float(Format::E3M2),
        table(&|byte| Format::E2M1.decode(u32::from(byte >> 2))),
        table(&|byte| f32::from(byte as i8)),
        table(&f32::from),
    ]
});

/// Half precision to f32 without branches: the exponent is rebiased by a multiplication, which
/// also normalises subnormals.
#[inline]
pub(crate) fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7FFF) << 13;
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    let special = u32::from(bits & 0x7C00 == 0x7C00) * 0x7F80_0000;
    f32::from_bits(scaled.to_bits() | special | u32::from(bits & 0x8000) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_f16_equals_the_format() {
        for bits in 0..=u16::MAX {
            let expected = Format::F16.decode(u32::from(bits));
            let got = f16_to_f32(bits);
            assert!(got == expected || (got.is_nan() && expected.is_nan()), "{bits:04x}");
        }
    }

    #[test]
    fn chunks_of_padded_types_hold_sixteen() {
        // Elements 0..16 as 4-bit and 6-bit patterns.
        let four: [u8; 16] =
            std::array::from_fn(
                |i| if i < 8 { ((2 * i) | ((2 * i + 1) << 4)) as u8 } else { 0xEE },
            );
        let mut out = [0.0; 16];
        Element::E2m1.unpack_chunk(&four, &mut out);
        for (i, value) in out.iter().enumerate() {
            assert_eq!(*value, Format::E2M1.decode(i as u32));
        }
        let packed = (0..16u128).fold(0xEEEE_EEEEu128 << 96, |bits, i| bits | (3 * i) << (6 * i));
        Element::E3m2.unpack_chunk(&packed.to_le_bytes(), &mut out);
        for (i, value) in out.iter().enumerate() {
            assert_eq!(*value, Format::E3M2.decode(3 * i as u32));
        }
    }

    #[test]
    fn registers_unpack_low_to_high() {
        let mut out = [0.0; 8];
        Element::S8.unpack_register(0x80FF_0102, &mut out);
        assert_eq!(out[..4], [2.0, 1.0, -1.0, -128.0]);
        Element::Bf16.unpack_register(0x4000_3F80, &mut out);
        assert_eq!(out[..2], [1.0, 2.0]);
        Element::Tf32.unpack_register(0x3F80_1FFF, &mut out);
        assert_eq!(out[0], 1.0);
        Element::S4.unpack_register(0x8F70_0001, &mut out);
        assert_eq!(out, [1.0, 0.0, 0.0, 0.0, 0.0, 7.0, -1.0, -8.0]);
        Element::U4.unpack_register(0x8F70_0001, &mut out);
        assert_eq!(out[5..], [7.0, 15.0, 8.0]);
    }
}

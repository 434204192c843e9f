//! Operands in shared memory: descriptors and the addresses they stand for.

use super::element::Element;
use super::error::OperandError;
use std::ops::Range;

/// Which dimension of an operand is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Major {
    /// The reduction dimension.
    K,
    /// The rows of A or the columns of B.
    Mn,
}

/// The address permutation of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixSwizzle {
    /// None: 8 x 16-byte core matrices.
    None,
    /// Within 32 bytes.
    B32,
    /// Within 64 bytes.
    B64,
    /// Within 128 bytes.
    B128,
    /// Within 128 bytes in units of 32 bytes (tcgen05, 32-bit types along M or N).
    B128Base32,
}

impl MatrixSwizzle {
    /// 16-byte chunks of a row of the pattern.
    const fn chunks(self) -> u32 {
        match self {
            MatrixSwizzle::None => 1,
            MatrixSwizzle::B32 => 2,
            MatrixSwizzle::B64 => 4,
            MatrixSwizzle::B128 | MatrixSwizzle::B128Base32 => 8,
        }
    }

    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            MatrixSwizzle::None => "no swizzle",
            MatrixSwizzle::B32 => "a 32-byte swizzle",
            MatrixSwizzle::B64 => "a 64-byte swizzle",
            MatrixSwizzle::B128 => "a 128-byte swizzle",
            MatrixSwizzle::B128Base32 => "a 128-byte swizzle of 32-byte units",
        }
    }

    /// Where the byte of the unpermuted address `address` is; `base` is the descriptor's base
    /// offset, the 128-byte line at which the pattern starts.
    const fn permute(self, address: u32, base: u32) -> u32 {
        let line = (address >> 7).wrapping_sub(base);
        address
            ^ match self {
                MatrixSwizzle::None => 0,
                MatrixSwizzle::B32 => (line & 1) << 4,
                MatrixSwizzle::B64 => (line & 3) << 4,
                MatrixSwizzle::B128 => (line & 7) << 4,
                MatrixSwizzle::B128Base32 => (line & 3) << 5,
            }
    }
}

/// A matrix operand in shared memory: a decoded descriptor and the majorness that comes with the
/// instruction.
///
/// Row `r` is a row of A or a column of B. With T elements to 16 bytes and S chunks to a swizzled
/// line, element `(r, k)` is at `start` plus
///
/// | major | swizzle | offset |
/// |---|---|---|
/// | K | none | `r%8*16 + r/8*SBO + k/T*LBO` |
/// | K | yes | `r%8*16*S + r/8*SBO + k/T*16` |
/// | M/N | none | `r/T*SBO + k%8*16 + k/8*LBO` |
/// | M/N | yes | `r%(T*S)/T*16 + r/(T*S)*LBO + k%8*16*S + k/8*SBO` (4 instead of 8 for [`MatrixSwizzle::B128Base32`]) |
///
/// and its place in the 16-byte chunk; then the swizzle permutes the *absolute* address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMatrix {
    /// Byte address of the first chunk, 18 bits.
    pub start: u32,
    /// Leading byte offset (LBO).
    pub leading: u32,
    /// Stride byte offset (SBO).
    pub stride: u32,
    /// Line at which the swizzle pattern starts, modulo 8.
    pub base_offset: u32,
    /// Address permutation.
    pub swizzle: MatrixSwizzle,
    /// Contiguous dimension.
    pub major: Major,
}

/// Descriptors hold addresses of 18 bits; nothing above takes part.
const ADDRESS_MASK: u32 = 0x3_FFFF;

/// Elements of the narrowest type in a chunk.
const MOST_PER_CHUNK: usize = 128;

impl SharedMatrix {
    /// Decodes a `wgmma` descriptor.
    pub fn from_sm90(descriptor: u64, major: Major) -> SharedMatrix {
        let swizzle = match descriptor >> 62 {
            0 => MatrixSwizzle::None,
            1 => MatrixSwizzle::B128,
            2 => MatrixSwizzle::B64,
            _ => MatrixSwizzle::B32,
        };
        SharedMatrix::from_fields(descriptor, swizzle, major)
    }

    /// Decodes a `tcgen05` descriptor.
    pub fn from_sm100(descriptor: u64, major: Major) -> Result<SharedMatrix, OperandError> {
        let version = descriptor >> 46 & 0b111;
        if version != 1 {
            return OperandError::illegal(format!(
                "shared-memory descriptor {descriptor:#018x}: bits 48:46 are {version:#05b}, \
                 tcgen05 needs 0b001"
            ));
        }
        if descriptor >> 52 & 1 != 0 {
            return OperandError::unsupported(format!(
                "shared-memory descriptor {descriptor:#018x}: absolute leading-dimension mode \
                 (bit 52) exists on sm_103a only"
            ));
        }
        let swizzle = match descriptor >> 61 {
            0 => MatrixSwizzle::None,
            1 => MatrixSwizzle::B128Base32,
            2 => MatrixSwizzle::B128,
            4 => MatrixSwizzle::B64,
            6 => MatrixSwizzle::B32,
            mode => {
                return OperandError::illegal(format!(
                    "shared-memory descriptor {descriptor:#018x}: swizzle mode {mode} (bits \
                     63:61) is none of 0, 1, 2, 4, 6"
                ));
            }
        };
        Ok(SharedMatrix::from_fields(descriptor, swizzle, major))
    }

    fn from_fields(descriptor: u64, swizzle: MatrixSwizzle, major: Major) -> SharedMatrix {
        let field = |shift: u32| (descriptor >> shift & 0x3FFF) as u32 * 16;
        SharedMatrix {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base_offset: (descriptor >> 49 & 7) as u32,
            swizzle,
            major,
        }
    }

    /// Address of the 16-byte chunk number `chunk` along the contiguous dimension, at index
    /// `across` of the other one.
    pub fn chunk_address(&self, chunk: u32, across: u32) -> u32 {
        let line = 16 * self.swizzle.chunks();
        let offset = match (self.major, self.swizzle) {
            (Major::K, MatrixSwizzle::None) => {
                across % 8 * 16 + across / 8 * self.stride + chunk * self.leading
            }
            (Major::K, _) => across % 8 * line + across / 8 * self.stride + chunk * 16,
            (Major::Mn, MatrixSwizzle::None) => {
                chunk * self.stride + across % 8 * 16 + across / 8 * self.leading
            }
            (Major::Mn, swizzle) => {
                let lines = if swizzle == MatrixSwizzle::B128Base32 { 4 } else { 8 };
                chunk * 16 % line
                    + chunk * 16 / line * self.leading
                    + across % lines * line
                    + across / lines * self.stride
            }
        };
        let address = self.start.wrapping_add(offset) & ADDRESS_MASK;
        self.swizzle.permute(address, self.base_offset) & ADDRESS_MASK
    }

    /// The bits of addresses that the swizzle flips in the 128-byte line of `address`.
    pub fn flips(&self, address: u32) -> u32 {
        self.swizzle.permute(address, self.base_offset) ^ address
    }

    /// Byte address of element (`row`, `k`) of a type stored whole in bytes.
    pub fn element_address(&self, row: u32, k: u32, element: Element) -> u32 {
        let per_chunk = element.per_chunk() as u32;
        let (along, across) = match self.major {
            Major::K => (k, row),
            Major::Mn => (row, k),
        };
        let inside = along % per_chunk * 16 / per_chunk;
        self.chunk_address(along / per_chunk, across) + inside
    }

    /// Number of chunks along the contiguous dimension and extent of the other one.
    fn extent(&self, rows: usize, depth: usize, element: Element) -> (u32, u32) {
        let (along, across) = match self.major {
            Major::K => (depth, rows),
            Major::Mn => (rows, depth),
        };
        (along.div_ceil(element.per_chunk()) as u32, across as u32)
    }

    /// The byte ranges of shared memory a `rows` x `depth` operand occupies, merged and in order.
    pub fn footprint(&self, rows: usize, depth: usize, element: Element) -> Vec<Range<u32>> {
        let (chunks, across) = self.extent(rows, depth, element);
        let mut starts: Vec<u32> = (0..across)
            .flat_map(|across| (0..chunks).map(move |chunk| self.chunk_address(chunk, across)))
            .collect();
        starts.sort_unstable();
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for start in starts {
            match ranges.last_mut() {
                Some(last) if last.end >= start => last.end = last.end.max(start + 16),
                _ => ranges.push(start..start + 16),
            }
        }
        ranges
    }

    /// Copies a `rows` x `depth` operand out of shared memory: element (`row`, `k`) goes to
    /// `out[row * row_pitch + k * k_pitch]`.
    pub fn gather(
        &self,
        shared: &[u8],
        element: Element,
        (rows, depth): (usize, usize),
        out: &mut [f32],
        (row_pitch, k_pitch): (usize, usize),
    ) -> Result<(), OperandError> {
        let (chunks, across) = self.extent(rows, depth, element);
        let per_chunk = element.per_chunk();
        let (along_pitch, across_pitch, along_extent) = match self.major {
            Major::K => (k_pitch, row_pitch, depth),
            Major::Mn => (row_pitch, k_pitch, rows),
        };
        let mut values = [0f32; MOST_PER_CHUNK];
        for index in 0..across {
            for chunk in 0..chunks {
                let bytes = self.read_chunk(shared, chunk, index)?;
                element.unpack_chunk(bytes, &mut values);
                let first = chunk as usize * per_chunk;
                let count = per_chunk.min(along_extent - first);
                let at = index as usize * across_pitch + first * along_pitch;
                scatter(&values[..count], &mut out[at..], along_pitch);
            }
        }
        Ok(())
    }

    /// The chunk's bytes.
    pub fn read_chunk<'a>(
        &self,
        shared: &'a [u8],
        chunk: u32,
        across: u32,
    ) -> Result<&'a [u8; 16], OperandError> {
        let address = self.chunk_address(chunk, across);
        let bytes = shared.get(address as usize..).and_then(|tail| tail.first_chunk());
        bytes.ok_or_else(|| {
            OperandError::Illegal(format!(
                "matrix operand reaches shared-memory offset {address:#x}, beyond the CTA's {} \
                 bytes (descriptor start {:#x}, leading {}, stride {})",
                shared.len(),
                self.start,
                self.leading,
                self.stride
            ))
        })
    }
}

fn scatter(values: &[f32], out: &mut [f32], pitch: usize) {
    if pitch == 1 {
        out[..values.len()].copy_from_slice(values);
    } else {
        for (value, slot) in values.iter().zip(out.iter_mut().step_by(pitch)) {
            *slot = *value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(swizzle: MatrixSwizzle, major: Major) -> SharedMatrix {
        SharedMatrix { start: 0x4000, leading: 2048, stride: 1024, base_offset: 0, swizzle, major }
    }

    #[test]
    fn descriptor_fields() {
        let descriptor = (1u64 << 62) | 64 << 32 | 1 << 16 | 0x2340;
        let decoded = SharedMatrix::from_sm90(descriptor, Major::K);
        assert_eq!((decoded.start, decoded.leading, decoded.stride), (0x23400, 16, 1024));
        assert_eq!(decoded.swizzle, MatrixSwizzle::B128);
        let blackwell = (2u64 << 61) | 1 << 46 | 64 << 32 | 1 << 16 | 0x2340;
        let decoded = SharedMatrix::from_sm100(blackwell, Major::K).unwrap();
        assert_eq!(decoded.swizzle, MatrixSwizzle::B128);
        let error = SharedMatrix::from_sm100(descriptor, Major::K).unwrap_err().to_string();
        assert!(error.contains("bits 48:46 are 0b000"), "{error}");
    }

    /// A tile written row by row, 128 bytes a row, with the textbook 16-byte XOR.
    #[test]
    fn k_major_128_reads_a_tile_stored_by_the_textbook_rule() {
        let operand = matrix(MatrixSwizzle::B128, Major::K);
        for row in 0..64u32 {
            for k in 0..64u32 {
                let line = 0x4000 + row * 128;
                let expected = line + ((k / 8) ^ (row % 8)) * 16 + k % 8 * 2;
                assert_eq!(operand.element_address(row, k, Element::F16), expected);
            }
        }
    }

    #[test]
    fn mn_major_128_atoms_follow_leading_and_stride() {
        let operand = matrix(MatrixSwizzle::B128, Major::Mn);
        for row in 0..128u32 {
            for k in 0..32u32 {
                let line = k % 8;
                let expected = 0x4000
                    + row / 64 * 2048
                    + k / 8 * 1024
                    + line * 128
                    + ((row % 64 / 8) ^ line) * 16
                    + row % 8 * 2;
                assert_eq!(operand.element_address(row, k, Element::Bf16), expected);
            }
        }
    }

    #[test]
    fn every_mode_is_a_bijection_on_its_footprint() {
        use MatrixSwizzle::*;
        for swizzle in [None, B32, B64, B128, B128Base32] {
            for major in [Major::K, Major::Mn] {
                let spread = SharedMatrix { leading: 8192, ..matrix(swizzle, major) };
                let mut addresses: Vec<u32> = (0..16)
                    .flat_map(|r| (0..8).map(move |k| spread.element_address(r, k, Element::Tf32)))
                    .collect();
                addresses.sort_unstable();
                addresses.dedup();
                assert_eq!(addresses.len(), 128, "{swizzle:?} {major:?}");
                let bytes: u32 =
                    spread.footprint(16, 8, Element::Tf32).iter().map(|r| r.end - r.start).sum();
                assert_eq!(bytes, 512, "{swizzle:?} {major:?}");
            }
        }
    }

    #[test]
    fn gather_agrees_with_element_addresses() {
        let shared: Vec<u8> = (0..65536u32).map(|i| (i * 7 + i / 256) as u8 & 0x3F).collect();
        use MatrixSwizzle::*;
        for swizzle in [None, B32, B64, B128] {
            for major in [Major::K, Major::Mn] {
                let operand = SharedMatrix { start: 0x400, ..matrix(swizzle, major) };
                let mut out = vec![0.0; 64 * 16];
                operand.gather(&shared, Element::F16, (64, 16), &mut out, (16, 1)).unwrap();
                for row in 0..64 {
                    for k in 0..16 {
                        let at = operand.element_address(row, k, Element::F16) as usize;
                        let bits = u16::from_le_bytes([shared[at], shared[at + 1]]);
                        let expected = super::super::element::f16_to_f32(bits);
                        assert_eq!(out[(row * 16 + k) as usize], expected);
                    }
                }
            }
        }
    }

    #[test]
    fn reading_outside_names_the_descriptor() {
        let operand = matrix(MatrixSwizzle::B128, Major::K);
        let mut out = vec![0.0; 64 * 16];
        let error = operand.gather(&[0; 0x4100], Element::F16, (64, 16), &mut out, (16, 1));
        assert!(error.unwrap_err().to_string().contains("beyond the CTA's 16640 bytes"));
    }
}

use std::fmt;
use std::str::FromStr;

/// How the rows of a segment's keys lie in memory.
///
/// Packed rows are keys and values in one. The view gives their logical shape (bf16, one head); of its strides none
/// is read, and [`Segment::page_stride`](crate::Segment::page_stride) says how far pages lie apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Storage {
    /// Elements of the view's dtype at the view's strides.
    #[default]
    Elements,
    /// DeepSeek-V4's "MODEL1" rows of 512 numbers in 584 bytes, scales in a page footer.
    ///
    /// A page of `n` rows is `n` times 576 bytes (448 e4m3, then 64 bf16), then `n` times 8 bytes
    /// (seven power-of-two scales, biased by 127, one per 64 e4m3, then a pad byte), padded to a
    /// multiple of 576 bytes.
    Model1,
    /// DeepSeek-V3.2's rows of 576 numbers in 656 bytes: 512 e4m3, four f32 scales (one per 128 of them), 64 bf16.
    /// A number is its e4m3 times its scale, rounded to bf16. Values are the first 512.
    V32,
    /// DeepSeek-V4.1's rows of 512 numbers in 528 bytes: 512 e4m3, and 16 power-of-two scales, biased by 127, one
    /// per 32 of them.
    V41Fp8(Scales),
    /// DeepSeek-V4.1's rows of 512 numbers in 288 bytes: 256 bytes of two e2m1 each, the one of even index in the
    /// low half, and 32 e4m3 scales, one per 16 of them.
    V41Fp4(Scales),
}

/// Where the scales of DeepSeek-V4.1's rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scales {
    /// Behind all rows of the page, in their order.
    Footer,
    /// Behind each row.
    Row,
}

/// Sizes of a packed row format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedRows {
    /// Numbers in a row.
    pub dim: u64,
    /// Bytes from one row to the next.
    pub row_bytes: u64,
    /// Bytes that a row has in the page footer.
    pub footer_bytes: u64,
    /// What the distance between pages is a multiple of, unless it is given.
    pub page_align: u64,
}

impl PackedRows {
    /// Bytes that a page of `rows` rows takes; `u64::MAX` where there are more.
    pub fn page_bytes(self, rows: u64) -> u64 {
        rows.saturating_mul(self.row_bytes + self.footer_bytes)
    }

    /// Bytes from one page of `rows` rows to the next, unless they are given; `u64::MAX` where there are more.
    pub fn page_stride(self, rows: u64) -> u64 {
        self.page_bytes(rows).checked_next_multiple_of(self.page_align).unwrap_or(u64::MAX)
    }
}

impl Storage {
    /// Every way, in the order of its age.
    pub const ALL: [Storage; 7] = [
        Storage::Elements,
        Storage::Model1,
        Storage::V32,
        Storage::V41Fp8(Scales::Footer),
        Storage::V41Fp8(Scales::Row),
        Storage::V41Fp4(Scales::Footer),
        Storage::V41Fp4(Scales::Row),
    ];
    /// Numbers in a MODEL1 row.
    pub const MODEL1_DIM: u64 = 512;
    /// Leading numbers of a MODEL1 row that are e4m3; the rest are bf16.
    pub const MODEL1_FP8: u64 = 448;
    /// Numbers that share one MODEL1 scale.
    pub const MODEL1_BLOCK: u64 = 64;
    /// Bytes of a MODEL1 row without its scales.
    pub const MODEL1_ROW_BYTES: u64 = 576;
    /// Bytes of a MODEL1 row's scales, pad byte included.
    pub const MODEL1_SCALE_BYTES: u64 = 8;

    /// Bytes from one MODEL1 page of `rows` rows to the next; `u64::MAX` where there are more.
    pub fn model1_page_bytes(rows: u64) -> u64 {
        Storage::Model1.packed().map_or(0, |format| format.page_stride(rows))
    }

    /// The sizes of packed rows.
    pub fn packed(self) -> Option<PackedRows> {
        let format = |dim, row_bytes, footer_bytes, page_align| {
            Some(PackedRows { dim, row_bytes, footer_bytes, page_align })
        };
        match self {
            Storage::Elements => None,
            Storage::Model1 => format(
                Self::MODEL1_DIM,
                Self::MODEL1_ROW_BYTES,
                Self::MODEL1_SCALE_BYTES,
                Self::MODEL1_ROW_BYTES,
            ),
            Storage::V32 => format(576, 656, 0, 1),
            Storage::V41Fp8(Scales::Footer) => format(512, 512, 16, 1),
            Storage::V41Fp8(Scales::Row) => format(512, 528, 0, 1),
            Storage::V41Fp4(Scales::Footer) => format(512, 256, 32, 1),
            Storage::V41Fp4(Scales::Row) => format(512, 288, 0, 1),
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Storage::Elements => "elements",
            Storage::Model1 => "MODEL1",
            Storage::V32 => "V3.2",
            Storage::V41Fp8(Scales::Footer) => "V4.1-fp8",
            Storage::V41Fp8(Scales::Row) => "V4.1-fp8-inline",
            Storage::V41Fp4(Scales::Footer) => "V4.1-fp4",
            Storage::V41Fp4(Scales::Row) => "V4.1-fp4-inline",
        })
    }
}

impl FromStr for Storage {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|storage| storage.to_string() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|storage| storage.to_string());
            format!("must be one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for storage in Storage::ALL {
            assert_eq!(storage.to_string().parse(), Ok(storage));
        }
        assert!("fp8".parse::<Storage>().unwrap_err().contains("V4.1-fp4-inline"));
    }

    #[test]
    fn rows_take_the_bytes_that_their_formats_are_called_by() {
        let bytes = Storage::ALL.map(|s| s.packed().map_or(0, |format| format.page_bytes(1)));
        assert_eq!(bytes, [0, 584, 656, 528, 528, 288, 288]);
    }
}

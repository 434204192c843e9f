use std::fmt;

/// How the rows of a segment's keys lie in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Storage {
    /// Elements of the view's dtype at the view's strides.
    #[default]
    Elements,
    /// DeepSeek-V4's "MODEL1" rows of 512 numbers in 584 bytes, K = V, scales in a page footer.
    ///
    /// A page of `n` rows is `n` times 576 bytes (448 e4m3, then 64 bf16), then `n` times 8 bytes
    /// (seven power-of-two scales, biased by 127, one per 64 e4m3, then a pad byte), padded to a
    /// multiple of 576 bytes. The view gives the logical shape (bf16, one head, dim 512); its
    /// strides are not read.
    Model1,
}

impl Storage {
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
        let bytes = rows.saturating_mul(Self::MODEL1_ROW_BYTES + Self::MODEL1_SCALE_BYTES);
        bytes.checked_next_multiple_of(Self::MODEL1_ROW_BYTES).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Storage::Elements => "elements",
            Storage::Model1 => "model1",
        })
    }
}

use serde::{Deserialize, Serialize};

/// Factors on the numbers of e4m3 keys or values, f32 on the device: one for each sequence and KV head, of which
/// neighbours may be the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Descale {
    /// Factors from one sequence to the next, and from one KV head to the next; 0 where they share one.
    pub strides: [u64; 2],
}

impl Descale {
    /// One factor for the whole tensor.
    pub const PER_TENSOR: Descale = Descale { strides: [0, 0] };
    /// A factor per KV head, the same for all sequences.
    pub const PER_HEAD: Descale = Descale { strides: [0, 1] };

    /// Factors from the first to one past the last, of so many sequences and KV heads; `None` on overflow.
    pub fn span(&self, batch: u64, heads: u64) -> Option<u64> {
        let last = |extent: u64, stride: u64| extent.saturating_sub(1).checked_mul(stride);
        let [sequences, of_heads] = self.strides;
        last(batch, sequences)?.checked_add(last(heads, of_heads)?)?.checked_add(1)
    }

    /// Where the factor of sequence `b` and KV head `head` is.
    pub fn offset(&self, b: u64, head: u64) -> u64 {
        b * self.strides[0] + head * self.strides[1]
    }
}

use crate::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A strided tensor `[batch, heads, tokens, dim]`; strides count elements and the last one is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Extent of each dimension.
    pub shape: [u64; 4],
    /// Distance between neighbours of each dimension, in elements. 0 repeats (one KV head for all).
    pub strides: [u64; 4],
    /// Element type.
    pub dtype: DType,
}

impl View {
    /// A packed tensor in memory order batch, heads, tokens, dim.
    pub fn bhsd(dtype: DType, [batch, heads, tokens, dim]: [u64; 4]) -> Self {
        let strides = [product([heads, tokens, dim]), product([1, tokens, dim]), dim, 1];
        Self { shape: [batch, heads, tokens, dim], strides, dtype }
    }

    /// A packed tensor in memory order batch, tokens, heads, dim (the argument keeps name order).
    pub fn bshd(dtype: DType, [batch, heads, tokens, dim]: [u64; 4]) -> Self {
        let strides = [product([heads, tokens, dim]), dim, product([1, heads, dim]), 1];
        Self { shape: [batch, heads, tokens, dim], strides, dtype }
    }

    /// The same tensor with other strides.
    pub fn with_strides(self, strides: [u64; 4]) -> Self {
        Self { strides, ..self }
    }

    /// Extent of the batch dimension (pages, where the tensor is paged).
    pub fn batch(&self) -> u64 {
        self.shape[0]
    }
    /// Number of heads.
    pub fn heads(&self) -> u64 {
        self.shape[1]
    }
    /// Number of tokens (rows of a page, where the tensor is paged).
    pub fn tokens(&self) -> u64 {
        self.shape[2]
    }
    /// Length of a row.
    pub fn dim(&self) -> u64 {
        self.shape[3]
    }

    /// Element offset of `[batch, head, token, 0]`.
    pub fn row_offset(&self, batch: u64, head: u64, token: u64) -> u64 {
        batch * self.strides[0] + head * self.strides[1] + token * self.strides[2]
    }

    /// Bytes from one index of dimension `d` to the next; 0 where there is no next, whatever the stride is.
    pub fn step_bytes(&self, d: usize) -> u64 {
        let step = self.strides[d].saturating_mul(self.dtype.bytes());
        if self.shape[d] > 1 { step } else { 0 }
    }

    /// Elements from the first to one past the last, `None` on overflow; 0 if a dimension is 0.
    pub fn span(&self) -> Option<u64> {
        span(&self.shape, &self.strides)
    }
}

/// Elements from the first to one past the last, `None` on overflow; 0 if a dimension is 0.
pub(crate) fn span(shape: &[u64; 4], strides: &[u64; 4]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let mut last = 0u64;
    for (extent, stride) in shape.iter().zip(strides) {
        last = last.checked_add((extent - 1).checked_mul(*stride)?)?;
    }
    last.checked_add(1)
}

/// A product that stays at the largest number where it would overflow, which no problem accepts.
fn product(extents: [u64; 3]) -> u64 {
    extents.into_iter().fold(1, u64::saturating_mul)
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [b, h, t, d] = self.shape;
        let [sb, sh, st, sd] = self.strides;
        write!(f, "{}[{b},{h},{t},{d}]:[{sb},{sh},{st},{sd}]", self.dtype)
    }
}

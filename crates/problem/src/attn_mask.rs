use crate::DType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the elements of an [`AttnMask`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaskElement {
    /// A byte: the key is seen unless it is 0.
    Bool,
    /// A number that is added to the score; `-inf` hides the key.
    Float(DType),
}

impl MaskElement {
    /// Size of one.
    pub const fn bytes(self) -> u64 {
        match self {
            MaskElement::Bool => 1,
            MaskElement::Float(dtype) => dtype.bytes(),
        }
    }
}

impl fmt::Display for MaskElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MaskElement::Bool => f.write_str("bool"),
            MaskElement::Float(dtype) => dtype.fmt(f),
        }
    }
}

impl std::str::FromStr for MaskElement {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "bool" => Ok(MaskElement::Bool),
            _ => s
                .parse()
                .map(MaskElement::Float)
                .map_err(|_| format!("unknown mask type `{s}`: one of bool, f64, f32, f16, bf16")),
        }
    }
}

/// A tensor that hides keys or is added to the scores of a segment: `[batch, heads, queries, keys]`.
///
/// Heads are query heads. An extent of 1 stands for all entries of its dimension. Elements lie at any
/// strides. Numbers beyond ±[`AttnMask::MOST`] count as that, so that sums of them and scores stay
/// finite; only `-inf` hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttnMask {
    /// Extent of each dimension.
    pub shape: [u64; 4],
    /// Distance between neighbours of each dimension, in elements. 0 repeats.
    pub strides: [u64; 4],
    /// Element type, `dtype` in text formats.
    #[serde(rename = "dtype")]
    pub element: MaskElement,
}

impl AttnMask {
    /// The largest number that is added to a score.
    pub const MOST: f32 = 1e38;

    /// A packed tensor in memory order batch, heads, queries, keys.
    pub fn new(element: MaskElement, shape: [u64; 4]) -> Self {
        let [_, heads, queries, keys] = shape;
        let row = queries.saturating_mul(keys);
        Self { shape, strides: [heads.saturating_mul(row), row, keys, 1], element }
    }

    /// The same tensor with other strides.
    pub fn with_strides(self, strides: [u64; 4]) -> Self {
        Self { strides, ..self }
    }

    /// Elements from one entry of each dimension of the problem to the next: 0 where one stands for
    /// all.
    pub fn steps(&self) -> [u64; 4] {
        std::array::from_fn(|d| if self.shape[d] == 1 { 0 } else { self.strides[d] })
    }

    /// Element offset of `[batch, head, query, key]` of the problem.
    pub fn offset(&self, at: [u64; 4]) -> u64 {
        at.iter().zip(self.steps()).map(|(index, step)| index * step).sum()
    }

    /// Elements from the first to one past the last, `None` on overflow; 0 if a dimension is 0.
    pub fn span(&self) -> Option<u64> {
        crate::view::span(&self.shape, &self.strides)
    }
}

impl fmt::Display for AttnMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [b, h, q, k] = self.shape;
        let [sb, sh, sq, sk] = self.strides;
        write!(f, "{}[{b},{h},{q},{k}]:[{sb},{sh},{sq},{sk}]", self.element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_of_one_repeat_whatever_their_stride() {
        let mask = AttnMask::new(MaskElement::Bool, [2, 1, 3, 5]);
        assert_eq!(mask.steps(), [15, 0, 5, 1]);
        assert_eq!(mask.offset([1, 7, 2, 4]), 29);
        assert_eq!(mask.span(), Some(30));
        let strided = AttnMask { shape: [1, 4, 1, 5], ..mask }.with_strides([99, 5, 99, 20]);
        assert_eq!((strided.offset([3, 2, 8, 1]), strided.span()), (30, Some(96)));
    }

    #[test]
    fn types_survive_printing_and_reading() {
        let floats = [DType::F64, DType::F32, DType::F16, DType::Bf16].map(MaskElement::Float);
        for element in floats.into_iter().chain([MaskElement::Bool]) {
            assert_eq!(element.to_string().parse(), Ok(element));
        }
        assert!("i32".parse::<MaskElement>().is_err());
    }
}

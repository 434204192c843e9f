//! Tensors as a caller has them, and what is wrong with one.

use crate::Error;
use problem::{DType, Element, View};
use serde::Deserialize;
use std::fmt;

/// A caller's tensor: what it is called, its shape, strides in elements, and what its numbers are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// The caller's name of it, for errors.
    pub name: String,
    /// Extent of each dimension.
    pub shape: Vec<u64>,
    /// Elements from one index of each dimension to the next.
    pub strides: Vec<u64>,
    /// What its numbers are.
    pub numbers: Numbers,
}

/// What the numbers of a caller's tensor are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum Numbers {
    /// A type that problems know.
    Known(Element),
    /// Another, by the caller's name of it.
    Other(String),
}

impl From<String> for Numbers {
    fn from(name: String) -> Self {
        let known = [Element::I32, Element::U8, Element::Bool];
        let known = known.into_iter().find(|element| element.to_string() == name);
        match known.or_else(|| name.parse().ok().map(Element::Float)) {
            Some(element) => Numbers::Known(element),
            None => Numbers::Other(name),
        }
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Numbers::Known(element) => element.fmt(f),
            Numbers::Other(name) => f.write_str(name),
        }
    }
}

/// A tensor that is not as a call needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The caller's name of the tensor.
    pub name: String,
    /// What it is like (`has shape (3, 4)`).
    pub found: String,
    /// What would do (`(3, 8) is needed`).
    pub needed: String,
    /// Whether its numbers are of a wrong type.
    pub is_of_type: bool,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.name, self.found, self.needed)
    }
}

impl std::error::Error for Mismatch {}

impl From<Mismatch> for Error {
    fn from(error: Mismatch) -> Self {
        Error::Mismatch(error)
    }
}

impl Given {
    /// The type of floating-point numbers that queries and rows may be.
    pub(super) fn float(&self) -> Option<DType> {
        match self.numbers {
            Numbers::Known(Element::Float(dtype)) if dtype != DType::E4m3 => Some(dtype),
            _ => None,
        }
    }

    /// Whether it holds exactly these, one behind the other.
    pub(super) fn is_contiguous(&self, of: Element) -> bool {
        let dense = dense(&self.shape);
        let dims = self.shape.iter().zip(&self.strides).zip(&dense);
        let even = dims.into_iter().all(|((extent, stride), dense)| *extent < 2 || stride == dense);
        self.numbers == Numbers::Known(of) && (even || self.shape.contains(&0))
    }

    /// Refuses a tensor whose dimensions do not all have strides.
    pub(super) fn ensure_strides(&self) -> Result<(), Mismatch> {
        if self.shape.len() == self.strides.len() {
            return Ok(());
        }
        let found = format!("has strides {}", tuple(&self.strides));
        let needed = format!("one for each dimension of {} is needed", tuple(&self.shape));
        Err(self.mismatch(found, needed))
    }

    /// Refuses any shape but `wanted`.
    pub(super) fn ensure_shape(&self, wanted: &[u64]) -> Result<(), Mismatch> {
        if self.shape == wanted { Ok(()) } else { Err(self.misshapen(tuple(wanted))) }
    }

    /// A page table of `requests` rows: its columns.
    pub(super) fn table_columns(&self, requests: u64) -> Result<u64, Mismatch> {
        match self.shape[..] {
            [rows, columns] if rows == requests => Ok(columns),
            _ => Err(self.misshapen(format!("({requests}, entries)"))),
        }
    }

    /// Rows `[rows, dim]` of floating-point numbers.
    pub(super) fn rows(&self, dim: u64) -> Result<View, Mismatch> {
        self.ensure_strides()?;
        let [rows, columns] = self.shape[..] else {
            return Err(self.misshapen(format!("[rows, {dim}]")));
        };
        if columns != dim {
            return Err(self.misshapen(format!("[rows, {dim}]")));
        }
        self.ensure_unit_stride()?;
        let dtype = self.float().ok_or_else(|| self.mistyped("float32, float16 or bfloat16"))?;
        Ok(View { shape: [1, 1, rows, dim], strides: [0, 0, self.strides[0], 1], dtype })
    }

    /// Refuses rows whose numbers lie apart.
    pub(super) fn ensure_unit_stride(&self) -> Result<(), Mismatch> {
        match (self.strides.last(), self.shape.last()) {
            (Some(stride), Some(extent)) if *stride != 1 && *extent > 1 => {
                let found = format!("has a last stride of {stride}");
                Err(self.mismatch(found, "rows must be contiguous"))
            }
            _ => Ok(()),
        }
    }

    /// Its shape is wrong.
    pub(super) fn misshapen(&self, needed: impl fmt::Display) -> Mismatch {
        let found = format!("has shape {}", tuple(&self.shape));
        self.mismatch(found, format!("{needed} is needed"))
    }

    /// Its strides are wrong.
    pub(super) fn apart(&self, what: &str) -> Mismatch {
        let found = format!("has strides {}", tuple(&self.strides));
        self.mismatch(found, format!("{what} must be contiguous"))
    }

    /// Its numbers are of a wrong type.
    pub(super) fn mistyped(&self, needed: &str) -> Mismatch {
        let found = format!("is {}", self.numbers);
        Mismatch { is_of_type: true, ..self.mismatch(found, format!("{needed} is needed")) }
    }

    pub(super) fn mismatch(&self, found: String, needed: impl Into<String>) -> Mismatch {
        Mismatch { name: self.name.clone(), found, needed: needed.into(), is_of_type: false }
    }
}

/// Strides of a contiguous tensor.
pub(super) fn dense(shape: &[u64]) -> Vec<u64> {
    let mut step = 1u64;
    let strides = shape.iter().rev().map(|extent| {
        let stride = step;
        step = step.saturating_mul((*extent).max(1));
        stride
    });
    let mut strides: Vec<u64> = strides.collect();
    strides.reverse();
    strides
}

/// Numbers as Python writes them.
pub(super) fn tuple(numbers: &[u64]) -> String {
    match numbers {
        [one] => format!("({one},)"),
        _ => {
            let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
            format!("({})", numbers.join(", "))
        }
    }
}

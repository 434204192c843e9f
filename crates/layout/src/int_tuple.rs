//! Nested tuples of integers: the one building block of shapes, strides and coordinates.

use std::fmt;

use crate::error::{LayoutError, Result, checked_mul};

/// An integer or a tuple of [`IntTuple`]s, such as `8` or `((2,4),3)`.
///
/// Shapes, strides and coordinates are all written this way. Conversions from integers, arrays,
/// `Vec`s and Rust tuples make them easy to write down:
///
/// ```
/// use layout::IntTuple;
/// let shape = IntTuple::from(((2, 4), 3));
/// assert_eq!(shape.to_string(), "((2,4),3)");
/// assert_eq!(shape.product().unwrap(), 24);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IntTuple {
    /// A single integer: a leaf.
    Int(u64),
    /// A tuple of modes; may be empty.
    Tuple(Vec<IntTuple>),
}

/// The extents of a layout's domain.
pub type Shape = IntTuple;
/// The steps of a layout, congruent with its shape.
pub type Stride = IntTuple;
/// A position in a shape, in any of the three coordinate forms.
pub type Coord = IntTuple;

impl IntTuple {
    /// Whether this is a leaf.
    pub fn is_int(&self) -> bool {
        matches!(self, IntTuple::Int(_))
    }

    /// The integer of a leaf.
    pub fn as_int(&self) -> Option<u64> {
        match self {
            IntTuple::Int(value) => Some(*value),
            IntTuple::Tuple(_) => None,
        }
    }

    /// Number of top-level modes; a leaf has rank 1.
    pub fn rank(&self) -> usize {
        self.modes().len()
    }

    /// Nesting depth: 0 for a leaf, 1 for a flat tuple.
    pub fn depth(&self) -> usize {
        match self {
            IntTuple::Int(_) => 0,
            IntTuple::Tuple(modes) => 1 + modes.iter().map(IntTuple::depth).max().unwrap_or(0),
        }
    }

    /// The top-level modes; a leaf is its own only mode.
    pub fn modes(&self) -> &[IntTuple] {
        match self {
            IntTuple::Int(_) => std::slice::from_ref(self),
            IntTuple::Tuple(modes) => modes,
        }
    }

    /// All leaves from left to right.
    pub fn flatten(&self) -> Vec<u64> {
        let mut leaves = Vec::new();
        self.collect_leaves(&mut leaves);
        leaves
    }

    fn collect_leaves(&self, leaves: &mut Vec<u64>) {
        match self {
            IntTuple::Int(value) => leaves.push(*value),
            IntTuple::Tuple(modes) => modes.iter().for_each(|mode| mode.collect_leaves(leaves)),
        }
    }

    /// The product of all leaves: the size of a shape.
    pub fn product(&self) -> Result<u64> {
        self.flatten().into_iter().try_fold(1, |size, leaf| checked_mul("size", size, leaf))
    }

    /// Whether both tuples have the same nesting.
    pub fn is_congruent(&self, other: &IntTuple) -> bool {
        match (self, other) {
            (IntTuple::Int(_), IntTuple::Int(_)) => true,
            (IntTuple::Tuple(a), IntTuple::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_congruent(b))
            }
            _ => false,
        }
    }

    /// Whether every coordinate of this shape is a coordinate of `finer`: sizes agree mode by
    /// mode wherever this shape still distinguishes modes.
    pub fn is_compatible(&self, finer: &IntTuple) -> bool {
        match (self, finer) {
            (IntTuple::Int(size), _) => finer.product().is_ok_and(|other| other == *size),
            (IntTuple::Tuple(a), IntTuple::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_compatible(b))
            }
            (IntTuple::Tuple(_), IntTuple::Int(_)) => false,
        }
    }

    /// Applies `f` to every leaf, keeping the profile.
    pub fn map_leaves(&self, f: &mut impl FnMut(u64) -> u64) -> IntTuple {
        match self {
            IntTuple::Int(value) => IntTuple::Int(f(*value)),
            IntTuple::Tuple(modes) => {
                IntTuple::Tuple(modes.iter().map(|mode| mode.map_leaves(f)).collect())
            }
        }
    }

    /// The running product of the leaves before each leaf: the strides of a compact
    /// column-major layout, `((2,3),4)` giving `((1,2),6)`.
    pub fn prefix_product(&self) -> Result<IntTuple> {
        self.product()?;
        let mut running = 1;
        Ok(self.map_leaves(&mut |leaf| {
            let before = running;
            running *= leaf;
            before
        }))
    }

    /// Divides a shape by a number of elements taken off from the left, `(6,(3,4))` by 36 giving
    /// `(1,(1,2))`; each step must divide one way or the other.
    pub fn shape_div(&self, divisor: u64) -> Result<IntTuple> {
        let mut divisor = divisor;
        self.take_off(&mut divisor)
    }

    fn take_off(&self, divisor: &mut u64) -> Result<IntTuple> {
        match self {
            IntTuple::Int(extent) => {
                let quotient = divide_either_way(*extent, *divisor)?;
                *divisor = divide_either_way(*divisor, *extent)?;
                Ok(IntTuple::Int(quotient))
            }
            IntTuple::Tuple(modes) => modes
                .iter()
                .map(|mode| mode.take_off(divisor))
                .collect::<Result<_>>()
                .map(IntTuple::Tuple),
        }
    }

    /// The sum of the products of matching leaves.
    pub fn inner_product(&self, other: &IntTuple) -> Result<u64> {
        if !self.is_congruent(other) {
            return Err(LayoutError::NotCongruent {
                operation: "inner product",
                expected: self.to_string(),
                found: other.to_string(),
            });
        }
        self.flatten().into_iter().zip(other.flatten()).try_fold(0, |sum, (a, b)| {
            crate::error::checked_add("inner product", sum, checked_mul("inner product", a, b)?)
        })
    }
}

/// `a / b` rounded up, when one of the two divides the other.
fn divide_either_way(a: u64, b: u64) -> Result<u64> {
    if a == 0 || b == 0 || !(a.is_multiple_of(b) || b.is_multiple_of(a)) {
        return Err(LayoutError::NotDivisible {
            operation: "shape division",
            dividend: a,
            divisor: b,
        });
    }
    Ok(a.div_ceil(b))
}

impl fmt::Display for IntTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntTuple::Int(value) => write!(f, "{value}"),
            IntTuple::Tuple(modes) => {
                f.write_str("(")?;
                for (i, mode) in modes.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    mode.fmt(f)?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Debug for IntTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<u64> for IntTuple {
    fn from(value: u64) -> Self {
        IntTuple::Int(value)
    }
}

impl<T: Into<IntTuple>> From<Vec<T>> for IntTuple {
    fn from(modes: Vec<T>) -> Self {
        IntTuple::Tuple(modes.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<IntTuple>, const N: usize> From<[T; N]> for IntTuple {
    fn from(modes: [T; N]) -> Self {
        IntTuple::Tuple(modes.into_iter().map(Into::into).collect())
    }
}

impl From<&IntTuple> for IntTuple {
    fn from(tuple: &IntTuple) -> Self {
        tuple.clone()
    }
}

macro_rules! from_rust_tuple {
    ($($mode:ident),+) => {
        impl<$($mode: Into<IntTuple>),+> From<($($mode,)+)> for IntTuple {
            #[allow(non_snake_case)]
            fn from(($($mode,)+): ($($mode,)+)) -> Self {
                IntTuple::Tuple(vec![$($mode.into()),+])
            }
        }
    };
}
from_rust_tuple!(A);
from_rust_tuple!(A, B);
from_rust_tuple!(A, B, C);
from_rust_tuple!(A, B, C, D);
from_rust_tuple!(A, B, C, D, E);
from_rust_tuple!(A, B, C, D, E, F);

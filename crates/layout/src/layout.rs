//! [`Layout`]: a shape and a congruent stride, read as a function from coordinates to indices.

use std::fmt;

use crate::coord::out_of_shape;
use crate::error::{LayoutError, Result, checked_add, checked_mul};
use crate::int_tuple::{Coord, IntTuple, Shape, Stride};

/// A function from coordinates to indices: the sum of coordinate times stride over all leaves.
///
/// A `Layout` is checked when it is made (profiles agree, no extent is zero, size and cosize fit
/// in 64 bits), so that evaluating it inside its domain cannot fail or wrap.
///
/// ```
/// use layout::Layout;
/// let tile: Layout = "((2,4),3):((1,6),2)".parse()?;
/// assert_eq!(tile.size(), 24);
/// assert_eq!(tile.at(((1, 2), 1))?, 15);
/// assert_eq!(tile.at((5, 1))?, tile.at(13)?);
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    stride: Stride,
}

impl Layout {
    /// A layout from a shape and a stride of the same profile.
    pub fn new(shape: impl Into<Shape>, stride: impl Into<Stride>) -> Result<Layout> {
        let (shape, stride) = (shape.into(), stride.into());
        if !shape.is_congruent(&stride) {
            return Err(LayoutError::NotCongruent {
                operation: "layout",
                expected: shape.to_string(),
                found: stride.to_string(),
            });
        }
        let leaves = shape.flatten();
        if leaves.contains(&0) {
            return Err(LayoutError::ZeroExtent { shape: shape.to_string() });
        }
        shape.product()?;
        check_cosize(&leaves, &stride.flatten())?;
        Ok(Layout { shape, stride })
    }

    /// The compact layout whose left-most mode is contiguous.
    pub fn column_major(shape: impl Into<Shape>) -> Result<Layout> {
        let shape = shape.into();
        let stride = shape.prefix_product()?;
        Layout::new(shape, stride)
    }

    /// The compact layout whose right-most mode is contiguous.
    pub fn row_major(shape: impl Into<Shape>) -> Result<Layout> {
        let shape = shape.into();
        let mut remaining = shape.product()?;
        if remaining == 0 {
            return Err(LayoutError::ZeroExtent { shape: shape.to_string() });
        }
        let stride = shape.map_leaves(&mut |extent| {
            remaining /= extent;
            remaining
        });
        Layout::new(shape, stride)
    }

    /// The single-mode layout `size:stride`.
    pub fn strided(size: u64, stride: u64) -> Result<Layout> {
        Layout::new(size, stride)
    }

    /// The layout of one element at index 0, `1:0`.
    pub fn unit() -> Layout {
        Layout { shape: IntTuple::Int(1), stride: IntTuple::Int(0) }
    }

    /// The layout whose modes are the given layouts, side by side.
    pub fn from_modes(modes: impl IntoIterator<Item = Layout>) -> Result<Layout> {
        let (shapes, strides): (Vec<_>, Vec<_>) =
            modes.into_iter().map(|mode| (mode.shape, mode.stride)).unzip();
        Layout::new(IntTuple::Tuple(shapes), IntTuple::Tuple(strides))
    }

    /// A single-mode layout for one leaf, a flat one for several, [`Layout::unit`] for none.
    pub(crate) fn from_leaves(leaves: &[(u64, u64)]) -> Result<Layout> {
        match leaves {
            [] => Ok(Layout::unit()),
            [(shape, stride)] => Layout::new(*shape, *stride),
            _ => {
                let (shapes, strides): (Vec<u64>, Vec<u64>) = leaves.iter().copied().unzip();
                Layout::new(shapes, strides)
            }
        }
    }

    /// The extents of the domain.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The step of each leaf of the shape.
    pub fn stride(&self) -> &Stride {
        &self.stride
    }

    /// Number of coordinates in the domain.
    pub fn size(&self) -> u64 {
        self.shape.flatten().into_iter().product()
    }

    /// One more than the largest index reached.
    pub fn cosize(&self) -> u64 {
        1 + self.leaves().into_iter().map(|(shape, stride)| (shape - 1) * stride).sum::<u64>()
    }

    /// Number of top-level modes.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// Nesting depth of the shape.
    pub fn depth(&self) -> usize {
        self.shape.depth()
    }

    /// Top-level mode `i` as a layout.
    pub fn mode(&self, i: usize) -> Result<Layout> {
        let (Some(shape), Some(stride)) = (self.shape.modes().get(i), self.stride.modes().get(i))
        else {
            return Err(LayoutError::Rank { operation: "mode", asked: i, rank: self.rank() });
        };
        Ok(Layout { shape: shape.clone(), stride: stride.clone() })
    }

    /// All top-level modes as layouts.
    pub fn modes(&self) -> Vec<Layout> {
        let pairs = self.shape.modes().iter().zip(self.stride.modes());
        pairs
            .map(|(shape, stride)| Layout { shape: shape.clone(), stride: stride.clone() })
            .collect()
    }

    /// The (extent, stride) leaves from left to right.
    pub fn leaves(&self) -> Vec<(u64, u64)> {
        self.shape.flatten().into_iter().zip(self.stride.flatten()).collect()
    }

    /// The index of a coordinate in any of the three coordinate forms.
    pub fn at(&self, coord: impl Into<Coord>) -> Result<u64> {
        evaluate(&coord.into(), &self.shape, &self.stride)
    }

    /// The indices of all coordinates, in one-number order.
    pub fn indices(&self) -> impl Iterator<Item = u64> + use<> {
        let leaves = self.leaves();
        (0..self.size()).map(move |index| evaluate_leaves(index, &leaves))
    }

    /// All leaves in one flat tuple.
    pub fn flatten(&self) -> Layout {
        Layout {
            shape: IntTuple::from(self.shape.flatten()),
            stride: IntTuple::from(self.stride.flatten()),
        }
    }

    /// Groups modes `begin..end` into one nested mode.
    pub fn group(&self, begin: usize, end: usize) -> Result<Layout> {
        let mut modes = self.modes();
        if begin > end || end > modes.len() {
            return Err(LayoutError::Rank { operation: "group", asked: end, rank: modes.len() });
        }
        let grouped = Layout::from_modes(modes.drain(begin..end))?;
        modes.insert(begin, grouped);
        Layout::from_modes(modes)
    }

    /// This layout with `mode` appended as its last top-level mode.
    pub fn append(&self, mode: Layout) -> Result<Layout> {
        let mut modes = self.modes();
        modes.push(mode);
        Layout::from_modes(modes)
    }

    /// Whether no two coordinates share an index.
    pub fn is_injective(&self) -> bool {
        let mut indices: Vec<u64> = self.indices().collect();
        indices.sort_unstable();
        indices.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// Whether the layout is a bijection onto `0..size`.
    pub fn is_compact(&self) -> bool {
        self.cosize() == self.size() && self.is_injective()
    }
}

fn check_cosize(extents: &[u64], strides: &[u64]) -> Result<u64> {
    extents.iter().zip(strides).try_fold(1, |cosize, (extent, stride)| {
        checked_add("cosize", cosize, checked_mul("cosize", extent - 1, *stride)?)
    })
}

fn evaluate(coord: &Coord, shape: &Shape, stride: &Stride) -> Result<u64> {
    match (coord, shape, stride) {
        (IntTuple::Int(index), _, _) => {
            if *index >= shape.product()? {
                return Err(out_of_shape(coord, shape));
            }
            let leaves: Vec<_> = shape.flatten().into_iter().zip(stride.flatten()).collect();
            Ok(evaluate_leaves(*index, &leaves))
        }
        (IntTuple::Tuple(coords), IntTuple::Tuple(shapes), IntTuple::Tuple(strides))
            if coords.len() == shapes.len() =>
        {
            let modes = coords.iter().zip(shapes).zip(strides);
            modes.map(|((coord, shape), stride)| evaluate(coord, shape, stride)).sum()
        }
        _ => Err(out_of_shape(coord, shape)),
    }
}

/// The index of an in-range one-number coordinate.
fn evaluate_leaves(index: u64, leaves: &[(u64, u64)]) -> u64 {
    let mut rest = index;
    let mut offset = 0;
    for (extent, stride) in leaves {
        offset += rest % extent * stride;
        rest /= extent;
    }
    offset
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.shape, self.stride)
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

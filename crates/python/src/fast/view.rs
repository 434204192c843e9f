//! What a plan expects of a tensor.

use super::dlpack::{DataType, Device, Tensor};

/// The most dimensions a tensor of a call has.
pub(super) const MOST_DIMENSIONS: usize = 4;

/// Everything about a tensor but its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) device: Device,
    pub(super) dtype: DataType,
    rank: usize,
    shape: [i64; MOST_DIMENSIONS],
    strides: [i64; MOST_DIMENSIONS],
}

impl View {
    /// The view of a tensor; none if it has too many dimensions.
    pub(super) fn of(tensor: &Tensor) -> Option<Self> {
        let mut view = View {
            device: tensor.device,
            dtype: tensor.dtype,
            rank: tensor.shape().len(),
            shape: [0; MOST_DIMENSIONS],
            strides: [0; MOST_DIMENSIONS],
        };
        view.shape.get_mut(..view.rank)?.copy_from_slice(tensor.shape());
        match tensor.strides() {
            [] => view.strides = dense(&view.shape[..view.rank]),
            strides => view.strides[..view.rank].copy_from_slice(strides),
        }
        Some(view)
    }

    pub(super) fn shape(&self) -> &[i64] {
        &self.shape[..self.rank]
    }

    /// Whether a new tensor of this shape has these strides.
    pub(super) fn is_dense(&self) -> bool {
        let dense = dense(self.shape());
        (0..self.rank).all(|i| self.shape[i] <= 1 || self.strides[i] == dense[i])
    }

    /// Whether `tensor` has this type, shape and place; strides of single entries do not matter.
    pub(super) fn fits(&self, tensor: &Tensor) -> bool {
        if tensor.shape() != self.shape()
            || tensor.dtype != self.dtype
            || tensor.device != self.device
        {
            return false;
        }
        match tensor.strides() {
            [] => self.is_dense(),
            strides => {
                let same = |i: usize| strides[i] == self.strides[i] || self.shape[i] <= 1;
                (0..self.rank).all(same)
            }
        }
    }
}

fn dense(shape: &[i64]) -> [i64; MOST_DIMENSIONS] {
    let (mut strides, mut step) = ([0; MOST_DIMENSIONS], 1);
    for i in (0..shape.len()).rev() {
        strides[i] = step;
        step *= shape[i].max(1);
    }
    strides
}

/// A number that tensors of one shape share, and others rarely have.
pub(super) fn hash(tensors: [&Tensor; 3]) -> u64 {
    let extents = tensors.into_iter().flat_map(|tensor| tensor.shape());
    extents.fold(0xcbf2_9ce4_8422_2325, |hash, extent| {
        (hash ^ *extent as u64).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

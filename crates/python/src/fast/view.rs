//! What a plan expects of a tensor.

use super::dlpack::{DataType, Device, Tensor};

/// A tensor that a Python object lends, and the bytes of its storage from its first element on.
pub(super) struct Lent {
    pub(super) tensor: Tensor,
    pub(super) bytes: u64,
}

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
    /// Bytes from the first element to behind the last.
    span: u64,
}

impl View {
    /// The view of a tensor; none if it has too many dimensions, or more than its storage holds.
    pub(super) fn of(lent: &Lent) -> Option<Self> {
        let tensor = &lent.tensor;
        let mut view = View {
            device: tensor.device,
            dtype: tensor.dtype,
            rank: tensor.shape().len(),
            shape: [0; MOST_DIMENSIONS],
            strides: [0; MOST_DIMENSIONS],
            span: 0,
        };
        view.shape.get_mut(..view.rank)?.copy_from_slice(tensor.shape());
        match tensor.strides() {
            [] => view.strides = dense(&view.shape[..view.rank]),
            strides => view.strides[..view.rank].copy_from_slice(strides),
        }
        view.span = view.elements()?.checked_mul(view.dtype.bytes())?;
        (view.span <= lent.bytes).then_some(view)
    }

    /// Elements from the first to behind the last; none where a stride is negative.
    fn elements(&self) -> Option<u64> {
        if self.shape().contains(&0) {
            return Some(0);
        }
        let mut last = 0u64;
        for (extent, stride) in self.shape().iter().zip(self.strides).filter(|(n, _)| **n > 1) {
            let step = u64::try_from(stride).ok()?.checked_mul(*extent as u64 - 1)?;
            last = last.checked_add(step)?;
        }
        last.checked_add(1)
    }

    /// Bytes from the first element to behind the last.
    pub(super) fn span(&self) -> u64 {
        self.span
    }

    pub(super) fn shape(&self) -> &[i64] {
        &self.shape[..self.rank]
    }

    /// Whether a new tensor of this shape has these strides.
    pub(super) fn is_dense(&self) -> bool {
        let dense = dense(self.shape());
        (0..self.rank).all(|i| self.shape[i] <= 1 || self.strides[i] == dense[i])
    }

    /// Whether a tensor has this type, shape and place, and its storage all of it; strides of single
    /// entries do not matter.
    pub(super) fn fits(&self, Lent { tensor, bytes }: &Lent) -> bool {
        if *bytes < self.span
            || tensor.shape() != self.shape()
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
pub(super) fn hash(tensors: [&Lent; 3]) -> u64 {
    let extents = tensors.into_iter().flat_map(|lent| lent.tensor.shape());
    extents.fold(0xcbf2_9ce4_8422_2325, |hash, extent| {
        (hash ^ *extent as u64).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

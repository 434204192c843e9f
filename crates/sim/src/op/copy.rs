//! Operands of asynchronous copies.

use super::memory::{Addr, MemSpace};
use crate::register::R32;
use crate::tensor_copy::{ReduceOp, ReduceType};

/// Non-tensor copies between global and shared memory that run asynchronously.
#[derive(Clone, Debug)]
pub struct BulkCopy {
    /// Destination.
    pub dst: Addr,
    /// Destination space.
    pub dst_space: MemSpace,
    /// Source.
    pub src: Addr,
    /// Source space.
    pub src_space: MemSpace,
    /// Bytes.
    pub size: R32,
    /// Barrier to complete on; none is bulk-group completion.
    pub mbar: Option<Addr>,
    /// Multicast CTA mask.
    pub multicast: Option<R32>,
    /// Reduction instead of a copy.
    pub reduce: Option<(ReduceOp, ReduceType)>,
    /// `.cp_mask` byte mask.
    pub byte_mask: Option<R32>,
}

/// Direction of a tensor copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorDirection {
    /// Global to shared.
    Load,
    /// Shared to global.
    Store,
    /// Shared into global, reducing.
    Reduce(ReduceOp),
    /// Global to L2.
    Prefetch,
}

/// `cp{.reduce}.async.bulk{.prefetch}.tensor`.
#[derive(Clone, Debug)]
pub struct TensorCopy {
    /// Direction.
    pub direction: TensorDirection,
    /// Shared-memory side.
    pub shared: Option<Addr>,
    /// Tensor map.
    pub map: Addr,
    /// Coordinates, innermost first; for gather4/scatter4 the column and four rows.
    pub coords: Box<[R32]>,
    /// `.tile::gather4` or `.tile::scatter4`.
    pub rows4: bool,
    /// Barrier.
    pub mbar: Option<Addr>,
    /// Multicast CTA mask.
    pub multicast: Option<R32>,
    /// `.cta_group::2`.
    pub pair: bool,
}

//! Asynchronous copies, and the tensor maps that they go through.

mod decode;
mod execute;
mod tensormap;

use super::memory::{Addr, MemSpace};
use super::operands::{Use, Visit, addr, all, reads32, regs};
use crate::register::{P, R32, Reg};
use crate::tensor_copy::{ReduceOp, ReduceType};
use crate::timing::{Class, Cost};
use Use::Read;

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
    /// Of `.im2col`, the offsets, width first.
    pub im2col: Option<Box<[R32]>>,
    /// Barrier.
    pub mbar: Option<Addr>,
    /// Multicast CTA mask.
    pub multicast: Option<R32>,
    /// `.cta_group::2`.
    pub pair: bool,
}

/// A copy that runs asynchronously, a wait for such, or a change of a tensor map.
pub enum AsyncCopy {
    /// `cp.async.{ca,cg}`.
    CpAsync {
        /// Destination.
        dst: Addr,
        /// Source.
        src: Addr,
        /// Bytes to write.
        bytes: u32,
        /// Bytes to read; the rest is zero.
        source_bytes: Option<R32>,
        /// Predicate that replaces the source by zeros.
        ignore: Option<P>,
    },
    /// `cp.async.commit_group`.
    CpAsyncCommit,
    /// `cp.async.wait_group` (`None` is `wait_all`).
    CpAsyncWait(Option<u32>),
    /// `cp.async.mbarrier.arrive`.
    CpAsyncArrive {
        /// Barrier.
        addr: Addr,
        /// `.noinc`.
        noinc: bool,
        /// Space.
        space: MemSpace,
    },
    /// `cp{.reduce}.async.bulk` without a tensor map.
    Bulk(Box<BulkCopy>),
    /// `cp{.reduce}.async.bulk.tensor`.
    Tensor(Box<TensorCopy>),
    /// `cp.async.bulk.commit_group`.
    BulkCommit,
    /// `cp.async.bulk.wait_group{.read}`.
    BulkWait {
        /// Groups that may stay pending.
        pending: u32,
        /// Only sources must have been read.
        read: bool,
    },
    /// `st.async` and `red.async`.
    StoreAsync {
        /// Destination.
        addr: Addr,
        /// Values.
        src: Box<[Reg]>,
        /// Bytes of one value.
        bytes: u32,
        /// Barrier.
        mbar: Addr,
        /// Reduction.
        reduce: Option<(ReduceOp, ReduceType)>,
    },
    /// `tensormap.replace`.
    TensormapReplace {
        /// Map.
        map: Addr,
        /// Space.
        space: MemSpace,
        /// Field name.
        field: &'static str,
        /// Dimension.
        ordinal: u32,
        /// Value.
        value: Reg,
    },
    /// `tensormap.cp_fenceproxy`.
    TensormapCopy {
        /// Destination.
        dst: Addr,
        /// Source.
        src: Addr,
    },
}

impl AsyncCopy {
    /// Tells `visit` every register operand.
    pub fn registers(&self, visit: Visit<'_>) {
        match self {
            AsyncCopy::CpAsync { dst, src, source_bytes, ignore, .. } => {
                addr(visit, *dst);
                addr(visit, *src);
                reads32(visit, *source_bytes);
                if let Some(p) = ignore {
                    visit(Reg::P(*p), Read);
                }
            }
            AsyncCopy::CpAsyncArrive { addr: at, .. } => addr(visit, *at),
            AsyncCopy::Bulk(copy) => copy.registers(visit),
            AsyncCopy::Tensor(copy) => copy.registers(visit),
            AsyncCopy::StoreAsync { addr: at, src, mbar, .. } => {
                addr(visit, *at);
                addr(visit, *mbar);
                regs(visit, src);
            }
            AsyncCopy::TensormapReplace { map, value, .. } => {
                addr(visit, *map);
                visit(*value, Read);
            }
            AsyncCopy::TensormapCopy { dst, src } => {
                addr(visit, *dst);
                addr(visit, *src);
            }
            AsyncCopy::CpAsyncCommit
            | AsyncCopy::CpAsyncWait(_)
            | AsyncCopy::BulkCommit
            | AsyncCopy::BulkWait { .. } => {}
        }
    }

    /// Issue cycles and class.
    pub fn cost(&self) -> Cost {
        (2, Class::Copy)
    }

    /// Whether clusters may combine by it in one place, where the order of sums shows.
    pub fn reaches_clusters(&self) -> bool {
        match self {
            AsyncCopy::Bulk(copy) => copy.reduce.is_some() && copy.dst_space.holds_global(),
            AsyncCopy::Tensor(copy) => matches!(copy.direction, TensorDirection::Reduce(_)),
            AsyncCopy::CpAsync { .. }
            | AsyncCopy::CpAsyncCommit
            | AsyncCopy::CpAsyncWait(_)
            | AsyncCopy::CpAsyncArrive { .. }
            | AsyncCopy::BulkCommit
            | AsyncCopy::BulkWait { .. }
            | AsyncCopy::StoreAsync { .. }
            | AsyncCopy::TensormapReplace { .. }
            | AsyncCopy::TensormapCopy { .. } => false,
        }
    }
}

impl BulkCopy {
    fn registers(&self, visit: Visit<'_>) {
        addr(visit, self.dst);
        addr(visit, self.src);
        visit(Reg::R32(self.size), Read);
        self.mbar.iter().for_each(|a| addr(visit, *a));
        reads32(visit, self.multicast);
        reads32(visit, self.byte_mask);
    }
}

impl TensorCopy {
    fn registers(&self, visit: Visit<'_>) {
        addr(visit, self.map);
        self.shared.iter().chain(&self.mbar).for_each(|a| addr(visit, *a));
        all(visit, &self.coords, Read);
        self.im2col.iter().for_each(|offsets| all(visit, offsets, Read));
        reads32(visit, self.multicast);
    }
}

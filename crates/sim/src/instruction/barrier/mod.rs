//! Barriers of threads, and fences.

mod decode;
mod execute;

use super::operands::{Use, Visit, reads32};
use crate::alu::BoolOp;
use crate::register::{P, R32, Reg};
use crate::timing::{Class, Cost};

/// What a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// `membar`, `fence.{sc,acq_rel,…}`.
    Thread,
    /// `fence.mbarrier_init`.
    MbarrierInit,
    /// `fence.proxy.async*`.
    ProxyAsync,
    /// Other proxies.
    Proxy,
    /// `griddepcontrol.wait`: what the launches before this one did.
    EarlierGrids,
}

/// What `bar` does beside counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarKind {
    /// Wait.
    Sync,
    /// Count only.
    Arrive,
    /// Wait and reduce a predicate (`.and`, `.or`).
    Reduce(BoolOp),
    /// Wait and count a predicate (`.popc`).
    Popc,
}

/// A barrier of a CTA or cluster, or a fence.
pub enum Barrier {
    /// `bar` / `barrier`.
    Bar {
        /// Kind.
        kind: BarKind,
        /// Whether the whole warp must be there.
        aligned: bool,
        /// Barrier number.
        id: R32,
        /// Participating threads.
        count: Option<R32>,
        /// Reduction: destination and operand.
        reduce: Option<Box<(Reg, P, bool)>>,
    },
    /// `barrier.cluster.arrive`.
    ClusterArrive {
        /// `.aligned`.
        aligned: bool,
    },
    /// `barrier.cluster.wait`.
    ClusterWait {
        /// `.aligned`.
        aligned: bool,
    },
    /// Fences.
    Fence(Fence),
}

impl Barrier {
    /// Tells `visit` every register operand.
    pub fn registers(&self, visit: Visit<'_>) {
        match self {
            Barrier::Bar { id, count, reduce, .. } => {
                visit(Reg::R32(*id), Use::Read);
                reads32(visit, *count);
                if let Some(reduce) = reduce {
                    visit(Reg::P(reduce.1), Use::Read);
                    visit(reduce.0, Use::Write);
                }
            }
            Barrier::ClusterArrive { .. } | Barrier::ClusterWait { .. } | Barrier::Fence(_) => {}
        }
    }

    /// Issue cycles and class.
    pub fn cost(&self) -> Cost {
        (2, Class::Synchronisation)
    }
}

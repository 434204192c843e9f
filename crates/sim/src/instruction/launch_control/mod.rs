//! `clusterlaunchcontrol`.

mod decode;
mod execute;

pub(crate) use execute::RESPONSE_BYTES;

use super::memory::Addr;
use super::operands::{Use, Visit, addr};
use crate::register::{P, R32, R64, Reg};
use crate::timing::{Class, Cost};

/// A request for the work of a cluster that has not started, and questions about the answer.
pub enum LaunchControl {
    /// `clusterlaunchcontrol.try_cancel`.
    TryCancel {
        /// Where the 16-byte answer goes.
        dst: Addr,
        /// Barrier.
        mbar: Addr,
        /// Answer to every CTA of the cluster.
        multicast: bool,
    },
    /// `clusterlaunchcontrol.query_cancel.is_canceled`.
    IsCanceled {
        /// Result.
        d: P,
        /// The answer.
        response: R64,
    },
    /// `clusterlaunchcontrol.query_cancel.get_first_ctaid`.
    FirstCta {
        /// Coordinates asked for: x, y, z.
        d: [Option<R32>; 3],
        /// The answer.
        response: R64,
    },
}

impl LaunchControl {
    /// Tells `visit` every register operand.
    pub fn registers(&self, visit: Visit<'_>) {
        match self {
            LaunchControl::TryCancel { dst, mbar, .. } => {
                addr(visit, *dst);
                addr(visit, *mbar);
            }
            LaunchControl::IsCanceled { d, response } => {
                visit(Reg::R128(*response), Use::Read);
                visit(Reg::P(*d), Use::Write);
            }
            LaunchControl::FirstCta { d, response } => {
                visit(Reg::R128(*response), Use::Read);
                d.iter().flatten().for_each(|d| visit(Reg::R32(*d), Use::Write));
            }
        }
    }

    /// Issue cycles and class.
    pub fn cost(&self) -> Cost {
        match self {
            LaunchControl::TryCancel { .. } => (2, Class::Copy),
            LaunchControl::IsCanceled { .. } | LaunchControl::FirstCta { .. } => {
                (1, Class::Arithmetic)
            }
        }
    }

    /// Whether it takes a cluster off the grid.
    pub fn cancels(&self) -> bool {
        matches!(self, LaunchControl::TryCancel { .. })
    }
}

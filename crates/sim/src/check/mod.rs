//! Happens-before checking.
//!
//! Agents are warps and the pipes that work on their behalf: a warpgroup's `wgmma`s, a warp's
//! `tcgen05` operations, its tensor-memory loads and stores, its `cp.async`s, and each bulk copy.
//! An agent's knowledge is a few vector clocks ([`Clocks`]): everything that happened before it, and
//! the parts that a `fence.proxy.async` made visible to the asynchronous proxy and (pedantic mode)
//! a `tcgen05.fence::before_thread_sync` to other threads' tensor-memory operations. Barriers,
//! mbarriers and strong memory operations pass knowledge on; completion of asynchronous work adds
//! the work itself. Two accesses of which neither knows the other, one of them a write, are a race;
//! an asynchronous read of a generic write that is known but not fenced is a missing proxy fence,
//! wherever on the way from writer to reader the fence might have stood.

mod agent;
mod clock;
mod clusters;
mod effects;
mod flow;
mod grids;
mod hooks;
mod lanes;
mod pages;
mod pipes;
mod report;
mod shadow;
mod slots;
mod swizzles;
mod touched;
mod transfers;
mod unwritten;
mod visits;

pub use clock::Clocks;
pub(crate) use clusters::{Clusters, Knowledge, Meeting};
pub(crate) use grids::{Earlier, Written};
pub(crate) use pipes::{Checker, Moment};
pub(crate) use shadow::{Access, Conflict};
pub(crate) use touched::{Operand, Touched, operand, rect_ranges};
pub(crate) use transfers::TmemLoad;
pub use unwritten::Unwritten;

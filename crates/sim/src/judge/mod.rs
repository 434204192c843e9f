//! The judge: what happened before what, and which rules were broken.
//!
//! A [`Judge`] is told what warps and asynchronous operations do. It looks at the machine, to name places and warps,
//! and never changes it.
//!
//! # Happens-before
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

mod accumulators;
mod agent;
mod clock;
mod clusters;
mod effects;
mod findings;
mod flow;
mod grids;
mod hooks;
mod lanes;
mod leftovers;
mod pages;
mod pipes;
mod refusals;
mod replicas;
mod report;
mod shadow;
mod slots;
mod swizzles;
mod tensor_memory;
mod touched;
mod transfers;
mod unwritten;
mod visits;

pub use clock::Clocks;
pub(crate) use clusters::{Clusters, Knowledge, Meeting};
pub(crate) use grids::{Earlier, Written};
pub(crate) use pipes::{Checker, Moment};
pub(crate) use replicas::Stored;
pub(crate) use shadow::{Access, Conflict};
pub(crate) use touched::{Operand, Touched, operand, rect_ranges};
pub(crate) use transfers::TmemLoad;
pub use unwritten::Unwritten;

use crate::launch::LaunchState;
use crate::machine::{Machine, PerCta};
use crate::mbarrier::Touch;
use crate::register::{Reg, Registers};
use crate::rules::Allowed;
use crate::warp::{PerWarp, WarpId};
use replicas::Numbers;
use std::cell::RefCell;
use std::collections::HashMap;

/// What is known of a cluster, and the findings that are allowed.
pub(crate) struct Judge<'a> {
    launch: &'a LaunchState<'a>,
    /// The happens-before checker, unless checks are off.
    checker: Option<Checker>,
    /// What the cluster knows of others.
    knowledge: Knowledge,
    /// The registers of each warp that hold what nobody wrote.
    unwritten: PerWarp<Option<Box<Unwritten>>>,
    /// Registers to try instructions on.
    trial: Option<Registers>,
    /// The loads of tensor memory of each warp that nobody waited for or used, in order.
    tmem_loads: PerWarp<Vec<TmemLoad>>,
    /// The last access of each warp of another CTA to the shared memory of each CTA (pedantic runs only).
    visits: PerCta<Vec<(Touch, Moment)>>,
    /// The first time each warp of a CTA saw a request to cancel a cluster refused.
    refusals: PerCta<Vec<(Touch, Option<Moment>)>>,
    /// The numbers that registers hold, as far as anyone asked.
    numbers: HashMap<Reg, Option<Numbers>>,
    /// Broken rules that are allowed.
    allowed: RefCell<Vec<Allowed>>,
}

impl<'a> Judge<'a> {
    /// A judge of what a machine does from its start.
    pub(crate) fn new(machine: &Machine<'a>) -> Judge<'a> {
        let launch = machine.launch;
        let (warps, options) = (machine.warps.len(), launch.options);
        Judge {
            launch,
            checker: options.checks.then(|| Checker::new(warps, options.pedantic)),
            knowledge: Knowledge::default(),
            unwritten: (0..warps).map(|_| launch.undefined.clone()).collect(),
            trial: None,
            tmem_loads: (0..warps).map(|_| Vec::new()).collect(),
            visits: machine.ctas.iter().map(|_| Vec::new()).collect(),
            refusals: machine.ctas.iter().map(|_| Vec::new()).collect(),
            numbers: HashMap::new(),
            allowed: RefCell::default(),
        }
    }

    /// The moment of what a warp does next, where that is followed.
    pub(crate) fn now(&self, w: WarpId) -> Option<Moment> {
        self.checker.as_ref().map(|checker| checker.now(w))
    }

    /// Bytes of host memory that its notes take, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.checker.as_ref().map_or(0, Checker::bytes)
    }

    /// Whether more happened than can be told apart.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.checker.as_ref().is_some_and(Checker::is_exhausted)
    }

    /// The findings that are allowed.
    pub(crate) fn into_allowed(self) -> Vec<Allowed> {
        self.allowed.into_inner()
    }
}

//! The machine: registers, memories, barriers, tensor memory and asynchronous work of one cluster.
//!
//! What an instruction does to them is with its family ([`crate::instruction`]); here is what families share. The
//! machine knows neither who runs next ([`crate::scheduler`]) nor what is allowed ([`crate::judge`]). It counts what
//! happens, and the scheduler reads the counts.

mod barrier;
mod cta;
mod names;
mod site;
mod start;
mod stopped;

pub use barrier::{ClusterBarrier, NamedBarrier};
pub use cta::{CtaRank, PerCta};
pub(crate) use site::Run;

use crate::engine::{Engines, Group};
use crate::instruction::{PartialWgmma, TensorState};
use crate::launch::LaunchState;
use crate::load::Kernel;
use crate::mbarrier::{Mbarrier, Touch};
use crate::memory::Shared;
use crate::options::Random;
use crate::record::Recorder;
use crate::report::Counters;
use crate::timing::EngineTimes;
use crate::trace::Trace;
use crate::warp::{PerWarp, Wait, Warp, WarpId};
use std::collections::HashMap;

/// One CTA.
pub struct Cta {
    /// `%ctaid`.
    pub id: [u32; 3],
    /// Shared memory.
    pub shared: Shared,
    /// Mbarriers by offset.
    pub mbarriers: HashMap<u32, Mbarrier>,
    /// Mbarriers that `mbarrier.inval` ended, and where.
    pub(crate) invalidated: HashMap<u32, (Touch, Mbarrier)>,
    /// Tensor memory.
    pub tensor: TensorState,
    /// Named barriers.
    pub named: Vec<NamedBarrier>,
    /// Its warps, as indices into the cluster's.
    pub warps: std::ops::Range<usize>,
    /// Warps that have not exited.
    pub live_warps: u32,
    /// Registers, of each lane of a warp, that warps gave back and no other took.
    pub spare_registers: u32,
}

/// The machine of one cluster.
pub(crate) struct Machine<'a> {
    pub(crate) launch: &'a LaunchState<'a>,
    pub(crate) kernel: &'a Kernel,
    /// Linear number of the cluster in the grid.
    pub(crate) number: u32,
    pub(crate) ctas: PerCta<Cta>,
    pub(crate) warps: PerWarp<Warp>,
    pub(crate) barrier: ClusterBarrier,
    pub(crate) engines: Engines,
    /// `wgmma`s that not all warps of a warpgroup have reached, by its first warp.
    pub(crate) warpgroups: HashMap<WarpId, Vec<PartialWgmma>>,
    /// What hardware may answer one way or the other.
    pub(crate) whims: Random,
    pub(crate) counters: Counters,
    /// Warp instructions executed.
    pub(crate) steps: u64,
    /// Changes that others may wait for; a cluster without any is stuck.
    pub(crate) events: u64,
    /// Looks at memory or barriers that others may change.
    pub(crate) polls: u64,
    /// When engines are free, per CTA.
    pub(crate) engine_times: PerCta<EngineTimes>,
    /// When groups of asynchronous work were done.
    pub(crate) group_times: Vec<(Group, u64)>,
    pub(crate) trace: Trace,
    /// What a model of time asks for, where one does.
    pub(crate) recorder: Option<Box<Recorder>>,
    /// What the kernel printed, and other notes for the user.
    pub(crate) notes: Vec<String>,
}

impl Machine<'_> {
    /// Records that something changed that others may wait for.
    pub(crate) fn event(&mut self) {
        self.events += 1;
    }

    /// Records that a warp looked at memory or a barrier that others may change.
    pub(crate) fn poll(&mut self, w: WarpId) {
        self.polls += 1;
        self.warps[w].polled_at = self.steps;
    }

    /// Fragments that wait for such a thing look again.
    pub(crate) fn retry(&mut self, what: impl Fn(&Wait) -> bool) {
        let fragments = self.warps.iter_mut().flat_map(|warp| &mut warp.fragments);
        for fragment in fragments.filter(|fragment| what(&fragment.wait)) {
            fragment.wait = Wait::Ready;
        }
    }

    /// A wait for the lanes of `members` that are not here yet, if any.
    pub(crate) fn converge(&self, w: WarpId, members: u32) -> Option<Wait> {
        let warp = &self.warps[w];
        let missing = members & warp.live & !warp.fragments[0].mask;
        (missing != 0).then_some(Wait::Lanes(missing))
    }
}

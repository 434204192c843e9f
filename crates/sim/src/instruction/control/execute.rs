//! Branches, exits, and what a warp asks of the machine.

use crate::cluster::{Cluster, CtaRank, Run};
use crate::engine::Pending;
use crate::exec::{End, Flow, Work};
use crate::instruction::{Control, Pc};
use crate::register::{R32, Reg, lanes};
use crate::rules::Rule;
use crate::warp::WarpId;

impl Cluster<'_> {
    pub(crate) fn control(&mut self, w: WarpId, op: &Control, mask: u32) -> Run<Flow> {
        match op {
            Control::Branch { target } => Ok(self.branch(w, *target, mask)),
            Control::BranchIndex { index, targets } => self.branch_index(w, *index, targets, mask),
            Control::Exit => {
                self.exit(w, mask)?;
                Ok(Flow::Moved)
            }
            Control::Trap(what) => {
                self.fault(w, None, "trap", format!("the kernel executed {what}"), None)
            }
            Control::System { call, arguments, result } => {
                self.system_call(w, *call, arguments, *result, mask)
            }
            Control::Sleep => Ok(Flow::Yield),
            Control::SetRegisters(count) => self.set_registers(w, *count),
            Control::Clock { d, shift } => {
                let time = self.warps[w].time >> shift;
                Ok(self.set_lanes(w, *d, time, mask))
            }
            Control::ActiveMask { d } => Ok(self.set_lanes(w, Reg::R32(*d), mask.into(), mask)),
        }
    }

    /// Gives lanes a value.
    fn set_lanes(&mut self, w: WarpId, d: Reg, value: u64, mask: u32) -> Flow {
        lanes(mask).for_each(|lane| self.warps[w].registers.set_lane(d, lane, value));
        Flow::Next
    }

    fn branch(&mut self, w: WarpId, target: Pc, taken: u32) -> Flow {
        let warp = &mut self.warps[w];
        let fragment = &mut warp.fragments[0];
        if taken == fragment.mask {
            fragment.pc = target;
        } else {
            fragment.pc += 1;
            warp.diverge(taken, target);
        }
        Flow::Moved
    }

    fn branch_index(&mut self, w: WarpId, index: R32, targets: &[Pc], mask: u32) -> Run<Flow> {
        let row = *self.warps[w].registers.r32(index);
        let mut left = mask;
        let here = self.pc(w);
        while left != 0 {
            let first = left.trailing_zeros() as usize;
            let value = row.0[first];
            let Some(target) = targets.get(value as usize) else {
                let message = format!("index {value} of {} branch targets", targets.len());
                return self.fault(w, Some(first), "branch-index", message, None);
            };
            let group = lanes(left).filter(|l| row.0[*l] == value).fold(0, |m, l| m | 1 << l);
            left &= !group;
            let warp = &mut self.warps[w];
            if warp.fragments[0].mask == group {
                warp.fragments[0].pc = *target;
            } else {
                warp.diverge(group, *target);
            }
        }
        let fragment = &mut self.warps[w].fragments[0];
        if fragment.pc == here {
            fragment.pc += 1;
        }
        Ok(Flow::Moved)
    }

    /// Ends lanes; what depends on the number of live threads looks again.
    fn exit(&mut self, w: WarpId, mask: u32) -> Run<()> {
        self.event();
        let cta = self.warps[w].cta;
        if self.ctas[cta].live_warps == 1 && self.warps[w].live & !mask == 0 {
            self.check_visits(w, cta)?;
        }
        let warp = &mut self.warps[w];
        if warp.fragments[0].mask != mask {
            warp.fragments[0].pc += 1;
        }
        warp.exit(mask);
        if self.warps[w].done() {
            self.return_registers(w);
            self.ctas[cta].live_warps -= 1;
            if self.ctas[cta].live_warps == 0 {
                self.check_in_flight(cta)?;
            }
            self.recheck_barriers(cta);
        }
        self.recheck_cluster_barrier();
        Ok(())
    }

    /// A CTA ends: no copy may still be writing its shared memory.
    fn check_in_flight(&self, cta: CtaRank) -> Run<()> {
        let into = |p: &&Pending| match &p.work {
            Work::TensorLoad { ends, .. }
            | Work::Bulk { ends, .. }
            | Work::CancelResponse { ends, .. } => {
                ends.iter().any(|end| matches!(end, End::Shared(rank, _) if *rank == cta))
            }
            Work::TensorStore { .. }
            | Work::CpAsync(_)
            | Work::Arrive(_)
            | Work::StoreAsync { .. }
            | Work::Wgmma(_)
            | Work::Mma(_)
            | Work::TmemCopy { .. }
            | Work::Shift { .. } => false,
        };
        let Some(pending) = self.engines.pending().find(into) else { return Ok(()) };
        let message = "the CTA ends while this copy is still writing its shared memory".into();
        let site = self.site(pending.warp, pending.pc, None);
        let help = "wait for the copy's mbarrier phase before the last warp exits";
        self.survivable_at(site, Rule::InFlightAtExit, message, Some(help))
    }
}

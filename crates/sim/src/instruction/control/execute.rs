//! Branches, exits, and what a warp asks of the machine.

use crate::exec::Execution;
use crate::exec::Flow;
use crate::instruction::{Control, Pc};
use crate::machine::{Machine, Run};
use crate::record::Event;
use crate::register::{Lane, R32, Reg, lanes};
use crate::warp::WarpId;

impl Execution<'_, '_> {
    pub(crate) fn control(&mut self, w: WarpId, op: &Control, mask: u32) -> Run<Flow> {
        match op {
            Control::Branch { target } => Ok(self.machine.branch(w, *target, mask)),
            Control::BranchIndex { index, targets } => {
                self.machine.branch_index(w, *index, targets, mask)
            }
            Control::Exit => {
                self.exit(w, mask)?;
                Ok(Flow::Moved)
            }
            Control::Trap(what) => {
                self.machine.fault(w, None, "trap", format!("the kernel executed {what}"), None)
            }
            Control::System { call, arguments, result } => {
                self.machine.system_call(w, *call, arguments, *result, mask)
            }
            Control::Sleep => Ok(Flow::Yield),
            Control::SetRegisters(count) => self.machine.set_registers(w, *count),
            Control::Clock { d, shift } => {
                self.machine.record_plain(w, Event::Clock);
                let time = self.machine.warps[w].time >> shift;
                Ok(self.machine.set_lanes(w, *d, time, mask))
            }
            Control::ActiveMask { d } => {
                Ok(self.machine.set_lanes(w, Reg::R32(*d), mask.into(), mask))
            }
        }
    }

    /// Ends lanes; what depends on the number of live threads looks again.
    fn exit(&mut self, w: WarpId, mask: u32) -> Run<()> {
        self.machine.event();
        let cta = self.machine.warps[w].cta;
        if self.machine.ctas[cta].live_warps == 1 && self.machine.warps[w].live & !mask == 0 {
            self.judge.check_visits(self.machine, w, cta)?;
        }
        let warp = &mut self.machine.warps[w];
        if warp.fragments[0].mask != mask {
            warp.fragments[0].pc += 1;
        }
        warp.exit(mask);
        if self.machine.warps[w].done() {
            self.machine.return_registers(w);
            self.machine.ctas[cta].live_warps -= 1;
            if self.machine.ctas[cta].live_warps == 0 {
                self.judge.check_in_flight(self.machine, cta)?;
                self.judge.check_signals_awaited(self.machine, cta)?;
            }
            self.recheck_barriers(cta);
        }
        self.recheck_cluster_barrier();
        Ok(())
    }
}

impl Machine<'_> {
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
            let first = Lane::first(left);
            let value = row[first];
            let Some(target) = targets.get(value as usize) else {
                let message = format!("index {value} of {} branch targets", targets.len());
                return self.fault(w, Some(first), "branch-index", message, None);
            };
            let group = lanes(left).filter(|l| row[*l] == value).fold(0, |m, l| m | l.mask());
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
}

//! Executing instructions.

mod alu;
mod banks;
mod barrier;
mod copy;
mod launch_control;
mod matrix;
mod mbarrier;
mod memory;
mod register_pool;
mod replicas;
mod rows;
mod system;
mod tensor_allocation;
mod tensor_memory;
mod tensormap;
mod warp_wide;
mod wide;
mod wmma;
mod words;
mod work;

pub(crate) use alu::{execute as execute_alu, is_arithmetic};
pub(crate) use launch_control::RESPONSE_BYTES;
pub(crate) use matrix::{PartialWgmma, transpose_8x8};
pub(crate) use mbarrier::BarrierId;
pub(crate) use memory::{Access, Order, Place, advance};
pub(crate) use replicas::Numbers;
pub use tensor_memory::TensorState;
pub(crate) use warp_wide::{exchange, is_exchange, members};
pub use work::{End, Work};

use crate::cluster::{Cluster, Run};
use crate::op::{Inst, Op, Pc};
use crate::register::{FULL, Reg};
use crate::rules::Rule;
use crate::timing::Class;
use crate::warp::Wait;

/// What follows an instruction.
pub(crate) enum Flow {
    /// The next one.
    Next,
    /// The next one, but other warps should run first.
    Yield,
    /// The fragment waits; it goes on behind this instruction.
    Block(Wait),
    /// The fragment waits and executes this instruction again.
    Retry(Wait),
    /// The fragment changed its own place.
    Moved,
}

impl Cluster<'_> {
    /// Runs a warp for at most about `quantum` instructions.
    pub(crate) fn run_warp(&mut self, w: usize, quantum: u32) -> Run<()> {
        let mut left = quantum;
        let polls = self.polls;
        while left > 0 {
            let Some(stop) = self.warps[w].select() else { return Ok(()) };
            let used = self.run_fragment(w, stop, left)?;
            self.warps[w].ran(used);
            self.steps += u64::from(used);
            if self.polls != polls {
                return Ok(());
            }
            left = left.saturating_sub(used.max(1));
        }
        Ok(())
    }

    /// Runs the first fragment until it waits, splits, meets another at `stop`, or used `budget`.
    fn run_fragment(&mut self, w: usize, stop: Pc, budget: u32) -> Run<u32> {
        let kernel = self.kernel;
        let mut used = 0;
        let mut lanes = 0u64;
        while used < budget {
            let warp = &mut self.warps[w];
            let fragment = &mut warp.fragments[0];
            let pc = fragment.pc;
            if pc >= stop && used > 0 {
                break;
            }
            let inst = &kernel.code[pc as usize];
            let mask = match inst.guard {
                Some((p, negated)) => {
                    fragment.mask & (warp.registers.p(p) ^ if negated { FULL } else { 0 })
                }
                None => fragment.mask,
            };
            used += 1;
            lanes += u64::from(mask.count_ones());
            warp.time += u64::from(inst.cost);
            self.counters.classes[inst.class as usize] += 1;
            if inst.class == Class::Mufu {
                self.counters.mufu += u64::from(mask.count_ones());
            }
            if inst.touches_wgmma || inst.touches_tmem || warp.unwritten.is_some() {
                self.check_registers(w, inst, mask)?;
            }
            let warp = &mut self.warps[w];
            let fragment = &mut warp.fragments[0];
            if mask == 0 || alu::execute(&mut warp.registers, &inst.op, mask) {
                fragment.pc = pc + 1;
                continue;
            }
            if !self.follow(w, inst, mask)? {
                break;
            }
        }
        self.counters.instructions += u64::from(used);
        self.counters.lanes += lanes;
        Ok(used)
    }

    /// Checks the registers of an instruction: those of matrix instructions under way, and those that hold
    /// what nobody wrote. Few instructions need it, and inlined it would slow down the others.
    #[inline(never)]
    fn check_registers(&mut self, w: usize, inst: &Inst, mask: u32) -> Run<()> {
        if inst.touches_wgmma && mask != 0 {
            self.touch_accumulators(w, inst)?;
        }
        if inst.touches_tmem && !self.warps[w].tmem_loads.is_empty() {
            self.touch_loaded(w, inst)?;
        }
        let warp = &self.warps[w];
        match &warp.unwritten {
            Some(unwritten) if unwritten.concerns(inst, self.kernel.carry) => {
                let here = warp.fragments[0].mask;
                self.follow_unwritten(w, inst, here, mask)
            }
            _ => Ok(()),
        }
    }

    /// An instruction may use what a tensor-memory load gave.
    fn touch_loaded(&mut self, w: usize, inst: &Inst) -> Run<()> {
        let mut used = Vec::new();
        inst.op.registers(&mut |reg, _| {
            if let Reg::R32(r) = reg {
                used.push(r);
            }
        });
        self.use_tmem_load(w, |d| used.iter().any(|r| d.contains(r)))
    }

    /// Executes an instruction that is more than arithmetic; whether the fragment can go on.
    fn follow(&mut self, w: usize, inst: &Inst, mask: u32) -> Run<bool> {
        let flow = self.execute(w, inst, mask)?;
        let warp = &mut self.warps[w];
        let Some(fragment) = warp.fragments.first_mut() else { return Ok(false) };
        let pc = fragment.pc;
        match flow {
            Flow::Next => {
                fragment.pc += 1;
                Ok(true)
            }
            Flow::Yield => {
                fragment.pc += 1;
                self.poll(w);
                Ok(false)
            }
            Flow::Block(wait) => {
                fragment.wait_pc = pc;
                fragment.pc += 1;
                fragment.wait = wait;
                Ok(false)
            }
            Flow::Retry(wait) => {
                fragment.wait_pc = pc;
                fragment.wait = wait;
                Ok(false)
            }
            Flow::Moved => Ok(warp.fragments.len() == 1 && warp.fragments[0].wait == Wait::Ready),
        }
    }

    fn execute(&mut self, w: usize, inst: &Inst, mask: u32) -> Run<Flow> {
        match &inst.op {
            Op::Branch { target } => Ok(self.branch(w, *target, mask)),
            Op::BranchIndex { index, targets } => self.branch_index(w, *index, targets, mask),
            Op::Exit => {
                self.exit(w, mask)?;
                Ok(Flow::Moved)
            }
            Op::Trap(what) => {
                self.fault(w, None, "trap", format!("the kernel executed {what}"), None)
            }
            Op::System { call, arguments, result } => {
                self.system_call(w, *call, arguments, *result, mask)
            }
            Op::Sleep => Ok(Flow::Yield),
            Op::SetRegisters(count) => self.set_registers(w, *count),
            Op::Carry { .. } => {
                let flag = self.kernel.carry;
                alu::carry(&mut self.warps[w].registers, &inst.op, flag, mask);
                Ok(Flow::Next)
            }
            Op::Clock { d, shift } => {
                let time = self.warps[w].time >> shift;
                for lane in alu::lanes(mask) {
                    self.warps[w].registers.set_lane(*d, lane, time);
                }
                Ok(Flow::Next)
            }
            Op::ActiveMask { d } => {
                for lane in alu::lanes(mask) {
                    self.warps[w].registers.set_lane(Reg::R32(*d), lane, mask.into());
                }
                Ok(Flow::Next)
            }
            Op::Load(load) => self.load(w, load, mask),
            Op::Store(store) => self.store(w, store, mask),
            Op::StoreZeros { space, addr, bytes } => {
                self.store_zeros(w, *space, *addr, *bytes, mask)
            }
            Op::Atomic(atomic) if atomic.bytes > 8 => self.atomic_wide(w, atomic, mask),
            Op::Atomic(atomic) => self.atomic(w, atomic, mask),
            op if is_exchange(op) => self.warp_wide(w, op, mask),
            Op::Bar { .. } | Op::ClusterArrive { .. } | Op::ClusterWait { .. } => {
                self.barrier_op(w, &inst.op, mask)
            }
            Op::Fence(fence) => self.fence(w, *fence, mask),
            Op::Mbarrier(op) => self.mbarrier_op(w, op, mask),
            _ => self.asynchronous(w, &inst.op, mask),
        }
    }

    fn branch(&mut self, w: usize, target: Pc, taken: u32) -> Flow {
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

    fn branch_index(
        &mut self,
        w: usize,
        index: crate::register::R32,
        targets: &[Pc],
        mask: u32,
    ) -> Run<Flow> {
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
            let group = alu::lanes(left).filter(|l| row.0[*l] == value).fold(0, |m, l| m | 1 << l);
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
    fn exit(&mut self, w: usize, mask: u32) -> Run<()> {
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
    fn check_in_flight(&self, cta: usize) -> Run<()> {
        let into = |p: &&crate::engine::Pending| match &p.work {
            Work::TensorLoad { ends, .. }
            | Work::Bulk { ends, .. }
            | Work::CancelResponse { ends, .. } => {
                ends.iter().any(|end| matches!(end, End::Shared(rank, _) if *rank == cta))
            }
            _ => false,
        };
        let Some(pending) = self.engines.pending().find(into) else { return Ok(()) };
        let message = "the CTA ends while this copy is still writing its shared memory".into();
        let site = self.site(pending.warp, pending.pc, None);
        let help = "wait for the copy's mbarrier phase before the last warp exits";
        self.survivable_at(site, Rule::InFlightAtExit, message, Some(help))
    }

    /// Fragments that wait for such a thing look again.
    fn retry(&mut self, what: impl Fn(&Wait) -> bool) {
        let fragments = self.warps.iter_mut().flat_map(|warp| &mut warp.fragments);
        for fragment in fragments.filter(|fragment| what(&fragment.wait)) {
            fragment.wait = Wait::Ready;
        }
    }

    /// A wait for the lanes of `members` that are not here yet, if any.
    pub(crate) fn converge(&self, w: usize, members: u32) -> Option<Wait> {
        let warp = &self.warps[w];
        let missing = members & warp.live & !warp.fragments[0].mask;
        (missing != 0).then_some(Wait::Lanes(missing))
    }
}

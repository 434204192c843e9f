//! Executing instructions.

mod work;

pub(crate) use work::{CpAsyncPart, End, Work};

use crate::instruction::execute_arithmetic;
use crate::instruction::{Inst, Op, Pc};
use crate::judge::Judge;
use crate::machine::{Machine, Run};
use crate::register::FULL;
use crate::timing::Class;
use crate::warp::{Wait, WarpId};

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

/// Executes instructions and asynchronous work: changes the machine, and tells the judge.
pub(crate) struct Execution<'e, 'a> {
    pub(crate) machine: &'e mut Machine<'a>,
    pub(crate) judge: &'e mut Judge<'a>,
}

impl Execution<'_, '_> {
    /// Runs a warp for at most about `quantum` instructions.
    pub(crate) fn run_warp(&mut self, w: WarpId, quantum: u32) -> Run<()> {
        let mut left = quantum;
        let polls = self.machine.polls;
        while left > 0 {
            let Some(stop) = self.machine.warps[w].select() else { return Ok(()) };
            let used = self.run_fragment(w, stop, left)?;
            self.machine.warps[w].ran(used);
            self.machine.steps += u64::from(used);
            if self.machine.polls != polls {
                return Ok(());
            }
            left = left.saturating_sub(used.max(1));
        }
        Ok(())
    }

    /// Runs the first fragment until it waits, splits, meets another at `stop`, or used `budget`.
    fn run_fragment(&mut self, w: WarpId, stop: Pc, budget: u32) -> Run<u32> {
        let kernel = self.machine.kernel;
        let mut used = 0;
        let mut lanes = 0u64;
        let records = self.machine.recorder.is_some();
        while used < budget {
            let warp = &mut self.machine.warps[w];
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
            if records {
                warp.mix.count(inst.unit.0, inst.unit.1);
            }
            self.machine.counters.classes[inst.class as usize] += 1;
            if inst.class == Class::Mufu {
                self.machine.counters.mufu += u64::from(mask.count_ones());
            }
            if records && inst.touches_load {
                self.machine.record_use(w, inst);
            }
            if inst.touches_wgmma || inst.touches_tmem || self.judge.follows(w) {
                self.check_registers(w, inst, mask)?;
            }
            let warp = &mut self.machine.warps[w];
            let fragment = &mut warp.fragments[0];
            match &inst.op {
                _ if mask == 0 => fragment.pc = pc + 1,
                Op::Arithmetic(op) => {
                    execute_arithmetic(&mut warp.registers, op, kernel.carry, mask);
                    fragment.pc = pc + 1;
                }
                op => {
                    if !self.follow(w, op, mask)? {
                        break;
                    }
                }
            }
        }
        self.machine.counters.instructions += u64::from(used);
        self.machine.counters.lanes += lanes;
        Ok(used)
    }

    /// Checks the registers of an instruction: those of matrix instructions under way, and those that hold
    /// what nobody wrote. Few instructions need it, and inlined it would slow down the others.
    #[inline(never)]
    fn check_registers(&mut self, w: WarpId, inst: &Inst, mask: u32) -> Run<()> {
        if inst.touches_wgmma && mask != 0 {
            self.touch_accumulators(w, inst)?;
        }
        if inst.touches_tmem {
            self.judge.use_tmem_loads(self.machine, w, inst)?;
        }
        self.judge.follow_unwritten(self.machine, w, inst, mask)
    }

    /// Executes an instruction and records what it asked of memory. Inlined, it would slow down those that are not.
    #[inline(never)]
    fn execute_recorded(&mut self, w: WarpId, op: &Op, mask: u32) -> Run<Flow> {
        let before = self.machine.counters;
        let flow = self.execute(w, op, mask)?;
        self.machine.record_access(w, op, &before);
        Ok(flow)
    }

    /// Executes an instruction that is more than arithmetic; whether the fragment can go on.
    fn follow(&mut self, w: WarpId, op: &Op, mask: u32) -> Run<bool> {
        let warp = &mut self.machine.warps[w];
        if op.is_deed() {
            warp.recent.note(warp.fragments[0].pc, warp.time);
        }
        let flow = match self.machine.recorder.is_some() {
            false => self.execute(w, op, mask)?,
            true => self.execute_recorded(w, op, mask)?,
        };
        let warp = &mut self.machine.warps[w];
        let Some(fragment) = warp.fragments.first_mut() else { return Ok(false) };
        let pc = fragment.pc;
        match flow {
            Flow::Next => {
                fragment.pc += 1;
                Ok(true)
            }
            Flow::Yield => {
                fragment.pc += 1;
                self.machine.poll(w);
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

    fn execute(&mut self, w: WarpId, op: &Op, mask: u32) -> Run<Flow> {
        match op {
            // Arithmetic is executed where it is met.
            Op::Arithmetic(_) | Op::Nop => Ok(Flow::Next),
            Op::Control(op) => self.control(w, op, mask),
            Op::Exchange(op) => self.warp_wide(w, op, mask),
            Op::MemoryAccess(op) => self.memory_access(w, op, mask),
            Op::Barrier(op) => self.barrier_op(w, op, mask),
            Op::Mbarrier(op) => self.mbarrier_op(w, op, mask),
            Op::AsyncCopy(op) => self.async_copy(w, op, mask),
            Op::LaunchControl(op) => self.launch_control(w, op, mask),
            Op::WarpMatrix(op) => self.warp_matrix(w, op, mask),
            Op::WarpgroupMma(op) => self.warpgroup_mma(w, op),
            Op::Tcgen05(op) => self.tcgen05(w, op, mask),
        }
    }

    /// All warps have exited: nothing may be left behind.
    pub(crate) fn finish(&mut self) -> Run<()> {
        while !self.machine.engines.is_idle() {
            self.complete_next(None, true)?;
        }
        self.judge.check_tensor_memory_left(self.machine)
    }
}

//! `wgmma`.

use crate::engine::{Group, Pending, Stream};
use crate::exec::Execution;
use crate::exec::Flow;
use crate::exec::Work;
use crate::instruction::{Inst, MatrixSource, Pc, Use, WarpgroupMma, WgmmaOp};
use crate::machine::{Machine, Run};
use crate::matrix::{Lanes, WgmmaA, WgmmaOperands};
use crate::record::OperationId;
use crate::register::{FULL, Reg, Row32, Row64};
use crate::warp::{Wait, WarpId};
use std::sync::Arc;

/// A `wgmma` of a warpgroup with its operands as they were at issue.
pub struct WgmmaWork {
    /// First warp of the warpgroup.
    pub first_warp: WarpId,
    /// The instruction.
    pub pc: Pc,
    /// What it does.
    pub op: Arc<WgmmaOp>,
    /// A's fragments, warp after warp, if A is in registers.
    pub a: Vec<Lanes>,
    /// Descriptors of A and B.
    pub descriptors: [u64; 2],
    /// Whether D is added.
    pub accumulate: bool,
}

/// A `wgmma` that not all four warps have reached.
pub(crate) struct PartialWgmma {
    arrived: u8,
    group: u64,
    /// Its number in a recording.
    operation: OperationId,
    work: WgmmaWork,
}

impl Execution<'_, '_> {
    pub(crate) fn warpgroup_mma(&mut self, w: WarpId, op: &WarpgroupMma) -> Run<Flow> {
        if let Some(wait) = self.machine.converge(w, self.machine.warps[w].live) {
            return Ok(Flow::Retry(wait));
        }
        match op {
            WarpgroupMma::Fence => {
                self.machine.warps[w].wgmma.fenced = true;
                self.machine.warps[w].wgmma.ever_fenced = true;
                self.machine.warps[w].wgmma.dirty.fill(0);
                Ok(Flow::Next)
            }
            WarpgroupMma::Commit => {
                self.machine.warps[w].wgmma.group += 1;
                Ok(Flow::Next)
            }
            WarpgroupMma::Wait(pending) => self.wgmma_wait(w, *pending),
            WarpgroupMma::Mma(op) => self.wgmma(w, op),
        }
    }

    fn wgmma(&mut self, w: WarpId, op: &Arc<WgmmaOp>) -> Run<Flow> {
        let index = self.machine.warps[w].index % 4;
        let first = WarpId(w.0 - index as usize);
        let pc = self.machine.pc(w);
        self.judge.check_wgmma_fence(self.machine, w, op)?;
        let r = &self.machine.warps[w].registers;
        let uniform = |row: &Row64| row.0[0];
        let (a, a_descriptor): (Vec<Lanes>, u64) = match &op.a {
            MatrixSource::Registers(rows) => (rows.iter().map(|x| r.r32(*x).0).collect(), 0),
            MatrixSource::Descriptor(d) => (Vec::new(), uniform(r.r64(*d))),
            MatrixSource::Tensor(_) => (Vec::new(), 0),
        };
        let accumulate = (r.p(op.accumulate.0) & 1 != 0) != op.accumulate.1;
        let descriptors = [a_descriptor, uniform(r.r64(op.b))];
        let group = self.machine.warps[w].wgmma.group;
        self.machine.warps[w].wgmma.enter(group, pc, op);
        let queue = self.machine.warpgroups.entry(first).or_default();
        let slot = queue.iter().position(|p| p.arrived >> index & 1 == 0);
        let slot = slot.unwrap_or_else(|| {
            let a = vec![[0; 32]; 4 * a.len()];
            let op = op.clone();
            let work = WgmmaWork { first_warp: first, pc, op, a, descriptors, accumulate };
            let operation = self.machine.record_product((first, Group::Wgmma(first, group)), &work);
            let queue = self.machine.warpgroups.entry(first).or_default();
            queue.push(PartialWgmma { arrived: 0, group, operation, work });
            queue.len() - 1
        });
        let operation = self.machine.warpgroups[&first][slot].operation;
        self.machine.record_part(w, operation);
        let queue = self.machine.warpgroups.entry(first).or_default();
        let partial = &mut queue[slot];
        let other = partial.work.pc;
        if other != pc {
            let other = self.machine.site(first, other, None).line;
            let message = format!(
                "the warps of a warpgroup execute different wgmma instructions (the other is at PTX line {other})"
            );
            return self.machine.fault(w, None, "warpgroup", message, None);
        }
        let at = index as usize * a.len();
        partial.work.a[at..at + a.len()].copy_from_slice(&a);
        partial.arrived |= 1 << index;
        let threads = self.machine.ctas[self.machine.warps[w].cta].warps.clone();
        let members = threads.end.min(first.0 + 4) - first.0;
        if members < 4 {
            return self.machine.fault(
                w,
                None,
                "warpgroup",
                "wgmma needs four warps; this CTA's last warpgroup has fewer".into(),
                None,
            );
        }
        if partial.arrived == 0xF {
            let partial = queue.remove(slot);
            let group = Group::Wgmma(first, partial.group);
            self.issue(w, Stream::Wgmma(first), group, Work::Wgmma(Box::new(partial.work)))?;
            self.machine.wake_warpgroup(first);
        }
        Ok(Flow::Next)
    }

    fn wgmma_wait(&mut self, w: WarpId, pending: u32) -> Run<Flow> {
        let index = self.machine.warps[w].index % 4;
        let first = WarpId(w.0 - index as usize);
        let below = self.machine.warps[w].wgmma.group.saturating_sub(pending.into());
        let partial = self.machine.warpgroups.get(&first).into_iter().flatten();
        if { partial }.any(|p| p.group < below && p.arrived >> index & 1 != 0) {
            return Ok(Flow::Retry(Wait::Warpgroup));
        }
        self.finish_group(w, |g| matches!(g, Group::Wgmma(who, n) if who == first && n < below))?;
        self.machine.warps[w].wgmma.leave(below);
        Ok(Flow::Next)
    }

    pub(crate) fn perform_wgmma(&mut self, pending: &Pending, work: &WgmmaWork) -> Run<()> {
        let op = &work.op;
        let mut d: Vec<Lanes> = Vec::with_capacity(4 * op.d.len());
        for w in work.first_warp.warpgroup() {
            d.extend(op.d.iter().map(|r| self.machine.warps[w].registers.r32(*r).0));
        }
        let a = match op.a {
            MatrixSource::Registers(_) => WgmmaA::Registers(&work.a),
            MatrixSource::Descriptor(_) | MatrixSource::Tensor(_) => {
                WgmmaA::Shared(op.mma.decode_a(work.descriptors[0], op.transpose[0]))
            }
        };
        let operands = WgmmaOperands {
            a,
            b: op.mma.decode_b(work.descriptors[1], op.transpose[1]),
            accumulate: work.accumulate,
            negate_a: op.negate[0],
            negate_b: op.negate[1],
        };
        let cta = self.machine.warps[work.first_warp].cta;
        if let WgmmaA::Shared(a) = &operands.a {
            self.machine.check_rows(self.judge, pending, cta, a, 64)?;
        }
        self.machine.check_rows(self.judge, pending, cta, &operands.b, op.mma.columns)?;
        if let Err(error) = op.mma.execute(&operands, self.machine.ctas[cta].shared.bytes(), &mut d)
        {
            return self.machine.work_error(pending, &error);
        }
        for (w, rows) in work.first_warp.warpgroup().zip(d.chunks_exact(op.d.len())) {
            for (r, row) in op.d.iter().zip(rows) {
                self.machine.warps[w].registers.set32(*r, FULL, &Row32(*row));
            }
        }
        self.machine.counters.mma_flops += 2 * 64 * (op.mma.columns * op.mma.depth()) as u64;
        Ok(())
    }

    /// An instruction touches a register a `wgmma` accumulates in: the hardware's result is only
    /// there after `wgmma.wait_group`.
    pub(crate) fn touch_accumulators(&mut self, w: WarpId, inst: &Inst) -> Run<()> {
        let wgmma = &self.machine.warps[w].wgmma;
        let mut reads = None;
        let mut writes = Vec::new();
        let mut reads_dirty = false;
        inst.op.registers(&mut |reg, how| {
            if let Reg::R32(r) = reg {
                match how {
                    Use::Read => {
                        reads = reads.or(wgmma.in_flight(r).then_some(r));
                        reads_dirty |= wgmma.is_dirty(r);
                    }
                    Use::Write => writes.push(r),
                }
            }
        });
        let overwrites = writes.iter().copied().find(|r| wgmma.in_flight(*r));
        let copy = inst.copies;
        if let Some(r) = reads.or(overwrites) {
            self.settle_wgmma(w)?;
            if !copy && self.machine.launch.options.checks {
                self.judge.early_accumulator(self.machine, w, r, reads.is_some())?;
            }
        }
        let wgmma = &mut self.machine.warps[w].wgmma;
        // A copy is no work of its own: the assembler lets both be one register.
        if !copy || reads_dirty {
            writes.into_iter().for_each(|r| wgmma.mark_dirty(r));
        }
        Ok(())
    }

    /// Completes every issued wgmma of a warp's warpgroup, so that copies see their results.
    fn settle_wgmma(&mut self, w: WarpId) -> Run<()> {
        let first = WarpId(w.0 - (self.machine.warps[w].index % 4) as usize);
        while let Some(pending) =
            self.machine.engines.take_first(|p| p.stream == Stream::Wgmma(first))
        {
            self.complete(pending)?;
        }
        Ok(())
    }
}

impl Machine<'_> {
    fn wake_warpgroup(&mut self, first: WarpId) {
        for w in first.warpgroup() {
            for fragment in &mut self.warps[w].fragments {
                if fragment.wait == Wait::Warpgroup {
                    fragment.wait = Wait::Ready;
                }
            }
        }
    }
}

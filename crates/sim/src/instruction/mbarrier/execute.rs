//! `mbarrier` instructions, and what completes phases.

use crate::exec::Execution;
use crate::exec::Flow;
use crate::instruction::lane_address;
use crate::instruction::{Addr, Mbarrier as Instruction, MbarrierOp, MemSpace};
use crate::judge::Judge;
use crate::machine::{CtaRank, Machine, Run};
use crate::mbarrier::{Mbarrier, MbarrierError, Touch};
use crate::register::lanes;
use crate::register::{Lane, P, R32, R64, Reg};
use crate::rules::Rule;
use crate::warp::{Wait, WarpId};

/// An mbarrier: CTA in the cluster and offset in its shared memory.
pub(crate) type BarrierId = (CtaRank, u32);

/// What the lanes of a warp saw.
struct Looks {
    /// Lanes whose phase is complete.
    yes: u32,
    /// The barrier, if all looked at the same phase of one.
    common: Option<BarrierId>,
    /// Barriers, lanes and parities of phases that are not complete.
    in_vain: Vec<(BarrierId, u32, u64)>,
}

impl Execution<'_, '_> {
    pub(crate) fn mbarrier_op(&mut self, w: WarpId, op: &Instruction, mask: u32) -> Run<Flow> {
        match op.op {
            MbarrierOp::Wait { done, parity, token, blocking } => {
                return self.mbarrier_wait(w, op, (done, parity, token, blocking), mask);
            }
            MbarrierOp::PendingCount { dst, token } => {
                for lane in lanes(mask) {
                    let state = self.machine.warps[w].registers.r64(token)[lane];
                    self.machine.warps[w].registers.set_lane(
                        Reg::R32(dst),
                        lane,
                        state >> 32 & 0xF_FFFF,
                    );
                }
                return Ok(Flow::Next);
            }
            // With bytes to expect, an arrival is about copies, not about the warp's own stores.
            MbarrierOp::Arrive { expect: None, .. } => {
                self.judge.note_arrival_of_lanes(self.machine, w, mask)?
            }
            MbarrierOp::Arrive { expect: Some(_), .. }
            | MbarrierOp::Init(_)
            | MbarrierOp::Invalidate
            | MbarrierOp::ExpectTx(_)
            | MbarrierOp::CompleteTx(_) => {}
        }
        for lane in lanes(mask) {
            let id = self.machine.barrier_at(self.judge, w, lane, op.addr, op.space)?;
            self.mbarrier_lane(w, lane, op.op, id)?;
        }
        self.machine.event();
        Ok(Flow::Next)
    }

    fn mbarrier_lane(&mut self, w: WarpId, lane: Lane, op: MbarrierOp, id: BarrierId) -> Run<()> {
        let value = |r: R32, this: &Self| this.machine.warps[w].registers.r32(r)[lane];
        match op {
            MbarrierOp::Init(count) => self.mbarrier_init(w, lane, id, value(count, self)),
            MbarrierOp::Invalidate => {
                self.known_barrier(w, lane, id)?;
                let by = Touch { warp: w, pc: self.machine.pc(w) };
                if let Some(bar) = self.machine.ctas[id.0].mbarriers.remove(&id.1) {
                    self.machine.ctas[id.0].invalidated.insert(id.1, (by, bar));
                }
                Ok(())
            }
            // Gluon's attention leaves a pair of CTAs with an arrival that nobody waits for.
            MbarrierOp::Arrive { expect: None, token: None, .. }
                if !self.machine.launch.options.pedantic
                    && self.machine.ctas[id.0].invalidated.contains_key(&id.1) =>
            {
                Ok(())
            }
            MbarrierOp::ExpectTx(bytes) => {
                let bytes = i64::from(value(bytes, self));
                self.known_barrier(w, lane, id)?;
                self.transact(w, lane, id, bytes)
            }
            MbarrierOp::CompleteTx(bytes) => {
                let bytes = i64::from(value(bytes, self));
                self.known_barrier(w, lane, id)?;
                self.release_to(w, id);
                self.transact(w, lane, id, -bytes)
            }
            MbarrierOp::Arrive { count, expect, drop, token } => {
                self.known_barrier(w, lane, id)?;
                let count = count.map_or(1, |c| i64::from(value(c, self)));
                if let Some(token) = token {
                    self.machine.save_token(w, lane, id, token);
                }
                self.release_to(w, id);
                if let Some(bytes) = expect {
                    let bytes = i64::from(value(bytes, self));
                    self.transact(w, lane, id, bytes)?;
                }
                if drop && let Some(bar) = self.machine.ctas[id.0].mbarriers.get_mut(&id.1) {
                    bar.drop_participant(count);
                }
                self.arrive(w, lane, id, count)
            }
            MbarrierOp::Wait { .. } | MbarrierOp::PendingCount { .. } => Ok(()),
        }
    }

    fn mbarrier_init(&mut self, w: WarpId, lane: Lane, id: BarrierId, count: u32) -> Run<()> {
        let by = Touch { warp: w, pc: self.machine.pc(w) };
        if let Some(old) = self.machine.ctas[id.0].mbarriers.get(&id.1) {
            if old.init == by && old.is_fresh(count) {
                return Ok(()); // Lanes of a warp initialise it together.
            }
            let line = self.machine.site(old.init.warp, old.init.pc, None).line;
            let message = format!(
                "mbarrier {} is already initialised (PTX line {line})",
                self.machine.mbarrier_name(id.0, id.1)
            );
            let help = "use mbarrier.inval before the memory is used again";
            self.judge.survivable(
                self.machine,
                w,
                Some(lane),
                Rule::DoubleInit,
                message,
                Some(help),
            )?;
        }
        let bar = match Mbarrier::new(count, by) {
            Ok(bar) => bar,
            Err(_) => {
                let message =
                    format!("an mbarrier for {count} arrivals: the count must be 1 to 2^20-1");
                return self.machine.fault(w, Some(lane), "mbarrier-count", message, None);
            }
        };
        self.judge.note_barrier_init(self.machine, w, id)?;
        self.machine.ctas[id.0].shared.write(id.1 as usize, 8).fill(0);
        self.machine.ctas[id.0].invalidated.remove(&id.1);
        self.machine.ctas[id.0].mbarriers.insert(id.1, bar);
        self.machine.record_init(id);
        Ok(())
    }

    /// Checks that a barrier is initialised, and that the initialisation is visible here.
    pub(crate) fn known_barrier(&mut self, w: WarpId, lane: Lane, id: BarrierId) -> Run<()> {
        if self.machine.ctas[id.0].mbarriers.contains_key(&id.1) {
            return self.judge.note_barrier_use(self.machine, w, id);
        }
        let name = self.machine.mbarrier_name(id.0, id.1);
        if let Some((by, bar)) = self.machine.ctas[id.0].invalidated.get(&id.1) {
            let line = self.machine.site(by.warp, by.pc, None).line;
            let message = format!("mbarrier {name} is used after mbarrier.inval (PTX line {line})");
            let help = "everyone who uses it synchronises before it is invalidated";
            let revived = bar.clone();
            self.judge.survivable(
                self.machine,
                w,
                Some(lane),
                Rule::BarrierAfterInval,
                message,
                Some(help),
            )?;
            self.machine.ctas[id.0].invalidated.remove(&id.1);
            self.machine.ctas[id.0].mbarriers.insert(id.1, revived);
            return Ok(());
        }
        let message = format!("mbarrier {name} is used before mbarrier.init");
        let help = "one thread initialises, then all synchronise (bar.sync, or the cluster barrier) before \
                    anyone uses it";
        self.machine.fault(w, Some(lane), "barrier-before-init", message, Some(help))
    }

    /// The same for a barrier that an asynchronous operation will signal.
    pub(crate) fn known_signal(&mut self, w: WarpId, lane: Lane, id: BarrierId) -> Run<()> {
        self.known_barrier(w, lane, id)?;
        self.judge.note_async_signal(self.machine, w, id)
    }

    /// `count` arrivals by a lane.
    pub(crate) fn arrive(&mut self, w: WarpId, lane: Lane, id: BarrierId, count: i64) -> Run<()> {
        self.machine.record_arrival(w, id);
        let (by, time) = (Touch { warp: w, pc: self.machine.pc(w) }, self.machine.warps[w].time);
        match self.arrive_as(by, time, id, count) {
            Ok(()) => Ok(()),
            Err(error) => self.machine.mbarrier_fault(w, lane, id, &error),
        }
    }

    fn transact(&mut self, w: WarpId, lane: Lane, id: BarrierId, bytes: i64) -> Run<()> {
        self.machine.record_arrival(w, id);
        let (by, time) = (Touch { warp: w, pc: self.machine.pc(w) }, self.machine.warps[w].time);
        match self.transact_as(by, time, id, bytes) {
            Ok(()) => Ok(()),
            Err(error) => self.machine.mbarrier_fault(w, lane, id, &error),
        }
    }

    /// Arrivals by a warp or an engine.
    pub(crate) fn arrive_as(
        &mut self,
        by: Touch,
        time: u64,
        id: BarrierId,
        count: i64,
    ) -> Result<(), MbarrierError> {
        let Some(bar) = self.machine.ctas[id.0].mbarriers.get_mut(&id.1) else { return Ok(()) };
        if bar.arrive(count, by, time)? {
            self.phase_completed(id);
        }
        Ok(())
    }

    /// Transaction bytes by a warp or an engine.
    pub(crate) fn transact_as(
        &mut self,
        by: Touch,
        time: u64,
        id: BarrierId,
        bytes: i64,
    ) -> Result<(), MbarrierError> {
        let Some(bar) = self.machine.ctas[id.0].mbarriers.get_mut(&id.1) else { return Ok(()) };
        if bar.transact(bytes, by, time)? {
            self.phase_completed(id);
        }
        Ok(())
    }

    /// Lets every waiter of a completed phase go, even if it looks later.
    fn phase_completed(&mut self, id: BarrierId) {
        self.machine.event();
        let Some(phase) = self.machine.ctas[id.0].mbarriers.get(&id.1).map(|b| b.phase) else {
            return;
        };
        for w in self.machine.warps.ids() {
            for f in 0..self.machine.warps[w].fragments.len() {
                match self.machine.warps[w].fragments[f].wait {
                    Wait::Mbarrier { cta, offset, phase: wanted, .. }
                        if (cta, offset) == id && wanted < phase =>
                    {
                        self.wake(w, f, wanted);
                    }
                    _ => {}
                }
            }
        }
    }

    /// A warp's arrival publishes what it knows.
    fn release_to(&mut self, w: WarpId, id: BarrierId) {
        self.judge.note_visit(self.machine, w, id.0);
        if let Some(bar) = self.machine.ctas[id.0].mbarriers.get_mut(&id.1) {
            self.judge.publish(w, &mut bar.incoming);
        }
    }

    /// A warp learns what completed phases published.
    fn acquire_barrier(&mut self, w: WarpId, id: BarrierId) {
        if let Some(bar) = self.machine.ctas[id.0].mbarriers.get(&id.1) {
            self.judge.acquire(w, &bar.published);
        }
    }

    /// Ends a wait successfully.
    pub(crate) fn wake(&mut self, w: WarpId, f: usize, phase: u64) {
        let fragment = &mut self.machine.warps[w].fragments[f];
        let Wait::Mbarrier { cta, offset, done, .. } = fragment.wait else { return };
        let mask = fragment.mask;
        fragment.wait = Wait::Ready;
        self.machine.warps[w].registers.set_p(done, mask, mask);
        self.observe(w, mask, (cta, offset), phase);
    }

    /// Lanes of a warp saw a phase complete: the warp knows what was published by it.
    fn observe(&mut self, w: WarpId, mask: u32, id: BarrierId, phase: u64) {
        let Some(bar) = self.machine.ctas[id.0].mbarriers.get_mut(&id.1) else { return };
        bar.observe(w, mask, phase);
        let done_time = bar.done_time;
        self.machine.record_wait(w, id, phase);
        let (start, done) = (self.machine.warps[w].time, done_time);
        if done > start {
            self.machine.trace_wait(w, "wait for mbarrier", start, done);
            self.machine.warps[w].time = done;
        }
        self.acquire_barrier(w, id);
    }

    fn mbarrier_wait(
        &mut self,
        w: WarpId,
        op: &Instruction,
        (done, parity, token, blocking): (P, Option<R32>, Option<R64>, bool),
        mask: u32,
    ) -> Run<Flow> {
        let looks = self.look(w, op, (parity, token), mask)?;
        if looks.yes == 0
            && blocking
            && let Some(id) = looks.common
        {
            self.machine.counters.barrier_waits += 1;
            let phase = self.machine.ctas[id.0].mbarriers.get(&id.1).map_or(0, |b| b.phase);
            return Ok(Flow::Block(Wait::Mbarrier { cta: id.0, offset: id.1, phase, done }));
        }
        let pc = self.machine.pc(w);
        for ((cta, offset), group, parity) in looks.in_vain {
            if let Some(bar) = self.machine.ctas[cta].mbarriers.get_mut(&offset) {
                bar.note_poll(w, group, parity, pc);
            }
        }
        self.machine.warps[w].registers.set_p(done, mask, looks.yes);
        Ok(if looks.yes == mask { Flow::Next } else { Flow::Yield })
    }

    /// Looks whether the phases are complete that lanes wait for, by parity or by token. Lanes that look
    /// at the same phase see it once.
    fn look(
        &mut self,
        w: WarpId,
        op: &Instruction,
        (parity, token): (Option<R32>, Option<R64>),
        mask: u32,
    ) -> Run<Looks> {
        let mut looks = Looks { yes: 0, common: None, in_vain: Vec::new() };
        let mut rest = mask;
        while rest != 0 {
            let registers = &self.machine.warps[w].registers;
            let phase_of = |lane: Lane| match (parity, token) {
                (Some(parity), _) => u64::from(registers.r32(parity)[lane] & 1),
                (None, Some(token)) => registers.r64(token)[lane] & 0xFFFF_FFFF,
                (None, None) => 0,
            };
            let state = |lane: Lane| (lane_address(registers, op.addr, lane), phase_of(lane));
            let first = Lane::first(rest);
            let wanted = phase_of(first);
            let same = lanes(rest).filter(|lane| state(*lane) == state(first));
            let group = same.fold(0, |group, lane| group | lane.mask());
            rest &= !group;
            let id = self.machine.barrier_at(self.judge, w, first, op.addr, op.space)?;
            if id.0 != self.machine.warps[w].cta {
                let message =
                    "a wait on another CTA's mbarrier: only the own CTA's can be waited on".into();
                return self.machine.fault(w, Some(first), "remote-wait", message, None);
            }
            self.known_barrier(w, first, id)?;
            looks.common = (group == mask).then_some(id);
            if self.sees_complete((w, group), id, wanted, parity.is_some()) {
                looks.yes |= group;
            } else if parity.is_some() {
                looks.in_vain.push((id, group, wanted));
            }
        }
        Ok(looks)
    }

    /// Whether lanes of a warp see a phase complete, named by its parity or by its number; if so they have
    /// observed it.
    fn sees_complete(
        &mut self,
        (w, mask): (WarpId, u32),
        id: BarrierId,
        wanted: u64,
        by_parity: bool,
    ) -> bool {
        let Some(bar) = self.machine.ctas[id.0].mbarriers.get(&id.1) else { return false };
        let complete = match by_parity {
            true => bar.complete(wanted as u32),
            false => bar.phase & 0xFFFF_FFFF != wanted,
        };
        let owed = if by_parity { bar.owed(w, mask, wanted) } else { None };
        match (complete, owed) {
            (true, _) if bar.phase == 0 => self.acquire_barrier(w, id),
            (true, _) => self.observe(w, mask, id, bar.phase - 1),
            (false, Some(phase)) => self.observe(w, mask, id, phase),
            (false, None) => return false,
        }
        true
    }
}

impl Machine<'_> {
    /// The barrier an address names.
    pub(crate) fn barrier_at(
        &self,
        judge: &Judge<'_>,
        w: WarpId,
        lane: Lane,
        addr: Addr,
        space: MemSpace,
    ) -> Run<BarrierId> {
        self.shared_operand(judge, w, lane, addr, space, 8)
    }

    /// Phase in the low half, pending count above.
    fn save_token(&mut self, w: WarpId, lane: Lane, id: BarrierId, token: R64) {
        if let Some(bar) = self.ctas[id.0].mbarriers.get(&id.1) {
            let state = bar.phase & 0xFFFF_FFFF | (bar.pending as u64 & 0xF_FFFF) << 32;
            self.warps[w].registers.set_lane(Reg::R64(token), lane, state);
        }
    }

    fn mbarrier_fault<T>(
        &self,
        w: WarpId,
        lane: Lane,
        id: BarrierId,
        error: &MbarrierError,
    ) -> Run<T> {
        let name = self.mbarrier_name(id.0, id.1);
        let message = match error {
            MbarrierError::TooManyArrivals { arrivals, pending } => format!(
                "{arrivals} arrival(s) at mbarrier {name}, whose phase only needs {pending} more"
            ),
            MbarrierError::Transactions(tx) => format!(
                "the transaction count of mbarrier {name} becomes {tx}: it must stay within 2^20-1 bytes"
            ),
            MbarrierError::Count(count) => format!("mbarrier {name} with count {count}"),
        };
        let help = "the count given to mbarrier.init must be the number of arrivals of one phase";
        self.fault(w, Some(lane), "mbarrier-arrivals", message, Some(help))
    }
}

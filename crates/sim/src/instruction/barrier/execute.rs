//! Named barriers, the cluster barrier, fences.

use crate::alu::BoolOp;
use crate::exec::Execution;
use crate::exec::Flow;
use crate::instruction::{BarKind, Barrier, Fence, Op};
use crate::machine::{CtaRank, Machine, NamedBarrier, Run};
use crate::record::Event;
use crate::register::lanes;
use crate::register::{Lane, P, R32, Reg};
use crate::warp::{Wait, WarpId};

impl Execution<'_, '_> {
    pub(crate) fn barrier_op(&mut self, w: WarpId, op: &Barrier, mask: u32) -> Run<Flow> {
        let aligned = match op {
            Barrier::Bar { aligned, .. }
            | Barrier::ClusterArrive { aligned }
            | Barrier::ClusterWait { aligned } => *aligned,
            Barrier::Fence(_) => false,
        };
        if aligned && let Some(wait) = self.machine.converge(w, self.machine.warps[w].live) {
            return Ok(Flow::Retry(wait));
        }
        match op {
            Barrier::Bar { kind, id, count, reduce, .. } => {
                self.named_barrier(w, *kind, *id, *count, reduce.as_deref(), mask)
            }
            Barrier::ClusterArrive { .. } => {
                self.cluster_arrive(w, mask);
                Ok(Flow::Next)
            }
            Barrier::ClusterWait { .. } => Ok(self.cluster_wait(w)),
            Barrier::Fence(fence) => self.fence(w, *fence, mask),
        }
    }

    fn named_barrier(
        &mut self,
        w: WarpId,
        kind: BarKind,
        id: R32,
        count: Option<R32>,
        reduce: Option<&(Reg, P, bool)>,
        mask: u32,
    ) -> Run<Flow> {
        self.machine.event();
        let lane = Lane::first(mask);
        let registers = &self.machine.warps[w].registers;
        let id = registers.r32(id)[lane];
        let count = count.map(|count| registers.r32(count)[lane]);
        let cta = self.machine.warps[w].cta;
        if id as usize >= self.machine.ctas[cta].named.len() {
            return self.machine.fault(
                w,
                None,
                "barrier-id",
                format!("named barrier {id}: there are 0 to 15"),
                None,
            );
        }
        let most = self.machine.kernel.chip.threads;
        if let Some(count) = count.filter(|c| *c == 0 || c % 32 != 0 || *c > most) {
            let message = format!(
                "a named barrier of {count} threads: the count must be a multiple of 32, {most} at most"
            );
            return self.machine.fault(w, None, "barrier-count", message, None);
        }
        let expected = self.machine.ctas[cta].named[id as usize].expected;
        if self.machine.ctas[cta].named[id as usize].arrived > 0 && expected != count {
            let show = |c: Option<u32>| c.map_or("the whole CTA".to_string(), |c| c.to_string());
            let message = format!(
                "named barrier {id} is used with {} threads here, while others arrived expecting {}",
                show(count),
                show(expected)
            );
            return self.machine.fault(w, None, "barrier-count", message, None);
        }
        let barrier = &mut self.machine.ctas[cta].named[id as usize];
        self.judge.arrive_with_lanes(w, &mut barrier.clocks);
        let threads = self.machine.warps[w].barrier_threads(mask);
        let votes = reduce.map(|(_, p, negated)| {
            (self.machine.warps[w].registers.p(*p) ^ if *negated { u32::MAX } else { 0 }) & mask
        });
        let time = self.machine.warps[w].time;
        self.machine.record_named(w, id, kind != BarKind::Arrive);
        let bar = &mut self.machine.ctas[cta].named[id as usize];
        bar.expected = count;
        bar.arrived += threads;
        bar.time = bar.time.max(time);
        if let Some(votes) = votes {
            bar.votes.all &= votes == mask;
            bar.votes.any |= votes != 0;
            bar.votes.count += votes.count_ones();
        }
        if kind == BarKind::Arrive {
            self.release_named(cta, id);
            return Ok(Flow::Next);
        }
        // The fragment waits first, so that a completed barrier releases it with the others.
        let result = reduce.map(|(d, _, _)| *d);
        let fragment = &mut self.machine.warps[w].fragments[0];
        fragment.wait_pc = fragment.pc;
        fragment.pc += 1;
        fragment.wait = Wait::Named { id, result };
        self.release_named(cta, id);
        Ok(Flow::Moved)
    }

    /// Releases a named barrier all of whose threads arrived.
    fn release_named(&mut self, cta: CtaRank, id: u32) {
        let bar = &self.machine.ctas[cta].named[id as usize];
        let expected = bar.expected.unwrap_or(32 * self.machine.ctas[cta].live_warps);
        if bar.arrived == 0 || bar.arrived < expected {
            return;
        }
        let bar = std::mem::take(&mut self.machine.ctas[cta].named[id as usize]);
        self.machine.record_named_complete(cta, id);
        for w in self.machine.ctas[cta].warps.clone().map(WarpId) {
            self.release_waiters(w, id, &bar);
        }
    }

    fn release_waiters(&mut self, w: WarpId, id: u32, bar: &NamedBarrier) {
        let mut released = false;
        let warp = &mut self.machine.warps[w];
        for f in 0..warp.fragments.len() {
            let Wait::Named { id: waiting, result } = warp.fragments[f].wait else { continue };
            if waiting != id {
                continue;
            }
            warp.fragments[f].wait = Wait::Ready;
            released = true;
            if let Some(result) = result {
                let pc = warp.fragments[f].wait_pc as usize;
                let Op::Barrier(Barrier::Bar { kind, .. }) = &self.machine.kernel.code[pc].op
                else {
                    continue;
                };
                let value = match kind {
                    BarKind::Popc => bar.votes.count,
                    BarKind::Reduce(BoolOp::And) => bar.votes.all.into(),
                    BarKind::Reduce(BoolOp::Or | BoolOp::Xor) => bar.votes.any.into(),
                    BarKind::Sync | BarKind::Arrive => continue,
                };
                for lane in lanes(warp.fragments[f].mask) {
                    warp.registers.set_lane(result, lane, value.into());
                }
            }
        }
        if released {
            let start = self.machine.warps[w].time;
            if bar.time > start {
                self.machine.trace_wait(w, "wait at barrier", start, bar.time);
                self.machine.warps[w].time = bar.time;
            }
            self.judge.acquire(w, &bar.clocks);
        }
    }

    /// Looks again at barriers whose expected count depends on live warps.
    pub(crate) fn recheck_barriers(&mut self, cta: CtaRank) {
        for id in 0..self.machine.ctas[cta].named.len() {
            self.release_named(cta, id as u32);
        }
    }

    fn cluster_arrive(&mut self, w: WarpId, mask: u32) {
        self.machine.event();
        let threads = (mask & self.machine.warps[w].live).count_ones();
        let (phase, time) = (self.machine.barrier.phase, self.machine.warps[w].time);
        self.machine.warps[w].cluster_phase = phase + 1;
        self.machine.record_cluster(w, phase, false);
        self.machine.barrier.arrived += threads;
        self.machine.barrier.time = self.machine.barrier.time.max(time);
        self.judge.arrive_with_lanes(w, &mut self.machine.barrier.incoming);
        self.recheck_cluster_barrier();
    }

    fn cluster_wait(&mut self, w: WarpId) -> Flow {
        let wanted = self.machine.warps[w].cluster_phase;
        self.machine.record_cluster(w, wanted.saturating_sub(1), true);
        if self.machine.barrier.phase >= wanted {
            let published = self.machine.barrier.published.clone();
            self.judge.acquire(w, &published);
            return Flow::Next;
        }
        Flow::Block(Wait::Cluster(wanted))
    }

    pub(crate) fn recheck_cluster_barrier(&mut self) {
        let live: u32 = self.machine.warps.iter().map(|w| w.live.count_ones()).sum();
        if self.machine.barrier.arrived == 0 || self.machine.barrier.arrived < live {
            return;
        }
        self.machine.barrier.arrived = 0;
        self.machine.barrier.phase += 1;
        let incoming = std::mem::take(&mut self.machine.barrier.incoming);
        self.machine.barrier.published.join(&incoming);
        let (phase, time) = (self.machine.barrier.phase, self.machine.barrier.time);
        for w in self.machine.warps.ids() {
            let warp = &mut self.machine.warps[w];
            let mut released = false;
            for fragment in &mut warp.fragments {
                if matches!(fragment.wait, Wait::Cluster(wanted) if wanted <= phase) {
                    fragment.wait = Wait::Ready;
                    warp.time = warp.time.max(time);
                    released = true;
                }
            }
            if released {
                let published = self.machine.barrier.published.clone();
                self.judge.acquire(w, &published);
            }
        }
    }

    fn fence(&mut self, w: WarpId, fence: Fence, mask: u32) -> Run<Flow> {
        if matches!(fence, Fence::MbarrierInit | Fence::ProxyAsync) {
            self.machine.fence_barriers(w);
        }
        if fence == Fence::EarlierGrids {
            self.machine.record_plain(w, Event::WaitGrid);
        }
        self.judge.note_fence(w, fence);
        if fence == Fence::ProxyAsync {
            self.judge.note_proxy_fence_of_lanes(self.machine, w, mask);
        }
        Ok(Flow::Next)
    }
}

impl Machine<'_> {
    /// The mbarriers a warp initialised so far are visible to everyone it synchronises with.
    fn fence_barriers(&mut self, w: WarpId) {
        let cta = self.warps[w].cta;
        let own = self.ctas[cta].mbarriers.values_mut().filter(|bar| bar.init.warp == w);
        own.for_each(|bar| bar.fenced = true);
    }
}

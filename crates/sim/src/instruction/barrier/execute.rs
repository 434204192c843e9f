//! Named barriers, the cluster barrier, fences.

use crate::alu::BoolOp;
use crate::cluster::{Cluster, CtaRank, NamedBarrier, Run};
use crate::exec::Flow;
use crate::instruction::{BarKind, Barrier, Fence, Op};
use crate::register::lanes;
use crate::register::{P, R32, Reg};
use crate::warp::{Wait, WarpId};

impl Cluster<'_> {
    pub(crate) fn barrier_op(&mut self, w: WarpId, op: &Barrier, mask: u32) -> Run<Flow> {
        let aligned = match op {
            Barrier::Bar { aligned, .. }
            | Barrier::ClusterArrive { aligned }
            | Barrier::ClusterWait { aligned } => *aligned,
            Barrier::Fence(_) => false,
        };
        if aligned && let Some(wait) = self.converge(w, self.warps[w].live) {
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
        self.event();
        let lane = mask.trailing_zeros() as usize;
        let registers = &self.warps[w].registers;
        let id = registers.r32(id).0[lane];
        let count = count.map(|count| registers.r32(count).0[lane]);
        let cta = self.warps[w].cta;
        if id as usize >= self.ctas[cta].named.len() {
            return self.fault(
                w,
                None,
                "barrier-id",
                format!("named barrier {id}: there are 0 to 15"),
                None,
            );
        }
        let most = self.kernel.chip.threads;
        if let Some(count) = count.filter(|c| *c == 0 || c % 32 != 0 || *c > most) {
            let message = format!(
                "a named barrier of {count} threads: the count must be a multiple of 32, {most} at most"
            );
            return self.fault(w, None, "barrier-count", message, None);
        }
        let expected = self.ctas[cta].named[id as usize].expected;
        if self.ctas[cta].named[id as usize].arrived > 0 && expected != count {
            let show = |c: Option<u32>| c.map_or("the whole CTA".to_string(), |c| c.to_string());
            let message = format!(
                "named barrier {id} is used with {} threads here, while others arrived expecting {}",
                show(count),
                show(expected)
            );
            return self.fault(w, None, "barrier-count", message, None);
        }
        self.publish_named(w, cta, id);
        let threads = self.warps[w].barrier_threads(mask);
        let votes = reduce.map(|(_, p, negated)| {
            (self.warps[w].registers.p(*p) ^ if *negated { u32::MAX } else { 0 }) & mask
        });
        let time = self.warps[w].time;
        let bar = &mut self.ctas[cta].named[id as usize];
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
        let fragment = &mut self.warps[w].fragments[0];
        fragment.wait_pc = fragment.pc;
        fragment.pc += 1;
        fragment.wait = Wait::Named { id, result };
        self.release_named(cta, id);
        Ok(Flow::Moved)
    }

    /// Releases a named barrier all of whose threads arrived.
    fn release_named(&mut self, cta: CtaRank, id: u32) {
        let bar = &self.ctas[cta].named[id as usize];
        let expected = bar.expected.unwrap_or(32 * self.ctas[cta].live_warps);
        if bar.arrived == 0 || bar.arrived < expected {
            return;
        }
        let bar = std::mem::take(&mut self.ctas[cta].named[id as usize]);
        for w in self.ctas[cta].warps.clone().map(WarpId) {
            self.release_waiters(w, id, &bar);
        }
    }

    fn release_waiters(&mut self, w: WarpId, id: u32, bar: &NamedBarrier) {
        let mut released = false;
        let warp = &mut self.warps[w];
        for f in 0..warp.fragments.len() {
            let Wait::Named { id: waiting, result } = warp.fragments[f].wait else { continue };
            if waiting != id {
                continue;
            }
            warp.fragments[f].wait = Wait::Ready;
            released = true;
            if let Some(result) = result {
                let pc = warp.fragments[f].wait_pc as usize;
                let value = match &self.kernel.code[pc].op {
                    Op::Barrier(Barrier::Bar { kind: BarKind::Popc, .. }) => bar.votes.count,
                    Op::Barrier(Barrier::Bar { kind: BarKind::Reduce(BoolOp::And), .. }) => {
                        bar.votes.all.into()
                    }
                    _ => bar.votes.any.into(),
                };
                for lane in lanes(warp.fragments[f].mask) {
                    warp.registers.set_lane(result, lane, value.into());
                }
            }
        }
        if released {
            let start = self.warps[w].time;
            if bar.time > start {
                self.trace_wait(w, "wait at barrier", start, bar.time);
                self.warps[w].time = bar.time;
            }
            self.acquire(w, &bar.clocks);
        }
    }

    /// Looks again at barriers whose expected count depends on live warps.
    pub(crate) fn recheck_barriers(&mut self, cta: CtaRank) {
        for id in 0..self.ctas[cta].named.len() {
            self.release_named(cta, id as u32);
        }
    }

    fn cluster_arrive(&mut self, w: WarpId, mask: u32) {
        self.event();
        let threads = (mask & self.warps[w].live).count_ones();
        let (phase, time) = (self.barrier.phase, self.warps[w].time);
        self.warps[w].cluster_phase = phase + 1;
        self.barrier.arrived += threads;
        self.barrier.time = self.barrier.time.max(time);
        self.publish_cluster(w);
        self.recheck_cluster_barrier();
    }

    fn cluster_wait(&mut self, w: WarpId) -> Flow {
        let wanted = self.warps[w].cluster_phase;
        if self.barrier.phase >= wanted {
            let published = self.barrier.published.clone();
            self.acquire(w, &published);
            return Flow::Next;
        }
        Flow::Block(Wait::Cluster(wanted))
    }

    pub(crate) fn recheck_cluster_barrier(&mut self) {
        let live: u32 = self.warps.iter().map(|w| w.live.count_ones()).sum();
        if self.barrier.arrived == 0 || self.barrier.arrived < live {
            return;
        }
        self.barrier.arrived = 0;
        self.barrier.phase += 1;
        let incoming = std::mem::take(&mut self.barrier.incoming);
        self.barrier.published.join(&incoming);
        let (phase, time) = (self.barrier.phase, self.barrier.time);
        for w in self.warps.ids() {
            let warp = &mut self.warps[w];
            let mut released = false;
            for fragment in &mut warp.fragments {
                if matches!(fragment.wait, Wait::Cluster(wanted) if wanted <= phase) {
                    fragment.wait = Wait::Ready;
                    warp.time = warp.time.max(time);
                    released = true;
                }
            }
            if released {
                let published = self.barrier.published.clone();
                self.acquire(w, &published);
            }
        }
    }

    fn fence(&mut self, w: WarpId, fence: Fence, mask: u32) -> Run<Flow> {
        self.note_fence(w, fence);
        if fence == Fence::ProxyAsync {
            self.note_proxy_fence_of_lanes(w, mask);
        }
        Ok(Flow::Next)
    }
}

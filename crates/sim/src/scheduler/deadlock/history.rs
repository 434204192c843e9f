//! What led to a deadlock: arrivals at the barriers that are waited for, and the last thing that each warp did.

use super::{Awaited, Diagnosis, LISTED, Waiter};
use crate::hang::{Arrivals, BarrierState, LastDeed};
use crate::instruction::{BarrierId, Pc};
use crate::mbarrier::{Arrived, Mbarrier};
use crate::warp::WarpId;
use std::collections::BTreeSet;

impl Diagnosis<'_, '_> {
    /// What is known of each mbarrier that is waited for.
    pub(super) fn barriers(&self, waiters: &[Waiter]) -> Vec<BarrierState> {
        let barriers: BTreeSet<BarrierId> = { waiters.iter() }
            .filter_map(|waiter| match waiter.awaited {
                Awaited::Phase(id, _) => Some(id),
                _ => None,
            })
            .collect();
        let state = |id: &BarrierId| {
            let bar = self.machine.ctas[id.0].mbarriers.get(&id.1)?;
            Some(self.barrier(*id, bar))
        };
        barriers.iter().take(LISTED).filter_map(state).collect()
    }

    fn barrier(&self, (cta, offset): BarrierId, bar: &Mbarrier) -> BarrierState {
        let mut arrivals = self.arrivals(bar);
        let unlisted = arrivals.len().saturating_sub(LISTED);
        arrivals.truncate(LISTED);
        BarrierState {
            name: self.machine.mbarrier_name(cta, offset),
            phase: bar.phase,
            pending: bar.pending,
            expected: bar.expected,
            missing_bytes: bar.tx,
            init: self.machine.site(bar.init.warp, bar.init.pc, None),
            last: self.machine.site(bar.last.warp, bar.last.pc, None),
            arrivals,
            unlisted,
        }
    }

    /// Arrivals at a barrier; warps that arrived alike are one entry.
    fn arrivals(&self, bar: &Mbarrier) -> Vec<Arrivals> {
        let alike = |a: &Arrived| {
            let exited = self.machine.warps[a.by.warp].done();
            (a.by.pc, a.count, a.phases, a.last_phase, exited)
        };
        let mut kinds: Vec<(&Arrived, Vec<WarpId>)> = Vec::new();
        for arrived in bar.arrived() {
            match kinds.iter_mut().find(|(first, _)| alike(first) == alike(arrived)) {
                Some((_, warps)) => warps.push(arrived.by.warp),
                None => kinds.push((arrived, vec![arrived.by.warp])),
            }
        }
        kinds.into_iter().map(|(first, warps)| self.arrivals_of(first, warps)).collect()
    }

    fn arrivals_of(&self, first: &Arrived, mut warps: Vec<WarpId>) -> Arrivals {
        let mut site = self.machine.site(first.by.warp, first.by.pc, None);
        site.cycle = Some(first.time);
        warps.sort_unstable();
        Arrivals {
            site,
            who: self.machine.warp_names(&warps),
            count: first.count,
            phases: first.phases,
            last_phase: first.last_phase,
            exited: self.machine.warps[first.by.warp].done(),
        }
    }

    /// The last thing that each warp did; warps that did the same are one entry.
    pub(super) fn last_deeds(&self) -> Vec<LastDeed> {
        let mut kinds: Vec<((Pc, bool), u64, Vec<WarpId>)> = Vec::new();
        for (w, warp) in self.machine.warps.pairs() {
            let Some((pc, time)) = warp.recent.latest().next() else { continue };
            let kind = (pc, warp.done());
            match kinds.iter_mut().find(|(other, ..)| *other == kind) {
                Some((.., warps)) => warps.push(w),
                None => kinds.push((kind, time, vec![w])),
            }
        }
        let deed = |((pc, exited), time, warps): ((Pc, bool), u64, Vec<WarpId>)| {
            let mut site = self.machine.site(warps[0], pc, None);
            site.cycle = Some(time);
            LastDeed { who: self.machine.warp_names(&warps), exited, site }
        };
        kinds.into_iter().take(LISTED).map(deed).collect()
    }

    /// The warps that arrived in the phase before the one that is waited for.
    pub(super) fn arrived_before(&self, bar: &Mbarrier) -> Vec<WarpId> {
        let before = bar.arrived().iter().filter(|arrived| arrived.last_phase + 1 == bar.phase);
        let mut warps: Vec<WarpId> = before.map(|arrived| arrived.by.warp).collect();
        warps.sort_unstable();
        warps
    }
}

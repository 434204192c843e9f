//! Saying why nothing moves.
//!
//! A report has one entry for each kind of waiter, not for each warp, and starts with what is most
//! likely the matter (`cause`).

mod cause;
mod history;

use super::{Missed, Scheduler};
use crate::error::Error;
use crate::hang::{Deadlock, Waiting};
use crate::instruction::BarrierId;
use crate::instruction::Pc;
use crate::machine::{CtaRank, Machine};
use crate::warp::{Fragment, Wait, WarpId};
use cause::Cause;

/// Kinds of waiters and barriers listed in a report; the rest is counted.
const LISTED: usize = 12;
/// Instructions of a loop that polls, at most.
const POLL_LOOP: Pc = 200;

/// Lanes of a warp that cannot go on.
struct Waiter {
    w: WarpId,
    mask: u32,
    /// Where they wait.
    pc: Pc,
    awaited: Awaited,
}

/// What they wait for.
#[derive(Clone, Debug, PartialEq)]
enum Awaited {
    /// A phase of an mbarrier, blocked or looking again and again.
    Phase(BarrierId, u64),
    Named(u32),
    Cluster(u64),
    Lanes(u32),
    TensorMemory,
    Warpgroup,
    Registers(u32),
    /// Memory that they look at again and again.
    Change,
}

/// Waiters at one place and for one thing.
struct Kind {
    pc: Pc,
    what: String,
    awaited: Awaited,
    warps: Vec<WarpId>,
}

/// A cluster that never goes on, and what led to it.
pub(crate) struct Diagnosis<'d, 'a> {
    machine: &'d Machine<'a>,
    missed: Option<Missed>,
}

impl<'d, 'a> Diagnosis<'d, 'a> {
    pub(crate) fn of(machine: &'d Machine<'a>, scheduler: &Scheduler<'_>) -> Diagnosis<'d, 'a> {
        Diagnosis { machine, missed: scheduler.missed }
    }

    /// The report of a cluster in which nobody can go on, or in which all that run only look whether
    /// something has changed.
    pub(crate) fn deadlock(&self) -> Box<Error> {
        let waiters = self.waiters();
        let mut causes: Vec<Cause> = waiters.iter().map(|waiter| self.cause(waiter)).collect();
        causes.extend(self.missed_cause(&waiters));
        causes.sort_by_key(|cause| cause.rank);
        let mut kinds = self.kinds(&waiters);
        if let Some(about) = causes.first().and_then(|first| first.about.as_ref()) {
            kinds.sort_by_key(|kind| kind.awaited != *about);
        }
        let unlisted = kinds.len().saturating_sub(LISTED);
        let waiting = kinds.iter().take(LISTED).map(|kind| self.waiting(kind)).collect();
        let mut help: Vec<String> = Vec::new();
        for line in causes.iter().filter_map(|cause| cause.help.as_ref()) {
            if !help.contains(line) && help.len() < LISTED {
                help.push(line.clone());
            }
        }
        let (barriers, deeds) = (self.barriers(&waiters), self.last_deeds());
        let (cause, origin) = match causes.into_iter().next() {
            Some(first) => (first.text, first.origin),
            None => ("no warp can go on".into(), None),
        };
        let deadlock = Deadlock { cause, origin, waiting, unlisted, barriers, deeds, help };
        Box::new(Error::Deadlock(Box::new(deadlock)))
    }

    fn waiters(&self) -> Vec<Waiter> {
        let all = self.machine.warps.pairs().flat_map(|(w, warp)| {
            warp.fragments.iter().map(move |fragment| self.waiter(w, fragment))
        });
        all.collect()
    }

    fn waiter(&self, w: WarpId, fragment: &Fragment) -> Waiter {
        let mut pc = fragment.wait_pc;
        let awaited = match fragment.wait {
            Wait::Mbarrier { cta, offset, phase, .. } => Awaited::Phase((cta, offset), phase),
            Wait::Named { id, .. } => Awaited::Named(id),
            Wait::Cluster(phase) => Awaited::Cluster(phase),
            Wait::Lanes(missing) => Awaited::Lanes(missing),
            Wait::TensorMemory => Awaited::TensorMemory,
            Wait::Warpgroup => Awaited::Warpgroup,
            Wait::Registers(count) => Awaited::Registers(count),
            Wait::Ready => {
                let polled = self.polled(w, fragment);
                pc = polled.map_or(fragment.pc, |(pc, ..)| pc);
                polled.map_or(Awaited::Change, |(_, id, phase)| Awaited::Phase(id, phase))
            }
        };
        Waiter { w, mask: fragment.mask, pc, awaited }
    }

    /// The wait near by at which lanes look for a phase again and again.
    fn polled(&self, w: WarpId, fragment: &Fragment) -> Option<(Pc, BarrierId, u64)> {
        let cta = self.machine.warps[w].cta;
        let barriers = self.machine.ctas[cta].mbarriers.iter();
        let polls = barriers.filter_map(|(offset, bar)| {
            let pc = bar.polled(w, fragment.mask)?;
            (pc.abs_diff(fragment.pc) <= POLL_LOOP).then_some((pc, (cta, *offset), bar.phase))
        });
        polls.min_by_key(|(pc, id, _)| (pc.abs_diff(fragment.pc), *id))
    }

    fn kinds(&self, waiters: &[Waiter]) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = Vec::new();
        for Waiter { w, pc, awaited, .. } in waiters {
            let what = self.describe(*w, awaited);
            match kinds.iter_mut().find(|kind| kind.pc == *pc && kind.what == what) {
                Some(kind) if kind.warps.last() == Some(w) => {}
                Some(kind) => kind.warps.push(*w),
                None => {
                    kinds.push(Kind { pc: *pc, what, awaited: awaited.clone(), warps: vec![*w] });
                }
            }
        }
        kinds
    }

    fn waiting(&self, Kind { pc, what, warps, .. }: &Kind) -> Waiting {
        let mut site = self.machine.site(warps[0], *pc, None);
        site.cycle = Some(self.machine.warps[warps[0]].time);
        Waiting {
            site,
            warps: warps.len(),
            who: self.machine.warp_names(warps),
            what: what.clone(),
        }
    }

    /// What a warp waits for, in words.
    fn describe(&self, w: WarpId, awaited: &Awaited) -> String {
        let warp = &self.machine.warps[w];
        match awaited {
            Awaited::Phase((cta, offset), phase) => {
                let name = self.machine.mbarrier_name(*cta, *offset);
                format!("phase {phase} (parity {}) of mbarrier {name}", phase & 1)
            }
            Awaited::Named(id) => {
                let (arrived, expected) = self.named_count(warp.cta, *id);
                format!("named barrier {id}, at which {arrived} of {expected} threads arrived")
            }
            Awaited::Cluster(phase) => {
                let arrived = self.machine.barrier.arrived;
                format!("the cluster barrier (phase {phase}; {arrived} threads arrived)")
            }
            Awaited::Lanes(missing) => format!("lanes {missing:#010x} of its warp"),
            Awaited::Warpgroup => "the other warps of its warpgroup to issue the same wgmma".into(),
            Awaited::Registers(count) => {
                let has = warp.register_count.unwrap_or_default();
                let spare = self.machine.ctas[warp.cta].spare_registers;
                format!(
                    "{count} registers for each of its threads, which have {has}, while {spare} are left of what \
                     other warps of the CTA gave back"
                )
            }
            Awaited::TensorMemory => "free tensor memory".into(),
            Awaited::Change => "a change that nobody makes, polling".into(),
        }
    }

    /// Threads that arrived at a named barrier, and how many it needs.
    fn named_count(&self, cta: CtaRank, id: u32) -> (u32, u32) {
        let bar = &self.machine.ctas[cta].named[id as usize];
        (bar.arrived, bar.expected.unwrap_or(32 * self.machine.ctas[cta].live_warps))
    }
}

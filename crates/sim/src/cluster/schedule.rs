//! Which warp runs when, and what happens when none can.

use super::site::Run;
use super::{Cluster, CtaRank};
use crate::check::Checker;
use crate::instruction::BarrierId;
use crate::instruction::Pc;
use crate::options::{Completion, Schedule};
use crate::warp::{Fragment, Wait, WarpId};
use crate::watchdog::Stop;
use std::sync::atomic::Ordering;

/// How far a cluster came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All warps have exited.
    Done,
    /// Its budget is used up.
    Running,
    /// Another cluster has failed.
    Abandoned,
    /// It only polls; perhaps another cluster must run first.
    Polling {
        /// Whether every warp that could run has polled lately; else one may be at work for long.
        everyone: bool,
    },
}

/// What is remembered to tell progress from standing still.
#[derive(Default)]
pub(crate) struct Progress {
    events: u64,
    /// Steps and polls when the last event was seen.
    at: u64,
    polls: u64,
    /// Rounds in which every wait timed out without any event between.
    timeouts: u32,
}

/// A wait that looked too late, and was let go.
#[derive(Clone, Copy)]
pub(crate) struct Missed {
    pub(super) warp: WarpId,
    pub(super) pc: Pc,
    pub(super) barrier: BarrierId,
    pub(super) phase: u64,
}

/// Whether a random schedule keeps a warp from running though it could.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sleep {
    /// It waited when it was last looked at.
    waited: bool,
    asleep: bool,
}

/// Rounds for each of a CTA that lags behind.
const LATE: usize = 8;
/// Releases for each that a warp oversleeps.
const OVERSLEEP: usize = 8;
/// Instructions a warp runs at a stretch.
const QUANTUM: u32 = 24;
/// Instructions without an event, per live warp, after which waiting work is completed.
const PATIENCE: u64 = 4_000;
/// Instructions of a loop that polls, at most.
const POLL_LOOP: u64 = 200;
/// Rounds of timed-out waits without an event that prove a deadlock.
const TIMEOUTS: u32 = 4;
/// Rounds after which the watchdog looks.
const WATCHED_ROUNDS: u32 = 8;

impl Cluster<'_> {
    /// Runs until done, stuck, or about `budget` more instructions were executed.
    pub fn run(&mut self, budget: u64) -> Run<Status> {
        let end = self.steps + budget;
        for round in 0u32.. {
            if round.is_multiple_of(WATCHED_ROUNDS) && self.is_to_stop()? {
                return Ok(Status::Abandoned);
            }
            if self.steps >= end {
                break;
            }
            if self.warps.iter().all(|w| w.done()) {
                self.finish()?;
                return Ok(Status::Done);
            }
            let ran = self.round()?;
            self.complete_some()?;
            if !ran {
                if !self.warps.iter().any(|w| w.ready()) {
                    self.unblock()?;
                }
            } else if self.polls_in_vain() && !self.complete_one()? {
                let since = std::mem::replace(&mut self.progress.at, self.steps);
                self.progress.polls = self.polls;
                let mut ready = self.warps.iter().filter(|warp| warp.ready());
                return Ok(Status::Polling { everyone: ready.all(|w| w.polled_at >= since) });
            }
        }
        Ok(Status::Running)
    }

    /// Whether another cluster has failed; a limit that the launch has reached is an error.
    fn is_to_stop(&mut self) -> Run<bool> {
        self.hold_what_grew()?;
        if self.checker.as_ref().is_some_and(Checker::is_exhausted) {
            return self.stopped(Stop::Clock);
        }
        let instructions = self.steps - std::mem::replace(&mut self.watched, self.steps);
        match self.launch.watchdog.count(self.number, instructions) {
            None => Ok(false),
            Some(Stop::Failed) => Ok(true),
            Some(limit) => self.stopped(limit),
        }
    }

    /// Gives warps their turns; whether any instruction ran.
    fn round(&mut self) -> Run<bool> {
        let n = self.warps.len();
        let before = self.steps;
        match self.launch.options.schedule {
            Schedule::RoundRobin => {
                for w in self.warps.ids() {
                    self.run_warp(w, QUANTUM)?;
                }
            }
            Schedule::Random => self.random_round()?,
            Schedule::Adversarial => {
                // One warp as long as it can; when it waits or polls, the one before it.
                let before = |w: WarpId, i: usize| WarpId((w.0 + n - i) % n);
                let mut order = (0..n).map(|i| before(self.favourite, i));
                let pick = order.find(|w| self.warps[*w].ready());
                if let Some(w) = pick {
                    let polls = self.polls;
                    self.run_warp(w, 64 * QUANTUM)?;
                    let stuck = self.polls != polls || !self.warps[w].ready();
                    self.favourite = if stuck { before(w, 1) } else { w };
                }
            }
        }
        Ok(self.steps != before)
    }

    /// Turns in random order and of random length. A warp that was released from a wait sometimes
    /// oversleeps: it goes on when nobody else can, so that whatever the wait did not order happens
    /// before it does.
    fn random_round(&mut self) -> Run<()> {
        let n = self.warps.len();
        let start = self.random.below(n);
        let mut moved = false;
        for w in (start..n).chain(0..start).map(WarpId) {
            if self.oversleeps(w) || self.is_late(w) && self.random.below(LATE) != 0 {
                continue;
            }
            let (steps, polls) = (self.steps, self.polls);
            let quantum = 1 + self.random.below(4 * QUANTUM as usize) as u32;
            self.run_warp(w, quantum)?;
            moved |= self.steps != steps && self.polls == polls;
        }
        let pick = self.random.below(usize::MAX >> 1);
        if moved || self.complete_next(Some(pick), false)? || self.wake_sleeper(pick) {
            return Ok(());
        }
        self.warps.ids().try_for_each(|w| self.run_warp(w, QUANTUM))
    }

    /// Whether a warp sleeps though it could run.
    fn oversleeps(&mut self, w: WarpId) -> bool {
        let waits = !self.warps[w].ready();
        let sleep = &mut self.sleeps[w];
        let released = std::mem::replace(&mut sleep.waited, waits) && !waits;
        sleep.asleep |= released && self.random.below(OVERSLEEP) == 0;
        sleep.asleep
    }

    /// Wakes one of the sleeping warps, if there is one.
    fn wake_sleeper(&mut self, pick: usize) -> bool {
        let mut sleepers: Vec<&mut Sleep> = self.sleeps.iter_mut().filter(|s| s.asleep).collect();
        let Some(index) = pick.checked_rem(sleepers.len()) else { return false };
        sleepers[index].asleep = false;
        true
    }

    /// Whether a warp belongs to the CTA of a cluster that a random schedule lets lag behind: none or
    /// one, by the seed.
    fn is_late(&self, w: WarpId) -> bool {
        let ctas = self.ctas.len();
        let late = (self.launch.options.seed % (ctas as u64 + 1)) as usize;
        ctas > 1 && late > 0 && self.warps[w].cta == CtaRank(late - 1)
    }

    /// Records that something changed that others may wait for.
    pub(crate) fn event(&mut self) {
        self.events += 1;
    }

    /// Records that a warp looked at memory or a barrier that others may change.
    pub(crate) fn poll(&mut self, w: WarpId) {
        self.polls += 1;
        self.warps[w].polled_at = self.steps;
    }

    fn note_events(&mut self) {
        if self.events != self.progress.events {
            self.launch.heartbeat.fetch_add(1, Ordering::Relaxed);
            let (events, at, polls) = (self.events, self.steps, self.polls);
            self.progress = Progress { events, at, polls, timeouts: 0 };
        }
    }

    /// Whether warps have long done little but look whether something changed; arithmetic that
    /// takes its time does not count.
    fn polls_in_vain(&mut self) -> bool {
        self.note_events();
        let live = self.warps.iter().filter(|w| !w.done()).count() as u64;
        let (steps, polls) = (self.steps - self.progress.at, self.polls - self.progress.polls);
        steps > PATIENCE * live.max(1) && polls * POLL_LOOP > steps
    }

    /// Completes asynchronous work as the mode likes it.
    fn complete_some(&mut self) -> Run<()> {
        match self.launch.options.completion {
            Completion::Latest => Ok(()),
            Completion::Eager => {
                while self.engines.ripe(self.steps) && self.complete_next(None, false)? {}
                Ok(())
            }
            Completion::Random => {
                if self.engines.is_idle() || self.random.below(4) != 0 {
                    return Ok(());
                }
                let pick = self.random.below(usize::MAX >> 1);
                self.complete_next(Some(pick), false).map(|_| ())
            }
        }
    }

    /// Completes one pending operation if there is one.
    fn complete_one(&mut self) -> Run<bool> {
        let pick = match self.launch.options.completion {
            Completion::Random => Some(self.random.below(usize::MAX >> 1)),
            _ => None,
        };
        self.complete_next(pick, true)
    }

    /// No warp can run: completes work, lets waits time out, or reports a deadlock.
    fn unblock(&mut self) -> Run<()> {
        self.note_events();
        // Work that completed after the round may have woken a warp.
        if self.warps.iter().any(|warp| warp.ready()) {
            return Ok(());
        }
        if self.complete_one()? || self.release_missed_phase(false) {
            return Ok(());
        }
        self.progress.timeouts += 1;
        let tried = self.progress.timeouts > TIMEOUTS || !self.time_out_waits();
        if tried && !self.release_missed_phase(true) {
            return self.deadlock();
        }
        Ok(())
    }

    /// `try_wait` may give up: every such wait returns false once.
    fn time_out_waits(&mut self) -> bool {
        let mut any = false;
        for warp in self.warps.iter_mut() {
            for fragment in &mut warp.fragments {
                if let Wait::Mbarrier { done, .. } = fragment.wait {
                    warp.registers.set_p(done, fragment.mask, 0);
                    fragment.wait = Wait::Ready;
                    any = true;
                }
            }
        }
        any
    }

    /// Lets waiters go that may have come late, blocked or polling, when no cluster moves any more.
    pub(crate) fn release_late(&mut self) -> bool {
        self.release_missed_phase(false)
            || self.release_missed_phase(true)
            || self.release_late_polls()
    }

    /// Lets one waiter go whose phase completed before it looked, while the barrier has moved on. When
    /// all `else_fails`, also one that may have taken later phases for earlier ones since it came late;
    /// who leaves phases out looks the same, so that comes last.
    fn release_missed_phase(&mut self, else_fails: bool) -> bool {
        for w in self.warps.ids() {
            for f in 0..self.warps[w].fragments.len() {
                let Fragment { ref wait, mask, wait_pc, .. } = self.warps[w].fragments[f];
                let Wait::Mbarrier { cta, offset, phase, .. } = *wait else { continue };
                let Some(bar) = self.ctas[cta].mbarriers.get(&offset) else { continue };
                let seen = bar.seen(w, mask).map_or(-1, |p| p as i64);
                let next = bar.next_in_turn(w, mask, phase & 1);
                if phase >= 2 && (seen < phase as i64 - 2 || else_fails && next < phase) {
                    let at = (w, wait_pc);
                    self.note_missed(at, (cta, offset), next.min(phase - 2));
                    self.wake(w, f, phase - 2);
                    return true;
                }
            }
        }
        false
    }

    /// The same for warps that do not block but look again and again.
    fn release_late_polls(&mut self) -> bool {
        let mut late = Vec::new();
        for (cta, state) in self.ctas.pairs_mut() {
            for (offset, bar) in &mut state.mbarriers {
                late.extend(bar.owe_polls().into_iter().map(|poll| ((cta, *offset), poll)));
            }
        }
        late.sort_unstable();
        for (id, (w, pc, phase)) in &late {
            self.note_missed((*w, *pc), *id, *phase);
        }
        !late.is_empty()
    }

    fn note_missed(&mut self, (w, pc): (WarpId, Pc), (cta, offset): BarrierId, phase: u64) {
        let (site, name) = (self.site(w, pc, None), self.mbarrier_name(cta, offset));
        self.notes.push(format!(
            "a waiter missed its phase: mbarrier {name} completed phase {phase} and the next one \
             before this wait looked\n  --> {site}"
        ));
        self.missed.get_or_insert(Missed { warp: w, pc, barrier: (cta, offset), phase });
    }
}

//! Which warp runs when, and what happens when none can.

mod deadlock;

pub(crate) use deadlock::Diagnosis;

use crate::exec::Execution;
use crate::instruction::BarrierId;
use crate::instruction::Pc;
use crate::limits::Held;
use crate::machine::{CtaRank, Machine, Run};
use crate::options::{Completion, Random, Schedule};
use crate::warp::{Fragment, PerWarp, Wait, WarpId};
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

/// Which warp or asynchronous operation goes next, by the modes and the seed of a run.
pub(crate) struct Scheduler<'a> {
    random: Random,
    /// Instructions that the watchdog knows of.
    watched: u64,
    /// The cluster's share of the memory that a run may use.
    held: Held<'a>,
    progress: Progress,
    /// The first wait that looked too late.
    missed: Option<Missed>,
    /// The warp an adversary lets run.
    favourite: WarpId,
    /// What a random schedule does to each warp.
    sleeps: PerWarp<Sleep>,
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

impl Machine<'_> {
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
}

impl<'a> Scheduler<'a> {
    pub(crate) fn new(machine: &Machine<'a>, held: Held<'a>) -> Scheduler<'a> {
        Scheduler {
            random: Random::new(machine.launch.seed(machine.number)),
            watched: 0,
            held,
            progress: Progress::default(),
            missed: None,
            // The youngest warp first: it is the one others wait for least often.
            favourite: WarpId(machine.warps.len() - 1),
            sleeps: machine.warps.iter().map(|_| Sleep::default()).collect(),
        }
    }

    /// Runs until done, stuck, or about `budget` more instructions were executed.
    pub fn run(&mut self, on: &mut Execution<'_, '_>, budget: u64) -> Run<Status> {
        let end = on.machine.steps + budget;
        for round in 0u32.. {
            if round.is_multiple_of(WATCHED_ROUNDS) && self.is_to_stop(on)? {
                return Ok(Status::Abandoned);
            }
            if on.machine.steps >= end {
                break;
            }
            if on.machine.warps.iter().all(|w| w.done()) {
                on.finish()?;
                return Ok(Status::Done);
            }
            let ran = self.round(on)?;
            self.complete_some(on)?;
            if !ran {
                if !on.machine.warps.iter().any(|w| w.ready()) {
                    self.unblock(on)?;
                }
            } else if self.polls_in_vain(on) && !self.complete_one(on)? {
                let since = std::mem::replace(&mut self.progress.at, on.machine.steps);
                self.progress.polls = on.machine.polls;
                let mut ready = on.machine.warps.iter().filter(|warp| warp.ready());
                return Ok(Status::Polling { everyone: ready.all(|w| w.polled_at >= since) });
            }
        }
        Ok(Status::Running)
    }

    /// Whether another cluster has failed; a limit that the launch has reached is an error.
    fn is_to_stop(&mut self, on: &mut Execution<'_, '_>) -> Run<bool> {
        self.hold_what_grew(on)?;
        if on.judge.is_exhausted() {
            return on.machine.stopped(Stop::Clock);
        }
        let instructions =
            on.machine.steps - std::mem::replace(&mut self.watched, on.machine.steps);
        match on.machine.launch.watchdog.count(on.machine.number, instructions) {
            None => Ok(false),
            Some(Stop::Failed) => Ok(true),
            Some(limit) => on.machine.stopped(limit),
        }
    }

    /// Takes the memory that the cluster has come to use since it started.
    fn hold_what_grew(&mut self, on: &Execution<'_, '_>) -> Run<()> {
        let launch = on.machine.launch;
        let slices = on.machine.trace.slices.len() * size_of::<crate::trace::Slice>();
        let bytes = launch.cluster_bytes() + on.judge.bytes() + slices as u64;
        self.held.grow("what is known of a cluster", bytes)?;
        Ok(launch.clusters.hold(launch.global.tally())?)
    }

    /// Gives warps their turns; whether any instruction ran.
    fn round(&mut self, on: &mut Execution<'_, '_>) -> Run<bool> {
        let n = on.machine.warps.len();
        let before = on.machine.steps;
        match on.machine.launch.options.schedule {
            Schedule::RoundRobin => {
                for w in on.machine.warps.ids() {
                    on.run_warp(w, QUANTUM)?;
                }
            }
            Schedule::Random => self.random_round(on)?,
            Schedule::Adversarial => {
                // One warp as long as it can; when it waits or polls, the one before it.
                let before = |w: WarpId, i: usize| WarpId((w.0 + n - i) % n);
                let mut order = (0..n).map(|i| before(self.favourite, i));
                let pick = order.find(|w| on.machine.warps[*w].ready());
                if let Some(w) = pick {
                    let polls = on.machine.polls;
                    on.run_warp(w, 64 * QUANTUM)?;
                    let stuck = on.machine.polls != polls || !on.machine.warps[w].ready();
                    self.favourite = if stuck { before(w, 1) } else { w };
                }
            }
        }
        Ok(on.machine.steps != before)
    }

    /// Turns in random order and of random length. A warp that was released from a wait sometimes
    /// oversleeps: it goes on when nobody else can, so that whatever the wait did not order happens
    /// before it does.
    fn random_round(&mut self, on: &mut Execution<'_, '_>) -> Run<()> {
        let n = on.machine.warps.len();
        let start = self.random.below(n);
        let mut moved = false;
        for w in (start..n).chain(0..start).map(WarpId) {
            if self.oversleeps(on, w) || self.is_late(on, w) && self.random.below(LATE) != 0 {
                continue;
            }
            let (steps, polls) = (on.machine.steps, on.machine.polls);
            let quantum = 1 + self.random.below(4 * QUANTUM as usize) as u32;
            on.run_warp(w, quantum)?;
            moved |= on.machine.steps != steps && on.machine.polls == polls;
        }
        let pick = self.random.below(usize::MAX >> 1);
        if moved || on.complete_next(Some(pick), false)? || self.wake_sleeper(pick) {
            return Ok(());
        }
        on.machine.warps.ids().try_for_each(|w| on.run_warp(w, QUANTUM))
    }

    /// Whether a warp sleeps though it could run.
    fn oversleeps(&mut self, on: &mut Execution<'_, '_>, w: WarpId) -> bool {
        let waits = !on.machine.warps[w].ready();
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
    fn is_late(&self, on: &mut Execution<'_, '_>, w: WarpId) -> bool {
        let ctas = on.machine.ctas.len();
        let late = (on.machine.launch.options.seed % (ctas as u64 + 1)) as usize;
        ctas > 1 && late > 0 && on.machine.warps[w].cta == CtaRank(late - 1)
    }

    fn note_events(&mut self, on: &mut Execution<'_, '_>) {
        if on.machine.events != self.progress.events {
            on.machine.launch.heartbeat.fetch_add(1, Ordering::Relaxed);
            let (events, at, polls) = (on.machine.events, on.machine.steps, on.machine.polls);
            self.progress = Progress { events, at, polls, timeouts: 0 };
        }
    }

    /// Whether warps have long done little but look whether something changed; arithmetic that
    /// takes its time does not count.
    fn polls_in_vain(&mut self, on: &mut Execution<'_, '_>) -> bool {
        self.note_events(on);
        let live = on.machine.warps.iter().filter(|w| !w.done()).count() as u64;
        let (steps, polls) =
            (on.machine.steps - self.progress.at, on.machine.polls - self.progress.polls);
        steps > PATIENCE * live.max(1) && polls * POLL_LOOP > steps
    }

    /// Completes asynchronous work as the mode likes it.
    fn complete_some(&mut self, on: &mut Execution<'_, '_>) -> Run<()> {
        match on.machine.launch.options.completion {
            Completion::Latest => Ok(()),
            Completion::Eager => {
                while on.machine.engines.ripe(on.machine.steps) && on.complete_next(None, false)? {}
                Ok(())
            }
            Completion::Random => {
                if on.machine.engines.is_idle() || self.random.below(4) != 0 {
                    return Ok(());
                }
                let pick = self.random.below(usize::MAX >> 1);
                on.complete_next(Some(pick), false).map(|_| ())
            }
        }
    }

    /// Completes one pending operation if there is one.
    fn complete_one(&mut self, on: &mut Execution<'_, '_>) -> Run<bool> {
        let pick = match on.machine.launch.options.completion {
            Completion::Random => Some(self.random.below(usize::MAX >> 1)),
            _ => None,
        };
        on.complete_next(pick, true)
    }

    /// No warp can run: completes work, lets waits time out, or reports a deadlock.
    fn unblock(&mut self, on: &mut Execution<'_, '_>) -> Run<()> {
        self.note_events(on);
        // Work that completed after the round may have woken a warp.
        if on.machine.warps.iter().any(|warp| warp.ready()) {
            return Ok(());
        }
        if self.complete_one(on)? || self.release_missed_phase(on, false)? {
            return Ok(());
        }
        self.progress.timeouts += 1;
        let tried = self.progress.timeouts > TIMEOUTS || !on.machine.time_out_waits();
        if tried && !self.release_missed_phase(on, true)? {
            return Err(Diagnosis::of(on.machine, self).deadlock());
        }
        Ok(())
    }

    /// Lets waiters go that may have come late, blocked or polling, when no cluster moves any more.
    pub(crate) fn release_late(&mut self, on: &mut Execution<'_, '_>) -> Run<bool> {
        Ok(self.release_missed_phase(on, false)?
            || self.release_missed_phase(on, true)?
            || self.release_late_polls(on)?)
    }

    /// Lets one waiter go whose phase completed before it looked, while the barrier has moved on. When
    /// all `else_fails`, also one that may have taken later phases for earlier ones since it came late;
    /// who leaves phases out looks the same, so that comes last. By the strictest rules that is a deadlock, as on a GPU.
    fn release_missed_phase(&mut self, on: &mut Execution<'_, '_>, else_fails: bool) -> Run<bool> {
        for w in on.machine.warps.ids() {
            for f in 0..on.machine.warps[w].fragments.len() {
                let Fragment { ref wait, mask, wait_pc, .. } = on.machine.warps[w].fragments[f];
                let Wait::Mbarrier { cta, offset, phase, .. } = *wait else { continue };
                let Some(bar) = on.machine.ctas[cta].mbarriers.get(&offset) else { continue };
                let seen = bar.seen(w, mask).map_or(-1, |p| p as i64);
                let next = bar.next_in_turn(w, mask, phase & 1);
                if phase >= 2 && (seen < phase as i64 - 2 || else_fails && next < phase) {
                    let at = (w, wait_pc);
                    self.note_missed(on, at, (cta, offset), next.min(phase - 2))?;
                    on.wake(w, f, phase - 2);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The same for warps that do not block but look again and again.
    fn release_late_polls(&mut self, on: &mut Execution<'_, '_>) -> Run<bool> {
        let mut late = Vec::new();
        for (cta, state) in on.machine.ctas.pairs_mut() {
            for (offset, bar) in &mut state.mbarriers {
                late.extend(bar.owe_polls().into_iter().map(|poll| ((cta, *offset), poll)));
            }
        }
        late.sort_unstable();
        for (id, (w, pc, phase)) in &late {
            self.note_missed(on, (*w, *pc), *id, *phase)?;
        }
        Ok(!late.is_empty())
    }

    fn note_missed(
        &mut self,
        on: &mut Execution<'_, '_>,
        (w, pc): (WarpId, Pc),
        (cta, offset): BarrierId,
        phase: u64,
    ) -> Run<()> {
        let (site, name) = (on.machine.site(w, pc, None), on.machine.mbarrier_name(cta, offset));
        on.machine.notes.push(format!(
            "a waiter missed its phase: mbarrier {name} completed phase {phase} and the next one \
             before this wait looked\n  --> {site}"
        ));
        self.missed.get_or_insert(Missed { warp: w, pc, barrier: (cta, offset), phase });
        match on.machine.launch.options.pedantic {
            true => Err(Diagnosis::of(on.machine, self).deadlock()),
            false => Ok(()),
        }
    }
}

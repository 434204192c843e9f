//! One cluster: what runs on one host thread. Only global memory is shared with other clusters.
//!
//! It owns three things. The [`Machine`] is what instructions change. The [`Scheduler`] decides which warp or
//! asynchronous operation goes next. The [`Judge`] follows what happens and reports what breaks a rule. The scheduler
//! drives an [`Execution`], which changes the machine and tells the judge; the judge looks at the machine and never
//! changes it.

use crate::error::Error;
use crate::exec::Execution;
use crate::judge::Judge;
use crate::launch::LaunchState;
use crate::machine::{Machine, Run};
use crate::record::Recording;
use crate::report::Counters;
use crate::rules::{Allowed, add_allowed};
use crate::scheduler::{Diagnosis, Scheduler, Status};
use crate::trace::{Trace, Track};

/// One cluster.
pub struct Cluster<'a> {
    machine: Machine<'a>,
    scheduler: Scheduler<'a>,
    judge: Judge<'a>,
}

impl<'a> Cluster<'a> {
    /// The cluster of linear number `number`, x fastest, if there is memory for one.
    pub fn new(launch: &'a LaunchState<'a>, number: u32) -> Run<Cluster<'a>> {
        let held = launch.global.tally().hold("a cluster", launch.cluster_bytes())?;
        let machine = Machine::new(launch, number);
        let scheduler = Scheduler::new(&machine, held);
        let judge = Judge::new(&machine);
        Ok(Cluster { machine, scheduler, judge })
    }

    /// Linear number in the grid.
    pub fn number(&self) -> u32 {
        self.machine.number
    }

    /// Changes so far that others may wait for.
    pub fn events(&self) -> u64 {
        self.machine.events
    }

    /// Runs until done, stuck, or about `budget` more instructions were executed.
    pub fn run(&mut self, budget: u64) -> Run<Status> {
        let Cluster { machine, scheduler, judge } = self;
        scheduler.run(&mut Execution { machine, judge }, budget)
    }

    /// Lets waiters go that may have come late, when no cluster moves any more; whether there were any. By the strictest
    /// rules none is let go.
    pub fn release_late(&mut self) -> bool {
        let Cluster { machine, scheduler, judge } = self;
        scheduler.release_late(&mut Execution { machine, judge }).unwrap_or(false)
    }

    /// The report of a cluster that never goes on.
    pub fn deadlock(&self) -> Box<Error> {
        Diagnosis::of(&self.machine, &self.scheduler).deadlock()
    }

    /// What the run counted, its timeline, and notes for the user.
    pub fn into_results(self) -> Results {
        let Cluster { mut machine, judge, .. } = self;
        let end = machine.warps.iter().map(|w| w.time).max().unwrap_or(0);
        for w in machine.warps.ids() {
            let (since, time) = (machine.warps[w].running_since, machine.warps[w].time);
            machine.trace_slice(Track::Warp(w), "run", since, time);
            machine.trace_steps(w);
        }
        machine.counters.cycles += end;
        machine.record_end();
        let Machine { counters, trace, notes, recorder, .. } = machine;
        let recordings = recorder.map(|recorder| recorder.into_recording()).into_iter().collect();
        Results { counters, trace, notes, recordings, allowed: judge.into_allowed() }
    }
}

/// Notes of a launch that are kept.
const MOST_NOTES: usize = 10_000;

/// What running clusters gave.
#[derive(Default)]
pub struct Results {
    /// Counts.
    pub counters: Counters,
    /// Timeline.
    pub trace: Trace,
    /// What clusters did, where that is recorded.
    pub recordings: Vec<Recording>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Broken rules that are allowed.
    pub allowed: Vec<Allowed>,
}

impl Results {
    /// Adds what other clusters gave.
    pub fn add(&mut self, other: Results) {
        self.counters += other.counters;
        self.trace.slices.extend(other.trace.slices);
        self.trace.steps.extend(other.trace.steps);
        self.recordings.extend(other.recordings);
        let room = MOST_NOTES.saturating_sub(self.notes.len());
        self.notes.extend(other.notes.into_iter().take(room));
        other.allowed.into_iter().for_each(|allowed| add_allowed(&mut self.allowed, allowed));
    }
}

//! The first schedule that fails.

use crate::schedule::Schedule;
use program::Program;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A program and what its buffers hold at the start.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'l> {
    /// The program.
    pub program: &'l Program,
    /// One entry per buffer of the program.
    pub contents: &'l [Vec<u8>],
}

/// What running schedules gave. It does not depend on how many ran at a time.
#[derive(Clone, Debug, Default)]
pub struct Searched {
    /// Schedules that ran, in order, up to the first that failed; buffers are not kept.
    pub outcomes: Vec<(Schedule, sim::Outcome)>,
}

impl Searched {
    /// The first schedule that failed, and why.
    pub fn failure(&self) -> Option<(Schedule, &sim::Error)> {
        let (schedule, outcome) = self.outcomes.last()?;
        Some((*schedule, outcome.error.as_ref()?))
    }
}

/// What the workers share.
struct Board<'b> {
    schedules: &'b [Schedule],
    next: AtomicUsize,
    /// Place of the first schedule known to fail.
    failed: AtomicUsize,
    done: AtomicUsize,
    outcomes: Mutex<Vec<(usize, sim::Outcome)>>,
}

/// Runs a launch under `schedules`, `threads` at a time, until the first of them that fails.
///
/// Schedules behind it may have begun, and are forgotten: the result is that of running one after the other.
/// `progress` is told how many have ended.
pub fn search(
    launch: Launch<'_>,
    schedules: &[Schedule],
    options: &sim::Options,
    threads: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> Searched {
    let workers = threads.clamp(1, schedules.len().max(1));
    // Several schedules at a time take a host thread each.
    let threads = if workers > 1 { 1 } else { options.threads };
    let options = sim::Options { threads, ..options.clone() };
    let board = Board {
        schedules,
        next: AtomicUsize::new(0),
        failed: AtomicUsize::new(usize::MAX),
        done: AtomicUsize::new(0),
        outcomes: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(|| board.work(launch, &options, progress));
        }
        board.work(launch, &options, progress);
    });
    board.into_searched()
}

impl Board<'_> {
    fn work(&self, launch: Launch<'_>, options: &sim::Options, progress: &(dyn Fn(usize) + Sync)) {
        loop {
            let place = self.next.fetch_add(1, Relaxed);
            let Some(schedule) = self.schedules.get(place) else { return };
            if place > self.failed.load(Relaxed) {
                return;
            }
            let options = schedule.options(options);
            let mut outcome = sim::outcome(launch.program, launch.contents, &options);
            outcome.report.buffers = Vec::new();
            if outcome.error.is_some() {
                self.failed.fetch_min(place, Relaxed);
            }
            self.outcomes.lock().expect("no worker panics with the lock").push((place, outcome));
            progress(self.done.fetch_add(1, Relaxed) + 1);
        }
    }

    fn into_searched(self) -> Searched {
        let mut outcomes = self.outcomes.into_inner().expect("no worker panicked");
        outcomes.sort_by_key(|(place, _)| *place);
        let last = self.failed.into_inner();
        outcomes.retain(|(place, _)| *place <= last);
        let named = |(place, outcome): (usize, _)| (self.schedules[place], outcome);
        Searched { outcomes: outcomes.into_iter().map(named).collect() }
    }
}

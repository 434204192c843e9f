//! Goes through a recording with the rates and latencies of a machine.
//!
//! Time goes from one event to the next. Between two events every piece of work on a multiprocessor goes on at
//! the speed at which no unit is asked for more than it has ([`work::share_out`]).

mod copies;
mod outcome;
mod products;
mod timer;
mod together;
mod warps;
mod work;

pub use outcome::{Cause, Replayed, Row, Span};
pub(crate) use together::replay_together;
pub(crate) use work::OUT;

use crate::machine::Machine;
use sim::record::{BarrierKind, Event, OperationKind, PhaseId, Recording, Unit};
use std::collections::{BinaryHeap, HashMap, VecDeque};
use timer::{Timed, Timer};
use work::{Job, Owner, share_out};

/// One multiprocessor's share of what all of them have, in bytes per cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Of L2.
    pub l2: f64,
    /// Of memory.
    pub memory: f64,
    /// Share of the bytes read from L2 that come from memory first.
    pub misses: f64,
}

/// A multiprocessor with one CTA.
#[derive(Default)]
struct Processor {
    jobs: Vec<Job>,
    products: VecDeque<u32>,
    multiplies: bool,
    copies: VecDeque<u32>,
    copying: bool,
}

/// Where a warp is.
#[derive(Clone, Default)]
struct Warp {
    next: usize,
    /// Since when it runs or waits.
    since: f64,
    /// When its loads are there.
    loads: Vec<f64>,
}

/// How far an operation is.
#[derive(Clone, Copy, Default)]
struct Progress {
    issued: u32,
    /// Copies of it that have not arrived.
    left: u32,
    done: Option<f64>,
}

/// How far a phase is.
#[derive(Clone, Default)]
struct PhaseState {
    arrived: u32,
    done: Option<(f64, Cause)>,
    waiting: Vec<usize>,
    /// Waits on an operation share the list, by its number.
    cause: Option<Cause>,
}

/// A replay under way.
struct Replay<'a> {
    machine: &'a Machine,
    recording: &'a Recording,
    share: Share,
    now: f64,
    processors: Vec<Processor>,
    warps: Vec<Warp>,
    operations: Vec<Progress>,
    awaited: HashMap<u32, Vec<usize>>,
    phases: Vec<PhaseState>,
    streams: HashMap<u32, VecDeque<u32>>,
    timers: BinaryHeap<Timer>,
    ready: Vec<usize>,
    traced: bool,
    out: Replayed,
}

/// What a cluster takes on a machine, each CTA alone on its multiprocessor.
pub fn replay(machine: &Machine, recording: &Recording, share: Share, traced: bool) -> Replayed {
    let replay = Replay::new(machine, recording, share, traced);
    finished(replay, recording)
}

fn finished(mut replay: Replay<'_>, recording: &Recording) -> Replayed {
    replay.run();
    let ctas = f64::from(recording.ctas.max(1));
    let Replay { mut out, now, .. } = replay;
    out.cycles = now;
    [&mut out.tensor, &mut out.copies, &mut out.flops].into_iter().for_each(|sum| *sum /= ctas);
    out.units.iter_mut().for_each(|sum| *sum /= ctas);
    out
}

impl<'a> Replay<'a> {
    fn new(machine: &'a Machine, recording: &'a Recording, share: Share, traced: bool) -> Self {
        let warps = recording.warps.len();
        let beyond = f64::from(recording.ctas.saturating_sub(2));
        let start = machine.cta_start + beyond * machine.cluster_start;
        Replay {
            machine,
            recording,
            share,
            now: start,
            processors: (0..recording.ctas).map(|_| Processor::default()).collect(),
            warps: vec![Warp { since: start, ..Warp::default() }; warps],
            operations: vec![Progress::default(); recording.operations.len()],
            awaited: HashMap::new(),
            phases: vec![PhaseState::default(); recording.phases.len()],
            streams: HashMap::new(),
            timers: BinaryHeap::new(),
            ready: (0..warps).collect(),
            traced,
            out: Replayed { clocks: vec![Vec::new(); warps], ..Replayed::default() },
        }
    }

    fn run(&mut self) {
        loop {
            while let Some(w) = self.ready.pop() {
                self.advance(w);
            }
            self.processors.iter_mut().for_each(|sm| share_out(&mut sm.jobs));
            let jobs = self.processors.iter().flat_map(|sm| &sm.jobs);
            let work = jobs.map(|job| job.left / job.speed).fold(f64::INFINITY, f64::min);
            let timer = self.timers.peek().map_or(f64::INFINITY, |timer| timer.at - self.now);
            let step = work.min(timer);
            if !step.is_finite() {
                return;
            }
            self.pass(step.max(0.0));
        }
    }

    /// Lets time pass, and tells who waited for what has happened by then.
    fn pass(&mut self, step: f64) {
        self.now += step;
        let mut done: Vec<(usize, Job)> = Vec::new();
        for (cta, sm) in self.processors.iter_mut().enumerate() {
            for job in &mut sm.jobs {
                job.left -= step * job.speed;
                for (unit, share) in &job.shares {
                    self.out.units[*unit] += share * step * job.speed;
                }
            }
            let over = |job: &mut Job| job.left <= 1e-6;
            done.extend(sm.jobs.extract_if(.., over).map(|job| (cta, job)));
        }
        for (cta, job) in done {
            match job.owner {
                Owner::Warp(w) => self.ran(w, &job),
                Owner::Product(id) => self.multiplied(cta, id, &job),
                Owner::Copy(id) => self.copied(cta, id, &job),
            }
        }
        while self.timers.peek().is_some_and(|timer| timer.at <= self.now + 1e-9) {
            let Some(timer) = self.timers.pop() else { return };
            match timer.what {
                Timed::Wake(w) => self.ready.push(w),
                Timed::Copy(id) => self.copy_begins(id),
                Timed::Done(id) => self.done(id),
            }
        }
    }

    fn later(&mut self, cycles: f64, what: Timed) {
        self.timers.push(Timer { at: self.now + cycles.max(0.0), what });
    }

    /// An operation is done: signals go out, streams and waits go on.
    fn done(&mut self, id: u32) {
        self.operations[id as usize].done = Some(self.now);
        let operation = &self.recording.operations[id as usize];
        let cause = match operation.kind {
            OperationKind::Product { .. } | OperationKind::Tensor | OperationKind::Signal => {
                Cause::Product
            }
            OperationKind::Load { .. } | OperationKind::Store { .. } => Cause::Memory,
        };
        operation.signals.iter().for_each(|phase| self.arrive(*phase, cause));
        for w in self.awaited.remove(&id).unwrap_or_default() {
            self.end_wait(w, cause, self.machine.product_latency);
        }
        if let Some(stream) = operation.stream {
            self.stream_goes_on(stream);
        }
    }

    /// Signals of a stream whose earlier operations are done.
    fn stream_goes_on(&mut self, stream: u32) {
        let Some(queue) = self.streams.get_mut(&stream) else { return };
        while queue.front().is_some_and(|id| self.operations[*id as usize].done.is_some()) {
            queue.pop_front();
        }
        let Some(id) = queue.front().copied() else { return };
        let signal = self.recording.operations[id as usize].kind == OperationKind::Signal;
        if signal && self.operations[id as usize].left == 0 {
            self.operations[id as usize].left = 1;
            let latency = self.machine.commit_latency - self.machine.mbarrier_latency;
            self.later(latency, Timed::Done(id));
        }
    }

    fn arrive(&mut self, phase: PhaseId, cause: Cause) {
        let state = &mut self.phases[phase as usize];
        state.arrived += 1;
        state.cause = Some(cause);
        if state.arrived < self.recording.phases[phase as usize].arrivals {
            return;
        }
        state.done = Some((self.now, cause));
        let latency = self.latency(phase);
        for w in std::mem::take(&mut self.phases[phase as usize].waiting) {
            self.end_wait(w, cause, latency);
        }
    }

    fn latency(&self, phase: PhaseId) -> f64 {
        match self.recording.phases[phase as usize].barrier {
            BarrierKind::Mbarrier => self.machine.mbarrier_latency,
            BarrierKind::Named => self.machine.barrier_latency,
            BarrierKind::Cluster => self.machine.cluster_latency,
        }
    }

    /// A warp that waited goes on after a latency.
    fn end_wait(&mut self, w: usize, cause: Cause, latency: f64) {
        self.waited(w, cause, self.now);
        self.pause(w, latency);
    }

    /// A warp does nothing for some cycles.
    fn pause(&mut self, w: usize, cycles: f64) {
        if cycles <= 0.0 {
            self.ready.push(w);
            return;
        }
        self.waited(w, Cause::Signal, self.now + cycles);
        self.later(cycles, Timed::Wake(w));
    }

    /// Counts what a warp waited since it last ran.
    fn waited(&mut self, w: usize, cause: Cause, until: f64) {
        let since = std::mem::replace(&mut self.warps[w].since, until);
        if until > since {
            self.out.waits[cause as usize] += until - since;
            self.span(Row::Warp(w), Some(cause), since, until);
        }
    }

    fn span(&mut self, row: Row, cause: Option<Cause>, start: f64, end: f64) {
        if self.traced && end > start {
            self.out.spans.push(Span { row, cause, start, end });
        }
    }
}

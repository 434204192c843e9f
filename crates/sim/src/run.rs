//! Running programs: memory, parameters, launches, host threads.

use crate::cluster::{Cluster, Results};
use crate::doubts::{self, Doubt};
use crate::error::Error;
use crate::geometry;
use crate::judge::{Earlier, Meeting, Unwritten, Written};
use crate::launch::LaunchState;
use crate::limits::Limits;
use crate::load::{self, Kernel};
use crate::memory::{Allocation, Contents, Global, Request};
use crate::options::Options;
use crate::report::{Outcome, Report};
use crate::scheduler::Status;
use crate::variables;
use crate::watchdog::Watchdog;
use program::{Access, Argument, BufferId, Launch, Pointer, Program};
use rayon::prelude::*;
use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Runs a program on `buffers`, one per [`Program::buffers`] and in their order.
///
/// Buffers the program only writes begin as poison: what it reads before writing is an error, and
/// bytes it leaves out keep a NaN pattern. The report holds the contents of all buffers afterwards.
pub fn run(program: &Program, buffers: &[Vec<u8>], options: &Options) -> Result<Report, Error> {
    outcome(program, buffers, options).into_result()
}

/// As [`run`], but keeps what was found before an error ended the run.
pub fn outcome(program: &Program, buffers: &[Vec<u8>], options: &Options) -> Outcome {
    doubts::settle(options, |doubts| {
        repeatable(options, |options| {
            let mut device = prepare(program, buffers, &options.limits)?;
            device.doubts = doubts.to_vec();
            let ended = device.run(program, options);
            Ok((device, ended))
        })
    })
}

/// Where a caller has a program's memory: addresses that stand in parameters and in memory then mean what they
/// mean to the caller.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// The address of each of [`Program::buffers`], growing, outside the windows of other state spaces.
    pub addresses: &'a [u64],
    /// Module-scope variables and their addresses, which lie in buffers; all others start with their initial value.
    pub variables: &'a HashMap<ptx::Symbol, u64>,
}

/// As [`outcome`], with buffers and variables where `placement` says.
pub fn outcome_at(
    program: &Program,
    buffers: &[Vec<u8>],
    placement: &Placement,
    options: &Options,
) -> Outcome {
    doubts::settle(options, |doubts| {
        repeatable(options, |options| {
            let warnings = program.check().map_err(Error::Invalid)?;
            let global = place(program, buffers, Some(placement.addresses), &options.limits)?;
            let mut device = Device::new(global);
            device.variables = placement.variables.clone();
            device.doubts = doubts.to_vec();
            device.report.notes.extend(warnings.iter().map(ToString::to_string));
            let ended = device.run(program, options);
            Ok((device, ended))
        })
    })
}

/// Runs something on as many host threads as the options say. Where clusters met in memory on several threads, it is
/// run again on one: which of them came first must not depend on the host.
fn repeatable(
    options: &Options,
    run: impl Fn(&Options) -> Result<(Device, Result<(), Error>), Error>,
) -> Outcome {
    let once = |options: &Options| match run(options) {
        Ok((device, ended)) => (device.raced, device.outcome(ended)),
        Err(error) => (false, Outcome { error: Some(error), ..Outcome::default() }),
    };
    match once(options) {
        (true, _) => once(&Options { threads: 1, ..options.clone() }).1,
        (false, outcome) => outcome,
    }
}

/// A device with a program's buffers in its memory, if a GPU would take the program.
fn prepare(program: &Program, buffers: &[Vec<u8>], limits: &Limits) -> Result<Device, Error> {
    let warnings = program.check().map_err(Error::Invalid)?;
    let mut device = Device::new(place(program, buffers, None, limits)?);
    device.report.notes.extend(warnings.iter().map(ToString::to_string));
    Ok(device)
}

/// Global memory with a program's buffers in it, at `addresses` where they are given.
fn place(
    program: &Program,
    buffers: &[Vec<u8>],
    addresses: Option<&[u64]>,
    limits: &Limits,
) -> Result<Global, Error> {
    if buffers.len() != program.buffers.len() {
        let (have, need) = (buffers.len(), program.buffers.len());
        return Err(Error::Load(format!("{have} buffers were given; the program has {need}")));
    }
    if let Some(addresses) = addresses.filter(|given| given.len() != buffers.len()) {
        let (have, need) = (addresses.len(), buffers.len());
        return Err(Error::Load(format!("{have} addresses were given for {need} buffers")));
    }
    let mut global = Global::new(limits);
    for (i, (buffer, bytes)) in program.buffers.iter().zip(buffers).enumerate() {
        let contents = match buffer.access {
            Access::Write | Access::Workspace => Contents::Poison,
            _ => Contents::Bytes(bytes),
        };
        if (bytes.len() as u64) < buffer.bytes && !matches!(contents, Contents::Poison) {
            return Err(Error::Load(format!(
                "buffer `{}` has {} bytes; the program touches {}",
                buffer.name,
                bytes.len(),
                buffer.bytes
            )));
        }
        let request = Request {
            name: &buffer.name,
            bytes: buffer.bytes,
            align: buffer.align,
            contents,
            read_only: buffer.access == Access::Read,
        };
        match addresses {
            Some(addresses) => global.allocate_at(&request, addresses[i])?,
            None => global.allocate(&request)?,
        };
    }
    write_pointers(program, &global);
    Ok(global)
}

/// Puts the addresses of buffers where buffers hold them; `program::check` has looked at the places.
fn write_pointers(program: &Program, global: &Global) {
    for (i, buffer) in program.buffers.iter().enumerate() {
        for pointer in &buffer.pointers {
            let base = global.get(pointer.buffer.0).base;
            global.get(i).write_from(pointer.offset, &pointer.value(base));
        }
    }
}

/// Global memory and what the launches so far gave.
struct Device {
    global: Global,
    report: Report,
    /// What was written by launches that the last one did not wait for.
    behind: Option<Written>,
    /// Launches so far.
    launched: usize,
    /// Whether clusters met in memory on several host threads.
    raced: bool,
    /// Loads whose values must not be used.
    doubts: Vec<Doubt>,
    /// Variables that have memory before the first launch.
    variables: HashMap<ptx::Symbol, u64>,
}

impl Device {
    fn new(global: Global) -> Self {
        Device {
            global,
            report: Report::default(),
            behind: None,
            launched: 0,
            raced: false,
            doubts: Vec::new(),
            variables: HashMap::new(),
        }
    }

    fn outcome(self, ended: Result<(), Error>) -> Outcome {
        Outcome { report: self.report, error: ended.err() }
    }

    /// Runs all launches of a program whose buffers come first in memory.
    fn run(&mut self, program: &Program, options: &Options) -> Result<(), Error> {
        for launch in &program.launches {
            let kernel = load::load(&program.module, &launch.kernel)?;
            let params = self.parameters(&kernel, launch);
            self.launch(&program.module, &kernel, launch, params, options)?;
        }
        let all = || (0..program.buffers.len()).map(|i| self.global.get(i));
        self.report.buffers = all().map(Allocation::to_vec).collect();
        self.report.unwritten = all().map(Allocation::unwritten).collect();
        Ok(())
    }

    /// The address `offset` bytes behind the start of a program's buffer.
    fn address(&self, buffer: BufferId, offset: u64) -> u64 {
        self.global.get(buffer.0).base.wrapping_add(offset)
    }

    /// The bytes of all kernel parameters; `program::check` has held the arguments against them.
    fn parameters(&self, kernel: &Kernel, launch: &Launch) -> Vec<u8> {
        let mut bytes = vec![0; kernel.param_bytes as usize];
        for (offset, arg) in kernel.params.iter().zip(&launch.args) {
            let value = match arg {
                Argument::Buffer(buffer, offset) => {
                    self.address(*buffer, *offset).to_le_bytes().to_vec()
                }
                Argument::U32(value) => value.to_le_bytes().to_vec(),
                Argument::U64(value) => value.to_le_bytes().to_vec(),
                Argument::F32(value) => value.to_le_bytes().to_vec(),
                Argument::TensorMap(map) => map.encode(self.address(map.buffer, 0)).to_vec(),
                Argument::Bytes(bytes, pointers) => {
                    let mut bytes = bytes.clone();
                    let base = |pointer: &Pointer| self.address(pointer.buffer, 0);
                    pointers.iter().for_each(|pointer| pointer.write(&mut bytes, base(pointer)));
                    bytes
                }
            };
            bytes[*offset as usize..][..value.len()].copy_from_slice(&value);
        }
        bytes
    }

    /// Runs one launch to its end; what it gave is in the report, also after an error.
    fn launch(
        &mut self,
        module: &ptx::Module,
        kernel: &Kernel,
        launch: &Launch,
        params: Vec<u8>,
        options: &Options,
    ) -> Result<(), Error> {
        geometry::check_clusters(launch)?;
        geometry::check_length(kernel, options)?;
        let variables = variables::place(module, kernel, &mut self.global, &self.variables)?;
        let behind = self.behind.take();
        let grid_workspace = variables::grid_workspace(kernel, &mut self.global)?;
        let state = LaunchState {
            doubts: &self.doubts,
            grid_workspace,
            kernel,
            params,
            global: &self.global,
            variables,
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            dynamic_shared: launch.shared_bytes,
            options,
            earlier: launch.overlaps_previous.then(|| Earlier::of(&self.global, behind)),
            undefined: options.checks.then(|| Unwritten::at_start(kernel)).flatten(),
            clusters: Default::default(),
            wide_atomics: Mutex::new(()),
            watchdog: Watchdog::new(options.limits),
            heartbeat: AtomicU64::new(0),
            next: AtomicU32::new(0),
        };
        let threads = host_threads(&state);
        let (mut results, error) = run_clusters(&state, threads);
        state.clusters.give_back(self.global.tally());
        self.raced |= threads > 1 && decides(state.clusters.meeting(), error.is_some());
        results.allowed.sort_by_key(|allowed| allowed.finding.site().line);
        self.behind = state.earlier.and_then(Earlier::left_behind);
        self.report.counters += results.counters;
        self.report.notes.extend(results.notes);
        let number = self.launched;
        self.launched += 1;
        results.recordings.iter_mut().for_each(|recording| recording.launch = number);
        self.report.recordings.extend(results.recordings);
        self.report.allowed.extend(results.allowed);
        if options.trace {
            let trace = self.report.trace.get_or_insert_default();
            trace.slices.extend(results.trace.slices);
            trace.steps.extend(results.trace.steps);
        }
        error.map_or(Ok(()), Err)
    }
}

/// Instructions a cluster runs before others get a turn on its host thread.
const TURN: u64 = 1 << 24;
/// The same where clusters take over the work of others: all that are resident should come to ask.
const SHORT_TURN: u64 = 1 << 10;
/// Clusters resident at a time where they take over the work of others.
const RESIDENT: usize = 2;

/// Whether it matters which cluster came first where they met: writes of the same bytes do no harm.
fn decides(meeting: Meeting, failed: bool) -> bool {
    match meeting {
        Meeting::None => false,
        Meeting::Writes => failed,
        Meeting::Read => true,
    }
}

/// Host threads for a launch. Where clusters communicate it is one: who hears of what must not depend on the
/// host.
fn host_threads(state: &LaunchState) -> usize {
    let threads = match state.options.threads {
        _ if state.kernel.clusters_communicate => 1,
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    threads.min(state.clusters() as usize).max(1)
}

/// What running one cluster gave, by its number.
type Ended = (u32, Results, Option<Error>);

/// Runs all clusters, or those until the first that fails, and adds up what they gave in the order of their numbers.
fn run_clusters(state: &LaunchState, threads: usize) -> (Results, Option<Error>) {
    let ended: Mutex<Vec<Ended>> = Mutex::default();
    match threads {
        1 => work(state, &ended),
        _ => (0..threads).into_par_iter().for_each(|_| work(state, &ended)),
    }
    let mut ended = ended.into_inner().expect("no worker panicked");
    if threads > 1 {
        ended.sort_by_key(|(number, ..)| *number);
        let last = ended.iter().position(|(.., error)| error.is_some());
        ended.truncate(last.map_or(ended.len(), |last| last + 1));
    }
    let (mut total, mut failed) = (Results::default(), None);
    for (_, results, error) in ended {
        total.add(results);
        failed = failed.or(error);
    }
    (total, failed)
}

/// Rounds of nothing but polling, while no cluster moves, that prove a livelock.
const POLLING_ROUNDS: u32 = 500;
/// The same where there is but one cluster, and all its warps poll.
const POLLING_ALONE: u32 = 32;

/// One host thread: starts clusters and runs them in turn until none is left. When one has failed, those of higher
/// numbers are given up.
fn work(state: &LaunchState, ended: &Mutex<Vec<Ended>>) {
    let mut worker = Worker { state, resident: VecDeque::new(), polled: 0, heartbeat: 0 };
    while let Some((number, outcome)) = worker.turn() {
        let (results, error) = match outcome {
            Ok(results) => (results, None),
            Err((results, error)) => (results, Some(*error)),
        };
        let failed = error.is_some();
        ended.lock().expect("no worker panics with the lock").push((number, results, error));
        if failed {
            return state.watchdog.fail(number);
        }
    }
}

/// The clusters of a host thread.
struct Worker<'a> {
    state: &'a LaunchState<'a>,
    resident: VecDeque<Cluster<'a>>,
    /// Turns in which clusters only polled, and how far the device was when they began.
    polled: u32,
    heartbeat: u64,
}

/// What a cluster gave; with an error, until then.
type ClusterOutcome = Result<Results, (Results, Box<Error>)>;

impl<'a> Worker<'a> {
    /// Runs clusters until one has ended; its number and what it gave. `None` when there is nothing left to do.
    fn turn(&mut self) -> Option<(u32, ClusterOutcome)> {
        loop {
            if let Err((number, error)) = self.start() {
                return Some((number, Err((Results::default(), error))));
            }
            let mut cluster = self.resident.pop_front()?;
            let number = cluster.number();
            let turn = if self.state.kernel.cancels_clusters { SHORT_TURN } else { TURN };
            let mut ran = cluster.run(turn);
            match ran {
                Ok(Status::Polling { everyone }) if self.is_stuck(&mut cluster, everyone) => {
                    ran = Err(cluster.deadlock());
                }
                Ok(Status::Polling { .. }) => {}
                _ => self.polled = 0,
            }
            match ran {
                Ok(Status::Done) => return Some((number, Ok(cluster.into_results()))),
                Ok(Status::Running | Status::Polling { .. }) => self.resident.push_back(cluster),
                Ok(Status::Abandoned) => {}
                Err(error) => {
                    let mut results = cluster.into_results();
                    let others = self.resident.drain(..);
                    others.for_each(|other| results.add(other.into_results()));
                    return Some((number, Err((results, error))));
                }
            }
        }
    }

    /// Starts the clusters that should run next.
    fn start(&mut self) -> Result<(), (u32, Box<Error>)> {
        let Worker { state, resident, polled, .. } = self;
        let wanted = if state.kernel.cancels_clusters { RESIDENT } else { 1 };
        // What those that run wait for may be the work of one that has not started.
        let waits = *polled > 0 && state.kernel.clusters_communicate;
        let more = if waits { 1 } else { wanted.saturating_sub(resident.len()) };
        for number in (0..more).map_while(|_| state.start_next()) {
            let cluster = Cluster::new(state, number).map_err(|error| (number, error))?;
            resident.push_front(cluster);
        }
        Ok(())
    }

    /// Whether clusters have polled for so long that nothing will ever happen. Those that may have come late are
    /// let go first.
    fn is_stuck(&mut self, cluster: &mut Cluster<'a>, everyone: bool) -> bool {
        let Worker { state, resident, polled, heartbeat } = self;
        // Clusters that do not communicate are alone, each with its own heartbeat.
        let communicate = state.kernel.clusters_communicate;
        let now = match communicate {
            true => state.heartbeat.load(Ordering::Relaxed),
            false => cluster.events(),
        };
        *polled = if now == *heartbeat { *polled + 1 } else { 1 };
        *heartbeat = now;
        let alone = !communicate || state.clusters() == 1;
        let rounds = if alone && everyone { POLLING_ALONE } else { POLLING_ROUNDS };
        let left = communicate && state.any_left();
        if left || *polled <= rounds * (resident.len() as u32 + 1) {
            return false;
        }
        *polled = 0;
        !std::iter::once(cluster).chain(resident.iter_mut()).any(Cluster::release_late)
    }
}

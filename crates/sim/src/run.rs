//! Running programs: memory, parameters, launches, host threads.

use crate::check::{Earlier, Unwritten, Written};
use crate::cluster::{Cluster, LaunchState, Results, Status};
use crate::error::Error;
use crate::geometry;
use crate::limits::Limits;
use crate::load::{self, Kernel};
use crate::memory::{Allocation, Contents, Global, Request};
use crate::options::Options;
use crate::report::{Outcome, Report};
use crate::variables;
use crate::watchdog::Watchdog;
use program::{Access, Argument, BufferId, Launch, Program};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Runs a program on `buffers`, one per [`Program::buffers`] and in their order.
///
/// Buffers the program only writes begin as poison: what it reads before writing is an error, and
/// bytes it leaves out keep a NaN pattern. The report holds the contents of all buffers afterwards.
pub fn run(program: &Program, buffers: &[Vec<u8>], options: &Options) -> Result<Report, Error> {
    outcome(program, buffers, options).into_result()
}

/// As [`run`], but keeps what was found before an error ended the run.
pub fn outcome(program: &Program, buffers: &[Vec<u8>], options: &Options) -> Outcome {
    match prepare(program, buffers, &options.limits) {
        Ok(mut machine) => {
            let error = machine.run(program, options).err();
            Outcome { report: machine.report, error }
        }
        Err(error) => Outcome { error: Some(error), ..Outcome::default() },
    }
}

/// A machine with a program's buffers in its memory, if a GPU would take the program.
fn prepare(program: &Program, buffers: &[Vec<u8>], limits: &Limits) -> Result<Machine, Error> {
    let warnings = program.check().map_err(Error::Invalid)?;
    let mut machine = Machine::new(place(program, buffers, limits)?);
    machine.report.notes.extend(warnings.iter().map(ToString::to_string));
    Ok(machine)
}

/// Global memory with a program's buffers in it.
fn place(program: &Program, buffers: &[Vec<u8>], limits: &Limits) -> Result<Global, Error> {
    if buffers.len() != program.buffers.len() {
        let (have, need) = (buffers.len(), program.buffers.len());
        return Err(Error::Load(format!("{have} buffers were given; the program has {need}")));
    }
    let mut global = Global::new(limits);
    for (buffer, bytes) in program.buffers.iter().zip(buffers) {
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
        global.allocate(&Request {
            name: &buffer.name,
            bytes: buffer.bytes,
            align: buffer.align,
            contents,
            read_only: buffer.access == Access::Read,
        })?;
    }
    Ok(global)
}

/// Global memory and what the launches so far gave.
pub(crate) struct Machine {
    pub(crate) global: Global,
    pub(crate) report: Report,
    /// What was written by launches that the last one did not wait for.
    behind: Option<Written>,
}

impl Machine {
    pub(crate) fn new(global: Global) -> Self {
        Machine { global, report: Report::default(), behind: None }
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
        for (param, arg) in kernel.params.iter().zip(&launch.args) {
            let value = match arg {
                Argument::Buffer(buffer, offset) => {
                    self.address(*buffer, *offset).to_le_bytes().to_vec()
                }
                Argument::U32(value) => value.to_le_bytes().to_vec(),
                Argument::U64(value) => value.to_le_bytes().to_vec(),
                Argument::F32(value) => value.to_le_bytes().to_vec(),
                Argument::TensorMap(map) => map.encode(self.address(map.buffer, 0)).to_vec(),
            };
            bytes[param.offset as usize..][..value.len()].copy_from_slice(&value);
        }
        bytes
    }

    /// Runs one launch to its end; what it gave is in the report, also after an error.
    pub(crate) fn launch(
        &mut self,
        module: &ptx::Module,
        kernel: &Kernel,
        launch: &Launch,
        params: Vec<u8>,
        options: &Options,
    ) -> Result<(), Error> {
        geometry::check_clusters(launch)?;
        geometry::check_length(kernel, options)?;
        let variables = variables::place(module, kernel, &mut self.global)?;
        let behind = self.behind.take();
        let grid_workspace = variables::grid_workspace(kernel, &mut self.global)?;
        let state = LaunchState {
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
            owners: Default::default(),
            synchronised: AtomicBool::new(false),
            allowed: Mutex::default(),
            wide_atomics: Mutex::new(()),
            watchdog: Watchdog::new(options.limits),
            heartbeat: AtomicU64::new(0),
            next: AtomicU32::new(0),
        };
        let (results, error) = run_clusters(&state);
        state.owners.give_back(self.global.tally());
        let mut allowed = state.allowed.into_inner().expect("no worker panicked");
        allowed.sort_by_key(|allowed| allowed.finding.site().line);
        self.behind = state.earlier.and_then(Earlier::left_behind);
        self.report.counters += results.counters;
        self.report.notes.extend(results.notes);
        self.report.allowed.extend(allowed);
        if options.trace {
            let trace = self.report.trace.get_or_insert_default();
            trace.slices.extend(results.trace.slices);
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

/// Runs all clusters on as many host threads as the options allow. Where clusters cancel others it
/// is one: who gets which must not depend on the host.
fn run_clusters(state: &LaunchState) -> (Results, Option<Error>) {
    let threads = match state.options.threads {
        _ if state.kernel.cancels_clusters => 1,
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let threads = threads.min(state.clusters() as usize).max(1);
    let outcome = Mutex::new((Results::default(), None::<Error>));
    let worker = || {
        let mut results = Results::default();
        let ended = work(state, &mut results);
        let mut outcome = outcome.lock().expect("no worker panics with the lock");
        outcome.0.add(results);
        if let Err(error) = ended {
            state.watchdog.fail();
            outcome.1.get_or_insert(*error);
        }
    };
    if threads == 1 {
        worker();
    } else {
        (0..threads).into_par_iter().for_each(|_| worker());
    }
    outcome.into_inner().expect("no worker panicked")
}

/// Rounds of nothing but polling, while no cluster moves, that prove a livelock.
const POLLING_ROUNDS: u32 = 500;
/// The same where there is but one cluster, and all its warps poll.
const POLLING_ALONE: u32 = 32;

/// One host thread: starts clusters and runs them in turn until none is left or a worker has failed.
fn work(state: &LaunchState, total: &mut Results) -> Result<(), Box<Error>> {
    let mut resident: VecDeque<Cluster> = VecDeque::new();
    let mut polled = 0;
    let mut heartbeat = 0;
    let (wanted, turn) =
        if state.kernel.cancels_clusters { (RESIDENT, SHORT_TURN) } else { (1, TURN) };
    loop {
        if state.watchdog.has_failed() {
            return Ok(());
        }
        // What those that run wait for may be the work of one that has not started.
        let more = if polled > 0 { 1 } else { wanted.saturating_sub(resident.len()) };
        for number in (0..more).map_while(|_| state.start_next()) {
            resident.push_front(Cluster::new(state, number)?);
        }
        let Some(mut cluster) = resident.pop_front() else { return Ok(()) };
        let ran = cluster.run(turn);
        match ran.inspect_err(|_| total.notes.append(&mut cluster.notes))? {
            Status::Done => {
                polled = 0;
                total.add(cluster.into_results());
            }
            Status::Running => {
                polled = 0;
                resident.push_back(cluster);
            }
            Status::Abandoned => return Ok(()),
            Status::Polling { everyone } => {
                let now = state.heartbeat.load(Ordering::Relaxed);
                polled = if now == heartbeat { polled + 1 } else { 1 };
                heartbeat = now;
                let alone = everyone && state.clusters() == 1;
                let rounds = if alone { POLLING_ALONE } else { POLLING_ROUNDS };
                if polled > rounds * (resident.len() as u32 + 1) && !state.any_left() {
                    let others = resident.iter_mut();
                    if !std::iter::once(&mut cluster).chain(others).any(Cluster::release_late) {
                        return cluster.deadlock();
                    }
                    polled = 0;
                }
                resident.push_back(cluster);
            }
        }
    }
}

//! The state of the driver in this process.

use crate::job::{Event, Job};
use crate::math::random::Generator;
use crate::memory::Memory;
use crate::module::Module;
use crate::queue::Queue;
use crate::report::Reporter;
use crate::result::{CudaResult, Outcome};
use crate::settings::settings;
use crate::table::Table;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Everything there is.
pub struct Driver {
    state: Mutex<State>,
    /// Work of all streams.
    pub queue: Queue,
    /// What was found.
    pub reporter: Reporter,
    process: u32,
}

/// What the program has made.
pub struct State {
    /// Memory.
    pub memory: Memory,
    /// Modules.
    pub modules: Table<Arc<Module>>,
    /// Kernels of modules.
    pub functions: Table<Function>,
    /// Streams.
    pub streams: Table<Stream>,
    /// Events.
    pub events: Table<Arc<Event>>,
    /// Graphs, and graphs that are ready to be launched.
    pub graphs: Table<Arc<Vec<Job>>>,
    /// Captures that have not ended, by number.
    pub captures: HashMap<u64, Vec<Job>>,
    /// The context of the device, and how often it is retained.
    pub primary: (usize, u32),
    /// Contexts that the program has made.
    pub contexts: Table<()>,
    /// Links that have not been destroyed: what was added.
    pub links: Table<Vec<u8>>,
    /// Handles for products, each with its stream.
    pub products: Table<usize>,
    /// Generators of random numbers.
    pub generators: Table<Generator>,
}

/// A kernel that the program has asked for.
#[derive(Clone)]
pub struct Function {
    /// Its module.
    pub module: usize,
    /// Its name.
    pub name: String,
    /// Dynamic shared memory that it may have.
    pub dynamic_shared: u32,
}

/// A stream.
#[derive(Clone, Copy, Default)]
pub struct Stream {
    /// Flags and priority, as they were given.
    pub flags: u32,
    /// Priority, as it was given.
    pub priority: i32,
    /// The last job of the stream.
    pub last: u64,
    /// The capture that it is part of, and whether it began it.
    pub capture: Option<(u64, bool)>,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
}

extern "C" fn at_exit() {
    let _ = crate::guard::guarded("the end of the process", || {
        let driver = driver()?;
        let left = driver.queue.wait_within(settings().exit_wait);
        driver.reporter.finish(left);
        Ok(())
    });
}

/// Makes the driver ready.
pub fn initialise() {
    DRIVER.get_or_init(|| {
        // SAFETY: the function has no preconditions, and this library is not unloaded before the process ends:
        // its thread and its statics are never given back, and programs do not close the driver.
        unsafe { atexit(at_exit) };
        Driver {
            state: Mutex::new(State::new()),
            queue: Queue::default(),
            reporter: Reporter::new(settings().report.clone()),
            process: std::process::id(),
        }
    });
}

/// The driver, once `cuInit` was called. A forked process has to start anew, as with NVIDIA's driver.
pub fn driver() -> Outcome<&'static Driver> {
    let driver = DRIVER.get().ok_or(CudaResult::NOT_INITIALIZED)?;
    if driver.process != std::process::id() {
        return Err(CudaResult::NOT_INITIALIZED);
    }
    Ok(driver)
}

impl Driver {
    /// What the program has made.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for all work.
    pub fn synchronize(&self) -> Outcome {
        self.queue.wait_for(self.queue.last())
    }

    /// Queues a job on a stream, or adds it to the capture that the stream is part of.
    pub fn submit(&'static self, stream: usize, job: Job) -> Outcome<Submitted> {
        let mut state = self.state();
        if let Some((capture, _)) = state.stream(stream)?.capture {
            if let Job::Record(event) = &job {
                event.set(|recorded| recorded.capture = Some(capture));
            }
            state.captures.entry(capture).or_default().push(job);
            return Ok(Submitted::Captured);
        }
        drop(state);
        let event = match &job {
            Job::Record(event) => Some(event.clone()),
            _ => None,
        };
        let number = self.queue.push(self, job)?;
        if let Some(event) = event {
            event.set(|recorded| (recorded.job, recorded.capture) = (Some(number), None));
        }
        if let Ok(stream) = self.state().streams.get_mut(stream) {
            stream.last = number;
        }
        Ok(Submitted::Queued(number))
    }

    /// Does a job when all others have ended, or adds it to the capture that the stream is part of.
    pub fn complete(&'static self, stream: usize, job: Job) -> Outcome {
        if self.state().stream(stream)?.capture.is_some() {
            return self.submit(stream, job).map(|_| ());
        }
        self.synchronize()?;
        job.run(self)
    }
}

/// What became of a job.
pub enum Submitted {
    /// It is queued under this number.
    Queued(u64),
    /// It is part of a capture.
    Captured,
}

/// Streams that exist without being made: the default stream under its three names.
pub const DEFAULT_STREAMS: usize = 2;

impl State {
    fn new() -> State {
        let mut contexts = Table::new();
        let primary = contexts.add(());
        State {
            memory: Memory::new(),
            modules: Table::new(),
            functions: Table::new(),
            streams: Table::new(),
            events: Table::new(),
            graphs: Table::new(),
            captures: HashMap::new(),
            primary: (primary, 0),
            contexts,
            links: Table::new(),
            products: Table::new(),
            generators: Table::new(),
        }
    }

    /// A stream by its handle.
    pub fn stream(&self, handle: usize) -> Outcome<Stream> {
        if handle <= DEFAULT_STREAMS {
            return Ok(Stream::default());
        }
        self.streams.get(handle).copied()
    }

    /// A kernel by its handle, and its module.
    pub fn function(&self, handle: usize) -> Outcome<(&Function, &Arc<Module>)> {
        let function = self.functions.get(handle)?;
        Ok((function, self.modules.get(function.module)?))
    }
}

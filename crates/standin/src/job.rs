//! What streams do, one thing after the other.

use crate::driver::Driver;
use crate::memory::Memory;
use crate::module::Module;
use crate::result::Outcome;
use crate::simulate;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A launch with its arguments as bytes.
pub struct KernelLaunch {
    /// The module, which stays while the launch is queued.
    pub module: Arc<Module>,
    /// The kernel.
    pub kernel: String,
    /// CTAs.
    pub grid: [u32; 3],
    /// Threads.
    pub block: [u32; 3],
    /// CTAs of a cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// Arguments.
    pub params: Vec<Vec<u8>>,
}

/// An event: when the work before it had ended.
#[derive(Default)]
pub struct Event(Mutex<Recorded>);

/// What is known of an event.
#[derive(Clone, Copy, Default)]
pub struct Recorded {
    /// The job that records it, if it was ever recorded.
    pub job: Option<u64>,
    /// When that ran.
    pub at: Option<Instant>,
    /// The capture that it was last recorded in.
    pub capture: Option<u64>,
}

impl Event {
    /// What is known of it.
    pub fn state(&self) -> Recorded {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Changes what is known of it.
    pub fn set(&self, change: impl FnOnce(&mut Recorded)) {
        change(&mut self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }
}

/// A function of the program that a stream calls, and what it is called with.
#[derive(Clone, Copy)]
pub struct HostCall {
    /// The function.
    pub function: unsafe extern "C" fn(*mut c_void),
    /// Its argument.
    pub data: *mut c_void,
}

// SAFETY: whoever queues a call with `cuLaunchHostFunc` agrees that a thread of the driver makes it.
unsafe impl Send for HostCall {}
// SAFETY: as above; the pointers are only copied.
unsafe impl Sync for HostCall {}

/// One thing that a stream does.
#[derive(Clone)]
pub enum Job {
    /// Runs a kernel.
    Launch(Arc<KernelLaunch>),
    /// Copies rows of memory, of the device or of the host.
    Copy(Rows, Rows, Extent),
    /// Fills rows of memory with a pattern.
    Fill(Rows, Vec<u8>, Extent),
    /// Records an event.
    Record(Arc<Event>),
    /// Calls the program.
    Call(HostCall),
    /// Computes on the host, for a library of the program.
    Compute(Arc<Computation>),
}

/// What the host computes in memory of the device.
pub type Computation = dyn Fn(&mut Memory) -> Outcome + Send + Sync;

/// Where rows lie.
#[derive(Clone, Copy)]
pub struct Rows {
    /// The first.
    pub start: u64,
    /// From one to the next.
    pub pitch: u64,
}

/// How many rows there are, and how long they are.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Bytes of a row.
    pub bytes: u64,
    /// Rows.
    pub rows: u64,
}

impl Rows {
    /// One row.
    pub fn one(start: u64) -> Rows {
        Rows { start, pitch: 0 }
    }

    fn row(&self, number: u64) -> u64 {
        self.start.wrapping_add(number.wrapping_mul(self.pitch))
    }
}

impl Job {
    /// Does it.
    pub fn run(&self, driver: &Driver) -> Outcome {
        match self {
            Job::Launch(launch) => simulate::run(launch, driver),
            Job::Copy(to, from, extent) => copy(&mut driver.state().memory, *to, *from, *extent),
            Job::Fill(to, pattern, extent) => {
                fill(&mut driver.state().memory, *to, pattern, *extent)
            }
            Job::Record(event) => {
                event.set(|recorded| recorded.at = Some(Instant::now()));
                Ok(())
            }
            Job::Call(HostCall { function, data }) => {
                // SAFETY: the program passed a function that takes this argument.
                unsafe { function(*data) };
                Ok(())
            }
            Job::Compute(compute) => compute(&mut driver.state().memory),
        }
    }
}

fn copy(memory: &mut Memory, to: Rows, from: Rows, extent: Extent) -> Outcome {
    for row in 0..extent.rows {
        // SAFETY: the program that asks for a copy has both sides, as the manual demands.
        unsafe {
            let bytes = memory.read(from.row(row), extent.bytes)?;
            memory.write(to.row(row), &bytes)?;
        }
    }
    Ok(())
}

fn fill(memory: &mut Memory, to: Rows, pattern: &[u8], extent: Extent) -> Outcome {
    let bytes = pattern.repeat(extent.bytes as usize / pattern.len().max(1));
    for row in 0..extent.rows {
        // SAFETY: as for copies.
        unsafe { memory.write(to.row(row), &bytes)? };
    }
    Ok(())
}

//! Runs Hopper and Blackwell PTX on a CPU, and says what is wrong with it.
//!
//! [`run`] takes a [`program::Program`] and memory for its buffers.

mod alu;
mod captured;
mod check;
mod cluster;
mod engine;
mod error;
mod exec;
mod load;
pub mod matrix;
mod mbarrier;
mod memory;
pub mod numeric;
mod op;
mod operands;
mod options;
mod register;
mod report;
mod run;
pub mod tensor_copy;
mod timing;
mod trace;
mod variables;
mod warp;

pub use captured::{CapturedBuffer, CapturedLaunch, Relocation, run_captured};
pub use error::{Deadlock, Error, Fault, Hazard, Site, Unsupported, Waiting};
pub use options::{Completion, Options, Schedule};
pub use report::{Counters, Report};
pub use run::run;
pub use timing::{CLASSES, Class};
pub use trace::{Row, Slice, Trace};

//! Runs Hopper and Blackwell PTX on a CPU, and says what is wrong with it.
//!
//! [`run`] takes a [`program::Program`] and memory for its buffers. It begins with the launch rules of
//! [`program::check`], which hold on a GPU too. It gives a [`Report`] or an [`Error`]: a [`Fault`] of the
//! program, a [`Hazard`] (an order nothing guarantees), a [`Deadlock`], or something [`Unsupported`].
//!
//! ```
//! use program::{Access, Argument, Buffer, BufferId, Launch, Program};
//! use sixwarp_sim::{Options, run};
//!
//! let module = ptx::parse(
//!     ".version 8.7 .target sm_90a .address_size 64
//!      .visible .entry square(.param .u64 out) {
//!        .reg .b32 %r<3>; .reg .b64 %rd<3>;
//!        ld.param.u64 %rd1, [out];
//!        mov.u32 %r1, %tid.x;
//!        mul.lo.u32 %r2, %r1, %r1;
//!        mad.wide.u32 %rd2, %r1, 4, %rd1;
//!        st.global.u32 [%rd2], %r2;
//!      }",
//! )?;
//! let launch = Launch {
//!     kernel: "square".into(),
//!     grid: [1, 1, 1],
//!     block: [64, 1, 1],
//!     cluster: [1, 1, 1],
//!     shared_bytes: 0,
//!     args: vec![Argument::Buffer(BufferId(0), 0)],
//!     overlaps_previous: false,
//! };
//! let out = Buffer::new("out", 256, 256, Access::Write);
//! let mut program = Program { module: module.into(), buffers: vec![out], launches: vec![launch] };
//! let report = run(&program, &[vec![0; 256]], &Options::default()).unwrap();
//! assert_eq!(report.buffers[0][4 * 7..4 * 8], 49u32.to_le_bytes());
//!
//! program.launches[0].block = [65, 1, 1];
//! let error = run(&program, &[vec![0; 256]], &Options::default()).unwrap_err();
//! assert!(error.to_string().starts_with(
//!     "fault[out-of-bounds]: write of 4 bytes at offset 256 of `out`, which has 256 bytes"
//! ));
//! # Ok::<(), ptx::ParseError>(())
//! ```
//!
//! # How it works
//!
//! A kernel is decoded to a dense array of instructions over register rows of 32 lanes (`load`); all about
//! an instruction is in the folder of its family (`instruction`). A
//! cluster is the unit of execution (`cluster`): its warps take turns, lanes that part form
//! fragments, and clusters run on several host threads. Asynchronous work is queued when it is
//! issued and happens when the mode likes it (`engine`, [`Completion`]); a happens-before checker
//! (`check`) looks at every access when it is issued, so a missing wait or fence is found however
//! lucky the schedule was.
//!
//! A wait for a phase of an mbarrier by parity cannot tell a phase from the one after next. A warp that comes
//! when its phase and the next one are complete is let go, in every mode, once nothing else can happen: blocked
//! or polling, and taken to look at every phase in turn. [`Report::notes`] say so, since a GPU might hang.
//!
//! `clusterlaunchcontrol.try_cancel` takes a cluster off the grid that has not started: always while
//! one is left (eager, latest), never (adversarial), or three times of four (random). Such grids run
//! two clusters at a time.
//!
//! A seed is one run on any number of host threads. Kernels whose clusters communicate run on one thread; where
//! clusters of another kernel meet in memory, the program is run again on one.
//!
//! Device functions are inlined where they are called, through pointers too; what `printf` prints is among
//! [`Report::notes`], and a failed `assert` is a [`Fault`] with its text.
//!
//! # Cost model
//!
//! [`Counters::cycles`] and [`Trace`] come from a simple model. An instruction costs its issue slots
//! (32 lanes per cycle, 4 for special functions, 128 bytes of shared memory); a wait moves a warp's
//! clock to the end of what it waited for; each CTA has one copy engine (64 bytes per cycle after
//! 500 cycles) and one tensor unit (8192 16-bit FLOP per cycle on sm_100, 4096 on sm_90). Warps do
//! not compete for issue slots: the model shows who waits for whom, not how long a kernel takes.

mod alu;
mod cluster;
mod demangle;
mod doubts;
mod engine;
mod error;
mod exec;
mod geometry;
mod hang;
mod instruction;
mod judge;
mod launch;
mod limits;
mod load;
mod machine;
pub mod matrix;
mod mbarrier;
mod memory;
pub mod numeric;
mod options;
pub mod record;
mod register;
mod report;
mod rules;
mod run;
mod scheduler;
pub mod tensor_copy;
mod timing;
mod trace;
mod variables;
mod warp;
mod watchdog;

pub use demangle::readable;
pub use error::{Error, Fault, Finding, Hazard, Running, Site, Stopped, Unsupported};
pub use hang::{Arrivals, BarrierState, Deadlock, LastDeed, Waiting};
pub use limits::Limits;
pub use options::{Completion, Options, Schedule};
pub use report::{Counters, Outcome, Report};
pub use rules::{Allowed, Rule, UnknownRule};
pub use run::{Placement, outcome, outcome_at, run};
pub use timing::{CLASSES, Class};
pub use trace::{Row, Slice, Step, Trace, svg};
pub use variables::{ModuleVariable, initial_value, module_variables};

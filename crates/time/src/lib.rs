//! A model of time: how long a kernel takes on a GPU, and what bounds it.
//!
//! The simulator runs a few clusters of a launch and records what they did ([`sim::record`]). [`replay()`] goes
//! through a recording with the rates and latencies of a [`Machine`]: warps share the units of their
//! partition, copies, operands and threads share shared memory, and waits end when what they wait for has
//! happened. [`Prediction`] makes a whole kernel of it: waves of CTAs, the bandwidth of L2 and of memory over
//! all multiprocessors, the clock under load, and launches.

mod chips;
mod kernel;
mod machine;
mod microbenchmarks;
mod replay;

pub use chips::{A40, A100, L40S, RTX_4090, RTX_5090};
pub use kernel::{Bound, Launched, Prediction, predict, predict_with_registers, sample, spread};
pub use machine::{B200, H200, Machine};
pub use microbenchmarks::microbenchmark;
pub use replay::{Cause, Replayed, Row, Share, Span, replay};

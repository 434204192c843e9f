//! `Problem` → `Program`: attention kernels as Rust functions that emit PTX.
//!
//! [`plan`] checks what an architecture supports, chooses a schedule and tile sizes, emits the kernels
//! and returns a [`Plan`]. Nothing here touches a device.
//!
//! Shared by all architectures:
//! - `rows`: which (token, head) a row of a tile is, and when heads are packed into rows;
//! - `order`: which tile a CTA works on, and in which order;
//! - `sequence`: lengths and offsets of one sequence;
//! - `visible`: which keys a row sees, per tile and per element, and the walk over tiles;
//! - `bias`: mask tensors, added to scores;
//! - `softmax`: the online softmax over registers; `exponential`: powers of two on the FMA pipe; `hyperbolic`:
//!   soft caps;
//! - `arguments`, `tensors`: kernel parameters and tensor maps, each declared once for both sides;
//! - `task`: what a launch is about, and its parameters in a kernel;
//! - `copies`: queries, keys and values to shared memory, in one piece or page by page;
//! - `schedule`: the kernels there are, and how one is emitted;
//! - `output`: where the rows of a block go; `exact`: rows that are computed again, slowly;
//! - `combine`: merging partial results of splits and segments, and the sink.

mod arguments;
mod bias;
mod combine;
mod copies;
mod divide;
mod exact;
mod exchange;
mod exponential;
mod gather;
mod hyperbolic;
mod marks;
mod options;
mod order;
mod output;
mod plan;
mod rows;
mod schedule;
mod sequence;
mod shares;
mod sm100;
mod sm90;
mod softmax;
mod splits;
mod stamps;
mod task;
mod tensors;
mod visible;

pub use options::{Arch, Loads, PlanOptions, Probabilities, RowBlocks, Split};
pub use plan::{Plan, check, plan};

//! The C interface under the Python package: no Python headers, no link dependency, one library for
//! every Python 3.
//!
//! A caller describes a problem once, as JSON ([`Description`]), and gets a plan. Running a plan takes
//! an array of addresses, one per slot in the order the plan tells, so that a call costs one foreign
//! call and no parsing:
//!
//! ```c
//! void *plan = sixwarp_plan("{\"q\": …}", 0);          // GPU 0; -1 is the CPU
//! puts(sixwarp_plan_info(plan));                        // slots, workspace bytes, chosen kernel
//! sixwarp_run(plan, addresses, workspace, stream);      // 0, or see sixwarp_error
//! ```
//!
//! Nothing in a launch allocates device memory, waits or reads back. Functions return null or a
//! non-zero [`Kind`] on failure and keep the sentence for [`sixwarp_error`](ffi::sixwarp_error), per
//! thread. Panics end at the interface as errors.
//!
//! The TVM FFI calling convention was considered: it saves about 0.5 µs of the 1 µs that `ctypes` costs,
//! but needs a package at run time that its users may not have.

mod description;
mod error;
mod fast;
pub mod ffi;
mod gpu;
mod host;
mod merge;
mod plan;

pub use description::Description;
pub use error::Kind;
pub use plan::Plan;

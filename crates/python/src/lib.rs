//! The C interface under the Python package: no Python headers, no link dependency, one library for
//! every Python 3.
//!
//! A caller describes a problem once, as JSON ([`Request`]), and gets a plan. Running a plan takes
//! an array of tensors, each named by its slot's number, so that a call costs one foreign call and no
//! parsing:
//!
//! ```c
//! struct { uint32_t slot, element; int32_t device; uint32_t writable; uint64_t address, bytes; } tensors[] = …;
//! void *plan = sixwarp_plan("{\"q\": …}", 0, &kind);          // GPU 0; -1 is the CPU
//! puts(sixwarp_plan_info(plan));                               // slots, workspace bytes, chosen kernel
//! sixwarp_run(plan, tensors, count, workspace, stream);        // 0, or see sixwarp_error
//! ```
//!
//! A caller says what each tensor's memory is ([`Memory`]). A tensor that is too short, of another type,
//! on another device, read-only or null, or an output that shares memory with something else, is refused
//! before anything is read or written.
//!
//! Nothing in a launch allocates device memory, waits or reads back. Functions return null or a
//! non-zero [`Kind`] on failure and keep the sentence for [`sixwarp_error`](ffi::sixwarp_error), per
//! thread. Panics end at the interface as errors.
//!
//! From Python there is a quicker way beside these functions, builtin functions made at run time; see
//! `fast`. The TVM FFI calling convention was measured too (`benches/calls.py`, an empty call with three
//! torch tensors): it needs a package its users may not have, and is slower.

mod description;
mod dsv4;
mod error;
mod fast;
pub mod ffi;
mod host;
mod memory;
mod merge;
mod model1;
mod plan;

pub use description::Request;
pub use error::Kind;
pub use memory::Memory;
pub use plan::Plan;

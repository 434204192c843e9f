//! `Problem` → `Program`: attention kernels as Rust functions that emit PTX.
//!
//! [`plan()`] checks what an architecture supports, chooses a schedule and tile sizes, emits the kernels
//! and returns a [`Plan`]. Nothing here touches a device.
//!
//! From the top down:
//! - `plan`: from a problem to launches; `plan/schedule.rs` lists the kernels there are;
//! - `ampere` (`mma.sync`, everything since), `hopper` (`narrow`, `wide`, `few_heads`), `blackwell` (`one_block`, `two_blocks`, `cta_pair`): the kernels, a file per role;
//!   `combine`: the kernel that merges parts and adds the sink; `merge`: the same for parts that a caller has;
//!   `realign`: copies of tensors that begin at any address; `repack`: of those with odd strides or lengths of rows;
//! - `roles`: what warps of every architecture do alike;
//! - `work`: which CTA does what, and in which order;
//! - `call`: what a kernel is told: parameters, lengths, rows of a tile, keys that a row sees;
//! - `moves`: rows on their way to shared memory and back to memory;
//! - `math`: softmax, exponentials, soft caps, mask tensors, rows that are computed again.

mod ampere;
mod blackwell;
mod call;
mod combine;
mod hopper;
mod math;
pub mod merge;
mod moves;
mod plan;
mod realign;
mod repack;
mod roles;
mod work;

pub use plan::options::{
    Arch, FewHeads, Loads, PlanOptions, Probabilities, RowBlocks, Split, UnknownArch,
    UnknownFewHeads,
};
pub use plan::{Plan, check, plan};

//! The hardware's own layouts as values: where its instructions expect and leave their data.
//!
//! - [`smem`]: operand tiles in shared memory, K-major and MN-major, with every swizzle.
//! - [`descriptor`]: the 64-bit matrix descriptors of `wgmma` and `tcgen05.mma`, made from layouts.
//! - [`instruction`]: the 32-bit instruction descriptor of `tcgen05.mma`.
//! - [`fragment`]: register fragments of `wgmma`, `mma.sync`, `ldmatrix` and `stmatrix`.
//! - [`tmem`] and [`tmem_access`]: tensor memory, accumulators in it, and `tcgen05.ld`/`st`.
//! - [`tma`]: boxes of a tensor map in shared memory.
//! - [`catalogue`]: all of these by name.
//!
//! Each module names where its facts are from: the PTX ISA or CUTLASS's headers.

pub mod address;
pub mod catalogue;
pub mod descriptor;
mod descriptor_fit;
pub mod fragment;
pub mod instruction;
mod instruction_rules;
pub mod smem;
pub mod tma;
pub mod tmem;
pub mod tmem_access;

pub use address::{SmemOffset, TmemAddress, TmemColumn, TmemLane};
pub use catalogue::HardwareLayout;
pub use descriptor::{Generation, MatrixDescriptor};
pub use fragment::Fragment;
pub use instruction::{
    Accumulator, BlockScale, CtaGroup, InstructionDescriptor, MmaKind, OperandType, ScaleFormat,
};
pub use smem::{Major, SmemSwizzle, SmemTile};
pub use tma::{TmaBox, TmaCopy};
pub use tmem::{DataPath, TmemTile};
pub use tmem_access::{TmemAccess, TmemShape};

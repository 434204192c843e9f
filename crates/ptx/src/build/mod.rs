//! Kernels as Rust functions: a typed builder that emits PTX.
//!
//! ```
//! use sixwarp_ptx::build::{Builder, Target, module};
//!
//! let mut b = Builder::new("twice", Target::Sm80);
//! let data = b.param_ptr("data");
//! let thread = b.thread();
//! let offset = b.mul_wide(thread, 4);
//! let at = b.global_add(data, offset);
//! let x = b.ld_global::<f32>(at);
//! let y = b.add(x, x);
//! b.st_global(at, y);
//! let ptx = module(Target::Sm80, vec![b.finish()]).to_string();
//! assert!(ptx.contains(".visible .entry twice"));
//! ```
//!
//! # Parts
//!
//! | for | there is |
//! |---|---|
//! | instructions, control flow, parameters | [`Builder`], with typed registers [`Reg`] |
//! | roles of warps, and their registers | [`Builder::roles`], [`Budget`] |
//! | shared memory by layout | [`SharedTile`], [`SharedTiles`], [`SharedArray`] |
//! | stages that one side fills and the other reads | [`Pipeline`] |
//! | signals that go one way | [`Signals`] |
//! | copies by TMA | [`Builder::tma_load`], [`Builder::tma_load_multicast`], [`Builder::tma_store`] |
//! | Hopper's tensor cores | [`Accumulator`], [`Builder::wgmma`] |
//! | Blackwell's tensor cores | [`TensorMemory`], [`Builder::tcgen05_mma_f16`], [`Builder::tmem_load`] |
//! | any other instruction | [`Builder::emit`] |
//!
//! Parameters with their values, buffers and launches are in `sixwarp_program::build`. The workshop (`docs/workshop.md` in
//! the repository) is a tutorial of all of it.

mod accumulator;
mod arith;
mod builder;
mod control;
mod division;
mod expression;
mod many;
mod memory;
mod operand;
mod pair;
mod roles;
mod shared;
mod signals;
mod sync;
mod tcgen05;
mod tensor_memory;
mod tma;
mod value;
mod warp;
mod wgmma;

pub use accumulator::Accumulator;
pub use arith::{Cmp, HalfType};
pub use builder::{Builder, Kernel, Target, module};
pub use division::magic;
pub use many::{OddPolynomial, Scaling};
pub use memory::{GlobalPtr, RemoteSmemPtr, SmemPtr, TensorMapParam, address};
pub use operand::{MatrixOperand, RowVectors, VECTOR_BYTES};
pub use pair::Pair;
pub use roles::{Budget, Roles, Warp};
pub use shared::{SharedArray, SharedTile, SharedTiles};
pub use signals::{SignalCursor, Signals};
pub use sync::{
    Consumer, Cursor, MBARRIER_BYTES, Mbarrier, Pipeline, Producer, RemoteMbarrier, Slot,
};
pub use tcgen05::{CtaGroup, Tcgen05A, TmemPtr};
pub use tensor_memory::TensorMemory;
pub use value::{Arg, Integer, Number, Reg, Scalar};
pub use warp::FULL_MASK;
pub use wgmma::WgmmaA;

//! What the matrix instructions do to data, apart from when they do it.
//!
//! `wgmma`, `mma.sync`, `wmma`, `ldmatrix`/`stmatrix` and the `tcgen05` family as functions over bytes,
//! register fragments ([`Lanes`]) and [`TensorMemory`]. Nothing here knows warps, scheduling or
//! checkers; every operation can say which bytes of shared memory and which rectangles of tensor
//! memory it touches, so that a caller can check the accesses before it asks for the effect.
//!
//! Arithmetic: products are exact, and added to f32 accumulators one by one in the order of `k`
//! with one rounding each (`fma`). Hardware adds the products of one instruction in an order and
//! with an internal width that NVIDIA does not publish, so results agree bit for bit only where
//! all partial sums are representable; otherwise a few units in the last place of the largest
//! partial sum. Integer kinds are exact.
//!
//! The addresses of swizzled operands are computed here from the descriptor fields, on purpose
//! without the `layout` crate: tests compare the two implementations.

mod block_scale;
mod data_path;
mod element;
mod error;
mod fragment;
mod gemm;
mod instruction_descriptor;
mod ldmatrix;
mod mma_sync;
mod shared_matrix;
mod tcgen05_mma;
mod tensor_memory;
mod tmem_copy;
mod tmem_transfer;
mod wgmma;
mod wmma;

pub use block_scale::ScaleVector;
pub use data_path::DataPath;
pub use element::Element;
pub use error::OperandError;
pub use fragment::{Accumulator, Lanes};
pub use instruction_descriptor::{InstructionDescriptor, MmaKind, ScaleFormat};
pub use ldmatrix::{Ldmatrix, MatrixRow, Stmatrix};
pub use mma_sync::{MmaSync, mma_f64};
pub use shared_matrix::{Major, MatrixSwizzle, SharedMatrix};
pub use tcgen05_mma::{
    CtaMemory, DecodedMma, MmaA, MmaFootprint, MmaOperands, SharedOperands, Tcgen05Mma,
};
pub use tensor_memory::{TMEM_COLUMNS, TMEM_LANES, TensorMemory, TmemAddress, TmemRect};
pub use tmem_copy::{TmemCopy, shift_down, shifted};
pub use tmem_transfer::TmemTransfer;
pub use wgmma::{Wgmma, WgmmaA, WgmmaOperands};
pub use wmma::{WmmaMatrix, WmmaShape};

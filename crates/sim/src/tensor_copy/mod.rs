//! What TMA copies move: tensor maps and coordinates turned into plain byte ranges.
//!
//! A [`CopyPlan`] lists the global ranges a copy reads or writes, the shared-memory range of
//! each, and the ranges a load fills because they lie outside the tensor. It moves nothing: the
//! caller checks and performs the accesses. Boxes are stored with dimension 0 fastest and rows
//! packed, or one swizzle span apart where there is a swizzle; it permutes *absolute* shared-memory addresses, so a plan depends on where the
//! box goes. An im2col copy is a list of pixels, each a row of channels. Interleaved maps are not modelled:
//! decoding such a map is an error.

mod plan;
mod reduce;
mod swizzle;

pub use plan::{CopyPlan, Direction, Piece, convert, fill_bytes};
pub use reduce::{ReduceOp, ReduceType, reduce};
pub(crate) use swizzle::name as swizzle_name;
pub use swizzle::permute;

//! Kernels written with the public parts of sixwarp alone: what the pages of `docs/workshop` explain.
//!
//! [`saxpy`], [`tile`], [`wgmma`] and [`tcgen05`] are the chapters of the tutorial; [`lesson`] has numbers for
//! each, and what must come out. [`gemm`] is a fast kernel from the same parts.

pub mod gemm;
pub mod lesson;
pub mod numbers;
pub mod saxpy;
pub mod tcgen05;
pub mod tile;
pub mod wgmma;

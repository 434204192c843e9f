//! Kernels written with the public parts of sixwarp alone.
//!
//! [`gemm`] is the proof that these parts are enough for a fast kernel.

pub mod gemm;

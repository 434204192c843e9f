//! sixwarp: kernels.

//! sixwarp: cuda.

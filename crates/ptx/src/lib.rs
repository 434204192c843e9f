//! sixwarp: ptx.

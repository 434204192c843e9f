//! sixwarp: layout.

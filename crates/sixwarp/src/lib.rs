//! sixwarp: sixwarp.

//! sixwarp: program.

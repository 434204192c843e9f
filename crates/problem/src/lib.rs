//! sixwarp: problem.

//! sixwarp: sim.

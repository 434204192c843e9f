//! sixwarp: sim.

pub mod numeric;

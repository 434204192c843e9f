//! sixwarp: sim.

pub mod matrix;
pub mod numeric;

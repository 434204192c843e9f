//! sixwarp: sim.

pub mod matrix;
pub mod numeric;
pub mod tensor_copy;

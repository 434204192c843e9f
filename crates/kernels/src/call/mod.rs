//! What a kernel is told: its parameters and tensor maps, lengths of sequences, which keys rows see, and which rows
//! a tile has.

pub mod descale;
pub mod index;
pub mod memory;
pub mod precision;
pub mod rows;
pub mod sequence;
pub mod task;
pub mod tensors;
pub mod visible;

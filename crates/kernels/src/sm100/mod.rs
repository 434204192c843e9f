//! Blackwell: six warps, TMA, tcgen05 and tensor memory.

mod config;
mod epilogue;
mod fill;
mod frame;
mod operand;
pub mod paired;
mod products;
mod rows;
pub mod six_warps;
mod tensor_memory;

pub use config::{Config, ROWS, TILE};

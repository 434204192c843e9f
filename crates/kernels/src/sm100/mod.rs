//! Blackwell: six warps, TMA, tcgen05 and tensor memory.

mod config;
mod epilogue;
mod issuer;
mod kernel;
mod loader;
mod operand;
mod softmax_warps;
mod tensor_memory;

pub use config::{Config, ROWS, TILE};
pub use kernel::{THREADS, emit};

//! The memories of the simulated machine.

pub mod address;
mod global;
mod shared;

pub use global::{Allocation, Contents, Global, Request};
pub use shared::Shared;

//! Happens-before checking.

mod clock;
mod hooks;

pub use clock::{Clock, Clocks};

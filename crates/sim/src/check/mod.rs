//! Happens-before checking.

mod clock;

pub use clock::{Clock, Clocks};

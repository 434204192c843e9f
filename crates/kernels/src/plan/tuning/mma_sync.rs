//! The `mma.sync` family (sm_80, 86, 89 and 120): no such chip was at hand, and its choices are Hopper's.

use super::{Tuning, hopper};

/// The choices.
pub const TUNING: Tuning = hopper::TUNING;

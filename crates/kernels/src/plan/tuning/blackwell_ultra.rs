//! Blackwell Ultra (sm_103a). No such chip was at hand: what is not said to follow from its data sheet is Blackwell's.

use super::{Tuning, blackwell};

/// The choices.
pub const TUNING: Tuning = blackwell::TUNING;

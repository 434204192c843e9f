//! Blackwell Ultra (sm_103a). No such chip was at hand: what is not said to follow from its data sheet is Blackwell's.

use super::{Tuning, blackwell};

/// The choices. The special-function unit gives twice as many exponentials per clock as Blackwell's, so that they keep
/// up with both products at head dim 128, and none runs on the FMA pipe.
pub const TUNING: Tuning = Tuning { fma_exponentials: None, ..blackwell::TUNING };

//! Blackwell (sm_100a). No such chip was at hand: what is not said to follow from its data sheet is Hopper's.

use super::{Tuning, hopper};

/// Exponentials of a quarter of the pairs run on the FMA pipe. The special-function unit gives 16 results per clock, as
/// many cycles per tile of scores as both products take at head dim 128.
const FMA_EXPONENTIALS: usize = 4;

/// The choices.
pub const TUNING: Tuning = Tuning { fma_exponentials: Some(FMA_EXPONENTIALS), ..hopper::TUNING };

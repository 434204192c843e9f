//! Blackwell (sm_100a). No such chip was at hand: what is not said to follow from its data sheet is Hopper's.

use super::{TimeModel, Tuning, hopper};

/// Exponentials of a quarter of the pairs run on the FMA pipe. The special-function unit gives 16 results per clock, as
/// many cycles per tile of scores as both products take at head dim 128.
const FMA_EXPONENTIALS: usize = 4;

/// By a B200's data sheet: 8 TB/s of memory, and 2.25 PFLOP/s of bf16 on 148 processors, of which the same part is
/// counted as of an H200's (two thirds of 7.5 TFLOP/s per processor there, of 15.2 here).
const TIME: TimeModel = TimeModel { memory: 8e6, flops: 10e6, ..hopper::TIME };

/// The choices.
pub const TUNING: Tuning =
    Tuning { time: TIME, fma_exponentials: Some(FMA_EXPONENTIALS), ..hopper::TUNING };

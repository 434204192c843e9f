//! Attention as a user would write it in the problem's own precision: one matrix product for the
//! scores (summed in f32), a softmax, one matrix product with the values, each result rounded to the
//! dtype.
//!
//! Its distance from the [oracle](crate::oracle) is the yardstick for every engine
//! (see [`compare`](crate::compare())): fusing must not cost accuracy.

use crate::oracle::{Arithmetic, attention};
use crate::reference::Reference;
use half::{bf16, f16};
use problem::{DType, E4m3, HostBuffers, InvalidProblem, Problem};

/// Rounds scores, normalised probabilities and outputs to one dtype.
struct Rounded(DType);

impl Rounded {
    fn round(&self, x: f64) -> f64 {
        match self.0 {
            DType::F64 => x,
            DType::F32 => x as f32 as f64,
            DType::F16 => f16::from_f64(x).to_f64(),
            DType::Bf16 => bf16::from_f64(x).to_f64(),
            DType::E4m3 => E4m3::from_f32(x as f32).to_f32().into(),
        }
    }
}

impl Arithmetic for Rounded {
    /// Summed in f32 (f64 where that is the type), one product after the other.
    fn dot(&self, a: &[f64], b: &[f64]) -> f64 {
        if self.0 == DType::F64 {
            return a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + x * y);
        }
        a.iter().zip(b).fold(0f32, |sum, (x, y)| sum + *x as f32 * *y as f32) as f64
    }
    fn score(&self, exact: f64) -> f64 {
        self.round(exact)
    }
    fn probability(&self, exact: f64) -> f64 {
        self.round(exact)
    }
    fn output(&self, exact: f64) -> f64 {
        self.round(exact)
    }
}

/// Computes `problem` naively, rounding each intermediate tensor to the problem's dtype.
///
/// # Errors
/// As [`oracle`](crate::oracle::oracle).
pub fn naive(problem: &Problem, buffers: &HostBuffers) -> Result<Reference, InvalidProblem> {
    attention(problem, buffers, &Rounded(problem.dtype()))
}

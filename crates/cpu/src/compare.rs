//! The rule by which a result is accepted: its errors are as large as rounding makes them, and no larger.
//!
//! Rounding errors grow with the numbers that are rounded, so each row has bounds of its own, from the
//! [`Magnitudes`] of what it was computed from. Scores are sums of products in f32, whose errors are a few units in
//! the last place of the sum of the products' magnitudes. Probabilities carry the scores' errors as relative ones,
//! and may be rounded to the dtype, as the output is. `u` is half a unit in the last place of 1.
//!
//! | what | largest error |
//! |---|---|
//! | log-sum-exp | `max(1e-4, 8u · (scores + abs(lse)))`, `u` of f32 |
//! | output element | `max(2 · naive, u · (abs(out) + 8 · spread)) + (1e-5 + 8u · scores) · values`, first `u` of the dtype, second of f32 |
//! | cosine | `1 - max(4e-6, what errors of that kind are expected to take from it, with a margin)` |
//!
//! `naive` is the largest error of [attention in the problem's own precision](crate::naive). Where the oracle is not
//! finite the result is not either: the same infinity, or NaN; and where the oracle is NaN it is NaN.

use crate::reference::{Magnitudes, Reference, dense_row};
use problem::{DType, HostRef, Problem};
use std::fmt;

/// The least cosine between a result and the oracle, where rounding does not take more from it.
pub const MIN_COSINE: f64 = 0.999996;
/// How many times the naive computation's largest error is allowed.
pub const NAIVE_FACTOR: f64 = 2.0;
/// Error that is always allowed, in proportion to the values.
pub const SLACK: f64 = 1e-5;
/// Error of a log-sum-exp that is always allowed.
pub const LSE_TOLERANCE: f64 = 1e-4;
/// The largest error of a sum of products in f32, in units of the last place of the sum of their magnitudes;
/// and of a sum of many rounded numbers, in terms of its standard deviation.
const MOST_ROUNDINGS: f64 = 8.0;
/// The standard deviation of a rounding error in terms of the largest: a uniform error relative to a mantissa
/// between 1 and 2.
const DEVIATION: f64 = 0.4;

/// Half a unit in the last place of 1.
fn unit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 2f64.powi(-53),
        DType::F32 => 2f64.powi(-24),
        DType::F16 => 2f64.powi(-11),
        DType::Bf16 => 2f64.powi(-8),
        DType::E4m3 => 2f64.powi(-4),
    }
}

/// What is lost of numbers too small for the dtype. (Tile registers of CPUs take subnormal bf16 for 0.)
fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MIN_POSITIVE,
        DType::F16 => 2f64.powi(-24),
        DType::F32 | DType::Bf16 => 2f64.powi(-126),
        DType::E4m3 => 2f64.powi(-9),
    }
}

/// An element and how far off it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// Coordinates `[batch, head, token, column]`; the column of a log-sum-exp is 0.
    pub at: [u64; 4],
    /// What the engine computed.
    pub got: f64,
    /// What the oracle says.
    pub want: f64,
    /// The largest error that is accepted.
    pub bound: f64,
}

impl Worst {
    /// Distance from the oracle; infinite where one is finite and the other is not.
    pub fn error(&self) -> f64 {
        distance(self.got, self.want)
    }

    /// The error in terms of what is accepted: 1 at most, if it is.
    fn excess(&self) -> f64 {
        match self.error() {
            0.0 => 0.0,
            error if error.is_finite() && self.bound.is_finite() => error / self.bound,
            _ => f64::INFINITY,
        }
    }

    fn passes(&self) -> bool {
        self.excess() <= 1.0
    }
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [b, h, t, d] = self.at;
        write!(f, "[{b},{h},{t},{d}] is {} instead of {}", self.got, self.want)
    }
}

/// How a result compares with the oracle.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// Cosine between output and oracle, of what is finite; 1 where that is all zero.
    pub cosine: f64,
    /// The least cosine that is accepted.
    pub least_cosine: f64,
    /// The output element with the largest error in terms of what is accepted, the first if there are several.
    pub worst: Option<Worst>,
    /// The same of log-sum-exps, where they were returned.
    pub worst_lse: Option<Worst>,
}

impl Comparison {
    /// The error of the worst output element.
    pub fn max_error(&self) -> f64 {
        self.worst.map_or(0.0, |w| w.error())
    }

    /// The error of the worst log-sum-exp.
    pub fn max_lse_error(&self) -> f64 {
        self.worst_lse.map_or(0.0, |w| w.error())
    }

    /// Whether the result is accepted.
    pub fn passes(&self) -> bool {
        let elements = self.worst.is_none_or(|w| w.passes());
        self.cosine >= self.least_cosine && elements && self.lse_passes()
    }

    fn lse_passes(&self) -> bool {
        self.worst_lse.is_none_or(|w| w.passes())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passes() { "pass" } else { "FAIL" };
        let bound = self.worst.map_or(0.0, |w| w.bound);
        let (cosine, error) = (self.cosine, self.max_error());
        write!(f, "{verdict}: cosine {cosine:.7}, max error {error:.2e} of {bound:.2e}")?;
        if let Some(lse) = &self.worst_lse {
            write!(f, ", lse error {:.1e}", lse.error())?;
        }
        match &self.worst {
            Some(worst) if !self.passes() => write!(f, "; out{worst}")?,
            _ => {}
        }
        match &self.worst_lse {
            Some(worst) if !self.lse_passes() => write!(f, "; lse{worst}"),
            _ => Ok(()),
        }
    }
}

/// Compares `out` (in `problem.out`'s strides) and `lse` with `oracle`, allowing errors in
/// proportion to those of `naive` and of rounding.
///
/// # Panics
/// If `out` or `lse` is smaller than the problem's view.
pub fn compare(
    problem: &Problem,
    out: HostRef,
    lse: Option<&[f32]>,
    oracle: &Reference,
    naive: &Reference,
) -> Comparison {
    let mut cosine = Cosine::default();
    let (mut worst, mut worst_lse) = (None, None);
    let yardstick = NAIVE_FACTOR * largest_error(oracle, naive);
    let dim = problem.value_dim() as usize;
    for [b, h, t] in covered_rows(problem, oracle) {
        let row = dense_row(problem, b, h, t);
        let offset = problem.out.row_offset(b, h, t) as usize;
        let rounding = Rounding { dtype: problem.dtype(), of: oracle.magnitudes[row] };
        for d in 0..dim {
            let (got, want) = (out.get(offset + d), oracle.out[row * dim + d]);
            cosine.add(got, want, rounding.variance(want));
            let bound = rounding.of_output(want, yardstick);
            keep_worst(&mut worst, Worst { at: [b, h, t, d as u64], got, want, bound });
        }
        if let Some(lse) = lse {
            let (got, want) = (lse[row] as f64, oracle.lse[row]);
            let bound = rounding.of_lse(want);
            keep_worst(&mut worst_lse, Worst { at: [b, h, t, 0], got, want, bound });
        }
    }
    Comparison { cosine: cosine.value(), least_cosine: cosine.least(), worst, worst_lse }
}

/// What rounding does to a row.
struct Rounding {
    dtype: DType,
    of: Magnitudes,
}

impl Rounding {
    /// The largest error of a score, and relative error of a probability.
    fn of_scores(&self) -> f64 {
        MOST_ROUNDINGS * unit(DType::F32) * self.of.scores
    }

    /// The largest error of the log-sum-exp `want`.
    fn of_lse(&self, want: f64) -> f64 {
        let stored = MOST_ROUNDINGS * unit(DType::F32) * want.abs();
        LSE_TOLERANCE.max(self.of_scores() + stored)
    }

    /// The largest error of the output element `want`, where the naive computation justifies `yardstick`.
    fn of_output(&self, want: f64, yardstick: f64) -> f64 {
        let rounded = unit(self.dtype) * (want.abs() + MOST_ROUNDINGS * self.of.spread);
        let summed = (SLACK + self.of_scores()) * self.of.values;
        yardstick.max(rounded) + summed + smallest(self.dtype)
    }

    /// The variance of the error of the output element `want`, whose probabilities and itself are rounded.
    fn variance(&self, want: f64) -> f64 {
        let relative = DEVIATION * unit(self.dtype) + unit(DType::F32) * self.of.scores;
        let rounded = relative.powi(2) * (want.powi(2) + self.of.spread.powi(2));
        rounded + smallest(self.dtype).powi(2)
    }
}

/// The largest error of the naive computation, where it and the oracle are finite.
fn largest_error(oracle: &Reference, naive: &Reference) -> f64 {
    let errors = oracle.out.iter().zip(&naive.out).map(|(want, got)| (got - want).abs());
    errors.filter(|error| error.is_finite()).fold(0.0, f64::max)
}

fn covered_rows(problem: &Problem, oracle: &Reference) -> impl Iterator<Item = [u64; 3]> {
    let [batches, heads, tokens, _] = problem.q.shape;
    let rows = (0..batches)
        .flat_map(move |b| (0..heads).flat_map(move |h| (0..tokens).map(move |t| [b, h, t])));
    rows.filter(move |[b, _, t]| oracle.covered[(b * tokens + t) as usize])
}

/// How far `got` is from `want`. NaN is right where the oracle is NaN, and where it is infinite: an engine whose
/// probabilities end sooner than the oracle's has 0 times infinity.
fn distance(got: f64, want: f64) -> f64 {
    let distance = (got - want).abs();
    match () {
        () if got == want || (got.is_nan() && !want.is_finite()) => 0.0,
        () if distance.is_nan() => f64::INFINITY,
        () => distance,
    }
}

fn keep_worst(worst: &mut Option<Worst>, next: Worst) {
    if worst.is_none_or(|w| next.excess() > w.excess()) {
        *worst = Some(next);
    }
}

/// Running sums of a cosine, over elements that should be finite.
#[derive(Default)]
struct Cosine {
    product: f64,
    got: f64,
    want: f64,
    /// Of the errors to expect.
    variance: f64,
    elements: f64,
}

impl Cosine {
    fn add(&mut self, got: f64, want: f64, variance: f64) {
        if want.is_finite() {
            self.product += got * want;
            self.got += got * got;
            self.want += want * want;
            self.variance += variance;
            self.elements += 1.0;
        }
    }

    /// NaN anywhere gives NaN, which passes no comparison.
    fn value(&self) -> f64 {
        if self.want == 0.0 && self.got.is_finite() {
            return 1.0;
        }
        self.product / (self.got * self.want).sqrt()
    }

    /// The least cosine that rounding may leave. It takes half of the errors' squares in terms of the result's,
    /// which are the nearer to their expectation the more elements there are.
    fn least(&self) -> f64 {
        if self.elements == 0.0 || self.want == 0.0 {
            return MIN_COSINE;
        }
        let margin = 1.5 + MOST_ROUNDINGS / self.elements.sqrt();
        let lost = margin * self.variance / (2.0 * self.want);
        MIN_COSINE.min(1.0 - lost)
    }
}

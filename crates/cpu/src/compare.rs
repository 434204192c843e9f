//! The rule by which a result is accepted.

use crate::reference::{Reference, dense_row};
use problem::{HostRef, Problem};
use std::fmt;

/// The least cosine between a result and the oracle.
pub const MIN_COSINE: f64 = 0.999996;
/// How many times the naive computation's largest error is allowed.
pub const NAIVE_FACTOR: f64 = 2.0;
/// Absolute error that is always allowed.
pub const SLACK: f64 = 1e-5;
/// The largest allowed absolute error of a log-sum-exp up to [`LARGE_LSE`].
pub const LSE_TOLERANCE: f64 = 1e-4;
/// Above this magnitude a log-sum-exp's tolerance grows in proportion, because no engine can keep an
/// absolute one: it is returned as f32, and from 2048 on even the nearest f32 may be 1.2e-4 off; and
/// it is near a score, a sum of rounded products whose error at 512 of them is about
/// √512 · 2⁻²⁵ ≈ 7e-7 of its size.
pub const LARGE_LSE: f64 = 100.0;

/// An element and how far off it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// Coordinates `[batch, head, token, column]`; the column of a log-sum-exp is 0.
    pub at: [u64; 4],
    /// What the engine computed.
    pub got: f64,
    /// What the oracle says.
    pub want: f64,
}

impl Worst {
    /// Distance from the oracle; infinite where exactly one is NaN or they are unlike infinities.
    pub fn error(&self) -> f64 {
        distance(self.got, self.want)
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
pub struct Comparison {
    /// Cosine between output and oracle; 1 where both are all zero.
    pub cosine: f64,
    /// The largest allowed output error.
    pub bound: f64,
    /// The first output element with the largest error.
    pub worst: Option<Worst>,
    /// The first log-sum-exp with the largest error, where one was returned.
    pub worst_lse: Option<Worst>,
}

impl Comparison {
    /// The largest output error.
    pub fn max_error(&self) -> f64 {
        self.worst.map_or(0.0, |w| w.error())
    }

    /// The largest log-sum-exp error.
    pub fn max_lse_error(&self) -> f64 {
        self.worst_lse.map_or(0.0, |w| w.error())
    }

    /// Whether the result is accepted.
    pub fn passes(&self) -> bool {
        self.cosine >= MIN_COSINE && self.max_error() <= self.bound && self.lse_passes()
    }

    fn lse_passes(&self) -> bool {
        self.worst_lse.is_none_or(|w| lse_error(&w) <= LSE_TOLERANCE)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passes() { "pass" } else { "FAIL" };
        let (cosine, error, bound) = (self.cosine, self.max_error(), self.bound);
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
/// proportion to those of `naive`.
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
    let mut naive_error = 0f64;
    let dim = problem.value_dim();
    for [b, h, t] in covered_rows(problem, oracle) {
        let row = dense_row(problem, b, h, t);
        let offset = problem.out.row_offset(b, h, t) as usize;
        for d in 0..dim as usize {
            let at = row * dim as usize + d;
            let (got, want) = (out.get(offset + d), oracle.out[at]);
            cosine.add(got, want);
            naive_error = naive_error.max(distance(naive.out[at], want));
            keep_worst(&mut worst, Worst::error, Worst { at: [b, h, t, d as u64], got, want });
        }
        if let Some(lse) = lse {
            let (got, want) = (lse[row] as f64, oracle.lse[row]);
            keep_worst(&mut worst_lse, lse_error, Worst { at: [b, h, t, 0], got, want });
        }
    }
    let bound = NAIVE_FACTOR * naive_error + SLACK;
    Comparison { cosine: cosine.value(), bound, worst, worst_lse }
}

fn covered_rows(problem: &Problem, oracle: &Reference) -> impl Iterator<Item = [u64; 3]> {
    let [batches, heads, tokens, _] = problem.q.shape;
    let rows = (0..batches)
        .flat_map(move |b| (0..heads).flat_map(move |h| (0..tokens).map(move |t| [b, h, t])));
    rows.filter(move |[b, _, t]| oracle.covered[(b * tokens + t) as usize])
}

fn distance(got: f64, want: f64) -> f64 {
    let distance = (got - want).abs();
    match () {
        () if got == want => 0.0,
        () if distance.is_nan() => f64::INFINITY,
        () => distance,
    }
}

/// The error of a log-sum-exp in proportion to its tolerance's growth.
fn lse_error(worst: &Worst) -> f64 {
    worst.error() / (worst.want.abs() / LARGE_LSE).clamp(1.0, f64::MAX)
}

fn keep_worst(worst: &mut Option<Worst>, error: impl Fn(&Worst) -> f64, next: Worst) {
    if worst.is_none_or(|w| error(&next) > error(&w)) {
        *worst = Some(next);
    }
}

/// Running sums of a cosine.
#[derive(Default)]
struct Cosine {
    product: f64,
    got: f64,
    want: f64,
}

impl Cosine {
    fn add(&mut self, got: f64, want: f64) {
        self.product += got * want;
        self.got += got * got;
        self.want += want * want;
    }

    /// NaN anywhere gives NaN, which passes no comparison. Results too small to have a direction
    /// are judged by their error alone.
    fn value(&self) -> f64 {
        if self.want.sqrt() < SLACK && self.got.is_finite() {
            return 1.0;
        }
        self.product / (self.got * self.want).sqrt()
    }
}

use crate::{Case, CaseData};
use cpu::{Comparison, Reference, compare};
use problem::{DType, HostVec, InvalidProblem, Problem, Slot, Unsupported};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What an engine computed.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// Memory of [`Slot::Out`], gaps included.
    pub out: HostVec,
    /// Memory of [`Slot::Lse`], where it was asked for.
    pub lse: Option<Vec<f32>>,
}

impl Outputs {
    /// Outputs from device memory, little-endian.
    pub fn from_bytes(problem: &Problem, out: &[u8], lse: Option<&[u8]>) -> Self {
        let lse = lse.map(|bytes| match HostVec::from_bytes(DType::F32, bytes) {
            HostVec::F32(lse) => lse,
            _ => unreachable!("asked for f32"),
        });
        Self { out: HostVec::from_bytes(problem.dtype(), out), lse }
    }
}

/// Why an engine gave no result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine says it cannot do this.
    Unsupported(Unsupported),
    /// The engine tried.
    Failed(String),
}

impl From<Unsupported> for EngineError {
    fn from(unsupported: Unsupported) -> Self {
        EngineError::Unsupported(unsupported)
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Unsupported(unsupported) => unsupported.fmt(f),
            EngineError::Failed(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for EngineError {}

/// Anything that computes attention. Closures of the same shape are engines.
pub trait Engine {
    /// Computes `problem` on the memory of `data`, whose outputs are poisoned.
    fn run(&mut self, problem: &Problem, data: &CaseData) -> Result<Outputs, EngineError>;
}

impl<F: FnMut(&Problem, &CaseData) -> Result<Outputs, EngineError>> Engine for F {
    fn run(&mut self, problem: &Problem, data: &CaseData) -> Result<Outputs, EngineError> {
        self(problem, data)
    }
}

/// What the oracle and the naive computation say of a case.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The f64 oracle.
    pub oracle: Reference,
    /// The yardstick of errors.
    pub naive: Reference,
}

impl Expected {
    /// Computes both.
    ///
    /// # Errors
    /// If the inputs are not valid.
    pub fn new(data: &CaseData) -> Result<Self, InvalidProblem> {
        let inputs = data.inputs();
        let oracle = cpu::oracle::oracle(&data.problem, &inputs)?;
        let naive = cpu::naive::naive(&data.problem, &inputs)?;
        Ok(Self { oracle, naive })
    }
}

/// How a case went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The result is accepted.
    Passed(Comparison),
    /// The result is wrong.
    Wrong(Comparison),
    /// The engine wrote where it must not: the element index and what it wrote.
    Stray(usize, f64),
    /// The engine says it cannot do this.
    Unsupported(Unsupported),
    /// The engine or the case failed.
    Failed(String),
}

impl Outcome {
    /// Whether the result is accepted.
    pub fn passed(&self) -> bool {
        matches!(self, Outcome::Passed(_))
    }

    /// Whether the engine erred, rather than passed or declined.
    pub fn failed(&self) -> bool {
        !matches!(self, Outcome::Passed(_) | Outcome::Unsupported(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed(comparison) | Outcome::Wrong(comparison) => comparison.fmt(f),
            Outcome::Stray(at, value) => {
                write!(f, "FAIL: wrote {value} to element {at} of out, which belongs to no row")
            }
            Outcome::Unsupported(unsupported) => unsupported.fmt(f),
            Outcome::Failed(message) => write!(f, "FAIL: {message}"),
        }
    }
}

/// Runs `case` on `engine` and judges the result. A panic of either is a failure of the case, not the end of others.
pub fn check(case: &Case, engine: &mut dyn Engine) -> Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| run_and_judge(case, engine)));
    outcome.unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or(panic.downcast_ref::<&str>().copied());
        Outcome::Failed(format!("panicked: {}", message.unwrap_or("without a message")))
    })
}

fn run_and_judge(case: &Case, engine: &mut dyn Engine) -> Outcome {
    let data = match CaseData::new(case) {
        Ok(data) => data,
        Err(error) => return Outcome::Failed(format!("the case is not valid: {error}")),
    };
    let outputs = match engine.run(&data.problem, &data) {
        Ok(outputs) => outputs,
        Err(EngineError::Unsupported(unsupported)) => return Outcome::Unsupported(unsupported),
        Err(EngineError::Failed(message)) => return Outcome::Failed(message),
    };
    match Expected::new(&data) {
        Ok(expected) => judge(&data.problem, &outputs, &expected),
        Err(error) => Outcome::Failed(format!("the case's inputs are not valid: {error}")),
    }
}

/// Judges what an engine computed.
pub fn judge(problem: &Problem, outputs: &Outputs, expected: &Expected) -> Outcome {
    let elements = problem.slot_bytes(Slot::Out) / problem.dtype().bytes();
    if (outputs.out.as_ref().len() as u64) < elements {
        return Outcome::Failed(format!("out has fewer than {elements} elements"));
    }
    if problem.return_lse && outputs.lse.as_ref().map_or(0, Vec::len) < problem.lse_len() as usize {
        return Outcome::Failed(format!("lse has fewer than {} elements", problem.lse_len()));
    }
    if let Some((at, value)) = stray(problem, outputs, &expected.oracle) {
        return Outcome::Stray(at, value);
    }
    let lse = outputs.lse.as_deref().filter(|_| problem.return_lse);
    let comparison = compare(problem, outputs.out.as_ref(), lse, &expected.oracle, &expected.naive);
    match comparison.passes() {
        true => Outcome::Passed(comparison),
        false => Outcome::Wrong(comparison),
    }
}

/// The first element of `out` outside every row of a sequence that is no longer poisoned.
fn stray(problem: &Problem, outputs: &Outputs, oracle: &Reference) -> Option<(usize, f64)> {
    let out = outputs.out.as_ref();
    let mut in_row = vec![false; out.len()];
    let [batches, heads, tokens, dim] = problem.out.shape;
    for b in 0..batches {
        for t in (0..tokens).filter(|t| oracle.covered[(b * tokens + t) as usize]) {
            for h in 0..heads {
                let offset = problem.out.row_offset(b, h, t) as usize;
                in_row[offset..offset + dim as usize].fill(true);
            }
        }
    }
    let strays = in_row.iter().enumerate().filter(|(_, in_row)| !**in_row);
    strays.map(|(at, _)| (at, out.get(at))).find(|(_, value)| !value.is_nan())
}

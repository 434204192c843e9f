use std::fmt;

/// A problem that contradicts itself or breaks a rule of every engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidProblem {
    /// Which tensor or setting (`k`, `segment 1 page_table`, `scale`, …).
    pub subject: String,
    /// The rule it breaks.
    pub rule: String,
    /// The value it has.
    pub value: String,
}

impl InvalidProblem {
    /// A violation of `rule` by `subject`, whose value is `value`.
    pub fn new(
        subject: impl fmt::Display,
        rule: impl Into<String>,
        value: impl fmt::Display,
    ) -> Self {
        Self { subject: subject.to_string(), rule: rule.into(), value: value.to_string() }
    }
}

impl fmt::Display for InvalidProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, but it is {}", self.subject, self.rule, self.value)
    }
}

impl std::error::Error for InvalidProblem {}

/// A valid problem that a given engine cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unsupported {
    /// What was asked for, with its value (`head_dim 520`).
    pub what: String,
    /// Why this engine cannot do it.
    pub why: String,
    /// The closest thing it can do, where there is one.
    pub nearest: Option<String>,
}

impl Unsupported {
    /// `what` cannot be done because of `why`.
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), nearest: None }
    }

    /// Adds the closest thing that would work.
    pub fn nearest(mut self, nearest: impl Into<String>) -> Self {
        self.nearest = Some(nearest.into());
        self
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not supported: {}", self.what, self.why)?;
        match &self.nearest {
            Some(nearest) => write!(f, " (nearest that works: {nearest})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Unsupported {}

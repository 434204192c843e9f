use crate::dsv4::Mismatch;
use problem::{InvalidProblem, Unsupported};
use std::fmt;

/// Why there is no result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The problem, or the memory given for it, breaks a rule.
    Invalid(InvalidProblem),
    /// A caller's tensor is not as a call needs it.
    Mismatch(Mismatch),
    /// The device cannot do this.
    Unsupported(Unsupported),
    /// More memory is needed than there is.
    TooLarge {
        /// What needs it.
        what: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes there are.
        available: u64,
    },
    /// There is no such device, or it is called something else.
    NoDevice(String),
    /// The device failed.
    Device(String),
    /// The simulator ended the run, and says what was wrong: a fault, a hazard, a deadlock.
    Simulated(sim::Error),
    /// A file is not what it should be.
    File(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid(error) => error.fmt(f),
            Error::Mismatch(error) => error.fmt(f),
            Error::Unsupported(error) => error.fmt(f),
            Error::Simulated(error) => error.fmt(f),
            Error::TooLarge { what, needed, available } => {
                write!(f, "{what} needs {needed} bytes, but only {available} are available")
            }
            Error::NoDevice(message) | Error::Device(message) | Error::File(message) => {
                f.write_str(message)
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<InvalidProblem> for Error {
    fn from(error: InvalidProblem) -> Self {
        Error::Invalid(error)
    }
}

impl From<Unsupported> for Error {
    fn from(error: Unsupported) -> Self {
        Error::Unsupported(error)
    }
}

impl From<sim::Error> for Error {
    fn from(error: sim::Error) -> Self {
        Error::Simulated(error)
    }
}

impl From<cuda::Error> for Error {
    fn from(error: cuda::Error) -> Self {
        match error.is_no_gpu() {
            true => Error::NoDevice(error.to_string()),
            false => Error::Device(error.to_string()),
        }
    }
}

use crate::driver;
use cudarc::driver::sys::CUresult;
use program::Violation;
use ptx::toolchain::Diagnostic;
use std::fmt;
use std::time::Duration;

/// A call the driver refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// The driver function.
    pub call: &'static str,
    /// The error's name (`CUDA_ERROR_INVALID_VALUE`).
    pub name: String,
    /// The driver's sentence about it.
    pub description: String,
}

pub(crate) fn check(call: &'static str, result: CUresult) -> Result<(), DriverError> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let (name, description) = driver::describe(result);
    Err(DriverError { call, name, description })
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.call, self.name, self.description)
    }
}

/// Why a program could not be loaded or run on a GPU.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// There is no NVIDIA driver on this machine.
    NoDriver,
    /// The driver's library lacks a function.
    BrokenDriver {
        /// The function.
        function: &'static str,
    },
    /// The driver is older than what kernels here need.
    OldDriver {
        /// The CUDA version it supports.
        supports: (u32, u32),
    },
    /// There is no device of this number.
    NoDevice {
        /// The number asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// The program is for another architecture.
    WrongTarget {
        /// The program's target.
        target: String,
        /// The device's name and compute capability.
        device: String,
    },
    /// The program breaks rules of its own.
    Invalid(Vec<Violation>),
    /// The driver's compiler refused the PTX.
    Jit {
        /// Its errors, with PTX and Rust lines.
        errors: Vec<Diagnostic>,
        /// Everything it printed.
        log: String,
    },
    /// A buffer handed over does not fit what the program asks of it.
    Buffer {
        /// The buffer's name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A kernel did not end in time; the device is lost to this process.
    Timeout {
        /// How long it was waited for.
        limit: Duration,
    },
    /// The driver refused a call.
    Driver(DriverError),
}

impl Error {
    /// Whether the machine simply has no usable GPU, as opposed to something being wrong.
    pub fn is_no_gpu(&self) -> bool {
        // A machine without a GPU may still have the library, or the stub that programs link to.
        let no_device = |e: &DriverError| {
            matches!(e.name.as_str(), "CUDA_ERROR_NO_DEVICE" | "CUDA_ERROR_STUB_LIBRARY")
        };
        match self {
            Error::NoDriver | Error::NoDevice { .. } => true,
            Error::Driver(error) => no_device(error),
            _ => false,
        }
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        Error::Driver(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoDriver => f.write_str("no NVIDIA driver: libcuda.so.1 cannot be loaded"),
            Error::BrokenDriver { function } => {
                write!(f, "the NVIDIA driver is broken: its library libcuda has no {function}")
            }
            Error::OldDriver { supports: (major, minor) } => {
                write!(f, "the NVIDIA driver supports CUDA {major}.{minor}: 12.0 (R525) is needed")
            }
            Error::NoDevice { ordinal, count } => {
                write!(f, "there is no GPU {ordinal}: the driver sees {count}")
            }
            Error::WrongTarget { target, device } => {
                write!(f, "a program for {target} does not run on {device}")
            }
            Error::Invalid(violations) => lines(f, "the program breaks rules", violations),
            Error::Jit { errors, log } if errors.is_empty() => {
                write!(f, "the driver refused the PTX: {}", log.trim())
            }
            Error::Jit { errors, .. } => lines(f, "the driver refused the PTX", errors),
            Error::Buffer { name, reason } => write!(f, "buffer `{name}`: {reason}"),
            Error::Timeout { limit } => write!(
                f,
                "a kernel did not end within {limit:?}; the device is lost to this process"
            ),
            Error::Driver(error) => error.fmt(f),
        }
    }
}

fn lines<T: fmt::Display>(f: &mut fmt::Formatter<'_>, head: &str, items: &[T]) -> fmt::Result {
    write!(f, "{head}:")?;
    items.iter().try_for_each(|item| write!(f, "\n  {item}"))
}

impl std::error::Error for Error {}
impl std::error::Error for DriverError {}

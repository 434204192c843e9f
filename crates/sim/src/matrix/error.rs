use std::fmt;

/// Why an instruction's operands cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperandError {
    /// A form of the instruction this simulator does not model.
    Unsupported(String),
    /// A form the instruction set does not have, or an operand that breaks its rules.
    Illegal(String),
}

impl OperandError {
    pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T, OperandError> {
        Err(OperandError::Unsupported(what.into()))
    }

    pub(crate) fn illegal<T>(what: impl Into<String>) -> Result<T, OperandError> {
        Err(OperandError::Illegal(what.into()))
    }
}

impl fmt::Display for OperandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperandError::Unsupported(what) => write!(f, "not supported: {what}"),
            OperandError::Illegal(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for OperandError {}

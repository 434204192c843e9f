//! Names that resolve to nothing, or to two things.

use crate::Symbol;
use std::error::Error;
use std::fmt;

/// A name that could not be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolveError {
    /// What is wrong.
    pub kind: ResolveErrorKind,
    /// The name.
    pub name: Symbol,
    /// The line of the instruction that uses it, or of the last one before the declaration; 0 is
    /// unknown.
    pub line: u32,
}

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResolveErrorKind {
    /// Nothing of that name is visible.
    Undeclared,
    /// The same block declares it twice.
    Duplicate,
    /// The name is declared but is not a register.
    NotARegister,
    /// An address starts from something that is neither a register nor a variable.
    NotAnAddress,
    /// A `.branchtargets` entry is not a label.
    NotALabel,
    /// The body declares more registers than can be numbered.
    TooManyRegisters,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResolveError { kind, name, line } = self;
        match kind {
            ResolveErrorKind::Undeclared => write!(f, "`{name}` is not declared")?,
            ResolveErrorKind::Duplicate => write!(f, "`{name}` is declared twice in one block")?,
            ResolveErrorKind::NotARegister => write!(f, "`{name}` is not a register")?,
            ResolveErrorKind::NotAnAddress => {
                write!(f, "`{name}` is neither a register nor a variable, and is used as address")?;
            }
            ResolveErrorKind::NotALabel => write!(f, "`{name}` is not a label")?,
            ResolveErrorKind::TooManyRegisters => {
                write!(f, "the declaration of `{name}` makes more than 2^32 registers")?;
            }
        }
        match line {
            0 => Ok(()),
            line => write!(f, " (line {line})"),
        }
    }
}

impl Error for ResolveError {}

//! What can go wrong with a layout, as values that say what was asked and which rule refused it.

use std::fmt;

use crate::parse::ParseError;

/// The result of every fallible operation of this crate.
pub type Result<T> = std::result::Result<T, LayoutError>;

/// Why a layout, a coordinate or a hardware encoding was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// A number left the range of 64 bits.
    Overflow {
        /// The quantity being computed.
        what: &'static str,
    },
    /// A size or stride that had to divide another one does not.
    NotDivisible {
        /// The operation that needed the division.
        operation: &'static str,
        /// The number to be divided.
        dividend: u64,
        /// The number that does not divide it.
        divisor: u64,
    },
    /// Two tuples that must have the same profile do not.
    NotCongruent {
        /// The operation that compared them.
        operation: &'static str,
        /// The tuple that sets the profile.
        expected: String,
        /// The tuple that does not follow it.
        found: String,
    },
    /// A shape holds an extent of zero.
    ZeroExtent {
        /// The shape as written.
        shape: String,
    },
    /// A coordinate lies outside its shape, or has a profile the shape does not admit.
    Coordinate {
        /// The coordinate as written.
        coordinate: String,
        /// The shape it was meant for.
        shape: String,
    },
    /// A mode number or a rank does not fit the layout.
    Rank {
        /// The operation that needed the mode.
        operation: &'static str,
        /// The rank or mode asked for.
        asked: usize,
        /// The rank of the layout.
        rank: usize,
    },
    /// A layout whose modes must not overlap has one that steps inside the span of the others.
    Overlap {
        /// The operation that needed separate modes.
        operation: &'static str,
        /// The layout as written.
        layout: String,
    },
    /// Two modes of the inner layout of a composition add up past the end of a mode of the outer.
    Carry {
        /// The layout applied last, as written.
        outer: String,
        /// The layout applied first, as written.
        inner: String,
    },
    /// A swizzle whose bit fields overlap or leave the 64-bit index.
    Swizzle {
        /// The swizzle as written.
        swizzle: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// A rule of the hardware refuses the value.
    Hardware {
        /// The rule, as a sentence.
        rule: &'static str,
        /// The thing and the value that break it.
        found: String,
    },
    /// A text is not in the layout notation.
    Parse(ParseError),
}

impl LayoutError {
    /// Whether the error comes from reading text.
    pub fn is_parse(&self) -> bool {
        matches!(self, LayoutError::Parse(_))
    }

    /// Whether a rule of the hardware, not of the algebra, refused the value.
    pub fn is_hardware(&self) -> bool {
        matches!(self, LayoutError::Hardware { .. })
    }

    /// Whether a 64-bit quantity overflowed.
    pub fn is_overflow(&self) -> bool {
        matches!(self, LayoutError::Overflow { .. })
    }

    pub(crate) fn hardware(rule: &'static str, found: impl Into<String>) -> Self {
        LayoutError::Hardware { rule, found: found.into() }
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Overflow { what } => write!(f, "{what} does not fit in 64 bits"),
            LayoutError::NotDivisible { operation, dividend, divisor } => {
                write!(f, "{operation}: {dividend} and {divisor} do not divide evenly")
            }
            LayoutError::NotCongruent { operation, expected, found } => {
                write!(f, "{operation}: {found} does not have the profile of {expected}")
            }
            LayoutError::ZeroExtent { shape } => write!(f, "shape {shape} has an extent of zero"),
            LayoutError::Coordinate { coordinate, shape } => {
                write!(f, "coordinate {coordinate} is not in shape {shape}")
            }
            LayoutError::Rank { operation, asked, rank } => {
                write!(f, "{operation}: {asked} asked of a layout of rank {rank}")
            }
            LayoutError::Overlap { operation, layout } => {
                write!(f, "{operation}: the modes of {layout} overlap")
            }
            LayoutError::Carry { outer, inner } => {
                write!(
                    f,
                    "composition: the modes of {inner} carry from one mode of {outer} into the next"
                )
            }
            LayoutError::Swizzle { swizzle, rule } => write!(f, "{swizzle}: {rule}"),
            LayoutError::Hardware { rule, found } => write!(f, "{found}: {rule}"),
            LayoutError::Parse(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LayoutError {}

impl From<ParseError> for LayoutError {
    fn from(error: ParseError) -> Self {
        LayoutError::Parse(error)
    }
}

pub(crate) fn checked_mul(what: &'static str, a: u64, b: u64) -> Result<u64> {
    a.checked_mul(b).ok_or(LayoutError::Overflow { what })
}

pub(crate) fn checked_add(what: &'static str, a: u64, b: u64) -> Result<u64> {
    a.checked_add(b).ok_or(LayoutError::Overflow { what })
}

/// `dividend / divisor`, or an error naming the operation when a remainder is left.
pub(crate) fn exact_div(operation: &'static str, dividend: u64, divisor: u64) -> Result<u64> {
    if divisor == 0 || !dividend.is_multiple_of(divisor) {
        return Err(LayoutError::NotDivisible { operation, dividend, divisor });
    }
    Ok(dividend / divisor)
}

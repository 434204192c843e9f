//! Exchanges between the lanes of a warp.

mod decode;
mod execute;

pub(crate) use execute::exchange;

use super::operands::{Use, Visit, outs, predicate_out, reads32, regs};
use crate::register::{P, R32, Reg};
use crate::tensor_copy::{ReduceOp, ReduceType};
use crate::timing::{Class, Cost};
use Use::{Read, Write};

/// A warp-wide exchange of one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShflMode {
    /// `.idx`.
    Index,
    /// `.up`.
    Up,
    /// `.down`.
    Down,
    /// `.bfly`.
    Butterfly,
}

/// A warp-wide vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteKind {
    /// `.all`.
    All,
    /// `.any`.
    Any,
    /// `.uni`.
    Uniform,
    /// `.ballot`.
    Ballot,
}

/// An instruction that lanes of a warp execute together.
pub enum Exchange {
    /// `shfl.sync`.
    Shfl {
        /// Mode.
        mode: ShflMode,
        /// Destination.
        d: R32,
        /// In-range predicate.
        p: Option<P>,
        /// Value, lane operand, clamp-and-segment operand, member mask.
        s: Box<[R32; 4]>,
    },
    /// `vote.sync`.
    Vote {
        /// Kind.
        kind: VoteKind,
        /// Destination.
        d: Reg,
        /// Predicate.
        a: (P, bool),
        /// Member mask.
        mask: R32,
    },
    /// `match.sync`.
    Match {
        /// `.all`.
        all: bool,
        /// Destination.
        d: R32,
        /// `.all`'s predicate.
        p: Option<P>,
        /// Value.
        a: Reg,
        /// Member mask.
        mask: R32,
    },
    /// `redux.sync`.
    Redux {
        /// Operation.
        op: ReduceOp,
        /// Type.
        ty: ReduceType,
        /// `.NaN`.
        nan: bool,
        /// `.abs`.
        abs: bool,
        /// Destination.
        d: R32,
        /// Value.
        a: R32,
        /// Member mask.
        mask: R32,
    },
    /// `elect.sync`.
    Elect {
        /// Elected lane.
        d: Option<R32>,
        /// Whether this lane is it.
        p: P,
        /// Member mask.
        mask: R32,
    },
    /// `bar.warp.sync`.
    WarpSync {
        /// Member mask.
        mask: R32,
    },
}

impl Exchange {
    /// The member mask.
    pub fn members(&self) -> R32 {
        match self {
            Exchange::Shfl { s, .. } => s[3],
            Exchange::Vote { mask, .. }
            | Exchange::Match { mask, .. }
            | Exchange::Redux { mask, .. }
            | Exchange::Elect { mask, .. }
            | Exchange::WarpSync { mask } => *mask,
        }
    }

    /// Tells `visit` every register operand.
    pub fn registers(&self, visit: Visit<'_>) {
        match self {
            Exchange::Shfl { d, p, s, .. } => {
                reads32(visit, **s);
                visit(Reg::R32(*d), Write);
                predicate_out(visit, *p);
            }
            Exchange::Vote { d, a, mask, .. } => {
                visit(Reg::P(a.0), Read);
                visit(Reg::R32(*mask), Read);
                visit(*d, Write);
            }
            Exchange::Match { d, p, a, mask, .. } => {
                regs(visit, &[*a, Reg::R32(*mask)]);
                visit(Reg::R32(*d), Write);
                predicate_out(visit, *p);
            }
            Exchange::Redux { d, a, mask, .. } => {
                reads32(visit, [*a, *mask]);
                visit(Reg::R32(*d), Write);
            }
            Exchange::Elect { d, p, mask } => {
                visit(Reg::R32(*mask), Read);
                outs(visit, &[d.map(Reg::R32)]);
                visit(Reg::P(*p), Write);
            }
            Exchange::WarpSync { mask } => visit(Reg::R32(*mask), Read),
        }
    }

    /// Issue cycles and class.
    pub fn cost(&self) -> Cost {
        (2, Class::Synchronisation)
    }
}

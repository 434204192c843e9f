//! `mbarrier`.

mod decode;
mod execute;

pub(crate) use execute::BarrierId;

use super::memory::{Addr, MemSpace};
use super::operands::{Use, Visit, addr, outs, reads32};
use crate::register::{P, R32, R64, Reg};
use crate::timing::{Class, Cost};

/// A count that is an immediate or the thread's register.
pub type Count = R32;

/// What an `mbarrier` instruction does.
#[derive(Clone, Copy, Debug)]
pub enum MbarrierOp {
    /// `init [a], count`.
    Init(Count),
    /// `inval`.
    Invalidate,
    /// `arrive{.expect_tx}{_drop}`.
    Arrive {
        /// Arrivals (`None` is 1).
        count: Option<Count>,
        /// Bytes to expect first.
        expect: Option<Count>,
        /// `arrive_drop`.
        drop: bool,
        /// State token.
        token: Option<R64>,
    },
    /// `expect_tx`.
    ExpectTx(Count),
    /// `complete_tx`.
    CompleteTx(Count),
    /// `test_wait`, `try_wait`.
    Wait {
        /// Result.
        done: P,
        /// `.parity` operand.
        parity: Option<R32>,
        /// State token.
        token: Option<R64>,
        /// `try_wait`: may block for a while.
        blocking: bool,
    },
    /// `pending_count` of a token.
    PendingCount {
        /// Result.
        dst: R32,
        /// Token.
        token: R64,
    },
}

/// An `mbarrier` instruction.
#[derive(Clone, Copy, Debug)]
pub struct Mbarrier {
    /// What it does.
    pub op: MbarrierOp,
    /// The barrier.
    pub addr: Addr,
    /// Its space.
    pub space: MemSpace,
}

impl Mbarrier {
    /// Whether it only looks whether a phase is complete.
    pub fn is_wait(&self) -> bool {
        matches!(self.op, MbarrierOp::Wait { .. })
    }

    /// Tells `visit` every register operand.
    pub fn registers(&self, visit: Visit<'_>) {
        addr(visit, self.addr);
        match self.op {
            MbarrierOp::Init(count)
            | MbarrierOp::ExpectTx(count)
            | MbarrierOp::CompleteTx(count) => visit(Reg::R32(count), Use::Read),
            MbarrierOp::Invalidate => {}
            MbarrierOp::Arrive { count, expect, token, .. } => {
                reads32(visit, count.into_iter().chain(expect));
                outs(visit, &[token.map(Reg::R64)]);
            }
            MbarrierOp::Wait { done, parity, token, .. } => {
                reads32(visit, parity);
                if let Some(token) = token {
                    visit(Reg::R64(token), Use::Read);
                }
                visit(Reg::P(done), Use::Write);
            }
            MbarrierOp::PendingCount { dst, token } => {
                visit(Reg::R64(token), Use::Read);
                visit(Reg::R32(dst), Use::Write);
            }
        }
    }

    /// Issue cycles and class.
    pub fn cost(&self) -> Cost {
        (2, Class::Synchronisation)
    }
}

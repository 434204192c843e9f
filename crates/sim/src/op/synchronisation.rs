//! Operands of barriers, fences, mbarriers and exchanges within a warp.

use super::memory::{Addr, MemSpace};
use crate::alu::BoolOp;
use crate::register::{P, R32, R64};

/// What a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// `membar`, `fence.{sc,acq_rel,…}`.
    Thread,
    /// `fence.mbarrier_init`.
    MbarrierInit,
    /// `fence.proxy.async*`.
    ProxyAsync,
    /// Other proxies.
    Proxy,
    /// `griddepcontrol.wait`: what the launches before this one did.
    EarlierGrids,
}

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

/// What `bar` does beside counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarKind {
    /// Wait.
    Sync,
    /// Count only.
    Arrive,
    /// Wait and reduce a predicate (`.and`, `.or`).
    Reduce(BoolOp),
    /// Wait and count a predicate (`.popc`).
    Popc,
}

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

//! Operands of loads, stores and atomics.

use crate::register::Reg;
use crate::tensor_copy::{ReduceOp, ReduceType};

/// A memory operand: a register (or constant row) plus an offset.
#[derive(Clone, Copy, Debug)]
pub struct Addr {
    /// Base, 32 or 64 bits wide.
    pub base: Reg,
    /// Byte offset.
    pub offset: i64,
}

/// A state space as an instruction names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemSpace {
    /// None given: windows decide.
    Generic,
    /// Global or constant memory.
    Global,
    /// Shared memory of this CTA or, by the rank in the address, of its cluster.
    Shared,
    /// Per-thread memory.
    Local,
    /// Kernel parameters.
    Param,
}

/// What `atom` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomOp {
    /// Combines.
    Reduce(ReduceOp),
    /// Exchanges.
    Exch,
    /// Compares and swaps.
    Cas,
}

/// `ld`.
#[derive(Clone, Debug)]
pub struct Load {
    /// Space.
    pub space: MemSpace,
    /// Destinations, one per vector element; `None` is `_`.
    pub dst: Box<[Option<Reg>]>,
    /// Bytes of one element.
    pub bytes: u8,
    /// Bits to sign-extend from (`.s8`, `.s16`, `.s32` into a wider register).
    pub sign: Option<u8>,
    /// Address.
    pub addr: Addr,
    /// `.volatile`, `.relaxed`, `.acquire`: other threads may write at the same time.
    pub strong: bool,
}

/// `st`.
#[derive(Clone, Debug)]
pub struct Store {
    /// Space.
    pub space: MemSpace,
    /// Sources.
    pub src: Box<[Reg]>,
    /// Bytes of one element.
    pub bytes: u8,
    /// Address.
    pub addr: Addr,
    /// As in [`Load::strong`].
    pub strong: bool,
}

/// `atom` and `red`.
#[derive(Clone, Debug)]
pub struct Atomic {
    /// Space.
    pub space: MemSpace,
    /// Operation.
    pub op: AtomOp,
    /// Element type.
    pub ty: ReduceType,
    /// Bytes of one operand; packed types hold several elements.
    pub bytes: u32,
    /// Old values; empty for `red`.
    pub dst: Box<[Option<Reg>]>,
    /// Operands, one per vector element.
    pub src: Box<[Reg]>,
    /// `cas`: the new value.
    pub swap: Option<Reg>,
    /// Address.
    pub addr: Addr,
}

/// A function that is part of every driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCall {
    /// `vprintf(format, values)`.
    Print,
    /// `__assertfail(message, file, line, function, character size)`.
    AssertionFailed,
}

//! `wgmma`.

mod decode;
mod execute;
mod footprint;

pub(crate) use execute::{PartialWgmma, WgmmaWork};

use super::memory::Addr;
use super::operands::{Use, Visit, addr, all};
use crate::matrix::Wgmma;
use crate::register::{P, R32, R64, Reg};
use crate::timing::{Class, Cost};
use Use::{Read, Write};
use std::sync::Arc;

/// Matrix operand A of `wgmma` or `tcgen05.mma`.
#[derive(Clone, Debug)]
pub enum MatrixSource {
    /// Shared memory, by descriptor.
    Descriptor(R64),
    /// Registers.
    Registers(Box<[R32]>),
    /// Tensor memory.
    Tensor(Addr),
}

/// `wgmma.mma_async`.
#[derive(Clone, Debug)]
pub struct WgmmaOp {
    /// Shape and types.
    pub mma: Wgmma,
    /// Accumulator registers.
    pub d: Box<[R32]>,
    /// A.
    pub a: MatrixSource,
    /// Descriptor of B.
    pub b: R64,
    /// Whether D is added.
    pub accumulate: (P, bool),
    /// Negate A, negate B.
    pub negate: [bool; 2],
    /// M/N-major A, B.
    pub transpose: [bool; 2],
}

/// A `wgmma` instruction.
pub enum WarpgroupMma {
    /// `wgmma.fence`.
    Fence,
    /// `wgmma.commit_group`.
    Commit,
    /// `wgmma.wait_group`.
    Wait(u32),
    /// `wgmma.mma_async`.
    Mma(Arc<WgmmaOp>),
}

impl WarpgroupMma {
    /// Tells `visit` every register operand.
    pub fn registers(&self, visit: Visit<'_>) {
        match self {
            WarpgroupMma::Mma(op) => {
                op.a.registers(visit);
                visit(Reg::R64(op.b), Read);
                visit(Reg::P(op.accumulate.0), Read);
                all(visit, &op.d, Read);
                all(visit, &op.d, Write);
            }
            WarpgroupMma::Fence | WarpgroupMma::Commit | WarpgroupMma::Wait(_) => {}
        }
    }

    /// Issue cycles and class.
    pub fn cost(&self) -> Cost {
        (2, Class::Matrix)
    }
}

impl MatrixSource {
    /// Tells `visit` every register operand.
    pub(super) fn registers(&self, visit: Visit<'_>) {
        match self {
            MatrixSource::Descriptor(r) => visit(Reg::R64(*r), Read),
            MatrixSource::Registers(rows) => all(visit, rows, Read),
            MatrixSource::Tensor(at) => addr(visit, *at),
        }
    }
}

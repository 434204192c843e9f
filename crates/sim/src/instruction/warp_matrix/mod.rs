//! `mma.sync`, `wmma`, `ldmatrix`, `stmatrix`, `movmatrix`.

mod decode;
mod decode_wmma;
mod execute;
mod wmma;

pub(crate) use execute::transpose_8x8;

use super::memory::{Addr, MemSpace};
use super::operands::{Use, Visit, addr, all, reads32, regs};
use crate::matrix::{Ldmatrix, MmaSync, Stmatrix, WmmaMatrix};
use crate::register::{R32, R64, Reg};
use crate::timing::{Class, Cost};
use Use::{Read, Write};

/// `mma.sync`.
#[derive(Clone, Debug)]
pub struct MmaSyncOp {
    /// Shape and types.
    pub mma: MmaSync,
    /// D.
    pub d: Box<[R32]>,
    /// A, B, C.
    pub s: [Box<[R32]>; 3],
}

/// `wmma.load` and `wmma.store`.
#[derive(Clone, Debug)]
pub struct WmmaTransfer {
    /// The matrix and where a fragment holds it.
    pub matrix: WmmaMatrix,
    /// The fragment.
    pub registers: Box<[Reg]>,
    /// The first element.
    pub addr: Addr,
    /// Elements from one row (or column) to the next.
    pub stride: R32,
    /// Space.
    pub space: MemSpace,
}

/// A matrix instruction of a warp.
pub enum WarpMatrix {
    /// `mma.sync`, or the several that a `wmma.mma` is.
    MmaSync(Box<[MmaSyncOp]>),
    /// `wmma.load`.
    WmmaLoad(Box<WmmaTransfer>),
    /// `wmma.store`.
    WmmaStore(Box<WmmaTransfer>),
    /// `mma.sync` of f64.
    MmaF64 {
        /// D.
        d: Box<[R64]>,
        /// A, B, C.
        s: Box<[Box<[R64]>; 3]>,
    },
    /// `ldmatrix`.
    Ldmatrix {
        /// Shape.
        shape: Ldmatrix,
        /// Destinations.
        d: Box<[R32]>,
        /// Row addresses.
        addr: Addr,
        /// Space.
        space: MemSpace,
    },
    /// `stmatrix`.
    Stmatrix {
        /// Shape.
        shape: Stmatrix,
        /// Sources.
        s: Box<[R32]>,
        /// Row addresses.
        addr: Addr,
        /// Space.
        space: MemSpace,
    },
    /// `movmatrix`.
    Movmatrix {
        /// Destination.
        d: R32,
        /// Source.
        a: R32,
    },
}

impl WarpMatrix {
    /// Tells `visit` every register operand.
    pub fn registers(&self, visit: Visit<'_>) {
        match self {
            WarpMatrix::MmaSync(parts) => {
                parts.iter().flat_map(|op| &op.s).for_each(|s| all(visit, s, Read));
                parts.iter().for_each(|op| all(visit, &op.d, Write));
            }
            WarpMatrix::WmmaLoad(op) => {
                addr(visit, op.addr);
                reads32(visit, [op.stride]);
                op.registers.iter().for_each(|r| visit(*r, Write));
            }
            WarpMatrix::WmmaStore(op) => {
                addr(visit, op.addr);
                reads32(visit, [op.stride]);
                regs(visit, &op.registers);
            }
            WarpMatrix::MmaF64 { d, s } => {
                s.iter().flatten().for_each(|r: &R64| visit(Reg::R64(*r), Read));
                d.iter().for_each(|r| visit(Reg::R64(*r), Write));
            }
            WarpMatrix::Ldmatrix { d, addr: at, .. } => {
                addr(visit, *at);
                all(visit, d, Write);
            }
            WarpMatrix::Stmatrix { s, addr: at, .. } => {
                addr(visit, *at);
                all(visit, s, Read);
            }
            WarpMatrix::Movmatrix { d, a } => {
                visit(Reg::R32(*a), Read);
                visit(Reg::R32(*d), Write);
            }
        }
    }

    /// Issue cycles and class.
    pub fn cost(&self) -> Cost {
        match self {
            WarpMatrix::Ldmatrix { d, .. } => (d.len() as u8, Class::Memory),
            WarpMatrix::Stmatrix { s, .. } => (s.len() as u8, Class::Memory),
            WarpMatrix::MmaSync(parts) => (16 * parts.len() as u8, Class::Matrix),
            WarpMatrix::MmaF64 { .. } | WarpMatrix::WmmaLoad(_) | WarpMatrix::WmmaStore(_) => {
                (16, Class::Matrix)
            }
            WarpMatrix::Movmatrix { .. } => (2, Class::Matrix),
        }
    }
}

//! `tcgen05`.

mod allocation;
mod decode;
mod execute;
mod footprint;

pub use execute::{MmaWork, TensorState};
pub(crate) use footprint::shift_footprint;

use super::memory::{Addr, MemSpace};
use super::operands::{Use, Visit, addr, all, reads32};
use super::warpgroup_mma::MatrixSource;
use crate::matrix::{Tcgen05Mma, TmemCopy, TmemTransfer};
use crate::register::{P, R32, R64, Reg};
use crate::timing::{Class, Cost};
use Use::{Read, Write};

/// `tcgen05.mma`.
#[derive(Clone, Debug)]
pub struct Tcgen05MmaOp {
    /// Kind and group.
    pub mma: Tcgen05Mma,
    /// D.
    pub d: Addr,
    /// A.
    pub a: MatrixSource,
    /// Descriptor of B.
    pub b: R64,
    /// Instruction descriptor.
    pub descriptor: R32,
    /// Lanes of D to keep.
    pub disabled: Box<[R32]>,
    /// Whether D is added.
    pub accumulate: (P, bool),
    /// Exponent D is divided by.
    pub scale_d: u32,
    /// Block scales of A and B.
    pub scales: Option<[Addr; 2]>,
}

/// `tcgen05` instructions.
#[derive(Clone, Debug)]
pub enum Tcgen05 {
    /// `alloc`.
    Alloc {
        /// Where the address is written.
        dst: Addr,
        /// Its space.
        space: MemSpace,
        /// Columns.
        columns: R32,
        /// Whether two CTAs allocate together.
        pair: bool,
    },
    /// `dealloc`.
    Dealloc {
        /// What `alloc` gave.
        address: R32,
        /// Columns.
        columns: R32,
    },
    /// `relinquish_alloc_permit`.
    Relinquish,
    /// `ld`.
    Load {
        /// Shape.
        transfer: TmemTransfer,
        /// Destinations.
        d: Box<[R32]>,
        /// Tensor-memory address.
        address: Addr,
        /// Second half's column offset.
        immediate: u32,
    },
    /// `st`.
    Store {
        /// Shape.
        transfer: TmemTransfer,
        /// Sources.
        s: Box<[R32]>,
        /// Tensor-memory address.
        address: Addr,
        /// Second half's column offset.
        immediate: u32,
    },
    /// `wait::ld` or `wait::st`.
    Wait {
        /// `::ld`.
        loads: bool,
    },
    /// `fence::before_thread_sync`, `fence::after_thread_sync`.
    Fence {
        /// `::after_thread_sync`.
        after: bool,
    },
    /// `mma`.
    Mma(Box<Tcgen05MmaOp>),
    /// `cp`.
    Copy {
        /// Shape.
        copy: TmemCopy,
        /// Tensor-memory address.
        address: Addr,
        /// Source descriptor.
        descriptor: R64,
        /// `.cta_group::2`.
        pair: bool,
    },
    /// `shift.down`.
    Shift {
        /// Tensor-memory address.
        address: Addr,
        /// `.cta_group::2`.
        pair: bool,
    },
    /// `commit`.
    Commit {
        /// Barrier.
        mbar: Addr,
        /// Its space.
        space: MemSpace,
        /// Multicast CTA mask.
        multicast: Option<R32>,
    },
}

impl Tcgen05 {
    /// Whether a single thread executes it; the others are for whole converged warps.
    pub const fn is_issued_by_one_thread(&self) -> bool {
        match self {
            Tcgen05::Mma(_)
            | Tcgen05::Copy { .. }
            | Tcgen05::Shift { .. }
            | Tcgen05::Commit { .. }
            | Tcgen05::Fence { .. } => true,
            Tcgen05::Alloc { .. }
            | Tcgen05::Dealloc { .. }
            | Tcgen05::Relinquish
            | Tcgen05::Load { .. }
            | Tcgen05::Store { .. }
            | Tcgen05::Wait { .. } => false,
        }
    }

    /// Tells `visit` every register operand.
    pub fn registers(&self, visit: Visit<'_>) {
        match self {
            Tcgen05::Alloc { dst, columns, .. } => {
                addr(visit, *dst);
                visit(Reg::R32(*columns), Read);
            }
            Tcgen05::Dealloc { address, columns } => reads32(visit, [*address, *columns]),
            Tcgen05::Load { d, address, .. } => {
                addr(visit, *address);
                all(visit, d, Write);
            }
            Tcgen05::Store { s, address, .. } => {
                addr(visit, *address);
                all(visit, s, Read);
            }
            Tcgen05::Mma(mma) => mma.registers(visit),
            Tcgen05::Copy { address, descriptor, .. } => {
                addr(visit, *address);
                visit(Reg::R64(*descriptor), Read);
            }
            Tcgen05::Shift { address, .. } => addr(visit, *address),
            Tcgen05::Commit { mbar, multicast, .. } => {
                addr(visit, *mbar);
                reads32(visit, *multicast);
            }
            Tcgen05::Relinquish | Tcgen05::Wait { .. } | Tcgen05::Fence { .. } => {}
        }
    }

    /// Issue cycles and class.
    pub fn cost(&self) -> Cost {
        let cycles = match self {
            Tcgen05::Load { d, .. } => d.len().min(128) as u8,
            Tcgen05::Store { s, .. } => s.len().min(128) as u8,
            Tcgen05::Alloc { .. }
            | Tcgen05::Dealloc { .. }
            | Tcgen05::Relinquish
            | Tcgen05::Wait { .. }
            | Tcgen05::Fence { .. }
            | Tcgen05::Mma(_)
            | Tcgen05::Copy { .. }
            | Tcgen05::Shift { .. }
            | Tcgen05::Commit { .. } => 2,
        };
        (cycles, Class::Matrix)
    }
}

impl Tcgen05MmaOp {
    fn registers(&self, visit: Visit<'_>) {
        addr(visit, self.d);
        self.a.registers(visit);
        visit(Reg::R64(self.b), Read);
        visit(Reg::R32(self.descriptor), Read);
        all(visit, &self.disabled, Read);
        visit(Reg::P(self.accumulate.0), Read);
        self.scales.iter().flatten().for_each(|a| addr(visit, *a));
    }
}

//! Operands of matrix instructions.

use super::memory::{Addr, MemSpace};
use crate::matrix::{MmaSync, Tcgen05Mma, TmemCopy, TmemTransfer, Wgmma, WmmaMatrix};
use crate::register::{P, R32, R64, Reg};

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
        use Tcgen05::{Commit, Copy, Fence, Mma, Shift};
        matches!(self, Mma(_) | Copy { .. } | Shift { .. } | Commit { .. } | Fence { .. })
    }
}

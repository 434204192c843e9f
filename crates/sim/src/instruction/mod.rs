//! Decoded instructions, by family.
//!
//! Everything about a family is in its folder: its instructions, which registers they read and write, what they
//! cost, how they are decoded and what they do. What is asked of every instruction is asked here, by matches that
//! name every family.

mod arithmetic;
mod barrier;
mod control;
mod copy;
mod exchange;
mod launch_control;
mod mbarrier;
mod memory;
mod operands;
mod tcgen05;
mod warp_matrix;
mod warpgroup_mma;

pub(crate) use arithmetic::execute_arithmetic;
pub use arithmetic::{Arithmetic, Flow};
pub use barrier::{BarKind, Barrier, Fence};
pub use control::{Control, SystemCall};
pub use copy::{AsyncCopy, BulkCopy, TensorCopy, TensorDirection};
pub(crate) use exchange::exchange;
pub use exchange::{Exchange, ShflMode, VoteKind};
pub use launch_control::LaunchControl;
pub(crate) use launch_control::RESPONSE_BYTES;
pub(crate) use mbarrier::BarrierId;
pub use mbarrier::{Mbarrier, MbarrierOp};
pub(crate) use memory::{
    Access, Order, Place, advance, atom_type, element_type, lane_address, reduce_op, space,
};
pub use memory::{Addr, AtomOp, Atomic, Load, MemSpace, MemoryAccess, Store};
pub use operands::{Use, Visit};
pub(crate) use tcgen05::shift_footprint;
pub use tcgen05::{MmaWork, TensorState};
pub use tcgen05::{Tcgen05, Tcgen05MmaOp};
pub(crate) use warp_matrix::transpose_8x8;
pub use warp_matrix::{MmaSyncOp, WarpMatrix, WmmaTransfer};
pub use warpgroup_mma::{MatrixSource, WarpgroupMma, WgmmaOp};
pub(crate) use warpgroup_mma::{PartialWgmma, WgmmaWork};

use crate::register::P;
use crate::timing::{Class, Cost};

/// Index of an instruction in [`crate::load::Kernel::code`].
pub type Pc = u32;

/// One decoded instruction.
pub struct Inst {
    /// The predicate that guards it, and whether it is negated.
    pub guard: Option<(P, bool)>,
    /// What it does.
    pub op: Op,
    /// Index of the PTX instruction it comes from.
    pub source: u32,
    /// Whether it uses a register that some `wgmma` accumulates in or reads A from.
    pub touches_wgmma: bool,
    /// Whether it uses a register that some `tcgen05.ld` writes.
    pub touches_tmem: bool,
    /// Whether it only copies registers to registers.
    pub copies: bool,
    /// Whether what a register held before it was written can reach it.
    pub follows: bool,
    /// How what its sources hold shows in its results, if it is arithmetic.
    pub flow: Flow,
    /// Whether it uses a register that some load from global memory writes.
    pub touches_load: bool,
    /// The unit it occupies, and its issue slots, in a recording.
    pub unit: (crate::record::Unit, u8),
    /// Issue cycles.
    pub cost: u8,
    /// Kind, for counters.
    pub class: Class,
}

/// Everything an instruction can do.
pub enum Op {
    /// Arithmetic on a lane's own registers.
    Arithmetic(Arithmetic),
    /// No functional effect here.
    Nop,
    /// Control flow and machine state.
    Control(Control),
    /// Exchanges within a warp.
    Exchange(Exchange),
    /// Loads, stores, atomics.
    MemoryAccess(MemoryAccess),
    /// Barriers of threads, and fences.
    Barrier(Barrier),
    /// `mbarrier.*`.
    Mbarrier(Box<Mbarrier>),
    /// Asynchronous copies and tensor maps.
    AsyncCopy(AsyncCopy),
    /// `clusterlaunchcontrol.*`.
    LaunchControl(LaunchControl),
    /// Matrix instructions of a warp.
    WarpMatrix(WarpMatrix),
    /// `wgmma.*`.
    WarpgroupMma(WarpgroupMma),
    /// `tcgen05.*`.
    Tcgen05(Box<Tcgen05>),
}

impl Op {
    /// Tells `visit` every register operand; the guard and the carry flag are not among them.
    pub fn registers(&self, visit: Visit<'_>) {
        match self {
            Op::Arithmetic(op) => op.registers(visit),
            Op::Nop => {}
            Op::Control(op) => op.registers(visit),
            Op::Exchange(op) => op.registers(visit),
            Op::MemoryAccess(op) => op.registers(visit),
            Op::Barrier(op) => op.registers(visit),
            Op::Mbarrier(op) => op.registers(visit),
            Op::AsyncCopy(op) => op.registers(visit),
            Op::LaunchControl(op) => op.registers(visit),
            Op::WarpMatrix(op) => op.registers(visit),
            Op::WarpgroupMma(op) => op.registers(visit),
            Op::Tcgen05(op) => op.registers(visit),
        }
    }

    /// Issue cycles and class.
    pub fn cost(&self) -> Cost {
        match self {
            Op::Arithmetic(op) => op.cost(),
            Op::Nop => (1, Class::Control),
            Op::Control(op) => op.cost(),
            Op::Exchange(op) => op.cost(),
            Op::MemoryAccess(op) => op.cost(),
            Op::Barrier(op) => op.cost(),
            Op::Mbarrier(op) => op.cost(),
            Op::AsyncCopy(op) => op.cost(),
            Op::LaunchControl(op) => op.cost(),
            Op::WarpMatrix(op) => op.cost(),
            Op::WarpgroupMma(op) => op.cost(),
            Op::Tcgen05(op) => op.cost(),
        }
    }

    /// Whether it is worth remembering when a warp hangs: more than arithmetic, a branch, or a look at an mbarrier.
    pub fn is_deed(&self) -> bool {
        match self {
            Op::Arithmetic(_) | Op::Nop | Op::Control(_) => false,
            Op::Mbarrier(op) => !op.is_wait(),
            Op::Exchange(_)
            | Op::MemoryAccess(_)
            | Op::Barrier(_)
            | Op::AsyncCopy(_)
            | Op::LaunchControl(_)
            | Op::WarpMatrix(_)
            | Op::WarpgroupMma(_)
            | Op::Tcgen05(_) => true,
        }
    }

    /// How its sources show in its results; `instruction` is what it was decoded from.
    pub fn flow(&self, instruction: Option<&ptx::ast::Instruction>) -> Flow {
        match self {
            Op::Arithmetic(op) => op.flow(instruction),
            Op::Nop
            | Op::Control(_)
            | Op::Exchange(_)
            | Op::MemoryAccess(_)
            | Op::Barrier(_)
            | Op::Mbarrier(_)
            | Op::AsyncCopy(_)
            | Op::LaunchControl(_)
            | Op::WarpMatrix(_)
            | Op::WarpgroupMma(_)
            | Op::Tcgen05(_) => Flow::Whole,
        }
    }

    /// Whether a cluster can learn by it what another one did, or when: order decides what comes out.
    pub fn reaches_clusters(&self) -> bool {
        match self {
            Op::MemoryAccess(op) => op.reaches_clusters(),
            Op::AsyncCopy(op) => op.reaches_clusters(),
            Op::LaunchControl(op) => op.cancels(),
            Op::Arithmetic(_)
            | Op::Nop
            | Op::Control(_)
            | Op::Exchange(_)
            | Op::Barrier(_)
            | Op::Mbarrier(_)
            | Op::WarpMatrix(_)
            | Op::WarpgroupMma(_)
            | Op::Tcgen05(_) => false,
        }
    }
}

/// Families as operations.
macro_rules! families {
    ($($family:ident),*) => {
        $(impl From<$family> for Op {
            fn from(op: $family) -> Op {
                Op::$family(op)
            }
        })*
    };
}

families!(
    Arithmetic,
    Control,
    Exchange,
    MemoryAccess,
    Barrier,
    AsyncCopy,
    LaunchControl,
    WarpMatrix,
    WarpgroupMma
);

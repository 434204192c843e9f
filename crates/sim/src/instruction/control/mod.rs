//! Control flow, and what a warp asks of the machine.

mod decode;
mod execute;
mod register_pool;
mod system;

use super::Pc;
use super::operands::{Use, Visit};
use crate::register::{R32, Reg};
use crate::timing::{Class, Cost};

/// A function that is part of every driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemCall {
    /// `vprintf(format, values)`.
    Print,
    /// `__assertfail(message, file, line, function, character size)`.
    AssertionFailed,
}

/// An instruction that changes which instruction is next, or waits for or asks something of the machine.
pub enum Control {
    /// `bra`.
    Branch {
        /// Where to.
        target: Pc,
    },
    /// `brx.idx`.
    BranchIndex {
        /// Index.
        index: R32,
        /// Where to.
        targets: Box<[Pc]>,
    },
    /// `exit`, and `ret` from a kernel.
    Exit,
    /// `trap`, `brkpt`, a failed device assertion.
    Trap(&'static str),
    /// A call of what a driver provides.
    System {
        /// Which.
        call: SystemCall,
        /// Places of its parameters in local memory.
        arguments: Box<[u32]>,
        /// Place of its result.
        result: Option<u32>,
    },
    /// `nanosleep`: lets others run.
    Sleep,
    /// `setmaxnreg`.
    SetRegisters(u32),
    /// Reads of `%clock`, `%clock64`, `%globaltimer`.
    Clock {
        /// Destination.
        d: Reg,
        /// Right shift (32 for the `_hi` halves).
        shift: u32,
    },
    /// `activemask`.
    ActiveMask {
        /// Destination.
        d: R32,
    },
}

impl Control {
    /// Tells `visit` every register operand.
    pub fn registers(&self, visit: Visit<'_>) {
        match self {
            Control::Clock { d, .. } => visit(*d, Use::Write),
            Control::ActiveMask { d } => visit(Reg::R32(*d), Use::Write),
            Control::BranchIndex { index, .. } => visit(Reg::R32(*index), Use::Read),
            // A system call has its operands in local memory.
            Control::Branch { .. }
            | Control::Exit
            | Control::Trap(_)
            | Control::System { .. }
            | Control::Sleep
            | Control::SetRegisters(_) => {}
        }
    }

    /// Issue cycles and class.
    pub fn cost(&self) -> Cost {
        match self {
            Control::Clock { .. } | Control::ActiveMask { .. } | Control::System { .. } => {
                (1, Class::Arithmetic)
            }
            Control::Branch { .. }
            | Control::BranchIndex { .. }
            | Control::Exit
            | Control::Trap(_)
            | Control::Sleep
            | Control::SetRegisters(_) => (1, Class::Control),
        }
    }
}

//! Loads, stores and atomics.

mod banks;
mod decode;
mod execute;
mod rows;
mod wide;
mod words;

pub(crate) use decode::{atom_type, element_type, reduce_op, space};
pub(crate) use execute::{Access, Order, Place, advance, lane_address};

use super::operands::{Use, Visit, addr, outs, regs};
use crate::register::Reg;
use crate::tensor_copy::{ReduceOp, ReduceType};
use crate::timing::{Class, Cost};

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

impl MemSpace {
    /// Whether an address in it may lead to global memory.
    pub fn holds_global(self) -> bool {
        matches!(self, MemSpace::Global | MemSpace::Generic)
    }
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

/// A load, store or atomic.
pub enum MemoryAccess {
    /// `ld`.
    Load(Box<Load>),
    /// `st`.
    Store(Box<Store>),
    /// `st.bulk`.
    StoreZeros {
        /// Space.
        space: MemSpace,
        /// Address.
        addr: Addr,
        /// Bytes.
        bytes: Reg,
    },
    /// `atom`, `red`.
    Atomic(Box<Atomic>),
}

impl MemoryAccess {
    /// Tells `visit` every register operand.
    pub fn registers(&self, visit: Visit<'_>) {
        match self {
            MemoryAccess::Load(load) => {
                addr(visit, load.addr);
                outs(visit, &load.dst);
            }
            MemoryAccess::Store(store) => {
                addr(visit, store.addr);
                regs(visit, &store.src);
            }
            MemoryAccess::StoreZeros { addr: at, bytes, .. } => {
                addr(visit, *at);
                visit(*bytes, Use::Read);
            }
            MemoryAccess::Atomic(atomic) => {
                addr(visit, atomic.addr);
                regs(visit, &atomic.src);
                regs(visit, atomic.swap.as_slice());
                outs(visit, &atomic.dst);
            }
        }
    }

    /// Issue cycles and class.
    pub fn cost(&self) -> Cost {
        let cycles = match self {
            MemoryAccess::Load(load) => vector_cycles(load.dst.len(), load.bytes),
            MemoryAccess::Store(store) => vector_cycles(store.src.len(), store.bytes),
            MemoryAccess::StoreZeros { .. } => 1,
            MemoryAccess::Atomic(_) => 4,
        };
        (cycles, Class::Memory)
    }

    /// Whether a cluster can learn by it what another one did.
    pub fn reaches_clusters(&self) -> bool {
        match self {
            MemoryAccess::Load(load) => load.strong && load.space.holds_global(),
            MemoryAccess::Store(store) => store.strong && store.space.holds_global(),
            MemoryAccess::StoreZeros { .. } => false,
            MemoryAccess::Atomic(atomic) => atomic.space.holds_global(),
        }
    }
}

/// 32 lanes of a vector at 128 bytes per cycle.
fn vector_cycles(elements: usize, bytes: u8) -> u8 {
    (elements * usize::from(bytes) * 32 / 128).clamp(1, 64) as u8
}

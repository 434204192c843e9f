//! What a cluster did, without when: the input of a model of time.
//!
//! A recording has the instruction mix of every warp between two points where it met others, the asynchronous
//! operations it issued, and who completed which phase of which barrier. All of that is the same under every
//! schedule, if a kernel has no races. A model of time replays it with the rates and latencies of a machine.

mod describe;
mod joined;
mod recorder;

pub(crate) use describe::unit;
pub(crate) use joined::{is_move, joinable, joins};
pub(crate) use recorder::Recorder;

/// Units that instructions of a warp occupy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// None but an issue slot: branches, barriers, issue of asynchronous work.
    Issue,
    /// Multiply-add of 32-bit floats, and integer multiply.
    Fma,
    /// The same on two floats at once (`f32x2`).
    FmaPair,
    /// Integer and logic, comparison, selection, minimum and maximum.
    Alu,
    /// Conversion between types.
    Convert,
    /// Special functions.
    Mufu,
    /// Exchange of registers between lanes.
    Shuffle,
    /// Cycles of shared memory, 128 bytes each.
    Shared,
    /// Bytes of global memory that threads write.
    Global,
    /// Bytes of global memory that threads read.
    Loaded,
    /// Registers of each lane to or from tensor memory.
    Tensor,
    /// FLOP of a warp's own matrix instructions (`mma.sync`), in multiples of 1,024.
    Matrix,
}

/// Number of units.
pub const UNITS: usize = 12;

/// Instructions of a warp between two events: how many, and what they ask of each unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Warp instructions that take an issue slot.
    pub slots: u32,
    /// Instructions of a unit, or the amount that [`Unit`] names.
    pub units: [u32; UNITS],
}

impl Mix {
    /// Whether nothing was executed.
    pub fn is_empty(&self) -> bool {
        self.slots == 0
    }

    /// What is asked of a unit.
    pub fn of(&self, unit: Unit) -> u32 {
        self.units[unit as usize]
    }

    #[inline(always)]
    pub(crate) fn count(&mut self, unit: Unit, slots: u8) {
        self.slots = self.slots.wrapping_add(slots.into());
        let cell = &mut self.units[unit as usize];
        *cell = cell.wrapping_add(slots.into());
    }

    pub(crate) fn add(&mut self, unit: Unit, amount: u64) {
        let cell = &mut self.units[unit as usize];
        *cell = cell.wrapping_add(amount as u32);
    }
}

/// Index in [`Recording::operations`].
pub type OperationId = u32;
/// Index in [`Recording::phases`].
pub type PhaseId = u32;

/// What a warp did next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Executed instructions.
    Run(Mix),
    /// Took part in the issue of an operation.
    Issue(OperationId),
    /// Arrived for a phase of a barrier, or told it of bytes.
    Arrive(PhaseId),
    /// Waited for a phase.
    Wait(PhaseId),
    /// Waited for an operation.
    WaitFor(OperationId),
    /// Loaded bytes from global memory; loads of a warp are numbered.
    Load(u32),
    /// Used what the load of this number brought.
    Use(u32),
    /// Asked for bytes to be brought to L2.
    Prefetch(u32),
    /// Waited for its transfers from or to tensor memory.
    WaitTensor,
    /// Waited for earlier grids.
    WaitGrid,
    /// Read the clock.
    Clock,
}

/// What an asynchronous operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// A matrix product.
    Product {
        /// FLOP on each multiprocessor.
        flops: u64,
        /// Bits of an element.
        bits: u8,
        /// Bytes of operands each multiprocessor reads from its shared memory.
        shared: u32,
        /// Whether an operand comes from registers.
        registers: bool,
        /// Multiprocessors.
        ctas: u8,
    },
    /// A copy into shared memory.
    Load {
        /// Bytes.
        bytes: u32,
        /// CTAs it goes to, as bits.
        to: u16,
        /// Whether it comes from global memory; else from shared memory.
        global: bool,
        /// Whether lanes issued it (`cp.async`), not a copy engine.
        lanes: bool,
    },
    /// A copy out of shared memory.
    Store {
        /// Bytes.
        bytes: u32,
    },
    /// Arrivals once earlier work of the stream is done.
    Signal,
    /// Other work of the tensor unit.
    Tensor,
}

/// An asynchronous operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What.
    pub kind: OperationKind,
    /// CTA of the cluster whose engine does it.
    pub cta: u32,
    /// Warps that take part in its issue.
    pub issuers: u32,
    /// Operations of one stream are done in order; none if nothing orders it.
    pub stream: Option<u32>,
    /// Phases it arrives for.
    pub signals: Vec<PhaseId>,
}

/// One phase of a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Arrivals, of warps and operations, that complete it.
    pub arrivals: u32,
    /// What it is a phase of.
    pub barrier: BarrierKind,
}

/// Kinds of barriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BarrierKind {
    /// An mbarrier.
    #[default]
    Mbarrier,
    /// A named barrier of a CTA.
    Named,
    /// The barrier of a cluster.
    Cluster,
}

/// A warp's part of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarpEvents {
    /// CTA of the cluster.
    pub cta: u32,
    /// Number in the CTA.
    pub index: u32,
    /// What it did, in order.
    pub events: Vec<Event>,
}

impl Recording {
    /// Whether it has matrix products, of tensor cores or of warps.
    pub fn multiplies(&self) -> bool {
        let product =
            |operation: &Operation| matches!(operation.kind, OperationKind::Product { .. });
        self.operations.iter().any(product) || self.has_warp_products()
    }

    /// Whether its warps multiply by themselves (`mma.sync`).
    pub fn has_warp_products(&self) -> bool {
        let event = |event: &Event| matches!(event, Event::Run(mix) if mix.of(Unit::Matrix) > 0);
        self.warps.iter().any(|warp| warp.events.iter().any(event))
    }
}

/// What one cluster of a launch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Launch of the program.
    pub launch: usize,
    /// Linear number of the cluster in its grid.
    pub cluster: u32,
    /// CTAs of the cluster.
    pub ctas: u32,
    /// Its warps.
    pub warps: Vec<WarpEvents>,
    /// Asynchronous operations, by their number.
    pub operations: Vec<Operation>,
    /// Phases of barriers, by their number.
    pub phases: Vec<Phase>,
}

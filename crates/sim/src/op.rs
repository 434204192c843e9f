//! Decoded instructions.

mod copy;
mod matrix;
mod memory;
mod synchronisation;

pub use copy::{BulkCopy, TensorCopy, TensorDirection};
pub use matrix::{MatrixSource, MmaSyncOp, Tcgen05, Tcgen05MmaOp, WgmmaOp, WmmaTransfer};
pub use memory::{Addr, AtomOp, Atomic, Load, MemSpace, Store, SystemCall};
pub use synchronisation::{BarKind, Fence, Mbarrier, MbarrierOp, ShflMode, VoteKind};

use crate::alu::{BoolOp, Compare, Cvt, RowFn, StochasticCvt, Video};
use crate::matrix::{Ldmatrix, Stmatrix};
use crate::register::{P, R32, R64, Reg};
use crate::tensor_copy::{ReduceOp, ReduceType};
use crate::timing::Class;

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
    /// Issue cycles.
    pub cost: u8,
    /// Kind, for counters.
    pub class: Class,
}

const INTEGERS: [&str; 6] = ["u16", "s16", "u32", "s32", "u64", "s64"];

/// How what the sources of an instruction hold shows in its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Any bit of a source in the whole result.
    Whole,
    /// A bit of a source in those of the result that are not lower, as in sums of integers.
    Upwards,
    /// Bits are moved, or units of so many bits computed each by itself.
    Bits(u8),
}

impl Flow {
    /// The flow of an operation that `instruction` was decoded to.
    pub fn of(op: &Op, instruction: Option<&ptx::ast::Instruction>) -> Flow {
        let opcode = instruction.map_or("", |i| i.opcode.as_str());
        let has = |modifiers: &[&str]| {
            instruction.is_some_and(|i| modifiers.iter().any(|modifier| i.has(modifier)))
        };
        match op {
            Op::Select32 { .. } | Op::Select64 { .. } | Op::Logic { .. } => Flow::Bits(1),
            Op::Mov32 { .. } | Op::Mov64 { .. } | Op::Pack { .. } | Op::Unpack { .. } => {
                Flow::Bits(1)
            }
            Op::Lop3 { .. } | Op::Prmt { .. } | Op::Bfi { .. } | Op::Bfe64 { .. } => Flow::Bits(1),
            Op::Offset { add: 0, .. } => Flow::Bits(1),
            Op::Offset { .. } => Flow::Upwards,
            Op::Cvt { .. } => Flow::Bits(8),
            Op::Row { .. } => match opcode {
                "and" | "or" | "xor" | "not" | "shl" | "shr" | "shf" | "bfe" | "brev" => {
                    Flow::Bits(1)
                }
                _ if has(&["f16x2", "bf16x2", "u16x2", "s16x2"]) => Flow::Bits(16),
                _ if has(&["f32x2"]) => Flow::Bits(32),
                "add" | "sub" | "mul" | "mad" | "neg" if has(&INTEGERS) && !has(&["hi", "sat"]) => {
                    Flow::Upwards
                }
                _ => Flow::Whole,
            },
            _ => Flow::Whole,
        }
    }
}

/// Everything an instruction can do.
pub enum Op {
    /// A row function; the slots' files follow from its shape.
    Row {
        /// Function.
        f: RowFn,
        /// Destination.
        d: u32,
        /// Sources.
        s: [u32; 3],
    },
    /// `lop3.b32`.
    Lop3 {
        /// Destination.
        d: R32,
        /// Sources.
        s: [R32; 3],
        /// Truth table.
        table: u8,
        /// `.and`/`.or` with a predicate: operation, result, input.
        with: Option<(BoolOp, P, P)>,
    },
    /// `prmt.b32`.
    Prmt {
        /// Destination.
        d: R32,
        /// Sources and selector.
        s: [R32; 3],
        /// Mode.
        mode: Option<&'static str>,
    },
    /// `bfi`.
    Bfi {
        /// Destination.
        d: Reg,
        /// Field source and base.
        s: [Reg; 2],
        /// Position and length.
        at: [R32; 2],
    },
    /// `bfe` of 64 bits.
    Bfe64 {
        /// Destination.
        d: R64,
        /// Source.
        a: R64,
        /// Position and length.
        at: [R32; 2],
        /// Signed.
        signed: bool,
    },
    /// `dp4a`, `dp2a` and other lane functions over three 32-bit sources.
    Lane3 {
        /// Function.
        f: fn(u32, u32, u32) -> u32,
        /// Destination.
        d: R32,
        /// Sources.
        s: [R32; 3],
    },
    /// `vabsdiff4` and other video instructions.
    Video {
        /// What it does.
        video: Video,
        /// Destination.
        d: R32,
        /// Sources.
        s: [R32; 3],
    },
    /// `mad.lo` and friends with carry.
    Carry {
        /// Destination.
        d: Reg,
        /// First addend.
        a: Reg,
        /// Second addend.
        b: Reg,
        /// Subtract.
        sub: bool,
        /// Use the carry flag.
        carry_in: bool,
        /// Set the carry flag.
        carry_out: bool,
    },
    /// `setp`.
    Compare {
        /// Comparison.
        f: Compare,
        /// Result.
        d: P,
        /// Complement's result.
        q: Option<P>,
        /// Operand slots.
        s: [u32; 2],
        /// Third operand.
        with: Option<(BoolOp, P, bool)>,
    },
    /// `selp` of up to 32 bits.
    Select32 {
        /// Destination.
        d: R32,
        /// If true, if false.
        s: [R32; 2],
        /// Condition.
        p: (P, bool),
    },
    /// `selp` of 64 bits.
    Select64 {
        /// Destination.
        d: R64,
        /// If true, if false.
        s: [R64; 2],
        /// Condition.
        p: (P, bool),
    },
    /// Logic on predicates.
    Logic {
        /// Destination.
        d: P,
        /// Operation (`None` moves the first operand).
        f: Option<BoolOp>,
        /// Operands with negation.
        s: [(P, bool); 2],
    },
    /// `mov` of up to 32 bits.
    Mov32 {
        /// Destination.
        d: R32,
        /// Source.
        a: R32,
    },
    /// `mov` of 64 bits.
    Mov64 {
        /// Destination.
        d: R64,
        /// Source.
        a: R64,
    },
    /// `mov` that packs elements into a wider register.
    Pack {
        /// Destination.
        d: Reg,
        /// Elements, lowest first.
        s: Box<[Reg]>,
        /// Bits of an element.
        bits: u32,
    },
    /// `mov` that splits a register into elements.
    Unpack {
        /// Elements, lowest first.
        d: Box<[Option<Reg>]>,
        /// Source.
        a: Reg,
        /// Bits of an element.
        bits: u32,
    },
    /// `cvt`.
    Cvt {
        /// The conversion.
        cvt: Box<Cvt>,
        /// Destination.
        d: Reg,
        /// Sources.
        s: [Reg; 2],
    },
    /// `cvt.rs`.
    StochasticCvt {
        /// The conversion.
        cvt: StochasticCvt,
        /// Destination.
        d: Reg,
        /// The numbers, and behind them the random bits.
        s: Box<[R32]>,
    },
    /// `cvta` and its inverse: adds a constant.
    Offset {
        /// Destination.
        d: Reg,
        /// Source.
        a: Reg,
        /// Added modulo 2^64.
        add: u64,
        /// Bits kept.
        mask: u64,
    },
    /// `isspacep`.
    IsSpace {
        /// Result.
        d: P,
        /// Address.
        a: R64,
        /// Space.
        space: MemSpace,
    },
    /// `mapa`.
    Mapa {
        /// Destination.
        d: Reg,
        /// Address.
        a: Reg,
        /// Rank.
        rank: R32,
    },
    /// `getctarank`.
    CtaRank {
        /// Destination.
        d: R32,
        /// Address.
        a: Reg,
    },
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
    /// No functional effect here.
    Nop,
    /// `nanosleep`: lets others run.
    Sleep,
    /// `setmaxnreg`.
    SetRegisters(u32),
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
    /// `shfl.sync`.
    Shfl {
        /// Mode.
        mode: ShflMode,
        /// Destination.
        d: R32,
        /// In-range predicate.
        p: Option<P>,
        /// Value, lane operand, clamp-and-segment operand, member mask.
        s: Box<[R32; 4]>,
    },
    /// `vote.sync`.
    Vote {
        /// Kind.
        kind: VoteKind,
        /// Destination.
        d: Reg,
        /// Predicate.
        a: (P, bool),
        /// Member mask.
        mask: R32,
    },
    /// `match.sync`.
    Match {
        /// `.all`.
        all: bool,
        /// Destination.
        d: R32,
        /// `.all`'s predicate.
        p: Option<P>,
        /// Value.
        a: Reg,
        /// Member mask.
        mask: R32,
    },
    /// `redux.sync`.
    Redux {
        /// Operation.
        op: ReduceOp,
        /// Type.
        ty: ReduceType,
        /// `.NaN`.
        nan: bool,
        /// `.abs`.
        abs: bool,
        /// Destination.
        d: R32,
        /// Value.
        a: R32,
        /// Member mask.
        mask: R32,
    },
    /// `elect.sync`.
    Elect {
        /// Elected lane.
        d: Option<R32>,
        /// Whether this lane is it.
        p: P,
        /// Member mask.
        mask: R32,
    },
    /// `bar.warp.sync`.
    WarpSync {
        /// Member mask.
        mask: R32,
    },
    /// `bar` / `barrier`.
    Bar {
        /// Kind.
        kind: BarKind,
        /// Whether the whole warp must be there.
        aligned: bool,
        /// Barrier number.
        id: R32,
        /// Participating threads.
        count: Option<R32>,
        /// Reduction: destination and operand.
        reduce: Option<Box<(Reg, P, bool)>>,
    },
    /// `barrier.cluster.arrive`.
    ClusterArrive {
        /// `.aligned`.
        aligned: bool,
    },
    /// `barrier.cluster.wait`.
    ClusterWait {
        /// `.aligned`.
        aligned: bool,
    },
    /// Fences.
    Fence(Fence),
    /// `mbarrier.*`.
    Mbarrier(Box<Mbarrier>),
    /// `cp.async.{ca,cg}`.
    CpAsync {
        /// Destination.
        dst: Addr,
        /// Source.
        src: Addr,
        /// Bytes to write.
        bytes: u32,
        /// Bytes to read; the rest is zero.
        source_bytes: Option<R32>,
        /// Predicate that replaces the source by zeros.
        ignore: Option<P>,
    },
    /// `cp.async.commit_group`.
    CpAsyncCommit,
    /// `cp.async.wait_group` (`None` is `wait_all`).
    CpAsyncWait(Option<u32>),
    /// `cp.async.mbarrier.arrive`.
    CpAsyncArrive {
        /// Barrier.
        addr: Addr,
        /// `.noinc`.
        noinc: bool,
        /// Space.
        space: MemSpace,
    },
    /// `cp{.reduce}.async.bulk` without a tensor map.
    Bulk(Box<BulkCopy>),
    /// `cp{.reduce}.async.bulk.tensor`.
    Tensor(Box<TensorCopy>),
    /// `cp.async.bulk.commit_group`.
    BulkCommit,
    /// `cp.async.bulk.wait_group{.read}`.
    BulkWait {
        /// Groups that may stay pending.
        pending: u32,
        /// Only sources must have been read.
        read: bool,
    },
    /// `st.async` and `red.async`.
    StoreAsync {
        /// Destination.
        addr: Addr,
        /// Values.
        src: Box<[Reg]>,
        /// Bytes of one value.
        bytes: u32,
        /// Barrier.
        mbar: Addr,
        /// Reduction.
        reduce: Option<(ReduceOp, ReduceType)>,
    },
    /// `tensormap.replace`.
    TensormapReplace {
        /// Map.
        map: Addr,
        /// Space.
        space: MemSpace,
        /// Field name.
        field: &'static str,
        /// Dimension.
        ordinal: u32,
        /// Value.
        value: Reg,
    },
    /// `tensormap.cp_fenceproxy`.
    TensormapCopy {
        /// Destination.
        dst: Addr,
        /// Source.
        src: Addr,
    },
    /// `clusterlaunchcontrol.try_cancel`.
    TryCancel {
        /// Where the 16-byte answer goes.
        dst: Addr,
        /// Barrier.
        mbar: Addr,
        /// Answer to every CTA of the cluster.
        multicast: bool,
    },
    /// `clusterlaunchcontrol.query_cancel.is_canceled`.
    IsCanceled {
        /// Result.
        d: P,
        /// The answer.
        response: R64,
    },
    /// `clusterlaunchcontrol.query_cancel.get_first_ctaid`.
    FirstCta {
        /// Coordinates asked for: x, y, z.
        d: [Option<R32>; 3],
        /// The answer.
        response: R64,
    },
    /// `wgmma.fence`.
    WgmmaFence,
    /// `wgmma.commit_group`.
    WgmmaCommit,
    /// `wgmma.wait_group`.
    WgmmaWait(u32),
    /// `wgmma.mma_async`.
    Wgmma(Box<WgmmaOp>),
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
    /// `tcgen05.*`.
    Tcgen05(Box<Tcgen05>),
}

impl Op {
    /// Whether a cluster can learn by it what another one did, or when: order decides what comes out.
    pub fn reaches_clusters(&self) -> bool {
        let outside = |space: MemSpace| matches!(space, MemSpace::Global | MemSpace::Generic);
        match self {
            Op::Load(load) => load.strong && outside(load.space),
            Op::Store(store) => store.strong && outside(store.space),
            Op::Atomic(atomic) => outside(atomic.space),
            Op::Bulk(copy) => copy.reduce.is_some() && outside(copy.dst_space),
            Op::Tensor(copy) => matches!(copy.direction, TensorDirection::Reduce(_)),
            Op::TryCancel { .. } => true,
            _ => false,
        }
    }
}

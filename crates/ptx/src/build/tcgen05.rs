//! Fifth-generation tensor cores (sm_100a): tensor memory and its matrix multiply.

use super::builder::Builder;
use super::memory::{SmemPtr, address};
use super::sync::Mbarrier;
use super::value::{Arg, Reg};
use crate::ast::Operand;

/// One CTA, or a pair of CTAs working on one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CtaGroup {
    /// One CTA.
    One,
    /// Two CTAs of a cluster whose ranks differ in the last bit.
    Two,
}

impl CtaGroup {
    fn name(self) -> &'static str {
        match self {
            CtaGroup::One => "cta_group::1",
            CtaGroup::Two => "cta_group::2",
        }
    }
}

/// An address in tensor memory: a register (lane in the upper half, column in the lower) plus columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TmemPtr {
    /// Register part.
    pub base: Reg<u32>,
    /// Constant column offset.
    pub column: u32,
}

impl TmemPtr {
    /// `columns` further right.
    pub fn columns(self, columns: u32) -> Self {
        TmemPtr { column: self.column + columns, ..self }
    }

    fn operand(self) -> Operand {
        address(self.base, self.column as i64)
    }
}

/// The A operand of a tcgen05 multiply.
#[derive(Clone, Copy, Debug)]
pub enum Tcgen05A {
    /// A matrix descriptor.
    Shared(Reg<u64>),
    /// Tensor memory.
    Tmem(TmemPtr),
}

impl Builder {
    /// Allocates `columns` of tensor memory (a whole warp); the address is written to `to`.
    #[track_caller]
    pub fn tmem_alloc(&mut self, group: CtaGroup, to: SmemPtr, columns: u32) {
        let text = format!("tcgen05.alloc.{}.sync.aligned.shared::cta.b32", group.name());
        self.emit(&text, vec![to.operand(), Operand::int(columns)]);
    }

    /// Gives up the right to allocate.
    #[track_caller]
    pub fn tmem_relinquish(&mut self, group: CtaGroup) {
        let text = format!("tcgen05.relinquish_alloc_permit.{}.sync.aligned", group.name());
        self.emit(&text, vec![]);
    }

    /// Frees tensor memory (a whole warp).
    #[track_caller]
    pub fn tmem_dealloc(&mut self, group: CtaGroup, at: Reg<u32>, columns: u32) {
        let text = format!("tcgen05.dealloc.{}.sync.aligned.b32", group.name());
        self.emit(&text, vec![at.operand(), Operand::int(columns)]);
    }

    /// `d = a·b` or `d += a·b` on 16-bit inputs; one thread issues.
    #[track_caller]
    pub fn tcgen05_mma_f16(
        &mut self,
        group: CtaGroup,
        d: TmemPtr,
        a: Tcgen05A,
        b: Reg<u64>,
        instruction: impl Into<Arg<u32>>,
        accumulate: Reg<bool>,
    ) {
        let text = format!("tcgen05.mma.{}.kind::f16", group.name());
        let left = match a {
            Tcgen05A::Shared(descriptor) => descriptor.operand(),
            Tcgen05A::Tmem(at) => at.operand(),
        };
        let instruction = self.value::<u32>(instruction);
        let operands =
            vec![d.operand(), left, b.operand(), instruction.operand(), accumulate.operand()];
        self.emit(&text, operands);
    }

    /// Arrives on `barrier` when all multiplies and copies this thread issued so far are done.
    #[track_caller]
    pub fn tcgen05_commit(&mut self, group: CtaGroup, barrier: Mbarrier) {
        let text =
            format!("tcgen05.commit.{}.mbarrier::arrive::one.shared::cluster.b64", group.name());
        self.emit(&text, vec![barrier.0.operand()]);
    }

    /// As [`Builder::tcgen05_commit`], on the barrier at the same place in each CTA of `ctas`.
    #[track_caller]
    pub fn tcgen05_commit_multicast(
        &mut self,
        group: CtaGroup,
        barrier: Mbarrier,
        ctas: impl Into<Arg<u16>>,
    ) {
        let text = format!(
            "tcgen05.commit.{}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64",
            group.name()
        );
        let mask = self.value::<u16>(ctas);
        self.emit(&text, vec![barrier.0.operand(), mask.operand()]);
    }

    /// Loads `n` columns of this warp's 32 lanes, one lane per thread.
    #[track_caller]
    pub fn tmem_load<T: super::Scalar>(&mut self, from: TmemPtr, n: u32) -> Vec<Reg<T>> {
        let values = self.regs(n as usize);
        let vector = Operand::Vector(values.iter().map(|r| r.operand()).collect());
        let text = format!("tcgen05.ld.sync.aligned.32x32b.x{n}.b32");
        self.emit(&text, vec![vector, from.operand()]);
        values
    }

    /// Stores columns of this warp's 32 lanes, one lane per thread.
    #[track_caller]
    pub fn tmem_store<T: super::Scalar>(&mut self, to: TmemPtr, values: &[Reg<T>]) {
        let vector = Operand::Vector(values.iter().map(|r| r.operand()).collect());
        let text = format!("tcgen05.st.sync.aligned.32x32b.x{}.b32", values.len());
        self.emit(&text, vec![to.operand(), vector]);
    }

    /// Copies from shared memory (a matrix descriptor) to tensor memory; one thread issues, and
    /// [`Builder::tcgen05_commit`] tracks it. `shape` is the part of the opcode that says which lanes
    /// get what: `128x256b`, `32x128b.warpx4`, `64x128b.warpx2::02_13`.
    #[track_caller]
    pub fn tmem_copy(&mut self, group: CtaGroup, shape: &str, to: TmemPtr, from: Reg<u64>) {
        let text = format!("tcgen05.cp.{}.{shape}", group.name());
        self.emit(&text, vec![to.operand(), from.operand()]);
    }

    /// Waits for this thread's tensor-memory loads.
    #[track_caller]
    pub fn tmem_wait_load(&mut self) {
        self.emit("tcgen05.wait::ld.sync.aligned", vec![]);
    }

    /// Waits for this thread's tensor-memory stores.
    #[track_caller]
    pub fn tmem_wait_store(&mut self) {
        self.emit("tcgen05.wait::st.sync.aligned", vec![]);
    }

    /// Orders tcgen05 work before a thread synchronisation that follows.
    #[track_caller]
    pub fn tcgen05_fence_before(&mut self) {
        self.emit("tcgen05.fence::before_thread_sync", vec![]);
    }

    /// Orders tcgen05 work after a thread synchronisation that went before.
    #[track_caller]
    pub fn tcgen05_fence_after(&mut self) {
        self.emit("tcgen05.fence::after_thread_sync", vec![]);
    }
}

//! mbarriers, pipelines, named barriers, fences.
//!
//! A wait on an mbarrier names the parity of the phase it waits for. Here nobody can: only cursors wait.
//! A [`Pipeline`] hands out one [`Cursor`] per side, and the type of the side fixes where its parity
//! starts (producers may fill a fresh ring at once, consumers must wait for the first fill); a ring of
//! [`Signals`](super::Signals) hands out cursors that wait for each signal in turn.

use super::arith::Cmp;
use super::builder::Builder;
use super::memory::SmemPtr;
use super::shared::{SharedTile, SharedTiles};
use super::value::{Arg, Reg};
use crate::ast::Operand;
use std::marker::PhantomData;

/// One mbarrier in shared memory, to arrive on and to count copies on. It is waited for through the
/// cursor it came from, which knows the phase.
#[derive(Clone, Copy, Debug)]
pub struct Mbarrier(pub(super) SmemPtr);

/// Parity of the phase a cursor stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parity(Reg<u32>);

impl Parity {
    /// The parity of the phase that completes first.
    #[track_caller]
    pub(super) fn first(b: &mut Builder) -> Self {
        Parity(b.value(0))
    }

    /// The parity of the phase before the first one: complete from the start.
    #[track_caller]
    pub(super) fn before_first(b: &mut Builder) -> Self {
        Parity(b.value(1))
    }

    /// A register of its own with the same parity.
    #[track_caller]
    pub(super) fn copy(self, b: &mut Builder) -> Self {
        Parity(b.value(self.0))
    }

    /// Takes over another parity.
    #[track_caller]
    fn assign(self, b: &mut Builder, other: Parity) {
        b.assign(self.0, other.0);
    }

    /// Goes on to the next phase.
    #[track_caller]
    pub(super) fn flip(self, b: &mut Builder) {
        let flipped = b.xor(self.0, 1);
        b.assign(self.0, flipped);
    }

    /// Goes on to the next phase where `wraps` holds.
    #[track_caller]
    pub(super) fn flip_if(self, b: &mut Builder, wraps: Reg<bool>) {
        let flipped = b.xor(self.0, 1);
        b.assign_if(wraps, self.0, flipped);
    }
}

/// Bytes of an mbarrier.
pub const MBARRIER_BYTES: u32 = 8;

impl Mbarrier {
    /// Initialises the barrier: a phase completes after `arrivals` arrivals (not bytes).
    #[track_caller]
    pub fn init(self, b: &mut Builder, arrivals: u32) {
        b.emit("mbarrier.init.shared::cta.b64", vec![self.0.operand(), Operand::int(arrivals)]);
    }

    /// Arrives once.
    #[track_caller]
    pub fn arrive(self, b: &mut Builder) {
        b.emit("mbarrier.arrive.shared::cta.b64", vec![Operand::Sink, self.0.operand()]);
    }

    /// Arrives once where `p` holds.
    #[track_caller]
    pub fn arrive_if(self, b: &mut Builder, p: Reg<bool>) {
        b.emit_if(p, "mbarrier.arrive.shared::cta.b64", vec![Operand::Sink, self.0.operand()]);
    }

    /// Arrives once when all [`Builder::cp_async16`] copies that this thread has issued are done.
    #[track_caller]
    pub fn arrive_when_copied(self, b: &mut Builder) {
        b.emit("cp.async.mbarrier.arrive.noinc.shared::cta.b64", vec![self.0.operand()]);
    }

    /// Arrives once on the barrier at the same place in CTA `rank` of the cluster.
    #[track_caller]
    pub fn arrive_remote(self, b: &mut Builder, rank: impl Into<Arg<u32>>) {
        let local = b.smem_address(self.0);
        let remote = b.map_to_rank(local, rank);
        let to = super::memory::address(remote, 0);
        b.emit("mbarrier.arrive.shared::cluster.b64", vec![Operand::Sink, to]);
    }

    /// Arrives once and announces `bytes` of asynchronous copies.
    #[track_caller]
    pub fn arrive_expect(self, b: &mut Builder, bytes: impl Into<Arg<u32>>) {
        let bytes = b.operand(bytes);
        let operands = vec![Operand::Sink, self.0.operand(), bytes];
        b.emit("mbarrier.arrive.expect_tx.shared::cta.b64", operands);
    }

    /// Arrives once and announces `bytes` of asynchronous copies where `p` holds.
    #[track_caller]
    pub fn arrive_expect_if(self, b: &mut Builder, p: Reg<bool>, bytes: impl Into<Arg<u32>>) {
        let bytes = b.operand(bytes);
        let operands = vec![Operand::Sink, self.0.operand(), bytes];
        b.emit_if(p, "mbarrier.arrive.expect_tx.shared::cta.b64", operands);
    }

    /// Waits until the phase of this parity has completed.
    #[track_caller]
    pub(super) fn wait(self, b: &mut Builder, parity: Parity) {
        let (again, done, p) = (b.label(), b.label(), b.reg::<bool>());
        b.place(again);
        let operands = vec![p.operand(), self.0.operand(), parity.0.operand()];
        b.emit("mbarrier.try_wait.parity.shared::cta.b64", operands);
        b.branch_if(p, done);
        b.branch(again);
        b.place(done);
    }
}

/// An mbarrier of another CTA of the cluster (or of this one): it can be arrived on, not waited for.
#[derive(Clone, Copy, Debug)]
pub struct RemoteMbarrier(Reg<u32>);

impl Mbarrier {
    /// The barrier at the same place in CTA `rank` of the cluster.
    #[track_caller]
    pub fn in_cta(self, b: &mut Builder, rank: impl Into<Arg<u32>>) -> RemoteMbarrier {
        let local = b.smem_address(self.0);
        RemoteMbarrier(b.map_to_rank(local, rank))
    }
}

impl RemoteMbarrier {
    /// As a memory operand.
    pub fn operand(self) -> Operand {
        super::memory::address(self.0, 0)
    }

    /// Arrives once where `p` holds.
    #[track_caller]
    pub fn arrive_if(self, b: &mut Builder, p: Reg<bool>) {
        let operands = vec![Operand::Sink, self.operand()];
        b.emit_if(p, "mbarrier.arrive.shared::cluster.b64", operands);
    }

    /// Arrives once and announces `bytes` of asynchronous copies.
    #[track_caller]
    pub fn arrive_expect(self, b: &mut Builder, bytes: impl Into<Arg<u32>>) {
        let bytes = b.operand(bytes);
        let operands = vec![Operand::Sink, self.operand(), bytes];
        b.emit("mbarrier.arrive.expect_tx.shared::cluster.b64", operands);
    }
}

/// A ring of `stages` buffers guarded by a full and an empty mbarrier each.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline {
    full: SmemPtr,
    empty: SmemPtr,
    /// Buffers in the ring.
    pub stages: u32,
}

/// The side of a pipeline that fills buffers.
#[derive(Clone, Copy, Debug)]
pub struct Producer;
/// The side of a pipeline that reads buffers.
#[derive(Clone, Copy, Debug)]
pub struct Consumer;

/// One side's place in a [`Pipeline`]: the stage it is at and the parity it waits for.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<Side> {
    pipeline: Pipeline,
    /// Index of the buffer it is at.
    pub stage: Reg<u32>,
    parity: Parity,
    side: PhantomData<Side>,
}

impl Pipeline {
    /// Reserves the barriers of a ring.
    pub fn reserve(b: &mut Builder, shared: SmemPtr, stages: u32) -> Self {
        let full = shared.plus(b.reserve_shared(stages * MBARRIER_BYTES, MBARRIER_BYTES));
        let empty = shared.plus(b.reserve_shared(stages * MBARRIER_BYTES, MBARRIER_BYTES));
        Pipeline { full, empty, stages }
    }

    /// Initialises every barrier (one thread): arrivals per fill and per release.
    #[track_caller]
    pub fn init(&self, b: &mut Builder, fill_arrivals: u32, release_arrivals: u32) {
        for stage in 0..self.stages {
            Mbarrier(self.full.plus(stage * MBARRIER_BYTES)).init(b, fill_arrivals);
            Mbarrier(self.empty.plus(stage * MBARRIER_BYTES)).init(b, release_arrivals);
        }
    }

    /// The filling side, at the first buffer: a fresh ring is free to fill.
    #[track_caller]
    pub fn producer(&self, b: &mut Builder) -> Cursor<Producer> {
        let (stage, parity) = (b.value::<u32>(0), Parity::before_first(b));
        self.cursor(stage, parity)
    }

    /// The reading side, at the first buffer: it waits for the first fill.
    #[track_caller]
    pub fn consumer(&self, b: &mut Builder) -> Cursor<Consumer> {
        let (stage, parity) = (b.value::<u32>(0), Parity::first(b));
        self.cursor(stage, parity)
    }

    fn cursor<Side>(&self, stage: Reg<u32>, parity: Parity) -> Cursor<Side> {
        Cursor { pipeline: *self, stage, parity, side: PhantomData }
    }
}

/// One buffer of a ring, as one side took it: stays valid while the cursor moves on.
#[derive(Clone, Copy, Debug)]
pub struct Slot<Side> {
    cursor: Cursor<Side>,
}

impl<Side: Copy> Cursor<Side> {
    /// Takes the buffer the cursor is at and steps on.
    #[track_caller]
    pub fn take(&self, b: &mut Builder) -> Slot<Side> {
        let slot = Slot { cursor: *self }.copy(b);
        self.advance(b);
        slot
    }

    /// Steps to the next buffer; the parity flips when the ring wraps.
    #[track_caller]
    pub fn advance(&self, b: &mut Builder) {
        let next = b.add(self.stage, 1);
        if self.pipeline.stages == 1 {
            return self.parity.flip(b);
        }
        let wraps = b.setp(Cmp::Eq, next, self.pipeline.stages);
        self.parity.flip_if(b, wraps);
        let stage = b.select::<u32>(wraps, 0, next);
        b.assign(self.stage, stage);
    }

    #[track_caller]
    fn barrier(&self, b: &mut Builder, ring: SmemPtr) -> Mbarrier {
        if self.pipeline.stages == 1 {
            return Mbarrier(ring);
        }
        let base = b.mad(self.stage, MBARRIER_BYTES, ring.base);
        Mbarrier(SmemPtr { base, offset: ring.offset })
    }

    /// The barrier that says the buffer is filled.
    #[track_caller]
    pub fn full(&self, b: &mut Builder) -> Mbarrier {
        self.barrier(b, self.pipeline.full)
    }

    /// The barrier that says the buffer is free.
    #[track_caller]
    pub fn empty(&self, b: &mut Builder) -> Mbarrier {
        self.barrier(b, self.pipeline.empty)
    }

    /// This stage's tiles of a ring, which the stages share evenly.
    #[track_caller]
    pub fn tiles(&self, b: &mut Builder, ring: SharedTiles) -> SharedTiles {
        ring.of_stage(b, self.stage, self.pipeline.stages)
    }
}

impl<Side: Copy> Slot<Side> {
    /// Another handle that names the same buffer now.
    #[track_caller]
    pub fn copy(&self, b: &mut Builder) -> Slot<Side> {
        let (stage, parity) = (b.value(self.cursor.stage), self.cursor.parity.copy(b));
        Slot { cursor: Cursor { stage, parity, ..self.cursor } }
    }

    /// Makes this handle name the buffer that `other` names.
    #[track_caller]
    pub fn assign(&self, b: &mut Builder, other: &Slot<Side>) {
        b.assign(self.cursor.stage, other.cursor.stage);
        self.cursor.parity.assign(b, other.cursor.parity);
    }

    /// The buffer's tiles of a ring, which its buffers share evenly.
    #[track_caller]
    pub fn tiles(&self, b: &mut Builder, ring: SharedTiles) -> SharedTiles {
        self.cursor.tiles(b, ring)
    }

    /// The buffer's tile of a ring of one tile per buffer.
    #[track_caller]
    pub fn tile(&self, b: &mut Builder, ring: SharedTiles) -> SharedTile {
        assert_eq!(ring.count(), self.cursor.pipeline.stages, "one tile per buffer");
        self.cursor.tiles(b, ring).tile(0)
    }

    /// Index of the buffer in its ring.
    pub fn stage(&self) -> Reg<u32> {
        self.cursor.stage
    }
}

impl Cursor<Producer> {
    /// Waits until all buffers are free: behind the last fill, nothing will arrive on their barriers any more.
    #[track_caller]
    pub fn drain(&self, b: &mut Builder) {
        b.range(0, self.pipeline.stages, |b, _| {
            self.wait(b);
            self.advance(b);
        });
    }
}

impl Slot<Producer> {
    /// Waits until the buffer is free.
    #[track_caller]
    pub fn wait(&self, b: &mut Builder) {
        self.cursor.wait(b);
    }

    /// The barrier that fills are counted on.
    #[track_caller]
    pub fn full(&self, b: &mut Builder) -> Mbarrier {
        self.cursor.full(b)
    }
}

impl Slot<Consumer> {
    /// Waits until the buffer is filled.
    #[track_caller]
    pub fn wait(&self, b: &mut Builder) {
        self.cursor.wait(b);
    }

    /// Says, for threads where `p` holds, that the buffer has been read.
    #[track_caller]
    pub fn release_if(&self, b: &mut Builder, p: Reg<bool>) {
        self.cursor.release_if(b, p);
    }

    /// The barrier that releases are counted on.
    #[track_caller]
    pub fn empty(&self, b: &mut Builder) -> Mbarrier {
        self.cursor.empty(b)
    }
}

impl Cursor<Producer> {
    /// Waits until the buffer is free.
    #[track_caller]
    pub fn wait(&self, b: &mut Builder) {
        let barrier = self.empty(b);
        barrier.wait(b, self.parity);
    }
}

impl Cursor<Consumer> {
    /// Waits until the buffer is filled.
    #[track_caller]
    pub fn wait(&self, b: &mut Builder) {
        let barrier = self.full(b);
        barrier.wait(b, self.parity);
    }

    /// Says that this thread has finished reading the buffer.
    #[track_caller]
    pub fn release(&self, b: &mut Builder) {
        let barrier = self.empty(b);
        barrier.arrive(b);
    }

    /// Says so for threads where `p` holds.
    #[track_caller]
    pub fn release_if(&self, b: &mut Builder, p: Reg<bool>) {
        let barrier = self.empty(b);
        barrier.arrive_if(b, p);
    }
}

impl Builder {
    /// Waits for all threads of the CTA.
    #[track_caller]
    pub fn barrier_all(&mut self) {
        self.emit("bar.sync", vec![Operand::int(0)]);
    }

    /// Named barrier: waits for `threads` threads to arrive at `id`.
    #[track_caller]
    pub fn barrier_sync(&mut self, id: impl Into<Arg<u32>>, threads: u32) {
        let id = self.operand(id);
        self.emit("bar.sync", vec![id, Operand::int(threads)]);
    }

    /// Named barrier: waits for `threads` threads to arrive at `id`; whether `p` holds in any of them.
    #[track_caller]
    pub fn barrier_any(
        &mut self,
        id: impl Into<Arg<u32>>,
        threads: u32,
        p: Reg<bool>,
    ) -> Reg<bool> {
        let (id, any) = (self.operand(id), self.reg::<bool>());
        let operands = vec![any.operand(), id, Operand::int(threads), p.operand()];
        self.emit("bar.red.or.pred", operands);
        any
    }

    /// Named barrier: arrives without waiting.
    #[track_caller]
    pub fn barrier_arrive(&mut self, id: impl Into<Arg<u32>>, threads: u32) {
        let id = self.operand(id);
        self.emit("bar.arrive", vec![id, Operand::int(threads)]);
    }

    /// Makes initialised mbarriers visible to the async proxy and to the cluster.
    #[track_caller]
    pub fn fence_mbarrier_init(&mut self) {
        self.emit("fence.mbarrier_init.release.cluster", vec![]);
    }

    /// Orders this thread's shared-memory writes before later asynchronous reads of them.
    #[track_caller]
    pub fn fence_proxy_async(&mut self) {
        self.emit("fence.proxy.async.shared::cta", vec![]);
    }

    /// Arrives at and waits for all threads of the cluster.
    #[track_caller]
    pub fn cluster_barrier(&mut self) {
        self.emit("barrier.cluster.arrive.release.aligned", vec![]);
        self.emit("barrier.cluster.wait.acquire.aligned", vec![]);
    }

    /// The address at the same place in CTA `rank` of the cluster.
    #[track_caller]
    pub fn map_to_rank(&mut self, local: Reg<u32>, rank: impl Into<Arg<u32>>) -> Reg<u32> {
        let rank = self.operand(rank);
        let d = self.reg();
        self.emit("mapa.shared::cluster.u32", vec![d.operand(), local.operand(), rank]);
        d
    }

    /// Waits until the previous grid's memory is visible (programmatic dependent launch). Where launches do not
    /// [overlap](super::Target::overlaps_launches), it is from the start.
    #[track_caller]
    pub fn wait_previous_grid(&mut self) {
        if self.target().overlaps_launches() {
            self.emit("griddepcontrol.wait", vec![]);
        }
    }

    /// Lets the next grid start (programmatic dependent launch), where launches
    /// [overlap](super::Target::overlaps_launches).
    #[track_caller]
    pub fn launch_next_grid(&mut self) {
        if self.target().overlaps_launches() {
            self.emit("griddepcontrol.launch_dependents", vec![]);
        }
    }
}

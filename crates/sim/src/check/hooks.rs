//! Where execution tells the checker what happens.

use super::agent::Pipe;
use super::clock::Clocks;
use super::clusters::{Met, Touch, Toucher};
use super::pipes::{Issued, Memory, Operation, Proxy};
use super::report::verb;
use super::shadow::Conflict;
use super::touched::Touched;
use crate::cluster::{Cluster, CtaRank, Run};
use crate::engine::{Group, Pending, Stream};
use crate::exec::Work;
use crate::instruction::{Access, BarrierId, Fence, Op, Order, Place, Tcgen05};
use crate::matrix::{TMEM_COLUMNS, TmemRect};
use crate::rules::Rule;
use crate::warp::WarpId;

impl Cluster<'_> {
    pub(crate) fn publish_named(&mut self, w: WarpId, cta: CtaRank, id: u32) {
        self.synchronise_lanes(w);
        let Some(checker) = &mut self.checker else { return };
        checker.publish(w, &mut self.ctas[cta].named[id as usize].clocks);
        checker.step(w);
    }

    pub(crate) fn publish_cluster(&mut self, w: WarpId) {
        self.synchronise_lanes(w);
        let Some(checker) = &mut self.checker else { return };
        checker.publish(w, &mut self.barrier.incoming);
        checker.step(w);
    }

    pub(crate) fn acquire(&mut self, w: WarpId, clocks: &Clocks) {
        if let Some(checker) = &mut self.checker {
            checker.known[w].join(clocks);
        }
    }

    pub(crate) fn acquire_barrier(&mut self, w: WarpId, id: BarrierId) {
        let Some(checker) = &mut self.checker else { return };
        if let Some(bar) = self.ctas[id.0].mbarriers.get(&id.1) {
            checker.known[w].join(&bar.published);
        }
    }

    /// A warp's arrival publishes what it knows.
    pub(crate) fn release_to(&mut self, w: WarpId, id: BarrierId) {
        self.note_visit(w, id.0);
        let Some(checker) = &mut self.checker else { return };
        if let Some(bar) = self.ctas[id.0].mbarriers.get_mut(&id.1) {
            checker.publish(w, &mut bar.incoming);
        }
        checker.step(w);
    }

    pub(crate) fn note_fence(&mut self, w: WarpId, fence: Fence) {
        if matches!(fence, Fence::MbarrierInit | Fence::ProxyAsync) {
            self.fence_barriers(w);
        }
        if fence == Fence::EarlierGrids {
            self.await_earlier_grids(w);
        }
        let Some(checker) = &mut self.checker else { return };
        match fence {
            Fence::ProxyAsync => checker.proxy_fence(w),
            Fence::Thread | Fence::EarlierGrids | Fence::MbarrierInit | Fence::Proxy => {}
        }
    }

    /// In pedantic mode an asynchronous operation may only signal a barrier whose initialisation was
    /// fenced: a barrier of threads does not make it visible to other proxies or CTAs.
    pub(crate) fn note_async_signal(&self, w: WarpId, id: BarrierId) -> Run<()> {
        let Some(bar) = self.ctas[id.0].mbarriers.get(&id.1) else { return Ok(()) };
        if bar.fenced || !self.launch.options.pedantic {
            return Ok(());
        }
        let name = self.mbarrier_name(id.0, id.1);
        let message =
            format!("mbarrier {name} is signalled asynchronously; its initialisation has no fence");
        let site = self.site(bar.init.warp, bar.init.pc, None);
        let help = "the initialising thread executes fence.mbarrier_init.release.cluster before the barrier \
                    that tells the others";
        let other = Some(("initialised:".into(), site));
        self.hazard(w, Rule::BarrierInitNotFenced, message, other, Some(help))
    }

    /// The barriers a warp initialised so far are visible to everyone it synchronises with.
    fn fence_barriers(&mut self, w: WarpId) {
        let cta = self.warps[w].cta;
        let own = self.ctas[cta].mbarriers.values_mut().filter(|bar| bar.init.warp == w);
        own.for_each(|bar| bar.fenced = true);
    }

    /// `tcgen05.fence`: after a synchronisation of threads, or before one.
    pub(crate) fn note_tensor_fence(&mut self, w: WarpId, after: bool) {
        let Some(checker) = &mut self.checker else { return };
        if after {
            checker.order_tensor_memory(w);
        } else {
            checker.publish_tensor_memory(w);
        }
    }

    /// In pedantic mode, who frees tensor memory must know that nobody uses it any more.
    pub(crate) fn note_tmem_free(
        &mut self,
        w: WarpId,
        cta: CtaRank,
        start: usize,
        columns: usize,
    ) -> Run<()> {
        let pc = self.pc(w);
        if self.checker.as_ref().is_none_or(|checker| checker.ordered.is_none()) {
            return Ok(());
        }
        let memory = Memory::Tensor(cta);
        loop {
            let Some(checker) = &mut self.checker else { return Ok(()) };
            let lanes = (0..128).map(|lane| (4 * (lane * TMEM_COLUMNS + start), 4 * columns));
            let outcome = checker.by_ranges(w, pc, memory, lanes, true);
            if self.settle(w, memory, outcome, true)?.is_none() {
                return Ok(());
            }
        }
    }

    /// Operand A of 16 bits or fewer cannot be what a matrix instruction left: accumulators are
    /// one number per column.
    pub(crate) fn check_tensor_operand(&self, w: WarpId, cta: CtaRank, rect: &TmemRect) -> Run<()> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let at = 4 * (rect.lanes.start * TMEM_COLUMNS + rect.columns.start) as u64;
        let Some(write) = checker.last_write(Memory::Tensor(cta), at) else { return Ok(()) };
        let Op::Tcgen05(op) = &self.kernel.code[write.pc() as usize].op else { return Ok(()) };
        if !matches!(**op, Tcgen05::Mma(_)) {
            return Ok(());
        }
        let site = self.site(checker.warp_of(write.agent()), write.pc(), None);
        let column = rect.columns.start;
        let message = format!(
            "operand A is read at tensor-memory column {column}, which holds accumulators of a tcgen05.mma"
        );
        let help = "A takes packed elements that tcgen05.st or tcgen05.cp stored: add the column offset at \
                    which they are";
        self.hazard(
            w,
            Rule::AccumulatorAsOperand,
            message,
            Some(("accumulated:".into(), site)),
            Some(help),
        )
    }

    pub(crate) fn note_barrier_init(&mut self, w: WarpId, id: BarrierId) -> Run<()> {
        let place = Place::Shared(id.0, id.1);
        let access = Access { place, bytes: 8, write: true, order: Order::Weak, compared: false };
        self.note_access(w, access, |_, _| Ok(false))
    }

    /// Whoever uses a barrier must know of its initialisation.
    pub(crate) fn note_barrier_use(&mut self, w: WarpId, id: BarrierId) -> Run<()> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let Err((_, conflict)) = checker.look(w, Memory::Shared(id.0), (id.1.into(), 8)) else {
            return Ok(());
        };
        let owner = checker.warp_of(conflict.other.agent());
        let site = self.site(owner, conflict.other.pc(), None);
        let name = self.mbarrier_name(id.0, id.1);
        let message =
            format!("mbarrier {name} is used, but nothing orders this after its initialisation");
        let help = "after mbarrier.init: fence.mbarrier_init (or a barrier) and bar.sync or the cluster \
                    barrier before other warps use it";
        self.hazard(
            w,
            Rule::BarrierInitNotPublished,
            message,
            Some(("initialised:".into(), site)),
            Some(help),
        )
    }

    /// A load or store by a warp itself; a conflict that `forgives` is true of is none.
    pub(crate) fn note_access(
        &mut self,
        w: WarpId,
        access: Access,
        mut forgives: impl FnMut(&mut Self, &Conflict) -> Run<bool>,
    ) -> Run<()> {
        let Access { place, bytes, write, order, .. } = access;
        let (memory, start) = match place {
            Place::Shared(cta, offset) => (Memory::Shared(cta), u64::from(offset)),
            Place::Global(at) => (Memory::Global, at),
            _ => return Ok(()),
        };
        if order == Order::Async || self.checker.is_none() {
            return Ok(());
        }
        let pc = self.pc(w);
        if let Memory::Shared(cta) = memory {
            self.note_visit(w, cta);
        }
        if memory == Memory::Global {
            self.check_earlier_grids(w, (start, bytes.into()), write)?;
            self.note_cluster_access(w, (start, bytes.into()), access)?;
        }
        let range = (start, bytes.into());
        loop {
            let Some(checker) = &mut self.checker else { return Ok(()) };
            let outcome = match order {
                Order::Strong => checker.strongly(w, pc, memory, range, write),
                _ => checker.by_warp(w, pc, memory, range, write),
            };
            if let Err((_, conflict)) = &outcome
                && forgives(self, conflict)?
            {
                return Ok(());
            }
            if self.settle(w, memory, outcome, write)?.is_none() {
                return Ok(());
            }
        }
    }

    /// Ranges of shared memory that the lanes of a warp load.
    pub(crate) fn note_loaded_ranges(
        &mut self,
        w: WarpId,
        cta: CtaRank,
        ranges: impl Iterator<Item = (usize, usize)> + Clone,
    ) -> Run<()> {
        self.note_ranges(w, cta, ranges, false, |_, _| false).map(|_| ())
    }

    /// Ranges of shared memory that the lanes of a warp store; false where another warp stored there by the
    /// same instruction, and nothing orders the two.
    pub(crate) fn note_stored_ranges(
        &mut self,
        w: WarpId,
        cta: CtaRank,
        ranges: impl Iterator<Item = (usize, usize)> + Clone,
    ) -> Run<bool> {
        self.note_ranges(w, cta, ranges, true, |this, conflict| this.repeats(w, conflict))
    }

    /// Whether all ranges were noted; a conflict that `stops` is true of ends it.
    fn note_ranges(
        &mut self,
        w: WarpId,
        cta: CtaRank,
        ranges: impl Iterator<Item = (usize, usize)> + Clone,
        write: bool,
        stops: impl Fn(&Self, &Conflict) -> bool,
    ) -> Run<bool> {
        let pc = self.warps[w].fragments[0].pc;
        let memory = Memory::Shared(cta);
        self.note_visit(w, cta);
        loop {
            let Some(checker) = &mut self.checker else { return Ok(true) };
            let outcome = checker.by_ranges(w, pc, memory, ranges.clone(), write);
            if outcome.as_ref().is_err_and(|(_, conflict)| stops(self, conflict)) {
                return Ok(false);
            }
            if self.settle(w, memory, outcome, write)?.is_none() {
                return Ok(true);
            }
        }
    }

    /// Ranges of global memory that the lanes of a warp load.
    pub(crate) fn note_global_reads(
        &mut self,
        w: WarpId,
        ranges: impl Iterator<Item = (u64, u64)> + Clone,
    ) -> Run<()> {
        let pc = self.pc(w);
        for range in ranges.clone() {
            self.check_earlier_grids(w, range, false)?;
            self.meet_clusters(w, range, Touch::Read)?;
        }
        loop {
            let Some(checker) = &mut self.checker else { return Ok(()) };
            let ranges = ranges.clone().map(|(at, len)| (at as usize, len as usize));
            let outcome = checker.by_ranges(w, pc, Memory::Global, ranges, false);
            if self.settle(w, Memory::Global, outcome, false)?.is_none() {
                return Ok(());
            }
        }
    }

    /// An access to global memory that is part of no asynchronous operation.
    fn note_cluster_access(&mut self, w: WarpId, range: (u64, u64), access: Access) -> Run<()> {
        match access.order {
            Order::Strong => {
                self.exchange_knowledge(range.0, access.write);
                Ok(())
            }
            Order::Weak if access.write => {
                self.meet_clusters(w, range, Touch::Write { compared: access.compared })
            }
            Order::Weak => self.meet_clusters(w, range, Touch::Read),
            Order::Async => Ok(()),
        }
    }

    /// A strong access publishes what the cluster did, or learns what another one published.
    fn exchange_knowledge(&mut self, at: u64, write: bool) {
        if !self.kernel.clusters_communicate {
            return;
        }
        match write {
            true => self.launch.clusters.publish(self.number, &mut self.knowledge, at),
            false => self.launch.clusters.learn(&mut self.knowledge, at),
        }
    }

    /// Accesses of two clusters to the same bytes, which nothing orders.
    fn meet_clusters(&mut self, w: WarpId, range: (u64, u64), touch: Touch) -> Run<()> {
        if self.launch.clusters() == 1 {
            return Ok(());
        }
        let by = Toucher { cluster: self.number, warp: w, pc: self.pc(w), knows: &self.knowledge };
        let Some(Met { at, other, wrote }) = self.launch.clusters.touch(&by, range, touch) else {
            return Ok(());
        };
        let place = self.name_place(Memory::Global, at);
        let (mine, theirs) = (verb(touch != Touch::Read), if wrote { "wrote" } else { "read" });
        let message = format!(
            "{mine} of {place}, which cluster {} also {theirs}: nothing orders the two",
            other.cluster()
        );
        let site = self.site_in(other.cluster(), other.warp(), other.pc());
        let help = "clusters run in any order: use atomics, or a flag with release and acquire";
        let other = Some((format!("the other {}:", verb(wrote)), site));
        self.hazard(w, Rule::Race, message, other, Some(help))
    }

    /// An asynchronous operation is issued: what it touches is checked and recorded now, whenever it
    /// happens.
    pub(crate) fn note_issue(
        &mut self,
        w: WarpId,
        stream: Stream,
        group: Group,
        work: &Work,
    ) -> Run<Clocks> {
        if self.checker.is_none() {
            return Ok(Clocks::default());
        }
        let touched = self.touched(w, work)?;
        for Touched { start, len, write, .. } in
            touched.iter().filter(|touched| touched.memory == Memory::Global)
        {
            self.check_earlier_grids(w, (*start, *len), *write)?;
            // Reductions are atomic.
            if !work.reduces() {
                let touch = if *write { Touch::Copy } else { Touch::Read };
                self.meet_clusters(w, (*start, *len), touch)?;
            }
        }
        let pc = self.pc(w);
        let Some(checker) = &mut self.checker else { return Ok(Clocks::default()) };
        let (agent, proxy) = match stream {
            Stream::Free => (checker.slot(w), Proxy::Async),
            Stream::CpAsync(w) => (checker.pipe(Pipe::CpAsync, w), Proxy::Generic),
            Stream::Wgmma(first) => (checker.pipe(Pipe::Wgmma, first), Proxy::Async),
            Stream::Tcgen05(w) => (checker.pipe(Pipe::Tcgen05, w), Proxy::Async),
        };
        let time = checker.advance(agent);
        if stream == Stream::Free {
            checker.note_copy(agent, time, work);
        }
        let mut clocks = checker.known[w].clone();
        if let Stream::Wgmma(first) = stream {
            first.warpgroup().for_each(|member| clocks.join(&checker.known[member]));
        }
        clocks.all.raise(agent, time);
        for Touched { memory, start, len, write, .. } in &touched {
            // Reads are over one tick before writes: `wait_group.read` waits for them alone.
            let when = if *write { time } else { time - 1 };
            let operation = Operation { agent, time: when, pc, proxy, strong: work.reduces() };
            self.access_as(w, operation, &mut clocks, (*memory, *start, *len), *write)?;
        }
        self.check_swizzles(w, &touched)?;
        let checker = self.checker.as_mut().expect("checked above");
        if group != Group::None {
            checker.note_group(Issued { group, agent, time });
        }
        match stream {
            Stream::Wgmma(first) => first.warpgroup().for_each(|member| checker.step(member)),
            _ => checker.step(w),
        }
        Ok(clocks)
    }

    /// An access by an agent other than a warp itself, with the knowledge `clocks`.
    pub(super) fn access_as(
        &mut self,
        w: WarpId,
        operation: Operation,
        clocks: &mut Clocks,
        (memory, start, len): (Memory, u64, u64),
        write: bool,
    ) -> Run<()> {
        loop {
            let Some(checker) = &mut self.checker else { return Ok(()) };
            let outcome = checker.by_agent(operation, clocks, memory, (start, len), write);
            match self.settle(w, memory, outcome, write)? {
                None => return Ok(()),
                Some(conflict) => conflict.teach(clocks),
            }
        }
    }

    /// An operation signals a barrier: its waiters know all the operation knew, and itself.
    pub(crate) fn publish_to(&mut self, pending: &Pending, id: BarrierId) {
        if let Some(bar) = self.ctas[id.0].mbarriers.get_mut(&id.1) {
            bar.incoming.join(&pending.clocks);
        }
    }

    /// A warp waited for groups to complete.
    pub(crate) fn join_groups(&mut self, w: WarpId, wanted: &dyn Fn(Group) -> bool) {
        let Some(checker) = &mut self.checker else { return };
        let mut kept = Vec::new();
        for issued in std::mem::take(&mut checker.issued) {
            if wanted(issued.group) {
                checker.known[w].all.raise(issued.agent, issued.time);
            }
            // The other warps of a warpgroup have yet to wait.
            if !wanted(issued.group) || matches!(issued.group, Group::Wgmma(..)) {
                kept.push(issued);
            }
        }
        checker.issued = without_old_entries(kept);
    }

    /// A warp waited until groups have read their sources.
    pub(crate) fn finish_reads(&mut self, w: WarpId, wanted: impl Fn(Group) -> bool) {
        let Some(checker) = &mut self.checker else { return };
        for issued in &checker.issued {
            if wanted(issued.group) {
                checker.known[w].all.raise(issued.agent, issued.time - 1);
            }
        }
    }
}

/// Entries of in-order pipes that are kept.
const MOST_IN_ORDER: usize = 256;

/// Of in-order pipes an older entry says nothing that a newer one does not; bulk copies have no order.
fn without_old_entries(mut issued: Vec<Issued>) -> Vec<Issued> {
    let in_order = |issued: &Issued| !matches!(issued.group, Group::Bulk(..));
    let count = issued.iter().filter(|issued| in_order(issued)).count();
    let mut excess = count.saturating_sub(MOST_IN_ORDER);
    issued.retain(|issued| {
        let old = in_order(issued) && excess > 0;
        excess -= usize::from(old);
        !old
    });
    issued
}

//! Where execution tells the checker what happens.

use super::agent::Pipe;
use super::clock::Clocks;
use super::clusters::{Met, Touch, Toucher};
use super::pipes::{Issued, Memory, Operation, Proxy};
use super::report::verb;
use super::shadow::Conflict;
use super::touched::Touched;
use crate::engine::{Group, Stream};
use crate::exec::Work;
use crate::instruction::{Access, BarrierId, Fence, Order, Place};
use crate::judge::Judge;
use crate::machine::{CtaRank, Machine, Run};
use crate::rules::Rule;
use crate::warp::WarpId;

impl Judge<'_> {
    /// A warp arrives at a barrier of threads, which learns what the warp knows.
    pub(crate) fn arrive_with_lanes(&mut self, w: WarpId, barrier: &mut Clocks) {
        self.synchronise_lanes(w);
        self.publish(w, barrier);
    }

    /// A warp arrives at a barrier, which learns what the warp knows.
    pub(crate) fn publish(&mut self, w: WarpId, barrier: &mut Clocks) {
        let Some(checker) = &mut self.checker else { return };
        checker.publish(w, barrier);
        checker.step(w);
    }

    /// A warp has waited at a barrier, and learns what was published there.
    pub(crate) fn acquire(&mut self, w: WarpId, published: &Clocks) {
        if let Some(checker) = &mut self.checker {
            checker.known[w].join(published);
        }
    }

    /// A warp executes a fence.
    pub(crate) fn note_fence(&mut self, w: WarpId, fence: Fence) {
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
    pub(crate) fn note_async_signal(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        id: BarrierId,
    ) -> Run<()> {
        let Some(bar) = machine.ctas[id.0].mbarriers.get(&id.1) else { return Ok(()) };
        if bar.fenced || !self.launch.options.pedantic {
            return Ok(());
        }
        let name = machine.mbarrier_name(id.0, id.1);
        let message =
            format!("mbarrier {name} is signalled asynchronously; its initialisation has no fence");
        let site = machine.site(bar.init.warp, bar.init.pc, None);
        let help = "the initialising thread executes fence.mbarrier_init.release.cluster before the barrier \
                    that tells the others";
        let other = Some(("initialised:".into(), site));
        self.hazard(machine, w, Rule::BarrierInitNotFenced, message, other, Some(help))
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

    /// A warp initialises an mbarrier.
    pub(crate) fn note_barrier_init(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        id: BarrierId,
    ) -> Run<()> {
        let place = Place::Shared(id.0, id.1);
        let access = Access::write(place, 8, Order::Weak);
        self.note_access(machine, w, access, |_, _, _| Ok(false))
    }

    /// Whoever uses a barrier must know of its initialisation.
    pub(crate) fn note_barrier_use(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        id: BarrierId,
    ) -> Run<()> {
        let Some(checker) = &self.checker else { return Ok(()) };
        let Err((_, conflict)) = checker.look(w, Memory::Shared(id.0), (id.1.into(), 8)) else {
            return Ok(());
        };
        let owner = checker.warp_of(conflict.other.agent());
        let site = machine.site(owner, conflict.other.pc(), None);
        let name = machine.mbarrier_name(id.0, id.1);
        let message =
            format!("mbarrier {name} is used, but nothing orders this after its initialisation");
        let help = "after mbarrier.init: fence.mbarrier_init (or a barrier) and bar.sync or the cluster \
                    barrier before other warps use it";
        self.hazard(
            machine,
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
        machine: &Machine<'_>,
        w: WarpId,
        access: Access,
        mut forgives: impl FnMut(&mut Self, &Machine<'_>, &Conflict) -> Run<bool>,
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
        let pc = machine.pc(w);
        if let Memory::Shared(cta) = memory {
            self.note_visit(machine, w, cta);
        }
        if memory == Memory::Global {
            self.check_earlier_grids(machine, w, (start, bytes.into()), write)?;
            self.note_cluster_access(machine, w, (start, bytes.into()), access)?;
        }
        let range = (start, bytes.into());
        loop {
            let Some(checker) = &mut self.checker else { return Ok(()) };
            let outcome = match order {
                Order::Strong => checker.strongly(w, pc, memory, range, write),
                Order::Atomic => checker.atomically(w, pc, memory, range),
                _ => checker.by_warp(w, pc, memory, range, write),
            };
            if let Err((_, conflict)) = &outcome
                && forgives(self, machine, conflict)?
            {
                return Ok(());
            }
            if self.settle(machine, w, memory, outcome, write)?.is_none() {
                return Ok(());
            }
        }
    }

    /// Ranges of shared memory that the lanes of a warp load.
    pub(crate) fn note_loaded_ranges(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        cta: CtaRank,
        ranges: impl Iterator<Item = (usize, usize)> + Clone,
    ) -> Run<()> {
        self.note_ranges(machine, w, cta, ranges, false, |_| false).map(|_| ())
    }

    /// Ranges of shared memory that the lanes of a warp store; false where another warp stored there by the
    /// same instruction, and nothing orders the two.
    pub(crate) fn note_stored_ranges(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        cta: CtaRank,
        ranges: impl Iterator<Item = (usize, usize)> + Clone,
    ) -> Run<bool> {
        self.note_ranges(machine, w, cta, ranges, true, |conflict| machine.repeats(w, conflict))
    }

    /// Whether all ranges were noted; a conflict that `stops` is true of ends it.
    fn note_ranges(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        cta: CtaRank,
        ranges: impl Iterator<Item = (usize, usize)> + Clone,
        write: bool,
        stops: impl Fn(&Conflict) -> bool,
    ) -> Run<bool> {
        let pc = machine.warps[w].fragments[0].pc;
        let memory = Memory::Shared(cta);
        self.note_visit(machine, w, cta);
        loop {
            let Some(checker) = &mut self.checker else { return Ok(true) };
            let outcome = checker.by_ranges(w, pc, memory, ranges.clone(), write);
            if outcome.as_ref().is_err_and(|(_, conflict)| stops(conflict)) {
                return Ok(false);
            }
            if self.settle(machine, w, memory, outcome, write)?.is_none() {
                return Ok(true);
            }
        }
    }

    /// Ranges of global memory that the lanes of a warp load.
    pub(crate) fn note_global_reads(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        ranges: impl Iterator<Item = (u64, u64)> + Clone,
    ) -> Run<()> {
        let pc = machine.pc(w);
        for range in ranges.clone() {
            self.check_earlier_grids(machine, w, range, false)?;
            self.meet_clusters(machine, w, range, Touch::Read)?;
        }
        loop {
            let Some(checker) = &mut self.checker else { return Ok(()) };
            let ranges = ranges.clone().map(|(at, len)| (at as usize, len as usize));
            let outcome = checker.by_ranges(w, pc, Memory::Global, ranges, false);
            if self.settle(machine, w, Memory::Global, outcome, false)?.is_none() {
                return Ok(());
            }
        }
    }

    /// An access to global memory that is part of no asynchronous operation.
    fn note_cluster_access(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        range: (u64, u64),
        access: Access,
    ) -> Run<()> {
        match access.order {
            Order::Strong | Order::Atomic => {
                self.exchange_knowledge(machine, range.0, access.write);
                Ok(())
            }
            Order::Weak if access.write => {
                self.meet_clusters(machine, w, range, Touch::Write { compared: access.compared })
            }
            Order::Weak => self.meet_clusters(machine, w, range, Touch::Read),
            Order::Async => Ok(()),
        }
    }

    /// A strong access publishes what the cluster did, or learns what another one published.
    fn exchange_knowledge(&mut self, machine: &Machine<'_>, at: u64, write: bool) {
        if !machine.kernel.clusters_communicate {
            return;
        }
        match write {
            true => self.launch.clusters.publish(machine.number, &mut self.knowledge, at),
            false => self.launch.clusters.learn(&mut self.knowledge, at),
        }
    }

    /// Accesses of two clusters to the same bytes, which nothing orders.
    fn meet_clusters(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        range: (u64, u64),
        touch: Touch,
    ) -> Run<()> {
        if self.launch.clusters() == 1 {
            return Ok(());
        }
        let by =
            Toucher { cluster: machine.number, warp: w, pc: machine.pc(w), knows: &self.knowledge };
        let Some(Met { at, other, wrote }) = self.launch.clusters.touch(&by, range, touch) else {
            return Ok(());
        };
        let place = machine.name_place(Memory::Global, at);
        let (mine, theirs) = (verb(touch != Touch::Read), if wrote { "wrote" } else { "read" });
        let message = format!(
            "{mine} of {place}, which cluster {} also {theirs}: nothing orders the two",
            other.cluster()
        );
        let site = machine.site_in(other.cluster(), other.warp(), other.pc());
        let help = "clusters run in any order: use atomics, or a flag with release and acquire";
        let other = Some((format!("the other {}:", verb(wrote)), site));
        self.hazard(machine, w, Rule::Race, message, other, Some(help))
    }

    /// An asynchronous operation is issued: what it touches is checked and recorded now, whenever it
    /// happens.
    pub(crate) fn note_issue(
        &mut self,
        machine: &Machine<'_>,
        w: WarpId,
        stream: Stream,
        group: Group,
        work: &Work,
    ) -> Run<Clocks> {
        if self.checker.is_none() {
            return Ok(Clocks::default());
        }
        let touched = machine.touched(w, work)?;
        for Touched { start, len, write, .. } in
            touched.iter().filter(|touched| touched.memory == Memory::Global)
        {
            self.check_earlier_grids(machine, w, (*start, *len), *write)?;
            // Reductions are atomic.
            if !work.reduces() {
                let touch = if *write { Touch::Copy } else { Touch::Read };
                self.meet_clusters(machine, w, (*start, *len), touch)?;
            }
        }
        let pc = machine.pc(w);
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
            self.access_as(machine, w, operation, &mut clocks, (*memory, *start, *len), *write)?;
        }
        self.check_swizzles(machine, w, &touched)?;
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
        machine: &Machine<'_>,
        w: WarpId,
        operation: Operation,
        clocks: &mut Clocks,
        (memory, start, len): (Memory, u64, u64),
        write: bool,
    ) -> Run<()> {
        loop {
            let Some(checker) = &mut self.checker else { return Ok(()) };
            let outcome = checker.by_agent(operation, clocks, memory, (start, len), write);
            match self.settle(machine, w, memory, outcome, write)? {
                None => return Ok(()),
                Some(conflict) => conflict.teach(clocks),
            }
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

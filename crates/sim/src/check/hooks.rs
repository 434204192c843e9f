//! Where execution tells the checker what happens.

use super::clock::Clocks;
use super::pipes::{Issued, Memory, Outcome, Pipe, Proxy};
use super::shadow::Conflict;
use crate::cluster::{Cluster, Run};
use crate::engine::{Group, Pending, Stream};
use crate::exec::{BarrierId, End, Order, Place, Work};
use crate::matrix::{TMEM_COLUMNS, TmemRect};
use crate::op::{Fence, MatrixSource, Op, Tcgen05};
use crate::register::R32;
use crate::tensor_copy::Piece;
use std::sync::atomic::Ordering::Relaxed;

/// A byte range of a memory that an operation touches.
struct Touched {
    memory: Memory,
    start: u64,
    len: u64,
    write: bool,
}

impl Cluster<'_> {
    pub(crate) fn publish_named(&mut self, w: usize, cta: usize, id: u32) {
        let Some(checker) = &mut self.checker else { return };
        self.ctas[cta].named[id as usize].clocks.join(&checker.known[w]);
        checker.step(w);
    }

    pub(crate) fn publish_cluster(&mut self, w: usize) {
        let Some(checker) = &mut self.checker else { return };
        self.barrier.incoming.join(&checker.known[w]);
        checker.step(w);
    }

    pub(crate) fn acquire(&mut self, w: usize, clocks: &Clocks) {
        if let Some(checker) = &mut self.checker {
            checker.known[w].join(clocks);
        }
    }

    pub(crate) fn acquire_barrier(&mut self, w: usize, id: BarrierId) {
        let Some(checker) = &mut self.checker else { return };
        if let Some(bar) = self.ctas[id.0].mbarriers.get(&id.1) {
            checker.known[w].join(&bar.published);
        }
    }

    /// A warp's arrival publishes what it knows.
    pub(crate) fn release_to(&mut self, w: usize, id: BarrierId) {
        let Some(checker) = &mut self.checker else { return };
        if let Some(bar) = self.ctas[id.0].mbarriers.get_mut(&id.1) {
            bar.incoming.join(&checker.known[w]);
        }
        checker.step(w);
    }

    pub(crate) fn note_fence(&mut self, w: usize, fence: Fence) {
        let Some(checker) = &mut self.checker else { return };
        match fence {
            Fence::ProxyAsync => checker.proxy_fence(w),
            Fence::Thread => self.launch.synchronised.store(true, Relaxed),
            Fence::MbarrierInit | Fence::Proxy => {}
        }
    }

    /// `tcgen05.fence::after_thread_sync`.
    pub(crate) fn note_tensor_fence(&mut self, w: usize) {
        let Some(checker) = &mut self.checker else { return };
        if let Some(ordered) = &mut checker.ordered {
            ordered[w] = checker.known[w].all.clone();
        }
    }

    /// Operand A of 16 bits or fewer cannot be what a matrix instruction left: accumulators are
    /// one number per column.
    pub(crate) fn check_tensor_operand(&self, w: usize, cta: usize, rect: &TmemRect) -> Run<()> {
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
            "accumulator-as-operand",
            message,
            Some(("accumulated:".into(), site)),
            Some(help),
        )
    }

    pub(crate) fn note_barrier_init(&mut self, w: usize, id: BarrierId) -> Run<()> {
        let pc = self.pc(w);
        let Some(checker) = &mut self.checker else { return Ok(()) };
        let outcome = checker.by_warp(w, pc, Memory::Shared(id.0), (id.1.into(), 8), true);
        self.judge(w, Memory::Shared(id.0), outcome, true)
    }

    /// Whoever uses a barrier must know of its initialisation.
    pub(crate) fn note_barrier_use(&mut self, w: usize, id: BarrierId) -> Run<()> {
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
            "barrier-init-not-published",
            message,
            Some(("initialised:".into(), site)),
            Some(help),
        )
    }

    /// A load or store by a warp itself.
    pub(crate) fn note_access(
        &mut self,
        w: usize,
        place: Place,
        bytes: u32,
        write: bool,
        order: Order,
    ) -> Run<()> {
        let (memory, start) = match place {
            Place::Shared(cta, offset) => (Memory::Shared(cta), u64::from(offset)),
            Place::Global(at) => (Memory::Global, at),
            _ => return Ok(()),
        };
        if order == Order::Async || self.checker.is_none() {
            return Ok(());
        }
        let pc = self.pc(w);
        if memory == Memory::Global {
            self.note_owner(w, start, write, order)?;
        }
        let Some(checker) = &mut self.checker else { return Ok(()) };
        if order == Order::Strong {
            let location = checker.locations.entry((memory, start / 4)).or_default();
            if write {
                location.join(&checker.known[w]);
                checker.step(w);
            } else {
                checker.known[w].join(location);
            }
            return Ok(());
        }
        let outcome = checker.by_warp(w, pc, memory, (start, bytes.into()), write);
        match outcome {
            Ok(()) => Ok(()),
            outcome => self.judge(w, memory, outcome, write),
        }
    }

    /// Words of shared memory that the lanes of a warp load or store.
    pub(crate) fn note_words(
        &mut self,
        w: usize,
        cta: usize,
        offsets: &[u32; 32],
        mask: u32,
        bytes: u32,
        write: bool,
    ) -> Run<()> {
        let pc = self.warps[w].fragments[0].pc;
        let Some(checker) = &mut self.checker else { return Ok(()) };
        let memory = Memory::Shared(cta);
        match checker.by_lanes(w, pc, memory, offsets, mask, bytes, write) {
            Ok(()) => Ok(()),
            outcome => self.judge(w, memory, outcome, write),
        }
    }

    /// Ordinary accesses of different clusters to the same word, with nothing in the launch that
    /// could order them.
    fn note_owner(&mut self, w: usize, at: u64, write: bool, order: Order) -> Run<()> {
        if order == Order::Strong {
            self.launch.synchronised.store(true, Relaxed);
        }
        if order != Order::Weak || self.launch.synchronised.load(Relaxed) {
            return Ok(());
        }
        let Some(other) = self.launch.owners.touch(at, self.number, write) else { return Ok(()) };
        let place = self.name_place(Memory::Global, at);
        let message = format!(
            "{} of {place}, which cluster {other} also wrote: nothing orders the two",
            verb(write)
        );
        let help = "clusters run in any order: use atomics, or a flag with release and acquire";
        self.hazard(w, "race", message, None, Some(help))
    }

    /// An asynchronous operation is issued: what it touches is checked and recorded now, whenever it
    /// happens.
    pub(crate) fn note_issue(
        &mut self,
        w: usize,
        stream: Stream,
        group: Group,
        work: &Work,
    ) -> Run<Clocks> {
        if self.checker.is_none() {
            return Ok(Clocks::default());
        }
        let touched = self.touched(w, work)?;
        let pc = self.pc(w);
        let Some(checker) = &mut self.checker else { return Ok(Clocks::default()) };
        let (agent, proxy) = match stream {
            Stream::Free => (checker.slot(w), Proxy::Async),
            Stream::CpAsync(w) => (checker.pipe(Pipe::CpAsync, w), Proxy::Generic),
            Stream::Wgmma(first) => (checker.pipe(Pipe::Wgmma, first), Proxy::Async),
            Stream::Tcgen05(w) => (checker.pipe(Pipe::Tcgen05, w), Proxy::Async),
        };
        let time = checker.advance(agent);
        let mut clocks = checker.known[w].clone();
        if let Stream::Wgmma(first) = stream {
            (first..first + 4).for_each(|member| clocks.join(&checker.known[member]));
        }
        clocks.all.raise(agent, time);
        for Touched { memory, start, len, write } in &touched {
            // Reads are over one tick before writes: `wait_group.read` waits for them alone.
            let when = if *write { time } else { time - 1 };
            let checker = self.checker.as_mut().expect("checked above");
            let outcome = checker.by_agent(
                (agent, when, pc),
                &clocks,
                proxy,
                *memory,
                (*start, *len),
                *write,
            );
            if outcome.is_err() {
                return self.judge(w, *memory, outcome, *write).map(|()| Clocks::default());
            }
        }
        let checker = self.checker.as_mut().expect("checked above");
        if group != Group::None {
            checker.issued.push(Issued { group, agent, time });
        }
        match stream {
            Stream::Wgmma(first) => (first..first + 4).for_each(|member| checker.step(member)),
            _ => checker.step(w),
        }
        Ok(clocks)
    }

    /// An operation signals a barrier: its waiters know all the operation knew, and itself.
    pub(crate) fn publish_to(&mut self, pending: &Pending, id: BarrierId) {
        if let Some(bar) = self.ctas[id.0].mbarriers.get_mut(&id.1) {
            bar.incoming.join(&pending.clocks);
        }
    }

    /// A warp waited for groups to complete.
    pub(crate) fn join_groups(&mut self, w: usize, wanted: &dyn Fn(Group) -> bool) {
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
        // In-order pipes: an older entry says nothing a newer one does not.
        let excess = kept.len().saturating_sub(256);
        kept.drain(..excess);
        checker.issued = kept;
    }

    /// A warp waited until groups have read their sources.
    pub(crate) fn finish_reads(&mut self, w: usize, wanted: impl Fn(Group) -> bool) {
        let Some(checker) = &mut self.checker else { return };
        for issued in &checker.issued {
            if wanted(issued.group) {
                checker.known[w].all.raise(issued.agent, issued.time - 1);
            }
        }
    }

    pub(crate) fn note_tmem_load(
        &mut self,
        w: usize,
        cta: usize,
        rects: &[TmemRect],
        d: &[R32],
    ) -> Run<()> {
        let time = self.tmem_access(w, cta, rects, Pipe::TmemLoad, false)?;
        if let Some(time) = time {
            self.warps[w].tmem_loads.push((time, d.to_vec()));
        }
        Ok(())
    }

    pub(crate) fn note_tmem_store(&mut self, w: usize, cta: usize, rects: &[TmemRect]) -> Run<()> {
        self.tmem_access(w, cta, rects, Pipe::TmemStore, true).map(|_| ())
    }

    fn tmem_access(
        &mut self,
        w: usize,
        cta: usize,
        rects: &[TmemRect],
        pipe: Pipe,
        write: bool,
    ) -> Run<Option<u32>> {
        let pc = self.pc(w);
        let Some(checker) = &mut self.checker else { return Ok(None) };
        let agent = checker.pipe(pipe, w);
        let time = checker.advance(agent);
        let mut clocks = checker.known[w].clone();
        clocks.all.raise(agent, time);
        for touched in rect_ranges(cta, rects, write) {
            let checker = self.checker.as_mut().expect("checked above");
            let range = (touched.start, touched.len);
            let outcome = checker.by_agent(
                (agent, time, pc),
                &clocks,
                Proxy::Tensor(w),
                touched.memory,
                range,
                write,
            );
            if outcome.is_err() {
                self.judge(w, touched.memory, outcome, write)?;
            }
        }
        self.checker.as_mut().expect("checked above").step(w);
        Ok(Some(time))
    }

    /// `tcgen05.wait`: the warp's loads or stores are done.
    pub(crate) fn tmem_wait(&mut self, w: usize, loads: bool) {
        if loads {
            self.warps[w].tmem_loads.clear();
        }
        let Some(checker) = &mut self.checker else { return };
        let agent = checker.pipe(if loads { Pipe::TmemLoad } else { Pipe::TmemStore }, w);
        checker.finish_pipe(w, agent);
    }

    /// A register a `tcgen05.ld` gave is used: the hardware waits for that load.
    pub(crate) fn use_tmem_load(&mut self, w: usize, uses: impl Fn(&[R32]) -> bool) {
        let loads = &self.warps[w].tmem_loads;
        let Some(latest) = loads.iter().filter(|(_, d)| uses(d)).map(|(time, _)| *time).max()
        else {
            return;
        };
        self.warps[w].tmem_loads.retain(|(time, _)| *time > latest);
        let Some(checker) = &mut self.checker else { return };
        let agent = checker.pipe(Pipe::TmemLoad, w);
        checker.known[w].all.raise(agent, latest);
    }

    /// What an operation touches.
    fn touched(&self, w: usize, work: &Work) -> Run<Vec<Touched>> {
        let mut list = Vec::new();
        let mut shared = |cta: usize, start: u32, len: u32, write: bool| {
            list.push(Touched {
                memory: Memory::Shared(cta),
                start: start.into(),
                len: len.into(),
                write,
            });
        };
        match work {
            Work::TensorLoad { plan, ends, .. } => {
                for end in ends {
                    let End::Shared(cta, _) = end else { continue };
                    for (start, len) in shared_pieces(&plan.pieces) {
                        shared(*cta, start, len, true);
                    }
                }
                list.extend(global_pieces(&plan.pieces, false, |at| self.is_tracked(at)));
            }
            Work::TensorStore { plan, cta, .. } => {
                for (start, len) in shared_pieces(&plan.pieces) {
                    shared(*cta, start, len, false);
                }
                list.extend(global_pieces(&plan.pieces, true, |at| self.is_tracked(at)));
            }
            Work::Bulk { from, ends, bytes, .. } => {
                for (end, write) in
                    std::iter::once((from, false)).chain(ends.iter().map(|e| (e, true)))
                {
                    list.extend(self.end_range(*end, *bytes, write));
                }
            }
            Work::CpAsync(parts) => {
                for part in parts {
                    list.extend(self.end_range(
                        End::Shared(part.cta, part.offset),
                        part.bytes,
                        true,
                    ));
                    if part.read > 0 {
                        list.extend(self.end_range(End::Global(part.from), part.read, false));
                    }
                }
            }
            Work::StoreAsync { to, data, reduce: None, .. } => {
                list.extend(self.end_range(*to, data.len() as u32, true));
            }
            Work::StoreAsync { .. } | Work::Arrive(_) => {}
            Work::Zeros { ends, bytes, .. } => {
                list.extend(ends.iter().flat_map(|end| self.end_range(*end, *bytes, true)));
            }
            Work::Wgmma(_) | Work::Mma(_) | Work::TmemCopy { .. } | Work::Shift { .. } => {
                return self.matrix_touched(w, work);
            }
        }
        Ok(list)
    }

    fn end_range(&self, end: End, bytes: u32, write: bool) -> Option<Touched> {
        let (memory, start) = match end {
            End::Shared(cta, offset) => (Memory::Shared(cta), u64::from(offset)),
            End::Global(at) if self.is_tracked(at) => (Memory::Global, at),
            End::Global(_) => return None,
        };
        Some(Touched { memory, start, len: bytes.into(), write })
    }

    /// Memory nobody writes needs no shadow.
    pub(crate) fn is_tracked(&self, at: u64) -> bool {
        self.launch.global.find(at, 1, &mut 0).is_ok_and(|(allocation, _)| !allocation.read_only)
    }

    fn matrix_touched(&self, w: usize, work: &Work) -> Run<Vec<Touched>> {
        let mut list = Vec::new();
        match work {
            Work::Wgmma(work) => {
                let Op::Wgmma(op) = &self.kernel.code[work.pc as usize].op else { return Ok(list) };
                let cta = self.warps[work.first_warp].cta;
                let depth = op.mma.depth();
                if matches!(op.a, MatrixSource::Descriptor(_)) {
                    let a = op.mma.decode_a(work.descriptors[0], op.transpose[0]);
                    operand(&mut list, cta, a.footprint(64, depth, op.mma.a));
                }
                let b = op.mma.decode_b(work.descriptors[1], op.transpose[1]);
                operand(&mut list, cta, b.footprint(op.mma.columns, depth, op.mma.b));
            }
            Work::Mma(work) => {
                let Op::Tcgen05(op) = &self.kernel.code[work.pc as usize].op else {
                    return Ok(list);
                };
                let Tcgen05::Mma(op) = &**op else { return Ok(list) };
                for (index, cta) in work.ctas.iter().enumerate() {
                    let footprint = match op.mma.footprint(&work.operands, index) {
                        Ok(footprint) => footprint,
                        Err(error) => return self.operand_error(w, &error),
                    };
                    operand(&mut list, *cta, footprint.shared_a);
                    operand(&mut list, *cta, footprint.shared_b);
                    list.extend(rect_ranges(*cta, &footprint.tensor_reads, false));
                    list.extend(rect_ranges(*cta, &footprint.tensor_writes, true));
                }
            }
            Work::TmemCopy { ctas, copy, address, descriptor } => {
                let source = match copy.shared_footprint(*descriptor) {
                    Ok(source) => source,
                    Err(error) => return self.operand_error(w, &error),
                };
                for cta in ctas {
                    operand(&mut list, *cta, source.clone());
                    list.extend(rect_ranges(*cta, &copy.rects(*address), true));
                }
            }
            _ => {}
        }
        Ok(list)
    }

    /// Turns a conflict into a report.
    fn judge(&self, w: usize, memory: Memory, outcome: Outcome, write: bool) -> Run<()> {
        let Err((at, conflict)) = outcome else { return Ok(()) };
        let Some(checker) = &self.checker else { return Ok(()) };
        let agent = conflict.other.agent();
        let site = self.site(checker.warp_of(agent), conflict.other.pc(), None);
        let place = self.name_place(memory, at);
        let (mine, theirs) = (verb(write), verb(conflict.wrote));
        let who = checker.describe(agent);
        if conflict.only_unfenced && matches!(memory, Memory::Tensor(_)) {
            let message = format!(
                "{mine} of {place} without tcgen05.fence::after_thread_sync behind the barrier"
            );
            let help =
                "tcgen05.fence::before_thread_sync; barrier; tcgen05.fence::after_thread_sync";
            let other = Some((format!("the other {theirs}:"), site));
            return self.hazard(w, "missing-tcgen05-fence", message, other, Some(help));
        }
        if conflict.only_unfenced {
            let message = format!(
                "{place} is read through the asynchronous proxy; a generic write to it has no fence.proxy.async behind it"
            );
            let help = "the writing threads execute fence.proxy.async.shared::cta after their stores and \
                        before the barrier that tells the reader";
            return self.hazard(
                w,
                "missing-proxy-fence",
                message,
                Some(("written:".into(), site)),
                Some(help),
            );
        }
        let message = format!(
            "{mine} of {place} is not ordered after the {who}{theirs} by warp {}",
            site.warp
        );
        let help = advice(&conflict, who, write);
        self.hazard(w, "race", message, Some((format!("the other {theirs}:"), site)), Some(help))
    }

    fn name_place(&self, memory: Memory, at: u64) -> String {
        match memory {
            Memory::Shared(cta) => {
                let variable = self
                    .kernel
                    .shared
                    .iter()
                    .filter(|v| u64::from(v.offset) <= at)
                    .max_by_key(|v| v.offset);
                let of =
                    if self.ctas.len() > 1 { format!(" of CTA rank {cta}") } else { String::new() };
                match variable {
                    Some(v) => {
                        format!("shared memory{of} `{}+{:#x}`", v.name, at - u64::from(v.offset))
                    }
                    None => format!("shared memory{of} at {at:#x}"),
                }
            }
            Memory::Tensor(_) => {
                let cell = at / 4;
                let (lane, column) = (cell / TMEM_COLUMNS as u64, cell % TMEM_COLUMNS as u64);
                format!("tensor memory lane {lane} column {column}")
            }
            Memory::Global => match self.launch.global.find(at, 1, &mut 0) {
                Ok((allocation, offset)) => format!("`{}` byte {offset}", allocation.name),
                Err(_) => format!("global memory at {at:#x}"),
            },
        }
    }
}

fn verb(write: bool) -> &'static str {
    if write { "write" } else { "read" }
}

fn advice(conflict: &Conflict, who: &str, write: bool) -> &'static str {
    match (who, conflict.wrote, write) {
        ("asynchronous copy ", true, _) => {
            "wait for the copy's mbarrier phase before touching its destination"
        }
        ("asynchronous copy ", false, true) => {
            "wait with cp.async.bulk.wait_group.read before the source is overwritten"
        }
        ("asynchronous wgmma ", ..) => {
            "wgmma.wait_group, then tell the writer (mbarrier or barrier), before the operand is overwritten"
        }
        ("asynchronous tcgen05 ", ..) => {
            "tcgen05.commit to an mbarrier and wait for its phase before touching what the operation uses"
        }
        ("tcgen05.ld ", ..) => {
            "tcgen05.wait::ld before telling others that the tensor memory may be overwritten"
        }
        ("tcgen05.st ", ..) => "tcgen05.wait::st before telling others that the data is there",
        ("cp.async ", ..) => {
            "cp.async.wait_group and a barrier before other threads touch the data"
        }
        (_, false, true) => {
            "the reader must tell (barrier or mbarrier) that it is done before the memory is reused"
        }
        _ => "put a barrier (bar.sync, mbarrier, cluster barrier) between the two",
    }
}

fn shared_pieces(pieces: &[Piece]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for piece in pieces {
        let (start, len) = match *piece {
            Piece::Copy { shared, bytes, .. } | Piece::Fill { shared, bytes } => (shared, bytes),
        };
        match ranges.last_mut() {
            Some(last) if last.0 + last.1 == start => last.1 += len,
            _ => ranges.push((start, len)),
        }
    }
    ranges
}

fn global_pieces(pieces: &[Piece], write: bool, tracked: impl Fn(u64) -> bool) -> Vec<Touched> {
    let copies = pieces.iter().filter_map(|piece| match *piece {
        Piece::Copy { global, bytes, .. } => Some((global, bytes)),
        Piece::Fill { .. } => None,
    });
    let copies: Vec<_> = copies.collect();
    if !copies.first().is_some_and(|(at, _)| tracked(*at)) {
        return Vec::new();
    }
    let touched = |(start, len): (u64, u32)| Touched {
        memory: Memory::Global,
        start,
        len: len.into(),
        write,
    };
    copies.into_iter().map(touched).collect()
}

/// Shared memory a matrix operand is read from.
fn operand(list: &mut Vec<Touched>, cta: usize, ranges: Vec<std::ops::Range<u32>>) {
    list.extend(ranges.into_iter().map(|r| Touched {
        memory: Memory::Shared(cta),
        start: r.start.into(),
        len: (r.end - r.start).into(),
        write: false,
    }));
}

fn rect_ranges(cta: usize, rects: &[TmemRect], write: bool) -> Vec<Touched> {
    let row = |rect: &TmemRect, lane: usize| Touched {
        memory: Memory::Tensor(cta),
        start: 4 * (lane * TMEM_COLUMNS + rect.columns.start) as u64,
        len: 4 * rect.columns.len() as u64,
        write,
    };
    rects.iter().flat_map(|rect| rect.lanes.clone().map(move |lane| row(rect, lane))).collect()
}

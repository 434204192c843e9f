//! What asynchronous operations do when they complete.

use crate::engine::{Group, Pending, Stream};
use crate::error::{Error, Fault};
use crate::exec::Execution;
use crate::instruction::{BarrierId, MmaWork, RESPONSE_BYTES, WgmmaWork};
use crate::machine::{CtaRank, Machine, Run};
use crate::matrix::{TmemAddress, TmemCopy};
use crate::mbarrier::{Mbarrier, Touch};
use crate::tensor_copy::{CopyPlan, Piece, ReduceOp, ReduceType, convert, fill_bytes, reduce};
use crate::warp::WarpId;
use program::TensorDescriptor;

/// One end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Global address.
    Global(u64),
    /// CTA in the cluster and offset.
    Shared(CtaRank, u32),
}

impl End {
    /// `bytes` further on.
    pub(crate) fn plus(self, bytes: usize) -> End {
        match self {
            End::Global(address) => End::Global(address + bytes as u64),
            End::Shared(cta, offset) => End::Shared(cta, offset + bytes as u32),
        }
    }
}

/// One lane's part of a `cp.async`.
#[derive(Clone, Copy, Debug)]
pub struct CpAsyncPart {
    /// CTA.
    pub cta: CtaRank,
    /// Offset.
    pub offset: u32,
    /// Global address.
    pub from: u64,
    /// Bytes to read.
    pub read: u32,
    /// Bytes to write; the rest is zero.
    pub bytes: u32,
}

/// What an operation does.
pub enum Work {
    /// A tensor load.
    TensorLoad {
        /// Parts.
        plan: CopyPlan,
        /// Map.
        map: Box<TensorDescriptor>,
        /// Destinations; the plan is for their common offset.
        ends: Vec<End>,
        /// Barriers.
        signals: Vec<BarrierId>,
    },
    /// A tensor store or reduction.
    TensorStore {
        /// Parts.
        plan: CopyPlan,
        /// Map.
        map: Box<TensorDescriptor>,
        /// CTA of the source.
        cta: CtaRank,
        /// Reduction.
        reduce: Option<ReduceOp>,
    },
    /// A plain bulk copy.
    Bulk {
        /// Source.
        from: End,
        /// Destinations.
        ends: Vec<End>,
        /// Bytes.
        bytes: u32,
        /// Barriers.
        signals: Vec<BarrierId>,
        /// Reduction.
        reduce: Option<(ReduceOp, ReduceType)>,
        /// Bytes of every 16 to write.
        byte_mask: Option<u16>,
    },
    /// A `cp.async`.
    CpAsync(Vec<CpAsyncPart>),
    /// Arrivals when earlier work of the stream is done.
    Arrive(Vec<BarrierId>),
    /// `st.async`.
    StoreAsync {
        /// Destination.
        to: End,
        /// Value.
        data: Vec<u8>,
        /// Barrier.
        signal: BarrierId,
        /// Reduction.
        reduce: Option<(ReduceOp, ReduceType)>,
    },
    /// The response to a `clusterlaunchcontrol.try_cancel`.
    CancelResponse {
        /// Destinations.
        ends: Vec<End>,
        /// What it says.
        response: u128,
        /// Barriers.
        signals: Vec<BarrierId>,
    },
    /// `wgmma.mma_async` of a warpgroup.
    Wgmma(Box<WgmmaWork>),
    /// `tcgen05.mma`.
    Mma(Box<MmaWork>),
    /// `tcgen05.cp`.
    TmemCopy {
        /// CTAs.
        ctas: Vec<CtaRank>,
        /// Shape.
        copy: TmemCopy,
        /// Destination.
        address: TmemAddress,
        /// Source.
        descriptor: u64,
    },
    /// `tcgen05.shift`.
    Shift {
        /// CTAs.
        ctas: Vec<CtaRank>,
        /// Where.
        address: TmemAddress,
    },
}

impl Work {
    /// Whether it combines with what is in memory, element by element.
    pub(crate) fn reduces(&self) -> bool {
        match self {
            Work::TensorStore { reduce, .. } => reduce.is_some(),
            Work::Bulk { reduce, .. } | Work::StoreAsync { reduce, .. } => reduce.is_some(),
            Work::TensorLoad { .. }
            | Work::CpAsync(_)
            | Work::Arrive(_)
            | Work::CancelResponse { .. }
            | Work::Wgmma(_)
            | Work::Mma(_)
            | Work::TmemCopy { .. }
            | Work::Shift { .. } => false,
        }
    }

    /// Bytes that it tells its barriers of.
    fn transaction_bytes(&self) -> u32 {
        match self {
            Work::TensorLoad { plan, .. } => plan.transaction_bytes,
            Work::Bulk { bytes, .. } => *bytes,
            Work::CancelResponse { .. } => RESPONSE_BYTES,
            Work::StoreAsync { data, .. } => data.len() as u32,
            Work::TensorStore { .. }
            | Work::CpAsync(_)
            | Work::Arrive(_)
            | Work::Wgmma(_)
            | Work::Mma(_)
            | Work::TmemCopy { .. }
            | Work::Shift { .. } => 0,
        }
    }

    /// Barriers it signals.
    pub(crate) fn signals(&self) -> &[BarrierId] {
        match self {
            Work::TensorLoad { signals, .. }
            | Work::Bulk { signals, .. }
            | Work::CancelResponse { signals, .. }
            | Work::Arrive(signals) => signals,
            Work::StoreAsync { signal, .. } => std::slice::from_ref(signal),
            Work::TensorStore { .. }
            | Work::CpAsync(_)
            | Work::Wgmma(_)
            | Work::Mma(_)
            | Work::TmemCopy { .. }
            | Work::Shift { .. } => &[],
        }
    }
}

/// Instructions, per warp, until eager completion.
const LATENCY: u64 = 300;

impl Execution<'_, '_> {
    /// Queues an operation of the current instruction.
    pub(crate) fn issue(&mut self, w: WarpId, stream: Stream, group: Group, work: Work) -> Run<()> {
        self.machine.event();
        if self.machine.engines.is_full() {
            self.complete_next(None, true)?;
        }
        let clocks = self.judge.note_issue(self.machine, w, stream, group, &work)?;
        let ready = self.machine.steps + LATENCY * self.machine.warps.len() as u64;
        let (pc, time) = (self.machine.pc(w), self.machine.warps[w].time);
        let operation = match work {
            // The warps of a warpgroup have recorded it.
            Work::Wgmma(_) => 0,
            _ => self.machine.record_issue(w, (stream, group), &work),
        };
        self.machine.engines.issue(Pending {
            warp: w,
            operation,
            pc,
            stream,
            group,
            ready,
            time,
            clocks,
            work,
        });
        Ok(())
    }

    /// Completes one operation: the oldest that may, or one by a random number. Unless `force`d, an
    /// operation is held back while a regular waiter has not seen the phase before; whether one
    /// was completed.
    pub(crate) fn complete_next(&mut self, pick: Option<usize>, force: bool) -> Run<bool> {
        let ctas = &self.machine.ctas;
        let aliases = |p: &Pending| {
            let bars = p.work.signals().iter().filter_map(|(cta, at)| ctas[*cta].mbarriers.get(at));
            { bars }.any(Mbarrier::would_alias)
        };
        let mut taken = self.machine.engines.take(pick, |p| !aliases(p));
        if taken.is_none() && force {
            taken = self.machine.engines.take(pick, |_| true);
        }
        match taken {
            Some(pending) => self.complete(pending).map(|()| true),
            None => Ok(false),
        }
    }

    /// Completes, in order, the pending operations whose group `wanted` names; the warp knows them.
    pub(crate) fn finish_group(&mut self, w: WarpId, wanted: impl Fn(Group) -> bool) -> Run<()> {
        self.machine.record_groups(w, &wanted);
        self.complete_group(&wanted)?;
        self.machine.wait_time(w, &wanted);
        self.judge.join_groups(w, &wanted);
        Ok(())
    }

    /// Completes, in order, the pending operations whose group `wanted` names.
    pub(crate) fn complete_group(&mut self, wanted: impl Fn(Group) -> bool) -> Run<()> {
        while let Some(pending) = self.machine.engines.take_first(|p| wanted(p.group)) {
            self.complete(pending)?;
        }
        Ok(())
    }

    /// Performs an operation and tells whoever waits.
    pub(crate) fn complete(&mut self, pending: Pending) -> Run<()> {
        self.machine.event();
        self.perform(&pending)?;
        let bytes = pending.work.transaction_bytes();
        let arrives = matches!(pending.work, Work::Arrive(_));
        let time = self.machine.finish_time(&pending);
        let by = Touch { warp: pending.warp, pc: pending.pc };
        let from = self.machine.warps[pending.warp].cta;
        for id in pending.work.signals().to_vec() {
            if let Some(bar) = self.machine.ctas[id.0].mbarriers.get_mut(&id.1) {
                // Its waiters know all the operation knew, and itself.
                bar.incoming.join(&pending.clocks);
                if from != id.0 {
                    bar.note_signal_from_afar(by);
                }
            }
            self.machine.record_signal(pending.operation, id);
            let result = match arrives {
                true => self.arrive_as(by, time, id, 1),
                false => self.transact_as(by, time, id, -i64::from(bytes)),
            };
            if let Err(error) = result {
                let message = format!(
                    "completing on mbarrier {}: {error:?}",
                    self.machine.mbarrier_name(id.0, id.1)
                );
                return self.machine.fault_at(&pending, "mbarrier-arrivals", message);
            }
        }
        Ok(())
    }

    fn perform(&mut self, pending: &Pending) -> Run<()> {
        match &pending.work {
            Work::TensorLoad { plan, map, ends, .. } => self.machine.tensor_load(plan, map, ends),
            Work::TensorStore { plan, map, cta, reduce } => {
                if let Err(error) = self.machine.tensor_store(plan, map, *cta, *reduce) {
                    return self.machine.fault_at(pending, "tensor-reduce", error);
                }
            }
            Work::Bulk { from, ends, bytes, reduce, byte_mask, .. } => {
                let data = self.machine.fetch(*from, *bytes);
                for end in ends {
                    if let Err(error) = self.machine.deliver(*end, &data, *reduce, *byte_mask) {
                        return self.machine.fault_at(pending, "bulk-reduce", error);
                    }
                }
            }
            Work::CpAsync(parts) => parts.iter().for_each(|part| self.machine.cp_async_part(part)),
            Work::Arrive(_) => {}
            Work::StoreAsync { to, data, reduce, .. } => {
                if let Err(error) = self.machine.deliver(*to, data, *reduce, None) {
                    return self.machine.fault_at(pending, "reduce", error);
                }
            }
            Work::CancelResponse { ends, response, .. } => {
                ends.iter().for_each(|end| self.machine.store_end(*end, &response.to_le_bytes()));
            }
            Work::Wgmma(work) => self.perform_wgmma(pending, work)?,
            Work::Mma(work) => self.perform_mma(pending, work)?,
            Work::TmemCopy { ctas, copy, address, descriptor } => {
                for cta in ctas {
                    let cta = &mut self.machine.ctas[*cta];
                    if let Err(error) = copy.execute(
                        cta.shared.bytes(),
                        &mut cta.tensor.cells,
                        *descriptor,
                        *address,
                    ) {
                        return self.machine.fault_at(pending, "tensor-memory", error.to_string());
                    }
                }
            }
            Work::Shift { ctas, address } => {
                for cta in ctas {
                    if let Err(error) = crate::matrix::shift_down(
                        &mut self.machine.ctas[*cta].tensor.cells,
                        *address,
                    ) {
                        return self.machine.fault_at(pending, "tensor-memory", error.to_string());
                    }
                }
            }
        }
        Ok(())
    }
}

impl Machine<'_> {
    fn fault_at<T>(&self, pending: &Pending, rule: &'static str, message: String) -> Run<T> {
        let site = self.site(pending.warp, pending.pc, None);
        let fault = Fault { rule, message, site, help: None, survivable: false };
        Err(Box::new(Error::Fault(Box::new(fault))))
    }

    fn tensor_load(&mut self, plan: &CopyPlan, map: &TensorDescriptor, ends: &[End]) {
        for piece in &plan.pieces {
            let (shared, data) = match *piece {
                Piece::Copy { global, shared, bytes } => {
                    let mut data = self.fetch(End::Global(global), bytes);
                    convert(map.element, &mut data);
                    (shared, data)
                }
                Piece::Fill { shared, bytes } => (shared, fill_bytes(map, bytes as usize)),
            };
            for end in ends {
                if let End::Shared(cta, _) = end {
                    self.store_end(End::Shared(*cta, shared), &data);
                }
            }
        }
    }

    fn tensor_store(
        &mut self,
        plan: &CopyPlan,
        map: &TensorDescriptor,
        cta: CtaRank,
        op: Option<ReduceOp>,
    ) -> Result<(), String> {
        let ty = match op {
            Some(op) => Some((op, ReduceType::of_element(map.element).map_err(|e| e.to_string())?)),
            None => None,
        };
        for piece in &plan.pieces {
            if let Piece::Copy { global, shared, bytes } = *piece {
                let data = self.fetch(End::Shared(cta, shared), bytes);
                self.deliver(End::Global(global), &data, ty, None)?;
            }
        }
        Ok(())
    }

    fn cp_async_part(&mut self, part: &CpAsyncPart) {
        let mut data = vec![0; part.bytes as usize];
        if part.read > 0 {
            let read = self.fetch(End::Global(part.from), part.read);
            data[..read.len()].copy_from_slice(&read);
        }
        self.store_end(End::Shared(part.cta, part.offset), &data);
    }

    /// Bytes at an end that was checked when the operation was issued.
    fn fetch(&self, end: End, bytes: u32) -> Vec<u8> {
        match end {
            End::Shared(cta, offset) => {
                self.ctas[cta].shared.bytes()[offset as usize..][..bytes as usize].to_vec()
            }
            End::Global(at) => {
                let mut data = vec![0; bytes as usize];
                if let Ok((allocation, offset)) = self.launch.global.find(at, bytes.into(), &mut 0)
                {
                    allocation.read_into(offset, &mut data);
                }
                data
            }
        }
    }

    fn store_end(&mut self, end: End, data: &[u8]) {
        match end {
            End::Shared(cta, offset) => {
                self.ctas[cta].shared.write(offset as usize, data.len()).copy_from_slice(data);
            }
            End::Global(at) => {
                if let Ok((allocation, offset)) =
                    self.launch.global.find(at, data.len() as u64, &mut 0)
                {
                    allocation.write_from(offset, data);
                }
            }
        }
    }

    /// Stores or combines bytes at an end.
    fn deliver(
        &mut self,
        end: End,
        data: &[u8],
        op: Option<(ReduceOp, ReduceType)>,
        mask: Option<u16>,
    ) -> Result<(), String> {
        let mut new = data.to_vec();
        if let Some(mask) = mask {
            let old = self.fetch(end, data.len() as u32);
            for (i, byte) in new.iter_mut().enumerate() {
                if mask >> (i % 16) & 1 == 0 {
                    *byte = old[i];
                }
            }
        }
        let Some((op, ty)) = op else {
            self.store_end(end, &new);
            return Ok(());
        };
        // Other CTAs may reduce into the same memory: each element is updated atomically.
        if let End::Global(at) = end {
            return self.reduce_global(at, &new, op, ty);
        }
        let mut old = self.fetch(end, data.len() as u32);
        reduce(op, ty, &mut old, &new).map_err(|e| e.to_string())?;
        self.store_end(end, &old);
        Ok(())
    }

    fn reduce_global(
        &self,
        at: u64,
        data: &[u8],
        op: ReduceOp,
        ty: ReduceType,
    ) -> Result<(), String> {
        let size = ty.bytes();
        let found = self.launch.global.find(at, data.len() as u64, &mut 0);
        // What is outside of every buffer was reported when the operation was issued.
        let Ok((allocation, offset)) = found else { return Ok(()) };
        for (i, element) in data.chunks_exact(size).enumerate() {
            let combine = |old: u64| {
                let mut memory = old.to_le_bytes();
                // An operation that does not exist for the type fails for the first element below.
                let _checked = reduce(op, ty, &mut memory[..size], element);
                u64::from_le_bytes(memory)
            };
            if i == 0 {
                reduce(op, ty, &mut [0; 8][..size], element).map_err(|e| e.to_string())?;
            }
            allocation.update(offset + (i * size) as u64, size as u64, combine);
        }
        Ok(())
    }
}

//! Issuing asynchronous copies.

use crate::engine::{Group, Stream};
use crate::exec::Execution;
use crate::exec::Flow;
use crate::exec::{CpAsyncPart, End, Work};
use crate::instruction::BarrierId;
use crate::instruction::{Access, Order, Place, lane_address};
use crate::instruction::{Addr, AsyncCopy, BulkCopy, MemSpace, TensorCopy, TensorDirection};
use crate::judge::Judge;
use crate::machine::{CtaRank, Machine, Run};
use crate::record::Event;
use crate::register::lanes;
use crate::register::{Lane, Reg, Registers, bits};
use crate::rules::Rule;
use crate::tensor_copy::{CopyPlan, Direction, Piece, ReduceOp, ReduceType};
use crate::warp::WarpId;
use program::TensorDescriptor;

impl Execution<'_, '_> {
    pub(crate) fn async_copy(&mut self, w: WarpId, op: &AsyncCopy, mask: u32) -> Run<Flow> {
        match op {
            AsyncCopy::CpAsync { dst, src, bytes, source_bytes, ignore } => {
                let shorter = |r: &Registers, lane: Lane| {
                    let ignored = ignore.is_some_and(|p| lane.is_in(r.p(p)));
                    let size = source_bytes.map_or(*bytes, |s| r.r32(s)[lane].min(*bytes));
                    if ignored { 0 } else { size }
                };
                self.cp_async(w, *dst, *src, *bytes, &shorter, mask)
            }
            AsyncCopy::CpAsyncCommit => {
                self.machine.warps[w].cp_group += 1;
                Ok(Flow::Next)
            }
            AsyncCopy::CpAsyncWait(pending) => {
                let current = self.machine.warps[w].cp_group;
                let below = pending.map_or(u64::MAX, |n| current.saturating_sub(n.into()));
                self.finish_group(
                    w,
                    |g| matches!(g, Group::CpAsync(who, n) if who == w && n < below),
                )?;
                Ok(Flow::Next)
            }
            AsyncCopy::CpAsyncArrive { addr, noinc, space } => {
                self.cp_async_arrive(w, *addr, *space, *noinc, mask)
            }
            AsyncCopy::Bulk(copy) => {
                lanes(mask).try_for_each(|lane| self.bulk(w, lane, copy))?;
                Ok(Flow::Next)
            }
            AsyncCopy::Tensor(copy) if copy.direction == TensorDirection::Prefetch => {
                if self.machine.recorder.is_some()
                    && let Ok(map) = self.tensor_map(w, Lane::first(mask), copy.map)
                {
                    let bytes = u32::try_from(map.pitched_bytes()).unwrap_or(u32::MAX);
                    self.machine.record_plain(w, Event::Prefetch(bytes));
                }
                Ok(Flow::Next)
            }
            AsyncCopy::Tensor(copy) => {
                let issuing = self.machine.distinct_stores(w, copy, mask);
                lanes(issuing).try_for_each(|lane| self.tensor(w, lane, copy))?;
                Ok(Flow::Next)
            }
            AsyncCopy::BulkCommit => {
                self.machine.warps[w].bulk_group += 1;
                Ok(Flow::Next)
            }
            AsyncCopy::BulkWait { pending, read } => self.bulk_wait(w, *pending, *read),
            AsyncCopy::StoreAsync { addr, src, bytes, mbar, reduce } => {
                self.store_async(w, (*addr, *mbar), (src, *bytes), *reduce, mask)
            }
            AsyncCopy::TensormapReplace { map, space, field, ordinal, value } => {
                lanes(mask).try_for_each(|lane| {
                    self.replace_field(w, lane, (*map, *space), (field, *ordinal), *value)
                })?;
                Ok(Flow::Next)
            }
            AsyncCopy::TensormapCopy { dst, src } => self.tensormap_copy(w, *dst, *src, mask),
        }
    }

    /// `st.async` and `red.async`. Lanes that store one behind the other are one operation.
    fn store_async(
        &mut self,
        w: WarpId,
        (addr, mbar): (Addr, Addr),
        (src, bytes): (&[Reg], u32),
        reduce: Option<(ReduceOp, ReduceType)>,
        mask: u32,
    ) -> Run<Flow> {
        let mut runs: Vec<(End, Vec<u8>, BarrierId)> = Vec::new();
        for lane in lanes(mask) {
            let to =
                self.machine.shared_end(self.judge, w, lane, addr, bytes * src.len() as u32)?;
            let signal = self.machine.barrier_at(self.judge, w, lane, mbar, MemSpace::Shared)?;
            self.known_signal(w, lane, signal)?;
            let registers = &self.machine.warps[w].registers;
            let words = src.iter().map(|r| registers.lane(*r, lane).to_le_bytes());
            let data = words.flat_map(|word| word.into_iter().take(bytes as usize));
            match runs.last_mut() {
                Some((first, run, barrier))
                    if reduce.is_none() && first.plus(run.len()) == to && *barrier == signal =>
                {
                    run.extend(data);
                }
                _ => runs.push((to, data.collect(), signal)),
            }
        }
        for (to, data, signal) in runs {
            let work = Work::StoreAsync { to, data, signal, reduce };
            self.issue(w, Stream::Free, Group::None, work)?;
        }
        Ok(Flow::Next)
    }

    fn cp_async(
        &mut self,
        w: WarpId,
        dst: Addr,
        src: Addr,
        bytes: u32,
        source_bytes: &dyn Fn(&Registers, Lane) -> u32,
        mask: u32,
    ) -> Run<Flow> {
        let mut parts = Vec::with_capacity(32);
        for lane in lanes(mask) {
            let to = lane_address(&self.machine.warps[w].registers, dst, lane);
            let Place::Shared(cta, offset) =
                self.machine.place(self.judge, w, lane, MemSpace::Shared, to, bytes)?
            else {
                continue;
            };
            let from = lane_address(&self.machine.warps[w].registers, src, lane);
            let read = source_bytes(&self.machine.warps[w].registers, lane);
            if read > 0 {
                if !from.is_multiple_of(bytes.into()) {
                    return self.machine.misaligned(w, lane, from, bytes);
                }
                self.before_access(w, lane, Access::read(Place::Global(from), read, Order::Async))?;
            }
            parts.push(CpAsyncPart { cta, offset, from, read, bytes });
        }
        self.machine.counters.copied += u64::from(bytes) * parts.len() as u64;
        self.judge.note_writes_of_lanes(w, mask);
        let group = Group::CpAsync(w, self.machine.warps[w].cp_group);
        self.issue(w, Stream::CpAsync(w), group, Work::CpAsync(parts))?;
        Ok(Flow::Next)
    }

    fn cp_async_arrive(
        &mut self,
        w: WarpId,
        addr: Addr,
        space: MemSpace,
        noinc: bool,
        mask: u32,
    ) -> Run<Flow> {
        let mut signals = Vec::new();
        for lane in lanes(mask) {
            let id = self.machine.barrier_at(self.judge, w, lane, addr, space)?;
            self.known_barrier(w, lane, id)?;
            if !noinc && let Some(bar) = self.machine.ctas[id.0].mbarriers.get_mut(&id.1) {
                bar.add_pending();
            }
            signals.push(id);
        }
        self.issue(w, Stream::CpAsync(w), Group::None, Work::Arrive(signals))?;
        Ok(Flow::Next)
    }

    fn bulk(&mut self, w: WarpId, lane: Lane, copy: &BulkCopy) -> Run<()> {
        let registers = &self.machine.warps[w].registers;
        let bytes = registers.r32(copy.size)[lane];
        if !bytes.is_multiple_of(16) || bytes == 0 {
            let message =
                format!("a bulk copy of {bytes} bytes: the size must be a positive multiple of 16");
            return self.machine.fault(w, Some(lane), "bulk-size", message, None);
        }
        let multicast = copy.multicast.map(|m| registers.r32(m)[lane]);
        let (from, to) = (
            self.machine.bulk_end(self.judge, w, lane, copy.src, copy.src_space, bytes)?,
            self.machine.bulk_end(self.judge, w, lane, copy.dst, copy.dst_space, bytes)?,
        );
        if let End::Global(at) = from {
            self.before_access(w, lane, Access::read(Place::Global(at), bytes, Order::Async))?;
        }
        if let End::Global(at) = to {
            self.before_access(w, lane, Access::write(Place::Global(at), bytes, Order::Async))?;
        }
        let (mut ends, mut signals) = (vec![to], Vec::new());
        if let Some(mbar) = copy.mbar {
            let signal = self.machine.barrier_at(self.judge, w, lane, mbar, MemSpace::Shared)?;
            (ends, signals) = self.multicast(w, lane, to, signal, multicast, false)?;
        }
        let byte_mask = copy.byte_mask.map(|m| self.machine.warps[w].registers.r32(m)[lane] as u16);
        self.machine.counters.copied += u64::from(bytes);
        let group = if signals.is_empty() {
            Group::Bulk(w, self.machine.warps[w].bulk_group)
        } else {
            Group::None
        };
        let reduce = copy.reduce;
        self.issue(
            w,
            Stream::Free,
            group,
            Work::Bulk { from, ends, bytes, signals, reduce, byte_mask },
        )
    }

    /// Destinations and barriers of a copy: those named, or the same offsets in every CTA of a mask.
    pub(crate) fn multicast(
        &mut self,
        w: WarpId,
        lane: Lane,
        to: End,
        signal: BarrierId,
        mask: Option<u32>,
        pair: bool,
    ) -> Run<(Vec<End>, Vec<BarrierId>)> {
        let End::Shared(cta, offset) = to else { return Ok((vec![to], vec![signal])) };
        let Some(mask) = mask else {
            if signal.0 != cta && !pair {
                let message =
                    format!("data goes to CTA rank {cta} but the mbarrier is in rank {}", signal.0);
                let help =
                    "destination and mbarrier must be in the same CTA, except with .cta_group::2";
                self.judge.survivable(
                    self.machine,
                    w,
                    Some(lane),
                    Rule::CopyBarrier,
                    message,
                    Some(help),
                )?;
            }
            self.known_signal(w, lane, signal)?;
            return Ok((vec![to], vec![signal]));
        };
        let (mut ends, mut signals) = (Vec::new(), Vec::new());
        for rank in bits(mask & 0xFFFF).map(CtaRank) {
            if !self.machine.ctas.holds(rank) {
                let message = format!(
                    "multicast mask {mask:#x} names CTA rank {rank} of a cluster of {}",
                    self.machine.ctas.len()
                );
                return self.machine.fault(w, Some(lane), "multicast", message, None);
            }
            let owner = if pair { rank.pair()[signal.0.0 & 1] } else { rank };
            self.known_signal(w, lane, (owner, signal.1))?;
            ends.push(End::Shared(rank, offset));
            signals.push((owner, signal.1));
        }
        Ok((ends, signals))
    }

    fn tensor(&mut self, w: WarpId, lane: Lane, copy: &TensorCopy) -> Run<()> {
        let map = self.tensor_map(w, lane, copy.map)?;
        if !map.address.is_multiple_of(16) {
            let message = format!("the tensor of a map starts at {:#x}", map.address);
            let help = "a tensor starts at a multiple of 16 bytes";
            return self.machine.fault(w, Some(lane), "misaligned", message, Some(help));
        }
        let registers = &self.machine.warps[w].registers;
        let coords: Vec<i32> = copy.coords.iter().map(|c| registers.r32(*c)[lane] as i32).collect();
        let multicast = copy.multicast.map(|m| registers.r32(m)[lane]);
        let boxes = if copy.rows4 { 4 } else { 1 };
        let bytes = u32::try_from(boxes * map.pitched_bytes()).unwrap_or(u32::MAX);
        let Some(shared) = copy.shared else { return Ok(()) };
        let at = lane_address(&self.machine.warps[w].registers, shared, lane);
        if !at.is_multiple_of(128) {
            let message =
                format!("tensor copies need 128-byte aligned shared memory; this is {at:#x}");
            return self.machine.fault(w, Some(lane), "misaligned", message, None);
        }
        let to = self.machine.shared_end(self.judge, w, lane, shared, bytes)?;
        let End::Shared(cta, offset) = to else { return Ok(()) };
        let direction = match copy.direction {
            TensorDirection::Load => Direction::Load,
            TensorDirection::Store | TensorDirection::Reduce(_) | TensorDirection::Prefetch => {
                Direction::Store
            }
        };
        if direction == Direction::Store
            && !copy.rows4
            && let Some(axis) = coords.iter().position(|c| *c < 0)
        {
            let message = format!("a tensor store at coordinate {axis} = {}", coords[axis]);
            let help = "stores may reach over the upper ends of a tensor, but hardware refuses those \
                        that start before its first element; only loads may";
            return self.machine.fault(w, Some(lane), "store-corner", message, Some(help));
        }
        let bits = i64::from(coords[0]) * map.element.bits() as i64;
        if bits % 128 != 0 {
            let start = bits / 8;
            let message = format!("a tensor copy at coordinate 0 = {}: byte {start}", coords[0]);
            let help = "a copy starts at a multiple of 16 bytes along the first dimension; hardware \
                        refuses others";
            return self.machine.fault(w, Some(lane), "copy-start", message, Some(help));
        }
        let registers = &self.machine.warps[w].registers;
        let plan = match &copy.im2col {
            Some(offsets) => {
                let offsets = offsets.iter().map(|o| registers.r32(*o)[lane] as u16);
                CopyPlan::im2col(&map, &coords, &offsets.collect::<Vec<_>>(), offset)
            }
            None if copy.rows4 => CopyPlan::four_rows(&map, &coords, offset, direction),
            None => CopyPlan::tile(&map, &coords, offset, direction),
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => return self.machine.operand_error(w, &error),
        };
        self.check_pieces(w, lane, &plan, direction, &map)?;
        self.machine.counters.copied += u64::from(plan.transaction_bytes);
        if direction == Direction::Load {
            let Some(mbar) = copy.mbar else { return Ok(()) };
            let signal = self.machine.barrier_at(self.judge, w, lane, mbar, MemSpace::Shared)?;
            let (ends, signals) = self.multicast(w, lane, to, signal, multicast, copy.pair)?;
            let work = Work::TensorLoad { plan, map: Box::new(map), ends, signals };
            return self.issue(w, Stream::Free, Group::None, work);
        }
        let reduce = match copy.direction {
            TensorDirection::Reduce(op) => Some(op),
            TensorDirection::Load | TensorDirection::Store | TensorDirection::Prefetch => None,
        };
        let group = Group::Bulk(w, self.machine.warps[w].bulk_group);
        let work = Work::TensorStore { plan, map: Box::new(map), cta, reduce };
        self.issue(w, Stream::Free, group, work)
    }

    /// Global memory a tensor copy touches must exist.
    fn check_pieces(
        &mut self,
        w: WarpId,
        lane: Lane,
        plan: &CopyPlan,
        direction: Direction,
        map: &TensorDescriptor,
    ) -> Run<()> {
        for piece in &plan.pieces {
            let Piece::Copy { global, bytes, .. } = *piece else { continue };
            let mut hint = self.machine.warps[w].global_hint;
            if let Err(error) = self.machine.launch.global.find(global, bytes.into(), &mut hint) {
                let message = format!(
                    "the tensor map reaches {error}; its dims are {:?} and byte strides {:?}",
                    &map.dims[..map.rank],
                    &map.strides[1..map.rank.max(1)]
                );
                let help =
                    "strides of a tensor map count bytes, and dims must not exceed the buffer";
                self.judge.survivable(
                    self.machine,
                    w,
                    Some(lane),
                    Rule::OutOfBounds,
                    message,
                    Some(help),
                )?;
                continue;
            }
            match direction {
                Direction::Load => self.before_access(
                    w,
                    lane,
                    Access::read(Place::Global(global), bytes, Order::Async),
                )?,
                Direction::Store => self.before_access(
                    w,
                    lane,
                    Access::write(Place::Global(global), bytes, Order::Async),
                )?,
            }
        }
        Ok(())
    }

    /// Reads and decodes the 128-byte map at an address.
    fn tensor_map(&mut self, w: WarpId, lane: Lane, addr: Addr) -> Run<TensorDescriptor> {
        let at = lane_address(&self.machine.warps[w].registers, addr, lane);
        let bytes = self.map_bytes(w, lane, at, MemSpace::Generic)?;
        match TensorDescriptor::decode(&bytes) {
            Ok(map) => Ok(map),
            Err(error) => {
                let message = format!("the 128 bytes at {at:#x} are not a tensor map: {error}");
                let help = "the operand must be the generic address of a CUtensorMap: in .param space take \
                            it with mov and cvta.param";
                self.machine.fault(w, Some(lane), "tensor-map", message, Some(help))
            }
        }
    }

    fn bulk_wait(&mut self, w: WarpId, pending: u32, read: bool) -> Run<Flow> {
        let below = self.machine.warps[w].bulk_group.saturating_sub(pending.into());
        let of_this = move |g: Group| matches!(g, Group::Bulk(who, n) if who == w && n < below);
        if read {
            // Sources may be overwritten from here on.
            self.machine.record_groups(w, &of_this);
            self.complete_group(of_this)?;
            self.machine.wait_time(w, &of_this);
            self.judge.finish_reads(w, of_this);
        } else {
            self.finish_group(w, of_this)?;
        }
        Ok(Flow::Next)
    }
}

impl Machine<'_> {
    /// A shared-memory operand of `bytes` bytes.
    pub(crate) fn shared_end(
        &self,
        judge: &Judge<'_>,
        w: WarpId,
        lane: Lane,
        addr: Addr,
        bytes: u32,
    ) -> Run<End> {
        let at = lane_address(&self.warps[w].registers, addr, lane);
        match self.shared_place(judge, w, lane, at, bytes)? {
            Place::Shared(cta, offset) => Ok(End::Shared(cta, offset)),
            _ => unreachable!("shared_place gives shared places"),
        }
    }

    pub(crate) fn bulk_end(
        &self,
        judge: &Judge<'_>,
        w: WarpId,
        lane: Lane,
        addr: Addr,
        space: MemSpace,
        bytes: u32,
    ) -> Run<End> {
        let at = lane_address(&self.warps[w].registers, addr, lane);
        if !at.is_multiple_of(16) {
            let message = format!("bulk copies need 16-byte aligned addresses; this is {at:#x}");
            return self.fault(w, Some(lane), "misaligned", message, None);
        }
        match space {
            MemSpace::Global => Ok(End::Global(at)),
            _ => self.shared_end(judge, w, lane, addr, bytes),
        }
    }

    /// The lanes of `mask`, without those that store the same box to the same place as a lower one.
    /// CUTLASS lets a whole warp issue its stores; writing the same bytes again changes nothing.
    fn distinct_stores(&self, w: WarpId, copy: &TensorCopy, mask: u32) -> u32 {
        let (TensorDirection::Store, Some(shared)) = (copy.direction, copy.shared) else {
            return mask;
        };
        let r = &self.warps[w].registers;
        let same = |a: Lane, b: Lane| {
            lane_address(r, shared, a) == lane_address(r, shared, b)
                && lane_address(r, copy.map, a) == lane_address(r, copy.map, b)
                && copy.coords.iter().all(|c| r.r32(*c)[a] == r.r32(*c)[b])
        };
        let repeats = |lane: Lane| lanes(mask & (lane.mask() - 1)).any(|lower| same(lower, lane));
        lanes(mask).filter(|lane| !repeats(*lane)).fold(0, |all, lane| all | lane.mask())
    }
}

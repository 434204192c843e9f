//! Loads, stores and atomics.

use super::banks::bank_conflicts;
use crate::exec::Execution;
use crate::exec::Flow;
use crate::instruction::{Addr, AtomOp, Atomic, Load, MemSpace, MemoryAccess, Store};
use crate::judge::Conflict;
use crate::judge::Judge;
use crate::machine::{CtaRank, Machine, Run};
use crate::memory::address::{self, SHARED_OFFSET, Window};
use crate::register::lanes;
use crate::register::{Lane, Reg, Registers};
use crate::rules::Rule;
use crate::tensor_copy::reduce;
use crate::warp::WarpId;

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Global address.
    Global(u64),
    /// CTA in the cluster and offset.
    Shared(CtaRank, u32),
    /// Offset in the thread's local memory.
    Local(u32),
    /// Offset in the parameters.
    Param(u32),
}

/// How an access is ordered with those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Not at all: a race if anyone else writes.
    Weak,
    /// Volatile, relaxed, acquire, release or atomic.
    Strong,
    /// What an atomic operation reads. Unlike a load it cannot wait for the word to be written first.
    Atomic,
    /// Looked at for an asynchronous operation, which is checked as a whole.
    Async,
}

impl Order {
    pub(crate) fn of(strong: bool) -> Order {
        if strong { Order::Strong } else { Order::Weak }
    }
}

/// A load or store.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) place: Place,
    pub(crate) bytes: u32,
    pub(crate) write: bool,
    pub(crate) order: Order,
    /// Whether a store of what is there already is found out.
    pub(crate) compared: bool,
}

impl Access {
    pub(crate) fn read(place: Place, bytes: u32, order: Order) -> Access {
        Access { place, bytes, write: false, order, compared: false }
    }

    pub(crate) fn write(place: Place, bytes: u32, order: Order) -> Access {
        Access { write: true, ..Access::read(place, bytes, order) }
    }
}

/// One lane's address.
pub(crate) fn lane_address(r: &Registers, addr: Addr, lane: Lane) -> u64 {
    match addr.base {
        // 32-bit addresses wrap at 32 bits.
        Reg::R32(base) => u64::from(r.r32(base)[lane].wrapping_add(addr.offset as u32)),
        base => r.lane(base, lane).wrapping_add(addr.offset as u64),
    }
}

impl Execution<'_, '_> {
    pub(crate) fn memory_access(&mut self, w: WarpId, op: &MemoryAccess, mask: u32) -> Run<Flow> {
        match op {
            MemoryAccess::Load(load) => self.load(w, load, mask),
            MemoryAccess::Store(store) => self.store(w, store, mask),
            MemoryAccess::StoreZeros { space, addr, bytes } => {
                self.store_zeros(w, *space, *addr, *bytes, mask)
            }
            MemoryAccess::Atomic(atomic) if atomic.bytes > 8 => self.atomic_wide(w, atomic, mask),
            MemoryAccess::Atomic(atomic) => self.atomic(w, atomic, mask),
        }
    }

    fn load(&mut self, w: WarpId, load: &Load, mask: u32) -> Run<Flow> {
        let n = load.dst.len() as u32;
        let bytes = u32::from(load.bytes);
        if load.strong {
            self.machine.poll(w);
        }
        if !self.machine.launch.doubts.is_empty() && self.machine.doubts(w) {
            return self.load_doubted(w, load, mask);
        }
        if self.machine.takes_rows(load.strong) {
            let done = match load.space {
                MemSpace::Shared => bytes == 4 && self.load_words(w, load, mask)?,
                _ => self.load_rows(w, load, mask)?,
            };
            if done {
                return Ok(Flow::Next);
            }
        }
        for lane in lanes(mask) {
            let at = lane_address(&self.machine.warps[w].registers, load.addr, lane);
            let place = self.machine.place(self.judge, w, lane, load.space, at, bytes * n)?;
            self.before_access(w, lane, Access::read(place, bytes * n, Order::of(load.strong)))?;
            self.load_lane(w, lane, place, load);
        }
        self.machine.count_access(w, load.space, load.addr, mask, bytes * n, false);
        Ok(Flow::Next)
    }

    /// A load that races with a store, and whose value must not be used.
    #[cold]
    fn load_doubted(&mut self, w: WarpId, load: &Load, mask: u32) -> Run<Flow> {
        let bytes = u32::from(load.bytes) * load.dst.len() as u32;
        for lane in lanes(mask) {
            let at = lane_address(&self.machine.warps[w].registers, load.addr, lane);
            let place = self.machine.place(self.judge, w, lane, load.space, at, bytes)?;
            self.before_access(w, lane, Access::read(place, bytes, Order::Async))?;
            self.load_lane(w, lane, place, load);
        }
        let registers = load.dst.iter().copied().flatten();
        let what = "a value that another warp writes in no order".to_owned();
        self.judge.mark_unwritten(self.machine, w, registers, mask, what);
        self.machine.count_access(w, load.space, load.addr, mask, bytes, false);
        Ok(Flow::Next)
    }

    #[inline(always)]
    fn load_lane(&mut self, w: WarpId, lane: Lane, place: Place, load: &Load) {
        let bytes = u32::from(load.bytes);
        let all = bytes * load.dst.len() as u32;
        let unwritten = self.machine.first_unwritten(w, lane, place, all).is_some();
        for (dst, delta) in load.dst.iter().zip((0..).step_by(bytes as usize)) {
            let Some(dst) = *dst else { continue };
            let place = advance(place, delta);
            if unwritten {
                self.mark_loaded(w, lane, dst, place, bytes);
            }
            if let Reg::R128(dst) = dst {
                let low = self.machine.read(w, lane, place, 8);
                let high = self.machine.read(w, lane, advance(place, 8), 8);
                let value = u128::from(high) << 64 | u128::from(low);
                self.machine.warps[w].registers.set_lane128(dst, lane, value);
                continue;
            }
            let mut value = self.machine.read(w, lane, place, bytes);
            if let Some(sign) = load.sign {
                let shift = 64 - u32::from(sign);
                value = ((value << shift) as i64 >> shift) as u64;
            }
            self.machine.warps[w].registers.set_lane(dst, lane, value);
        }
    }

    /// Marks the bytes of a register that are loaded from where nobody wrote.
    fn mark_loaded(&mut self, w: WarpId, lane: Lane, dst: Reg, place: Place, bytes: u32) {
        let Some(what) = self.machine.unwritten_at(w, lane, place, bytes) else { return };
        let missing =
            |i: &u32| self.machine.first_unwritten(w, lane, advance(place, *i), 1).is_some();
        let missing = (0..bytes).filter(missing).fold(0, |all, i| all | 1 << i);
        let of_register = match place {
            Place::Local(_) => true,
            _ => self.machine.is_undefined(w, lane, place, bytes),
        };
        self.judge.mark_unwritten_bytes(self.machine, w, lane, dst, missing, (what, of_register));
    }

    fn store(&mut self, w: WarpId, store: &Store, mask: u32) -> Run<Flow> {
        let n = store.src.len() as u32;
        let bytes = u32::from(store.bytes);
        self.machine.event();
        let unwritten = self.judge.stores_unwritten(w, store, mask);
        let words = bytes == 4 && !unwritten && self.machine.takes_rows(store.strong);
        if words && self.store_words(w, store, mask)? {
            return Ok(Flow::Next);
        }
        let mut replicas = None;
        for lane in lanes(mask) {
            let at = lane_address(&self.machine.warps[w].registers, store.addr, lane);
            let place = self.machine.place(self.judge, w, lane, store.space, at, bytes * n)?;
            self.before_store(w, (lane, mask), place, store, &mut replicas)?;
            for (i, src) in store.src.iter().enumerate() {
                let delta = bytes * i as u32;
                if let Reg::R128(src) = *src {
                    let value = self.machine.warps[w].registers.lane128(src, lane);
                    self.machine.write(w, lane, advance(place, delta), 8, value as u64);
                    self.machine.write(w, lane, advance(place, delta + 8), 8, (value >> 64) as u64);
                    continue;
                }
                let value = self.machine.warps[w].registers.lane(*src, lane);
                self.machine.write(w, lane, advance(place, delta), bytes, value);
            }
            if unwritten {
                let undefined = self.judge.follow_store(self.machine, w, lane, place, store)?;
                undefined.into_iter().for_each(|byte| self.machine.forget(w, lane, byte));
            }
        }
        self.judge.report_replicas(self.machine, w, replicas.as_ref())?;
        self.machine.count_access(w, store.space, store.addr, mask, bytes * n, true);
        Ok(Flow::Next)
    }

    fn atomic(&mut self, w: WarpId, atomic: &Atomic, mask: u32) -> Run<Flow> {
        self.judge.note_writes_of_lanes(w, mask);
        self.machine.poll(w);
        let bytes = atomic.bytes;
        for lane in lanes(mask) {
            let at = lane_address(&self.machine.warps[w].registers, atomic.addr, lane);
            let total = bytes * atomic.src.len() as u32;
            let place = self.machine.place(self.judge, w, lane, atomic.space, at, total)?;
            self.before_access(w, lane, Access::read(place, total, Order::Atomic))?;
            if atomic.op != AtomOp::Exch
                && let Some(what) = self.machine.unwritten_at(w, lane, place, total)
            {
                let message = format!("an atomic operation combines with {what}");
                self.judge.hazard(self.machine, w, Rule::Uninitialised, message, None, None)?;
            }
            self.before_access(w, lane, Access::write(place, total, Order::Strong))?;
            for (i, src) in atomic.src.iter().enumerate() {
                let registers = &self.machine.warps[w].registers;
                let operand = registers.lane(*src, lane);
                let swap = atomic.swap.map(|swap| registers.lane(swap, lane));
                let place = advance(place, bytes * i as u32);
                let old = match self
                    .machine
                    .update(w, place, bytes, |old| combine(atomic, old, operand, swap))
                {
                    Ok(old) => old,
                    Err(reason) => return self.machine.unsupported(w, reason),
                };
                if combine(atomic, old, operand, swap) != Ok(old) {
                    self.machine.event();
                }
                if let Some(Some(dst)) = atomic.dst.get(i) {
                    self.machine.warps[w].registers.set_lane(*dst, lane, old);
                }
            }
        }
        Ok(Flow::Next)
    }

    /// Checks an access: bounds and ordering.
    #[inline(always)]
    pub(crate) fn before_access(&mut self, w: WarpId, lane: Lane, access: Access) -> Run<()> {
        self.before_access_unless(w, lane, access, |_, _, _| Ok(false))
    }

    /// The same, but a conflict that `forgives` is true of is none.
    #[inline(always)]
    pub(crate) fn before_access_unless(
        &mut self,
        w: WarpId,
        lane: Lane,
        access: Access,
        forgives: impl FnMut(&mut Judge<'_>, &Machine<'_>, &Conflict) -> Run<bool>,
    ) -> Run<()> {
        match access.place {
            Place::Global(at) => {
                let mut hint = self.machine.warps[w].global_hint;
                match self.machine.launch.global.find(at, access.bytes.into(), &mut hint) {
                    Ok((allocation, _)) if allocation.read_only && access.write => {
                        self.judge.refuse_write(self.machine, w, lane, &allocation.name)
                    }
                    Ok((allocation, _)) => {
                        self.machine.warps[w].global_hint = hint;
                        if allocation.read_only {
                            return Ok(());
                        }
                        self.judge.note_access(self.machine, w, access, forgives)
                    }
                    Err(e) => {
                        let verb = if access.write { "write" } else { "read" };
                        let message = format!("{verb} of {e}");
                        self.judge.survivable(
                            self.machine,
                            w,
                            Some(lane),
                            Rule::OutOfBounds,
                            message,
                            None,
                        )
                    }
                }
            }
            Place::Shared(cta, offset) => {
                if access.order == Order::Weak {
                    self.judge.note_lane(
                        self.machine,
                        w,
                        lane,
                        (cta, offset),
                        access.bytes,
                        access.write,
                    )?;
                }
                self.judge.note_access(self.machine, w, access, forgives)
            }
            Place::Param(_) if access.write => self.machine.fault(
                w,
                Some(lane),
                "read-only",
                "write to kernel parameters".into(),
                None,
            ),
            Place::Local(_) | Place::Param(_) => Ok(()),
        }
    }
}

impl Machine<'_> {
    /// Whether the value that a warp loads here must not be used.
    #[cold]
    fn doubts(&self, w: WarpId) -> bool {
        let source = self.kernel.code[self.pc(w) as usize].source as usize;
        let line = self.kernel.sources.get(source).map_or(0, |source| source.line);
        self.launch.doubts.iter().any(|doubt| doubt.concerns(line, self.warps[w].index))
    }

    /// Where one lane's address leads, checked for bounds and alignment.
    #[inline(always)]
    pub(crate) fn place(
        &self,
        judge: &Judge<'_>,
        w: WarpId,
        lane: Lane,
        space: MemSpace,
        at: u64,
        bytes: u32,
    ) -> Run<Place> {
        if !at.is_multiple_of(u64::from(bytes.next_power_of_two())) {
            return self.misaligned(w, lane, at, bytes);
        }
        let place = match space {
            MemSpace::Global => Place::Global(at),
            MemSpace::Shared => return self.shared_place(judge, w, lane, at, bytes),
            MemSpace::Local => self.local_place(w, lane, at, bytes)?,
            MemSpace::Param => self.param_place(w, lane, at, bytes)?,
            MemSpace::Generic => match address::window(at) {
                Window::Global(at) => Place::Global(at),
                Window::Shared(at) => return self.shared_place(judge, w, lane, at.into(), bytes),
                Window::Local(at) => self.local_place(w, lane, at, bytes)?,
                Window::Param(at) => self.param_place(w, lane, at, bytes)?,
            },
        };
        Ok(place)
    }

    fn local_place(&self, w: WarpId, lane: Lane, at: u64, bytes: u32) -> Run<Place> {
        self.small_place(w, lane, (at, bytes), (self.kernel.local_bytes, "local memory"))
            .map(Place::Local)
    }

    fn param_place(&self, w: WarpId, lane: Lane, at: u64, bytes: u32) -> Run<Place> {
        self.small_place(w, lane, (at, bytes), (self.kernel.param_bytes, "the parameters"))
            .map(Place::Param)
    }

    /// An offset in a memory that has less than 4 GiB.
    fn small_place(
        &self,
        w: WarpId,
        lane: Lane,
        (at, bytes): (u64, u32),
        (size, what): (u32, &str),
    ) -> Run<u32> {
        if at.checked_add(bytes.into()).is_some_and(|end| end <= size.into()) {
            return Ok(at as u32);
        }
        let message = format!("{bytes} bytes at {at:#x} are outside {what}");
        self.fault(w, Some(lane), "out-of-bounds", message, None)
    }

    pub(crate) fn misaligned<T>(&self, w: WarpId, lane: Lane, at: u64, bytes: u32) -> Run<T> {
        let message = format!("address {at:#x} is not a multiple of the {bytes} bytes accessed");
        self.fault(w, Some(lane), "misaligned", message, None)
    }

    /// CTA and offset of a shared-window address.
    #[inline(always)]
    pub(crate) fn shared_place(
        &self,
        judge: &Judge<'_>,
        w: WarpId,
        lane: Lane,
        at: u64,
        bytes: u32,
    ) -> Run<Place> {
        let at = match address::window(at) {
            Window::Shared(at) => at,
            _ => at as u32,
        };
        let (rank, offset) = (CtaRank((at >> 24) as usize), at & SHARED_OFFSET);
        if !self.ctas.holds(rank) {
            let message = format!(
                "shared address {at:#x} names CTA rank {rank} of a cluster of {}",
                self.ctas.len()
            );
            return self.fault(w, Some(lane), "out-of-bounds", message, None);
        }
        if rank != self.warps[w].cta && self.ctas[rank].live_warps == 0 {
            let message = format!("shared memory of CTA rank {rank}, which has exited");
            let help = "synchronise the cluster (barrier.cluster) before a CTA whose memory others use exits";
            judge.survivable(self, w, Some(lane), Rule::ExitedCta, message, Some(help))?;
        }
        let size = self.ctas[rank].shared.len() as u32;
        if offset < self.kernel.first_shared || bytes > size.saturating_sub(offset) {
            return self.shared_out_of_bounds(w, lane, offset, bytes, size);
        }
        Ok(Place::Shared(rank, offset))
    }

    /// CTA and offset of an operand that can only be in shared memory: an mbarrier, a row of
    /// `ldmatrix`, the place for the answer of `tcgen05.alloc`.
    ///
    /// Where the instruction names no state space the manual wants a generic address. ptxas takes the
    /// low 32 bits of whatever there is, so that an offset in the shared window does as well, and
    /// ThunderKittens writes it so.
    pub(crate) fn shared_operand(
        &self,
        judge: &Judge<'_>,
        w: WarpId,
        lane: Lane,
        addr: Addr,
        space: MemSpace,
        bytes: u32,
    ) -> Run<(CtaRank, u32)> {
        let at = lane_address(&self.warps[w].registers, addr, lane);
        if space == MemSpace::Generic && !matches!(address::window(at), Window::Shared(_)) {
            self.check_window_offset(judge, w, lane, at)?;
        }
        match self.place(judge, w, lane, MemSpace::Shared, at, bytes)? {
            Place::Shared(cta, offset) => Ok((cta, offset)),
            _ => unreachable!("shared addresses lead to shared memory"),
        }
    }

    /// An address outside of the shared window, where one in it is due.
    fn check_window_offset(&self, judge: &Judge<'_>, w: WarpId, lane: Lane, at: u64) -> Run<()> {
        if at >> 32 != 0 {
            let message = format!("{at:#x} is not in shared memory, where this operand must be");
            return self.fault(w, Some(lane), "shared-space", message, None);
        }
        if !self.launch.options.pedantic {
            return Ok(());
        }
        let message = format!("{at:#x} is an offset in the shared window, not a generic address");
        let help = "name the state space (.shared::cta or .shared::cluster), or convert with cvta";
        judge.hazard(self, w, Rule::GenericAddress, message, None, Some(help))
    }

    fn shared_out_of_bounds<T>(
        &self,
        w: WarpId,
        lane: Lane,
        offset: u32,
        bytes: u32,
        size: u32,
    ) -> Run<T> {
        let first = self.kernel.first_shared;
        let message = format!(
            "{bytes} bytes at shared offset {offset:#x}; this CTA has {first:#x}..{size:#x} ({} of them dynamic)",
            self.launch.dynamic_shared
        );
        let help = (offset < first).then_some(
            "shared addresses start behind the first KiB, which belongs to the system: is the base of an \
             array missing?",
        );
        self.fault(w, Some(lane), "out-of-bounds", message, help)
    }

    /// Whether lanes may access memory all at once; in pedantic mode each is looked at alone.
    fn takes_rows(&self, strong: bool) -> bool {
        !strong && !self.launch.options.pedantic
    }

    fn update(
        &mut self,
        w: WarpId,
        place: Place,
        bytes: u32,
        f: impl Fn(u64) -> Result<u64, String>,
    ) -> Result<u64, String> {
        match place {
            Place::Global(at) => {
                let mut hint = self.warps[w].global_hint;
                let found = self.launch.global.find(at, bytes.into(), &mut hint);
                // Outside of every buffer, where the options allow that, there is nothing but zeros.
                let Ok((allocation, offset)) = found else { return f(0).map(|_| 0) };
                f(allocation.load(offset, bytes.into()))?;
                Ok(allocation.update(offset, bytes.into(), |old| f(old).unwrap_or(old)))
            }
            _ => {
                let old = self.read(w, Lane(0), place, bytes);
                let new = f(old)?;
                self.write(w, Lane(0), place, bytes, new);
                Ok(old)
            }
        }
    }

    /// Reads a checked place.
    #[inline(always)]
    pub(crate) fn read(&self, w: WarpId, lane: Lane, place: Place, bytes: u32) -> u64 {
        match place {
            Place::Global(at) => {
                let mut hint = self.warps[w].global_hint;
                match self.launch.global.find(at, bytes.into(), &mut hint) {
                    Ok((allocation, offset)) => allocation.load(offset, bytes.into()),
                    Err(_) => 0,
                }
            }
            Place::Shared(cta, offset) => word(self.ctas[cta].shared.bytes(), offset, bytes),
            Place::Local(offset) => {
                let base = self.kernel.local_bytes * lane.0 as u32;
                word(self.warps[w].local.bytes(), base + offset, bytes)
            }
            Place::Param(offset) => word(&self.launch.params, offset, bytes),
        }
    }

    /// Writes a checked place.
    #[inline(always)]
    pub(crate) fn write(&mut self, w: WarpId, lane: Lane, place: Place, bytes: u32, value: u64) {
        let source = value.to_le_bytes();
        let n = bytes as usize;
        match place {
            Place::Global(at) => {
                let mut hint = self.warps[w].global_hint;
                if let Ok((allocation, offset)) =
                    self.launch.global.find(at, bytes.into(), &mut hint)
                {
                    allocation.store(offset, bytes.into(), value);
                }
            }
            Place::Shared(cta, offset) => {
                let shared = &mut self.ctas[cta].shared;
                shared.write(offset as usize, n).copy_from_slice(&source[..n]);
            }
            Place::Local(offset) => {
                let base = (self.kernel.local_bytes * lane.0 as u32 + offset) as usize;
                self.warps[w].local.write(base, n).copy_from_slice(&source[..n]);
            }
            Place::Param(_) => {}
        }
    }

    /// Something undefined was stored to a byte: of shared and local memory, that is remembered.
    pub(crate) fn forget(&mut self, w: WarpId, lane: Lane, place: Place) {
        match place {
            Place::Local(offset) => {
                let start = self.kernel.local_bytes as usize * lane.0;
                self.warps[w].local.forget(start + offset as usize);
            }
            Place::Shared(cta, offset) => self.ctas[cta].shared.forget(offset as usize),
            Place::Global(_) | Place::Param(_) => {}
        }
    }

    /// The first byte of a checked place that nobody wrote, counted as the place is.
    fn first_unwritten(&self, w: WarpId, lane: Lane, place: Place, bytes: u32) -> Option<u64> {
        if !self.launch.options.checks {
            return None;
        }
        let bytes = bytes as usize;
        match place {
            Place::Global(at) => {
                let mut hint = self.warps[w].global_hint;
                let (allocation, offset) =
                    self.launch.global.find(at, bytes as u64, &mut hint).ok()?;
                allocation.first_unwritten(offset, bytes as u64)
            }
            Place::Shared(cta, offset) => {
                let byte = self.ctas[cta].shared.first_unwritten(offset as usize, bytes)?;
                Some(byte as u64)
            }
            Place::Local(offset) => {
                let start = self.kernel.local_bytes as usize * lane.0;
                let byte = self.warps[w].local.first_unwritten(start + offset as usize, bytes)?;
                Some((byte - start) as u64)
            }
            Place::Param(_) => None,
        }
    }

    /// Whether something undefined was stored to a byte of a place.
    fn is_undefined(&self, w: WarpId, lane: Lane, place: Place, bytes: u32) -> bool {
        let (memory, start) = match place {
            Place::Shared(cta, offset) => (&self.ctas[cta].shared, offset as usize),
            Place::Local(offset) => {
                let start = self.kernel.local_bytes as usize * lane.0;
                (&self.warps[w].local, start + offset as usize)
            }
            Place::Global(_) | Place::Param(_) => return false,
        };
        (start..start + bytes as usize).any(|at| memory.is_undefined(at))
    }

    /// What of a checked place nobody wrote, in words.
    pub(crate) fn unwritten_at(
        &self,
        w: WarpId,
        lane: Lane,
        place: Place,
        bytes: u32,
    ) -> Option<String> {
        let byte = self.first_unwritten(w, lane, place, bytes)?;
        let name = match place {
            Place::Global(at) => {
                let (allocation, _) = self.launch.global.find(at, bytes.into(), &mut 0).ok()?;
                format!("byte {byte} of `{}`", allocation.name)
            }
            Place::Shared(cta, _) => self.name_stored(Place::Shared(cta, byte as u32)),
            Place::Local(_) | Place::Param(_) => format!("local memory at offset {byte:#x}"),
        };
        Some(match self.is_undefined(w, lane, place, bytes) {
            true => format!("{name}, which holds what nobody wrote"),
            false => format!("{name}, which nobody has written yet"),
        })
    }

    pub(crate) fn count_access(
        &mut self,
        w: WarpId,
        space: MemSpace,
        addr: Addr,
        mask: u32,
        bytes: u32,
        write: bool,
    ) {
        self.count_bytes(space, u64::from(bytes) * u64::from(mask.count_ones()), write);
        if space == MemSpace::Shared {
            let registers = &self.warps[w].registers;
            let at = std::array::from_fn(|lane| lane_address(registers, addr, Lane(lane)) as u32);
            self.counters.bank_conflicts += bank_conflicts(&at, mask, bytes);
        }
    }

    pub(crate) fn count_bytes(&mut self, space: MemSpace, total: u64, write: bool) {
        let c = &mut self.counters;
        match (space, write) {
            (MemSpace::Global | MemSpace::Generic, false) => c.global_read += total,
            (MemSpace::Global | MemSpace::Generic, true) => c.global_written += total,
            (MemSpace::Shared, false) => c.shared_read += total,
            (MemSpace::Shared, true) => c.shared_written += total,
            (MemSpace::Local | MemSpace::Param, _) => {}
        }
    }
}

/// The place `bytes` further on.
pub(crate) fn advance(place: Place, bytes: u32) -> Place {
    match place {
        Place::Global(at) => Place::Global(at + u64::from(bytes)),
        Place::Shared(cta, offset) => Place::Shared(cta, offset + bytes),
        Place::Local(offset) => Place::Local(offset + bytes),
        Place::Param(offset) => Place::Param(offset + bytes),
    }
}

#[inline(always)]
fn word(memory: &[u8], offset: u32, bytes: u32) -> u64 {
    let at = &memory[offset as usize..(offset + bytes) as usize];
    match *at {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

/// The new value of an atomic operation.
fn combine(atomic: &Atomic, old: u64, operand: u64, swap: Option<u64>) -> Result<u64, String> {
    match atomic.op {
        AtomOp::Exch => Ok(operand),
        AtomOp::Cas => Ok(if old == operand { swap.unwrap_or(old) } else { old }),
        AtomOp::Reduce(op) => {
            let mut memory = old.to_le_bytes();
            let n = atomic.bytes as usize;
            reduce(op, atomic.ty, &mut memory[..n], &operand.to_le_bytes()[..n])
                .map_err(|e| e.to_string())?;
            Ok(u64::from_le_bytes(memory))
        }
    }
}

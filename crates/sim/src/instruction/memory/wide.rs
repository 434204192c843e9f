//! Accesses wider than a register: 128-bit atomics and stores of many zeros.

use crate::exec::Execution;
use crate::exec::Flow;
use crate::instruction::{Access, Order, Place, advance, lane_address};
use crate::instruction::{Addr, AtomOp, Atomic, MemSpace};
use crate::machine::{Machine, Run};
use crate::register::lanes;
use crate::register::{Lane, Reg};
use crate::warp::WarpId;
use std::sync::PoisonError;

impl Execution<'_, '_> {
    /// `atom.{exch,cas}.b128`.
    pub(crate) fn atomic_wide(&mut self, w: WarpId, atomic: &Atomic, mask: u32) -> Run<Flow> {
        self.judge.note_writes_of_lanes(w, mask);
        self.machine.poll(w);
        let value = |this: &Self, reg: Reg, lane: Lane| match reg {
            Reg::R128(r) => this.machine.warps[w].registers.lane128(r, lane),
            other => this.machine.warps[w].registers.lane(other, lane).into(),
        };
        for lane in lanes(mask) {
            let at = lane_address(&self.machine.warps[w].registers, atomic.addr, lane);
            let place = self.machine.place(self.judge, w, lane, atomic.space, at, atomic.bytes)?;
            self.before_access(w, lane, Access::read(place, atomic.bytes, Order::Atomic))?;
            self.before_access(w, lane, Access::write(place, atomic.bytes, Order::Strong))?;
            let operand = value(self, atomic.src[0], lane);
            let swap = atomic.swap.map(|swap| value(self, swap, lane));
            let old = self.machine.exchange_wide(w, lane, place, |old| match (atomic.op, swap) {
                (AtomOp::Cas, Some(swap)) if old == operand => swap,
                (AtomOp::Cas, _) => old,
                _ => operand,
            });
            if let Some(Some(Reg::R128(dst))) = atomic.dst.first() {
                self.machine.warps[w].registers.set_lane128(*dst, lane, old);
            }
        }
        Ok(Flow::Next)
    }

    /// `st.bulk`.
    pub(crate) fn store_zeros(
        &mut self,
        w: WarpId,
        space: MemSpace,
        addr: Addr,
        bytes: Reg,
        mask: u32,
    ) -> Run<Flow> {
        self.machine.event();
        for lane in lanes(mask) {
            let at = lane_address(&self.machine.warps[w].registers, addr, lane);
            let bytes = self.machine.warps[w].registers.lane(bytes, lane);
            if !bytes.is_multiple_of(8) {
                let message = format!("st.bulk of {bytes} bytes: the size must be a multiple of 8");
                return self.machine.fault(w, Some(lane), "bulk-size", message, None);
            }
            for offset in (0..bytes).step_by(8) {
                let at = at.wrapping_add(offset);
                let place = self.machine.place(self.judge, w, lane, space, at, 8)?;
                self.before_access(w, lane, Access::write(place, 8, Order::Weak))?;
                self.machine.write(w, lane, place, 8, 0);
            }
        }
        Ok(Flow::Next)
    }
}

impl Machine<'_> {
    /// Replaces 16 bytes by a function of them; the old value.
    fn exchange_wide(
        &mut self,
        w: WarpId,
        lane: Lane,
        place: Place,
        new: impl Fn(u128) -> u128,
    ) -> u128 {
        let launch = self.launch;
        // Clusters on other host threads may exchange the same bytes.
        let _alone = launch.wide_atomics.lock().unwrap_or_else(PoisonError::into_inner);
        let [low, high] = [place, advance(place, 8)];
        let old =
            u128::from(self.read(w, lane, high, 8)) << 64 | u128::from(self.read(w, lane, low, 8));
        let value = new(old);
        if value != old {
            self.event();
            self.write(w, lane, low, 8, value as u64);
            self.write(w, lane, high, 8, (value >> 64) as u64);
        }
        old
    }
}

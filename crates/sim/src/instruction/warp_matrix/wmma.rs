//! `wmma.load` and `wmma.store`.

use crate::exec::Execution;
use crate::instruction::WmmaTransfer;
use crate::instruction::{Access, Order, lane_address};
use crate::machine::{Machine, Run};
use crate::register::{Lane, lanes};
use crate::warp::WarpId;

impl Execution<'_, '_> {
    pub(crate) fn wmma_load(&mut self, w: WarpId, op: &WmmaTransfer, mask: u32) -> Run<()> {
        let per_unit = op.matrix.registers_per_unit();
        for lane in lanes(mask) {
            for u in 0..op.matrix.units() {
                let unit = self.load_unit(w, lane, op, u)?;
                // Fragments with room to spare hold every unit again.
                for (i, d) in op.registers.iter().enumerate() {
                    if i / per_unit % op.matrix.units() == u {
                        let shift = i % per_unit * op.matrix.register_bits();
                        self.machine.warps[w].registers.set_lane(*d, lane, (unit >> shift) as u64);
                    }
                }
            }
        }
        self.machine.count_fragment(op, mask, false);
        Ok(())
    }

    pub(crate) fn wmma_store(&mut self, w: WarpId, op: &WmmaTransfer, mask: u32) -> Run<()> {
        self.machine.event();
        let per_unit = op.matrix.registers_per_unit();
        for lane in lanes(mask) {
            for (u, registers) in op.registers.chunks(per_unit).enumerate() {
                let words = registers.iter().enumerate().map(|(i, r)| {
                    let word = self.machine.warps[w].registers.lane(*r, lane);
                    u128::from(word) << (i * op.matrix.register_bits())
                });
                let unit = words.fold(0, |unit, word| unit | word);
                self.store_unit(w, lane, op, u, unit)?;
            }
        }
        self.machine.count_fragment(op, mask, true);
        Ok(())
    }

    fn load_unit(&mut self, w: WarpId, lane: Lane, op: &WmmaTransfer, u: usize) -> Run<u128> {
        let mut unit = 0;
        for (bit, at, bytes) in self.machine.runs(w, lane, op, u) {
            let place = self.machine.place(self.judge, w, lane, op.space, at, bytes)?;
            self.before_access(w, lane, Access::read(place, bytes, Order::Weak))?;
            if let Some(what) = self.machine.unwritten_at(w, lane, place, bytes) {
                self.judge.mark_unwritten(
                    self.machine,
                    w,
                    op.registers.iter().copied(),
                    lane.mask(),
                    what,
                );
            }
            unit |= u128::from(self.machine.read(w, lane, place, bytes)) << bit;
        }
        Ok(unit)
    }

    fn store_unit(
        &mut self,
        w: WarpId,
        lane: Lane,
        op: &WmmaTransfer,
        u: usize,
        unit: u128,
    ) -> Run<()> {
        for (bit, at, bytes) in self.machine.runs(w, lane, op, u) {
            let place = self.machine.place(self.judge, w, lane, op.space, at, bytes)?;
            self.before_access(w, lane, Access::write(place, bytes, Order::Weak))?;
            self.machine.write(w, lane, place, bytes, (unit >> bit) as u64);
        }
        Ok(())
    }
}

impl Machine<'_> {
    /// Runs of a lane's unit: first bit in it, address and bytes.
    fn runs(&self, w: WarpId, lane: Lane, op: &WmmaTransfer, u: usize) -> Vec<(usize, u64, u32)> {
        let registers = &self.warps[w].registers;
        let (base, stride) =
            (lane_address(registers, op.addr, lane), u64::from(registers.r32(op.stride)[lane]));
        let bits = op.matrix.bits();
        // Loads and stores have at most 8 bytes here.
        let run = op.matrix.run().min(64 / bits);
        let starts = (0..op.matrix.unit()).step_by(run);
        let place = |j| base.wrapping_add(op.matrix.place(u, lane.0, j, stride) * bits as u64 / 8);
        starts.map(|j| (j * bits, place(j), (run * bits / 8) as u32)).collect()
    }

    fn count_fragment(&mut self, op: &WmmaTransfer, mask: u32, write: bool) {
        let bits = op.matrix.units() * op.matrix.unit() * op.matrix.bits();
        self.count_bytes(op.space, bits as u64 / 8 * u64::from(mask.count_ones()), write);
    }
}

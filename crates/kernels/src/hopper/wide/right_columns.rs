//! The right warpgroup: the second half of the output columns.

use super::kernel::Frame;
use super::merge::Merging;
use crate::call::task::OpenTile;
use crate::hopper::epilogue::{self, Columns};
use crate::hopper::fragment;
use crate::hopper::parts::HeldRows;
use crate::math::exact::Watch;
use crate::math::softmax::RowState;
use crate::moves::output::BlockOutput;
use ptx::build::{Builder, Cmp, Consumer, Cursor, Reg, SharedArray, SignalCursor, Slot, WgmmaA};

struct RightColumns<'f> {
    frame: &'f Frame,
    thread: Reg<u32>,
    /// True in one thread per warp.
    lead: Reg<bool>,
    v: Cursor<Consumer>,
    p: Cursor<Consumer>,
    /// Whether the next tile's scores are computed, where products wait for that.
    scored: Option<SignalCursor>,
    out: Vec<Reg<f32>>,
    yes: Reg<bool>,
    watch: Watch,
}

/// Emits the right warpgroup.
pub fn emit(b: &mut Builder, frame: &Frame) {
    let shared = &frame.shared;
    let thread = b.thread();
    let thread = b.eval(thread % 128);
    let lane = b.eval(thread % 32);
    let right = RightColumns {
        frame,
        thread,
        lead: b.setp(Cmp::Eq, lane, 0),
        v: shared.v_rings[1].consumer(b),
        p: shared.p_ring.consumer(b),
        scored: shared.scored.map(|scored| scored.cursor(b)),
        out: b.regs(frame.config.right_columns() as usize / 2),
        yes: b.predicate(true),
        watch: frame.params.watch(b),
    };
    frame.params.for_each_tile(b, |b, open| right.run_tile(b, &open));
    let merging = Merging::right(frame, right.columns());
    right.watch.revisit(b, &frame.params, |b, open| merging.run_tile_again(b, &open));
}

impl RightColumns<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        for &register in &self.out {
            b.assign(register, 0.0);
        }
        let tiles = self.frame.params.count_tiles(b, open);
        let remaining = b.value(tiles);
        b.while_(
            |b| b.setp(Cmp::Gt, remaining, 0),
            |b| {
                self.step(b);
                b.assign(remaining, remaining - 1);
            },
        );
        let block = self.frame.block(b, open);
        let output = BlockOutput { params: &self.frame.params, open, block: &block };
        match self.frame.config.parts {
            1 => self.finish(b, &output),
            _ => {
                let merging = Merging::right(self.frame, self.columns());
                merging.meet(b, None);
                merging.finish(b, &output);
            }
        }
    }

    /// Waits for the final factors and writes the rows.
    fn finish(&self, b: &mut Builder, output: &BlockOutput<'_>) {
        let last = self.p.take(b);
        last.wait(b);
        if let Some(sums) = &self.frame.shared.sums {
            return self.finish_or_give(b, output, &last, sums);
        }
        let factors = self.factors(b, &last);
        b.warp_sync();
        last.release_if(b, self.lead);
        self.columns().write(b, output, factors);
    }

    /// Finishes the rows, whose states came as the `last` message, or leaves them to another CTA.
    fn finish_or_give(
        &self,
        b: &mut Builder,
        output: &BlockOutput<'_>,
        last: &Slot<Consumer>,
        sums: &SharedArray<f32>,
    ) {
        let (max, sum) = (self.factors(b, last), self.of_rows(b, sums, last));
        b.warp_sync();
        last.release_if(b, self.lead);
        let rows = [0, 1].map(|half| RowState { max: max[half], sum: sum[half] });
        let held = HeldRows { params: &self.frame.params, rows, out: &self.out };
        let warp = self.frame.row_warp(b, self.thread, true);
        self.frame.exchange(b, output, &held, warp, |b| {
            let factors = epilogue::finish_rows(b, self.thread, rows, output, false);
            self.columns().write(b, output, factors);
        });
    }

    fn columns(&self) -> Columns<'_> {
        Columns {
            thread: self.thread,
            out: &self.out,
            first: self.frame.config.left_columns(),
            half: self.frame.config.half,
            watch: self.watch,
        }
    }

    /// `O = O · factor + P·V` for one tile.
    fn step(&self, b: &mut Builder) {
        let config = &self.frame.config;
        let p = self.p.take(b);
        p.wait(b);
        let factors = self.factors(b, &p);
        fragment::rescale_rows(b, &self.out, factors);
        let values = self.v.take(b);
        // Where they are keys the left warpgroup has waited for them.
        if !config.shared_kv {
            self.frame.await_rows(b, &values);
        }
        let (p_operand, v_operand) = (config.probabilities().k_major(), config.values().mn_major());
        let at = p.tile(b, self.frame.shared.p).at();
        let probabilities = p_operand.at(b, at);
        let products = self.frame.products(b, &values, 1, &self.out);
        if let Some(scored) = &self.scored {
            scored.wait(b);
            scored.advance(b);
        }
        b.wgmma_fence();
        for step in 0..config.values().rows / 16 {
            let a = WgmmaA::Shared(p_operand.step(b, probabilities, step), false);
            for (out, v) in &products {
                let v_step = v_operand.step(b, *v, step);
                b.wgmma(config.half, out, &a, v_step, true, self.yes);
            }
        }
        b.wgmma_commit();
        b.wgmma_wait(0);
        self.frame.release(b, &values, self.lead);
        p.release_if(b, self.lead);
    }

    /// The factors of this thread's two rows.
    fn factors(&self, b: &mut Builder, slot: &Slot<Consumer>) -> [Reg<f32>; 2] {
        self.of_rows(b, &self.frame.shared.factors, slot)
    }

    /// What an array of a message has of this thread's two rows.
    fn of_rows(
        &self,
        b: &mut Builder,
        array: &SharedArray<f32>,
        slot: &Slot<Consumer>,
    ) -> [Reg<f32>; 2] {
        let row = fragment::first_row(b, self.thread);
        let at = array.element(b, &[row, slot.stage()]);
        [b.ld_shared(at), b.ld_shared(at.plus(array.offset(&[8])))]
    }
}

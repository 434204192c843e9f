//! The four softmax warps of each CTA: two threads per row, half of the keys and of the value columns
//! each.

use super::config::{PANEL_BYTES, ROWS, SLOT_ROWS};
use super::kernel::{Frame, Shared};
use crate::blackwell::epilogue::{self, Run};
use crate::blackwell::rows::{COLUMNS_AT_ONCE, RowThread};
use crate::blackwell::step::{Extent, RowPart, SoftmaxStep, StepSignals};
use crate::call::rows::Block;
use crate::call::task::OpenTile;
use crate::moves::output::BlockOutput;
use ptx::build::{Builder, Cmp, Consumer, CtaGroup, Cursor, Reg, SharedTile, SmemPtr, TmemPtr};

/// First named barrier of the exchanges between two warps; barrier 0 is the CTA's.
const EXCHANGE_BARRIER: u32 = 1;
/// Threads of an exchange.
const EXCHANGE_THREADS: u32 = 64;

struct SoftmaxThread<'f> {
    frame: &'f Frame,
    /// 0 for the thread with the first half of the columns, 1 for the other.
    half: Reg<u32>,
    /// Named barrier of the two warps that hold the same rows.
    meeting: Reg<u32>,
    /// Where this thread leaves a number for the other one, and finds the other's.
    own: SmemPtr,
    other: SmemPtr,
    /// Byte offset of that of the two places that is in use.
    buffer: Reg<u32>,
    q: Cursor<Consumer>,
    step: SoftmaxStep<'f>,
}

/// Emits the softmax warps.
pub fn emit(b: &mut Builder, frame: &Frame, tmem: TmemPtr, warp: Reg<u32>) {
    let shared = &frame.shared;
    let mut rows = RowThread::new(b, &frame.params, frame.config.half, tmem, warp, ROWS);
    let marks = shared.gathered.as_ref().and_then(|gathered| gathered.marks.as_ref());
    rows.marks = marks.map(|marks| marks.reader(b));
    let thread = b.thread();
    let own = b.eval(thread << 2);
    let other = b.eval(own ^ (ROWS * 4));
    let parity = b.eval(warp % 2);
    let extent = Extent {
        score_stride: frame.map.score_stride,
        keys: SLOT_ROWS,
        accumulated: rows.tmem.columns(frame.map.output),
        columns: frame.config.accumulators() * frame.map.accumulator_stride,
    };
    let Shared { scores, probabilities, output, .. } = shared;
    let signals = StepSignals { scores, probabilities, output };
    let softmax = SoftmaxThread {
        frame,
        half: b.eval(warp / 2),
        meeting: b.eval(parity + EXCHANGE_BARRIER),
        own: b.smem_add(shared.exchange, own),
        other: b.smem_add(shared.exchange, other),
        buffer: b.value(0),
        q: shared.q_ring.consumer(b),
        step: SoftmaxStep::new(b, rows, extent, &signals, CtaGroup::Two),
    };
    frame.params.for_each_tile(b, |b, open| softmax.run_tile(b, &open));
    let watch = softmax.step.rows.watch;
    watch.revisit(b, &frame.params, |b, open| softmax.run_tile_again(b, &open));
}

impl SoftmaxThread<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        self.step.state.reset(b);
        let block = self.block(b, open);
        let output = BlockOutput { params: &self.frame.params, open, block: &block };
        let any = open.range.any(b);
        b.if_else(
            any,
            |b| {
                let q = self.q.take(b);
                let SoftmaxStep { rows, state, .. } = &self.step;
                self.step.start(b);
                rows.for_each_tile(b, open, &block, |b, tile| self.step.run(b, tile, self));
                let others = self.exchange(b, state.sum);
                let total = b.add(state.sum, others);
                b.assign(state.sum, total);
                self.step.await_output(b);
                self.write(b, &output, true);
                b.fence_proxy_async();
                b.warp_sync();
                q.release_if(b, self.step.rows.lead);
            },
            |b| self.write(b, &output, false),
        );
    }

    fn run_tile_again(&self, b: &mut Builder, open: &OpenTile) {
        let block = self.block(b, open);
        let output = BlockOutput { params: &self.frame.params, open, block: &block };
        let columns = self.frame.config.accumulator_columns();
        b.range(0, self.frame.config.accumulators(), |b, n| {
            let column = b.eval(self.half * (columns / 2));
            let column = b.eval(n * columns + column);
            epilogue::write_again(b, &self.step.rows, &output, column, columns / 2);
        });
    }

    /// The rows of the CTA.
    fn block(&self, b: &mut Builder, open: &OpenTile) -> Block {
        let config = &self.frame.config;
        let number = self.frame.block_number(b, open);
        Block::at(b, config.packing, config.group, number)
    }

    /// The other thread's number, for this thread's. There are two places, used in turn, so that one
    /// meeting per exchange is enough.
    fn exchange(&self, b: &mut Builder, value: Reg<f32>) -> Reg<f32> {
        let own = b.smem_add(self.own, self.buffer);
        b.st_shared(own, value);
        b.barrier_sync(self.meeting, EXCHANGE_THREADS);
        let other = b.smem_add(self.other, self.buffer);
        let others = b.ld_shared::<f32>(other);
        b.assign(self.buffer, self.buffer ^ (super::kernel::EXCHANGE_BYTES / 2));
        others
    }

    /// Writes the thread's columns of its row: half of each accumulator.
    fn write(&self, b: &mut Builder, output: &BlockOutput<'_>, accumulated: bool) {
        let (config, map) = (&self.frame.config, &self.frame.map);
        let first_half = b.setp(Cmp::Eq, self.half, 0);
        let finished =
            epilogue::finish(b, &self.step.rows, output, &self.step.state, Some(first_half));
        let columns = config.accumulator_columns() / 2;
        let staging = b.smem_add(self.frame.shared.q.at(), self.half * PANEL_BYTES);
        for n in 0..config.accumulators() {
            if accumulated && n > 0 {
                b.warp_sync();
            }
            let at = self.step.rows.tmem.columns(map.output + n * map.accumulator_stride);
            let column = b.eval(self.half * columns);
            let column = b.eval(column + n * config.accumulator_columns());
            let accumulated = accumulated.then_some(at);
            let run = Run { accumulated, column, columns, at_once: COLUMNS_AT_ONCE, staging };
            epilogue::write(b, &self.step.rows, output, &finished, &run);
        }
    }
}

/// Two threads share a row: each has half of the keys of a KV tile.
impl RowPart for SoftmaxThread<'_> {
    fn first_key(&self, b: &mut Builder) -> Option<Reg<u32>> {
        Some(b.eval(self.half * SLOT_ROWS))
    }

    fn largest_of_row(&self, b: &mut Builder, largest: Reg<f32>) -> Reg<f32> {
        let others = self.exchange(b, largest);
        b.max(largest, others)
    }

    /// One panel of the operand tile.
    fn store(&self, b: &mut Builder, _scores: TmemPtr, packed: &[Reg<u32>]) {
        let tile = self.frame.config.probability_tile();
        let at = b.smem_add(self.frame.shared.p.at(), self.half * tile.block_bytes() as u32);
        self.step.rows.store_in_shared_memory(b, SharedTile::new(at, tile), packed);
    }
}

//! The four softmax warps: one thread per row, from scores to finished output.
//!
//! No value is shared between threads: no shuffles, no reductions in shared memory. The same thread
//! computes probabilities, rescales its row of the output when the row's reference maximum moved, and
//! writes the row out.

use super::kernel::Shared;
use crate::blackwell::config::{ROWS, TILE};
use crate::blackwell::epilogue::{self, Run};
use crate::blackwell::frame::Frame;
use crate::blackwell::parts::HeldRow;
use crate::blackwell::rows::{COLUMNS_AT_ONCE, RowThread};
use crate::blackwell::step::{Extent, RowPart, SoftmaxStep, StepSignals};
use crate::call::rows::Block;
use crate::call::task::OpenTile;
use crate::moves::output::BlockOutput;
use ptx::build::{
    Builder, Consumer, CtaGroup, Cursor, Reg, SharedTile, SharedTiles, SmemPtr, TmemPtr,
};

struct SoftmaxThread<'f> {
    frame: &'f Frame,
    /// Number of the warp.
    warp: Reg<u32>,
    queries: (SharedTiles, Cursor<Consumer>),
    p: Option<SharedTile>,
    accumulated: TmemPtr,
    step: SoftmaxStep<'f>,
}

/// Emits the softmax warps.
pub fn emit(b: &mut Builder, frame: &Frame, shared: &Shared, tmem: TmemPtr, warp: Reg<u32>) {
    let mut rows = RowThread::new(b, &frame.params, frame.config.half, tmem, warp, ROWS);
    let marks = shared.gathered.as_ref().and_then(|gathered| gathered.marks.as_ref());
    rows.marks = marks.map(|marks| marks.reader(b));
    let accumulated = rows.tmem.columns(frame.map.output);
    let extent = Extent {
        score_stride: frame.map.score_stride,
        keys: TILE,
        accumulated,
        columns: frame.map.output_columns,
    };
    let Shared { scores, probabilities, output, .. } = shared;
    let signals = StepSignals { scores, probabilities, output };
    let thread = SoftmaxThread {
        frame,
        warp,
        queries: (shared.buffers.q, shared.buffers.q_ring.consumer(b)),
        p: shared.p,
        accumulated,
        step: SoftmaxStep::new(b, rows, extent, &signals, CtaGroup::One),
    };
    frame.params.for_each_tile(b, |b, open| thread.run_tile(b, &open));
    let watch = thread.step.rows.watch;
    watch.revisit(b, &frame.params, |b, open| thread.run_tile_again(b, &open));
}

/// A thread has a whole row.
impl RowPart for SoftmaxThread<'_> {
    fn first_key(&self, _b: &mut Builder) -> Option<Reg<u32>> {
        None
    }

    fn largest_of_row(&self, _b: &mut Builder, largest: Reg<f32>) -> Reg<f32> {
        largest
    }

    fn store(&self, b: &mut Builder, scores: TmemPtr, packed: &[Reg<u32>]) {
        match self.p {
            None => self.step.rows.store_in_tensor_memory(b, scores, packed),
            Some(p) => self.step.rows.store_in_shared_memory(b, p, packed),
        }
    }
}

impl SoftmaxThread<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        self.step.state.reset(b);
        let block = Block::at(b, config.packing, config.group, open.first_block);
        let any = open.range.any(b);
        self.accumulate(b, open, &block, any);
        let finishes = self.held().exchange(b, open, self.warp);
        let write = |b: &mut Builder, accumulated, staging| {
            self.write_if(b, finishes, open, &block, accumulated, staging);
        };
        b.if_else(
            any,
            |b| {
                let (ring, cursor) = &self.queries;
                let q = cursor.take(b);
                let staging = q.tile(b, *ring).at();
                write(b, Some(self.accumulated), staging);
                b.fence_proxy_async();
                b.warp_sync();
                q.release_if(b, self.step.rows.lead);
            },
            |b| write(b, None, self.queries.0.at()),
        );
    }

    /// All KV tiles, until the output has them; no key where there is not `any`.
    fn accumulate(&self, b: &mut Builder, open: &OpenTile, block: &Block, any: Reg<bool>) {
        let keys = |b: &mut Builder| {
            self.step.start(b);
            let rows = &self.step.rows;
            rows.for_each_tile(b, open, block, |b, tile| self.step.run(b, tile, self));
            self.step.await_output(b);
        };
        match open.part {
            None => b.if_(any, keys),
            Some(_) => b.if_else(any, keys, |b| self.held().clear(b)),
        }
    }

    /// The part of the row that the thread holds.
    fn held(&self) -> HeldRow<'_> {
        HeldRow {
            thread: &self.step.rows,
            accumulated: self.accumulated,
            columns: self.frame.map.output_columns,
            state: &self.step.state,
        }
    }

    /// Writes the rows out, where `finishes` holds or is not asked.
    fn write_if(
        &self,
        b: &mut Builder,
        finishes: Option<Reg<bool>>,
        open: &OpenTile,
        block: &Block,
        accumulated: Option<TmemPtr>,
        staging: SmemPtr,
    ) {
        let output = BlockOutput { params: &self.frame.params, open, block };
        match finishes {
            None => self.write(b, &output, accumulated, staging),
            Some(yes) => b.if_(yes, |b| self.write(b, &output, accumulated, staging)),
        }
    }

    fn write(
        &self,
        b: &mut Builder,
        output: &BlockOutput<'_>,
        accumulated: Option<TmemPtr>,
        staging: SmemPtr,
    ) {
        let finished = epilogue::finish(b, &self.step.rows, output, &self.step.state, None);
        let (column, columns) = self.columns(b, output.open);
        let run = Run { accumulated, column, columns, at_once: COLUMNS_AT_ONCE, staging };
        epilogue::write(b, &self.step.rows, output, &finished, &run);
    }

    fn run_tile_again(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        let block = Block::at(b, config.packing, config.group, open.first_block);
        let output = BlockOutput { params: &self.frame.params, open, block: &block };
        let (column, columns) = self.columns(b, open);
        open.if_finished_here(b, |b| {
            epilogue::write_again(b, &self.step.rows, &output, column, columns);
        });
    }

    /// The first output column of a tile, and how many it has.
    fn columns(&self, b: &mut Builder, open: &OpenTile) -> (Reg<u32>, u32) {
        let columns = self.frame.config.slice_dim();
        let first = match open.slice {
            None => b.value(0),
            Some(slice) => b.eval(slice.reg() * columns),
        };
        (first, columns)
    }
}

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
use crate::blackwell::rows::{RowThread, SeenTile};
use crate::call::rows::Block;
use crate::call::task::OpenTile;
use crate::math::softmax::RowState;
use crate::moves::output::BlockOutput;
use ptx::build::{
    Builder, Consumer, Cursor, Reg, SharedTile, SharedTiles, SignalCursor, SmemPtr, TmemPtr,
};

struct SoftmaxThread<'f> {
    frame: &'f Frame,
    rows: RowThread<'f>,
    /// Number of the warp.
    warp: Reg<u32>,
    queries: (SharedTiles, Cursor<Consumer>),
    p: Option<SharedTile>,
    scores: SignalCursor,
    probabilities: SignalCursor,
    /// The output up to the tile before this one.
    output: SignalCursor,
    accumulated: TmemPtr,
    state: RowState,
    /// Whether the output holds anything yet.
    started: Reg<bool>,
}

/// Emits the softmax warps.
pub fn emit(b: &mut Builder, frame: &Frame, shared: &Shared, tmem: TmemPtr, warp: Reg<u32>) {
    let mut rows = RowThread::new(b, &frame.params, frame.config.half, tmem, warp, ROWS);
    let marks = shared.gathered.as_ref().and_then(|gathered| gathered.marks.as_ref());
    rows.marks = marks.map(|marks| marks.reader(b));
    let thread = SoftmaxThread {
        frame,
        warp,
        queries: (shared.buffers.q, shared.buffers.q_ring.consumer(b)),
        p: shared.p,
        scores: shared.scores.cursor(b),
        probabilities: shared.probabilities.cursor(b),
        output: shared.output.cursor_one_round_before(b),
        accumulated: rows.tmem.columns(frame.map.output),
        state: RowState::new(b),
        started: b.predicate(false),
        rows,
    };
    frame.params.for_each_tile(b, |b, open| thread.run_tile(b, &open));
    thread.rows.watch.revisit(b, &frame.params, |b, open| thread.run_tile_again(b, &open));
}

impl SoftmaxThread<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        self.state.reset(b);
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
                q.release_if(b, self.rows.lead);
            },
            |b| write(b, None, self.queries.0.at()),
        );
    }

    /// All KV tiles, until the output has them; no key where there is not `any`.
    fn accumulate(&self, b: &mut Builder, open: &OpenTile, block: &Block, any: Reg<bool>) {
        let keys = |b: &mut Builder| {
            let no = b.predicate(false);
            b.assign(self.started, no);
            self.rows.for_each_tile(b, open, block, |b, keys| self.step(b, keys));
            self.output.wait(b);
            b.tcgen05_fence_after();
        };
        match open.part {
            None => b.if_(any, keys),
            Some(_) => b.if_else(any, keys, |b| self.held().clear(b)),
        }
    }

    /// The part of the row that the thread holds.
    fn held(&self) -> HeldRow<'_> {
        HeldRow {
            thread: &self.rows,
            accumulated: self.accumulated,
            columns: self.frame.map.output_stride,
            state: &self.state,
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
        let finished = epilogue::finish(b, &self.rows, output, &self.state, None);
        let (column, columns) = self.columns(b, output.open);
        let run = Run { accumulated, column, columns, staging };
        epilogue::write(b, &self.rows, output, &finished, &run);
    }

    fn run_tile_again(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        let block = Block::at(b, config.packing, config.group, open.first_block);
        let output = BlockOutput { params: &self.frame.params, open, block: &block };
        let (column, columns) = self.columns(b, open);
        open.if_finished_here(b, |b| {
            epilogue::write_again(b, &self.rows, &output, column, columns);
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

    fn step(&self, b: &mut Builder, keys: &SeenTile<'_>) {
        let softmax = &self.frame.params.softmax;
        self.scores.wait(b);
        b.tcgen05_fence_after();
        let at = self.rows.columns(b, self.scores.stage, self.frame.map.score_stride);
        let scores = self.rows.load_scores(b, at, TILE, keys, None);
        let largest = b.max_tree(&scores);
        let (shift, rescale) = softmax.move_reference(b, &self.state, largest, keys.masked());
        softmax.add_row(b, &self.state, &scores, shift);
        let packed = self.rows.round(b, &scores);
        self.output.wait(b);
        b.tcgen05_fence_after();
        match self.p {
            None => self.rows.store_in_tensor_memory(b, at, &packed),
            Some(p) => self.rows.store_in_shared_memory(b, p, &packed),
        }
        let due = b.and(rescale.due, self.started);
        let any_due = b.vote_any(due);
        let columns = self.frame.map.output_stride;
        b.if_(any_due, |b| self.rows.rescale(b, self.accumulated, columns, rescale.factor));
        self.hand_over(b);
    }

    /// Tells the issuing warp that this warp's probabilities and output rows are ready.
    fn hand_over(&self, b: &mut Builder) {
        b.tcgen05_fence_before();
        b.warp_sync();
        let ready = self.probabilities.barrier(b);
        ready.arrive_if(b, self.rows.lead);
        let yes = b.predicate(true);
        b.assign(self.started, yes);
        self.scores.advance(b);
        self.probabilities.advance(b);
        self.output.advance(b);
    }
}

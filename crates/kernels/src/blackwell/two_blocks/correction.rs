//! The correction warpgroup: rescales output rows whose maximum moved, and writes finished rows out.

use super::kernel::{BLOCKS, Shared};
use crate::blackwell::config::ROWS;
use crate::blackwell::epilogue::{self, Run};
use crate::blackwell::frame::Frame;
use crate::blackwell::parts::HeldRow;
use crate::blackwell::rows::{ROW_WARPS, RowThread};
use crate::call::rows::Block;
use crate::call::task::OpenTile;
use crate::math::softmax::RowState;
use crate::moves::output::BlockOutput;
use ptx::build::{Builder, Cmp, Reg, SignalCursor, TmemPtr};

/// Columns of a finished row that a thread reads at a time: what its 80 registers hold beside the places of eight rows.
const COLUMNS_AT_ONCE: u32 = 16;

struct Corrector<'f> {
    frame: &'f Frame,
    rows: RowThread<'f>,
    /// Number of the warp within its warpgroup.
    warp: Reg<u32>,
    shared: &'f Shared,
    factors: SignalCursor,
    probabilities: SignalCursor,
    /// The outputs up to the tile before this one.
    output: SignalCursor,
    sums: SignalCursor,
    /// Buffer of the maxima and sums that this tile's are in.
    buffer: Reg<u32>,
}

/// Emits the correction warpgroup: warp `warp` (0 to 3) of it.
pub fn emit(b: &mut Builder, frame: &Frame, shared: &Shared, tmem: TmemPtr, warp: Reg<u32>) {
    let corrector = Corrector {
        frame,
        rows: RowThread::new(b, &frame.params, frame.config.half, tmem, warp, ROWS),
        warp,
        shared,
        factors: shared.factors.cursor(b),
        probabilities: shared.probabilities.cursor(b),
        output: shared.output.cursor_one_round_before(b),
        sums: shared.sums.cursor(b),
        buffer: b.value(0),
    };
    frame.params.for_each_tile(b, |b, open| corrector.run_tile(b, &open));
    corrector.rows.watch.revisit(b, &frame.params, |b, open| corrector.run_tile_again(b, &open));
}

impl Corrector<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let tiles = open.range.count(b);
        let any = b.setp(Cmp::Gt, tiles, 0);
        b.if_(any, |b| {
            let steps = b.eval(tiles.reinterpret::<u32>() * BLOCKS);
            b.range(0, steps, |b, step| self.correct(b, step));
        });
        b.range(0, BLOCKS, |b, block| self.end_block(b, open, block, any));
        b.if_(any, |b| {
            b.assign(self.buffer, self.buffer ^ 1);
        });
    }

    fn run_tile_again(&self, b: &mut Builder, open: &OpenTile) {
        b.range(0, BLOCKS, |b, number| {
            let block = self.block(b, open, number);
            let output = BlockOutput { params: &self.frame.params, open, block: &block };
            let column = b.value(0);
            open.if_finished_here(b, |b| {
                epilogue::write_again(b, &self.rows, &output, column, self.frame.config.value_dim);
            });
        });
    }

    /// One KV tile of one block; blocks alternate.
    fn correct(&self, b: &mut Builder, step: Reg<u32>) {
        let block = self.factors.stage;
        self.factors.wait(b);
        let at = self.shared.factors_at.of_row(b, block, self.rows.row);
        let factor = b.ld_shared::<f32>(at);
        // The scores this factor comes from were committed behind the output it is for.
        b.tcgen05_fence_after();
        let moved = b.setp(Cmp::Ne, factor, 1.0);
        let started = b.setp(Cmp::Ge, step, BLOCKS);
        let due = b.and(moved, started);
        let any_due = b.vote_any(due);
        b.if_(any_due, |b| {
            let accumulated = self.accumulated(b, block);
            self.rows.rescale(b, accumulated, self.frame.map.output_columns, factor);
        });
        b.tcgen05_fence_before();
        b.warp_sync();
        let ready = self.probabilities.barrier(b);
        ready.arrive_if(b, self.rows.lead);
        self.factors.advance(b);
        self.output.advance(b);
        self.probabilities.advance(b);
    }

    /// First column of a block's output.
    fn accumulated(&self, b: &mut Builder, block: Reg<u32>) -> TmemPtr {
        let map = &self.frame.map;
        let base = b.eval(block * map.output_stride + self.rows.tmem.base);
        TmemPtr { base, ..self.rows.tmem }.columns(map.output)
    }

    /// Writes out or gives away the rows of block `number`, which saw no keys unless there were `any`.
    fn end_block(&self, b: &mut Builder, open: &OpenTile, number: Reg<u32>, any: Reg<bool>) {
        let state = RowState::new(b);
        b.if_(any, |b| self.await_block(b, number, &state));
        let block = self.block(b, open, number);
        let live = b.setp(Cmp::Lt, block.token.reg(), open.sequence.q_len);
        b.if_(live, |b| self.end_rows(b, open, number, &block, &state, any));
    }

    /// The same for a block that has queries.
    fn end_rows(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        number: Reg<u32>,
        block: &Block,
        state: &RowState,
        any: Reg<bool>,
    ) {
        let accumulated = self.accumulated(b, number);
        let columns = self.frame.map.output_columns;
        let held = HeldRow { thread: &self.rows, accumulated, columns, state };
        if open.part.is_some() {
            let none = b.not(any);
            b.if_(none, |b| held.clear(b));
        }
        let warp = b.eval(number * ROW_WARPS + self.warp);
        let finishes = held.exchange(b, open, warp);
        let write = |b: &mut Builder| {
            b.if_else(
                any,
                |b| self.write(b, open, block, state, Some(accumulated)),
                |b| self.write(b, open, block, state, None),
            );
        };
        match finishes {
            None => write(b),
            Some(yes) => b.if_(yes, write),
        }
        b.warp_sync();
    }

    /// Waits for the output of block `number`, and for the states of its rows.
    fn await_block(&self, b: &mut Builder, number: Reg<u32>, state: &RowState) {
        self.sums.wait(b);
        self.sums.advance(b);
        let (row, shared) = (self.rows.row, self.shared);
        let max = shared.maxima_at.of_row_in(b, self.buffer, number, row);
        let max = b.ld_shared::<f32>(max);
        b.assign(state.max, max);
        let sum = shared.sums_at.of_row_in(b, self.buffer, number, row);
        let sum = b.ld_shared::<f32>(sum);
        b.assign(state.sum, sum);
        // Waited for, not stepped over: the next tile's first correction waits for the same.
        self.wait_output_of(b, number);
        b.tcgen05_fence_after();
    }

    /// Waits for everything block `number` accumulated. The cursor is at block 0 between tiles, and
    /// both blocks are in the same phase.
    fn wait_output_of(&self, b: &mut Builder, number: Reg<u32>) {
        self.output.at_stage(number).wait(b);
    }

    fn write(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        block: &Block,
        state: &RowState,
        accumulated: Option<TmemPtr>,
    ) {
        let output = BlockOutput { params: &self.frame.params, open, block };
        let finished = epilogue::finish(b, &self.rows, &output, state, None);
        let (columns, staging) = (self.frame.config.value_dim, self.shared.staging.at());
        let run =
            Run { accumulated, column: b.value(0), columns, at_once: COLUMNS_AT_ONCE, staging };
        epilogue::write(b, &self.rows, &output, &finished, &run);
    }

    fn block(&self, b: &mut Builder, open: &OpenTile, number: Reg<u32>) -> Block {
        let config = &self.frame.config;
        let number = open.first_block.plus(b, number);
        Block::at(b, config.packing, config.group, number)
    }
}

//! The four softmax warps: one thread per row.
//!
//! A thread reads its row of scores from tensor memory (its warp's 32 lanes), computes probabilities,
//! stores them for the second product, and rescales its row of the output when the row's reference
//! maximum grew. No value is shared between threads: no shuffles, no shared-memory reductions.

use super::epilogue;
use super::kernel::{Frame, ROW_WARPS};
use super::operand::{RowUnits, UNIT};
use crate::rows::Block;
use crate::softmax::RowState;
use crate::task::OpenTile;
use crate::visible::RowWindow;
use ptx::build::{Builder, Cmp, Consumer, Cursor, Mbarrier, Reg, SignalCursor, TmemPtr};

/// Columns of tensor memory one load or store moves.
pub const COLUMNS_AT_ONCE: u32 = 32;

/// Registers and cursors of one softmax thread.
pub struct RowThread<'f> {
    pub frame: &'f Frame,
    /// First row of the warp.
    pub first_row: Reg<u32>,
    /// The thread's row.
    pub row: Reg<u32>,
    /// Tensor memory, at this warp's lanes.
    pub tmem: TmemPtr,
    /// True in one thread per warp.
    lead: Reg<bool>,
    q: Cursor<Consumer>,
    scores: SignalCursor,
    probabilities: SignalCursor,
    /// The output up to the tile before this one.
    pub output: SignalCursor,
    pub state: RowState,
    /// Whether the output holds anything yet.
    started: Reg<bool>,
}

/// Emits the softmax warps.
pub fn emit(b: &mut Builder, frame: &Frame, tmem: TmemPtr, warp: Reg<u32>) {
    let thread = RowThread::new(b, frame, tmem, warp);
    frame.params.for_each_tile(b, |b, open| thread.run_tile(b, &open));
}

impl<'f> RowThread<'f> {
    fn new(b: &mut Builder, frame: &'f Frame, tmem: TmemPtr, warp: Reg<u32>) -> Self {
        let shared = &frame.shared;
        let lane = b.special("%laneid");
        let first_row = b.mul(warp, 32);
        let lanes = b.shl(first_row, 16);
        RowThread {
            frame,
            first_row,
            row: b.add(first_row, lane),
            tmem: TmemPtr { base: b.add(tmem.base, lanes), column: tmem.column },
            lead: b.setp(Cmp::Eq, lane, 0),
            q: shared.q_ring.consumer(b),
            scores: shared.scores.cursor(b),
            probabilities: shared.probabilities.cursor(b),
            output: shared.output.cursor_one_round_before(b),
            state: RowState::new(b),
            started: b.predicate(false),
        }
    }

    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        self.state.reset(b);
        let block = Block::at(b, config.packing, config.group, open.first_block);
        let n = b.sub(open.range.end, 1);
        let any = b.setp(Cmp::Ge, n, open.range.begin);
        b.if_else(
            any,
            |b| {
                let q = self.q.take(b);
                self.accumulate(b, open, &block);
                let staging = q.buffer(b, self.frame.shared.q, config.query_bytes());
                epilogue::write_rows(b, self, open, &block, staging);
                b.fence_proxy_async();
                b.warp_sync();
                q.release_if(b, self.lead);
            },
            |b| epilogue::write_empty_rows(b, self, open, &block),
        );
    }

    /// All tiles of keys, last to first.
    fn accumulate(&self, b: &mut Builder, open: &OpenTile, block: &Block) {
        let range = open.range;
        let n = b.value(range.end);
        let last_token = block.last_token(b);
        let clear = open.bounds.clear_tiles(b, range, block.token, last_token);
        let (token, _) = block.query(b, self.row);
        let window = RowWindow::of(b, &open.bounds, token);
        let never = b.predicate(false);
        b.assign(self.started, never);
        self.steps(b, &window, n, clear.end, true);
        self.steps(b, &window, n, clear.begin, false);
        if self.frame.params.visible.has_left() {
            self.steps(b, &window, n, range.begin, true);
        }
    }

    /// Tiles from `n - 1` down to `end`; `n` keeps count.
    fn steps(&self, b: &mut Builder, window: &RowWindow, n: Reg<i32>, end: Reg<i32>, masked: bool) {
        b.while_(
            |b| b.setp(Cmp::Gt, n, end),
            |b| {
                let next = b.sub(n, 1);
                b.assign(n, next);
                self.step(b, window, n, masked);
            },
        );
    }

    fn step(&self, b: &mut Builder, window: &RowWindow, n: Reg<i32>, masked: bool) {
        let tile = self.frame.params.tiling.tile;
        self.scores.wait(b);
        b.tcgen05_fence_after();
        let at = self.score_columns(b);
        let scores = self.load(b, at, tile);
        self.frame.params.softmax.prepare(b, &scores);
        if masked {
            let origin = b.mul(n, tile as i32);
            let columns: Vec<u32> = (0..tile).collect();
            window.relative_to(b, origin).apply(b, &scores, &columns);
        }
        let rescale = self.frame.params.softmax.lazy_step(b, &self.state, &scores, masked);
        let packed: Vec<Reg<u32>> =
            scores.chunks(2).map(|p| b.pack(self.frame.config.half, p[0], p[1])).collect();
        self.output.wait(b);
        b.tcgen05_fence_after();
        self.store(b, at, &packed);
        let due = b.and(rescale.due, self.started);
        let any_due = b.vote_any(due);
        b.if_(any_due, |b| self.rescale_output(b, rescale.factor));
        self.hand_over(b);
    }

    fn score_columns(&self, b: &mut Builder) -> TmemPtr {
        let base = b.mad(self.scores.stage, self.frame.map.score_stride, self.tmem.base);
        TmemPtr { base, column: self.tmem.column }
    }

    /// This thread's row of `columns` columns, complete in registers.
    pub fn load(&self, b: &mut Builder, at: TmemPtr, columns: u32) -> Vec<Reg<f32>> {
        let mut row = Vec::new();
        for first in (0..columns).step_by(COLUMNS_AT_ONCE as usize) {
            let some = (columns - first).min(COLUMNS_AT_ONCE);
            row.extend(b.tmem_load::<f32>(at.columns(first), some));
        }
        b.tmem_wait_load();
        row
    }

    /// Stores a row of probabilities: in place of its scores, or in shared memory.
    fn store(&self, b: &mut Builder, scores: TmemPtr, packed: &[Reg<u32>]) {
        match self.frame.shared.p {
            None => {
                for (i, some) in packed.chunks(COLUMNS_AT_ONCE as usize).enumerate() {
                    b.tmem_store(scores.columns(i as u32 * COLUMNS_AT_ONCE), some);
                }
                b.tmem_wait_store();
            }
            Some(p) => {
                let tile = self.frame.config.probability_tile();
                let units = RowUnits::new(b, tile, p, self.row);
                for (i, unit) in packed.chunks(UNIT as usize / 2).enumerate() {
                    let to = units.unit(b, i as u32 * UNIT);
                    b.st_shared_vector(to, unit);
                }
                b.fence_proxy_async();
            }
        }
    }

    /// `O *= factor`, row by row.
    fn rescale_output(&self, b: &mut Builder, factor: Reg<f32>) {
        let columns = self.frame.config.slice_dim().next_multiple_of(16);
        for first in (0..columns).step_by(COLUMNS_AT_ONCE as usize) {
            let some = (columns - first).min(COLUMNS_AT_ONCE);
            let at = self.tmem.columns(self.frame.map.output + first);
            let values = self.load(b, at, some);
            for &value in &values {
                b.scale(value, factor);
            }
            b.tmem_store(at, &values);
        }
        b.tmem_wait_store();
    }

    /// Tells the issuing warp that this warp's probabilities and output rows are ready.
    fn hand_over(&self, b: &mut Builder) {
        b.tcgen05_fence_before();
        b.warp_sync();
        let ready: Mbarrier = self.probabilities.barrier(b);
        ready.arrive_if(b, self.lead);
        let yes = b.predicate(true);
        b.assign(self.started, yes);
        self.scores.advance(b);
        self.probabilities.advance(b);
        self.output.advance(b);
    }
}

const _: () = assert!(ROW_WARPS * 32 == super::config::ROWS, "one thread per row");

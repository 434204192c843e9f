//! A softmax warpgroup: the rows of one block, one thread each, from scores to probabilities.

use super::kernel::{BLOCKS, Shared};
use crate::blackwell::config::{ROWS, TILE};
use crate::blackwell::frame::Frame;
use crate::blackwell::products::EARLY_KEYS;
use crate::blackwell::rows::{RowThread, SeenTile};
use crate::call::rows::Block;
use crate::call::task::OpenTile;
use crate::math::exponential::Exponential;
use crate::math::softmax::{Rescale, RowState};
use crate::plan::tuning::Tuning;
use ptx::build::{Builder, Reg, SignalCursor, SmemPtr, TmemPtr};

struct SoftmaxThread<'f> {
    frame: &'f Frame,
    rows: RowThread<'f>,
    /// Block of the CTA.
    block: Reg<u32>,
    /// The row's scores and probabilities.
    at: TmemPtr,
    shared: &'f Shared,
    /// Where the row's factor is left for the correction.
    factor: SmemPtr,
    /// Buffer of the maxima and sums that this tile's go to.
    buffer: Reg<u32>,
    scores: SignalCursor,
    factors: SignalCursor,
    probabilities: SignalCursor,
    rest: SignalCursor,
    state: RowState,
    /// Exponentials on the FMA pipe, where some run there: one pair in so many.
    on_fma: Option<(Exponential, usize)>,
}

/// Emits a softmax warpgroup: warp `warp` (0 to 3) of block `block`.
pub fn emit(
    b: &mut Builder,
    frame: &Frame,
    shared: &Shared,
    tmem: TmemPtr,
    block: Reg<u32>,
    warp: Reg<u32>,
) {
    let rows = RowThread::new(b, &frame.params, frame.config.half, tmem, warp, ROWS);
    let signal = |b: &mut Builder, signals: &ptx::build::Signals| signals.only(b, block).cursor(b);
    let thread = SoftmaxThread {
        frame,
        block,
        at: rows.columns(b, block, frame.map.score_stride),
        factor: shared.factors_at.of_row(b, block, rows.row),
        buffer: b.value(0),
        shared,
        scores: signal(b, &shared.scores),
        factors: signal(b, &shared.factors),
        probabilities: signal(b, &shared.probabilities),
        rest: signal(b, &shared.rest),
        state: RowState::new(b),
        on_fma: Tuning::of(b.target()).fma_exponentials.map(|every| (Exponential::new(b), every)),
        rows,
    };
    frame.params.for_each_tile(b, |b, open| thread.run_tile(b, &open));
}

impl SoftmaxThread<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        let any = open.range.any(b);
        b.if_(any, |b| {
            self.state.reset(b);
            let number = open.first_block.plus(b, self.block);
            let block = Block::at(b, config.packing, config.group, number);
            self.rows.for_each_tile(b, open, &block, |b, keys| self.step(b, keys));
            self.leave_sums(b);
        });
    }

    /// Leaves the rows' maxima and sums for the correction.
    fn leave_sums(&self, b: &mut Builder) {
        let (buffer, block, row) = (self.buffer, self.block, self.rows.row);
        let max = self.shared.maxima_at.of_row_in(b, buffer, block, row);
        b.st_shared(max, self.state.max);
        let sum = self.shared.sums_at.of_row_in(b, buffer, block, row);
        b.st_shared(sum, self.state.sum);
        let number = b.eval(buffer * BLOCKS + block);
        let signal = self.shared.sums.only(b, number).cursor(b);
        self.tell(b, &signal);
        b.assign(buffer, buffer ^ 1);
    }

    fn step(&self, b: &mut Builder, keys: &SeenTile<'_>) {
        self.scores.wait(b);
        self.scores.advance(b);
        b.tcgen05_fence_after();
        let scores = self.rows.load_scores(b, self.at, TILE, keys, None);
        let (shift, rescale) = self.move_reference(b, &scores, keys.masked());
        b.st_shared(self.factor, rescale.factor);
        self.tell(b, &self.factors);
        let (early, late) = scores.split_at(EARLY_KEYS as usize);
        self.hand_over(b, early, 0, shift, keys.masked(), &self.probabilities);
        self.hand_over(b, late, EARLY_KEYS, shift, keys.masked(), &self.rest);
        // Nobody waits for the sum: it is taken while the products run.
        self.state.add(b, &scores);
    }

    /// Moves the row's reference along with its new scores. The FMA pipe, which tiles without a mask use, takes NaN
    /// for a very small power. So a NaN among the scores becomes the reference, which reaches all of them.
    fn move_reference(
        &self,
        b: &mut Builder,
        scores: &[Reg<f32>],
        masked: bool,
    ) -> (Reg<f32>, Rescale) {
        let softmax = &self.frame.params.softmax;
        if masked || self.on_fma.is_none() {
            let largest = b.max_tree(scores);
            return softmax.move_reference(b, &self.state, largest, masked);
        }
        let largest = b.max_tree_or_nan(scores);
        softmax.move_reference_or_nan(b, &self.state, largest)
    }

    /// Replaces the scores from key `first` on by probabilities, and tells that they are stored.
    fn hand_over(
        &self,
        b: &mut Builder,
        scores: &[Reg<f32>],
        first: u32,
        shift: Reg<f32>,
        masked: bool,
        ready: &SignalCursor,
    ) {
        let softmax = &self.frame.params.softmax;
        match &self.on_fma {
            Some((exponential, every)) if !masked => {
                softmax.exponentiate_on_both_pipes(b, scores, shift, exponential, *every);
            }
            _ => softmax.exponentiate(b, scores, shift),
        }
        let packed = self.rows.round(b, scores);
        let at = self.at.columns(self.frame.map.probability_columns(first));
        self.rows.store_in_tensor_memory(b, at, &packed);
        b.tcgen05_fence_before();
        self.tell(b, ready);
    }

    /// One arrival of this warp.
    fn tell(&self, b: &mut Builder, signal: &SignalCursor) {
        b.warp_sync();
        let barrier = signal.barrier(b);
        barrier.arrive_if(b, self.rows.lead);
    }
}

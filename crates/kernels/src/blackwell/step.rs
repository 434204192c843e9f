//! A step of the softmax warps that also rescale the output: scores of one KV tile become probabilities.
//!
//! One thread has a row, or half of one; only that differs ([`RowPart`]).

use super::frame::arrive_if;
use super::rows::{RowThread, SeenTile};
use crate::math::softmax::RowState;
use ptx::build::{Builder, CtaGroup, Reg, SignalCursor, Signals, TmemPtr};

/// What a thread has of a row: all of it, or the half that another thread has not.
pub trait RowPart {
    /// The number in a KV tile of its first key; `None` for the tile's first.
    fn first_key(&self, b: &mut Builder) -> Option<Reg<u32>>;
    /// The largest of the row's scores, from that of the thread's.
    fn largest_of_row(&self, b: &mut Builder, largest: Reg<f32>) -> Reg<f32>;
    /// Puts rounded probabilities where the second product reads them; their scores are at `scores`.
    fn store(&self, b: &mut Builder, scores: TmemPtr, packed: &[Reg<u32>]);
}

/// The barriers between the warp that issues multiplies and the softmax warps.
pub struct StepSignals<'f> {
    /// Scores are in tensor memory.
    pub scores: &'f Signals,
    /// Probabilities are where the second product reads them, and the output is rescaled for it.
    pub probabilities: &'f Signals,
    /// The output has everything up to this KV tile.
    pub output: &'f Signals,
}

/// A thread of the softmax warps.
pub struct SoftmaxStep<'f> {
    pub rows: RowThread<'f>,
    extent: Extent,
    /// The CTAs that multiply together: the even one waits for the probabilities of both.
    group: CtaGroup,
    scores: SignalCursor,
    probabilities: SignalCursor,
    /// The output up to the KV tile before this one.
    output: SignalCursor,
    pub state: RowState,
    /// Whether the output holds anything yet.
    started: Reg<bool>,
}

/// What a softmax thread has of every KV tile, and of the output.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Columns from one tile of scores to the next.
    pub score_stride: u32,
    /// Keys of which it has scores.
    pub keys: u32,
    /// Its output in tensor memory.
    pub accumulated: TmemPtr,
    /// Columns of it.
    pub columns: u32,
}

impl<'f> SoftmaxStep<'f> {
    /// The steps of the thread that has `rows`.
    #[track_caller]
    pub fn new(
        b: &mut Builder,
        rows: RowThread<'f>,
        extent: Extent,
        signals: &StepSignals<'_>,
        group: CtaGroup,
    ) -> Self {
        SoftmaxStep {
            extent,
            group,
            scores: signals.scores.cursor(b),
            probabilities: signals.probabilities.cursor(b),
            output: signals.output.cursor_one_round_before(b),
            state: RowState::new(b),
            started: b.predicate(false),
            rows,
        }
    }

    /// The output holds nothing yet.
    #[track_caller]
    pub fn start(&self, b: &mut Builder) {
        let no = b.predicate(false);
        b.assign(self.started, no);
    }

    /// Waits until the output has everything.
    pub fn await_output(&self, b: &mut Builder) {
        self.output.wait(b);
        b.tcgen05_fence_after();
    }

    /// One KV tile. `part` is what the thread has of a row.
    pub fn run(&self, b: &mut Builder, tile: &SeenTile<'_>, part: &impl RowPart) {
        let softmax = &self.rows.params.softmax;
        self.scores.wait(b);
        b.tcgen05_fence_after();
        let at = self.rows.columns(b, self.scores.stage, self.extent.score_stride);
        let first = part.first_key(b);
        let scores = self.rows.load_scores(b, at, self.extent.keys, tile, first);
        let largest = b.max_tree(&scores);
        let largest = part.largest_of_row(b, largest);
        let (shift, rescale) = softmax.move_reference(b, &self.state, largest, tile.masked());
        softmax.add_row(b, &self.state, &scores, shift);
        let packed = self.rows.round(b, &scores);
        self.await_output(b);
        part.store(b, at, &packed);
        let due = b.and(rescale.due, self.started);
        let any_due = b.vote_any(due);
        let Extent { accumulated, columns, .. } = self.extent;
        b.if_(any_due, |b| self.rows.rescale(b, accumulated, columns, rescale.factor));
        self.hand_over(b);
    }

    /// Tells the issuing warp that this warp's probabilities and output rows are ready.
    fn hand_over(&self, b: &mut Builder) {
        b.tcgen05_fence_before();
        b.warp_sync();
        let ready = self.probabilities.barrier(b);
        arrive_if(b, ready, self.group, self.rows.lead);
        let yes = b.predicate(true);
        b.assign(self.started, yes);
        self.scores.advance(b);
        self.probabilities.advance(b);
        self.output.advance(b);
    }
}

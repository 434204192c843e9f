//! A warp that computes: scores of eight keys, the softmax, and 64 columns of the output.

use super::config::{BLOCK, WARPS};
use super::kernel::Frame;
use super::output::Columns;
use super::queries::Queries;
use super::scores::{Begun, KeyPlace};
use super::softmax::RowSoftmax;
use super::values::{STEPS, ValuePlace};
use crate::call::rows::Block;
use crate::call::task::OpenTile;
use crate::math::exact::Watch;
use crate::moves::output::BlockOutput;
use ptx::build::{Builder, Cmp, Consumer, Cursor, Reg};

struct Warp<'f> {
    frame: &'f Frame,
    number: Reg<u32>,
    lane: Reg<u32>,
    /// True in one lane.
    lead: Reg<bool>,
    keys: KeyPlace,
    values: ValuePlace,
    softmax: RowSoftmax,
    queries: Queries,
    out: Vec<Reg<f32>>,
    /// Scores of the next tile that has no probabilities yet.
    scores: [Reg<f32>; 4],
    /// The tile whose scores come next, and the one whose output does.
    ring: Cursor<Consumer>,
    done: Cursor<Consumer>,
    /// Which of two tiles of probabilities is next.
    buffer: Reg<u32>,
    watch: Watch,
}

/// Emits warp `number` of those that compute.
pub fn emit(b: &mut Builder, frame: &Frame, number: Reg<u32>) {
    let shared = &frame.shared;
    let lane = b.special("%laneid");
    let warp = Warp {
        frame,
        number,
        lane,
        lead: b.setp(Cmp::Eq, lane, 0),
        keys: KeyPlace::new(b, shared, number, lane),
        values: ValuePlace::new(b, shared, number, lane),
        softmax: RowSoftmax::new(b, shared, number, lane),
        queries: Queries::new(b, shared),
        out: b.regs(BLOCK as usize / 2),
        scores: std::array::from_fn(|_| b.reg()),
        ring: shared.ring.consumer(b),
        done: shared.ring.consumer(b),
        buffer: b.value(0),
        watch: frame.params.watch(b),
    };
    frame.params.for_each_tile(b, |b, open| warp.run_tile(b, &open));
    let columns = warp.columns();
    warp.watch.revisit(b, &frame.params, |b, open| {
        let block = warp.block(b, &open);
        let output = BlockOutput { params: &frame.params, open: &open, block: &block };
        columns.write_again(b, &output);
    });
}

/// Scores of a tile on the way.
struct NextScores<'w> {
    warp: &'w Warp<'w>,
    stage: Reg<u32>,
    begun: Begun,
}

impl NextScores<'_> {
    /// Adds a block of columns.
    fn add(&self, b: &mut Builder, block: u32) {
        let Warp { frame, queries, .. } = self.warp;
        self.begun.add(b, &frame.shared, queries, block);
    }

    /// Leaves them where the next step finds them.
    fn finish(&self, b: &mut Builder) {
        let frame = self.warp.frame;
        let scores = self.begun.finish(b, &frame.shared, &self.warp.queries);
        frame.params.softmax.prepare(b, &scores);
        self.warp.keys.hide_missing(b, &frame.shared, self.stage, &scores);
        self.warp.scores.iter().zip(scores).for_each(|(to, score)| b.assign(*to, score));
    }
}

impl Warp<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let params = &self.frame.params;
        self.queries.take(b, &self.frame.shared, self.lane);
        self.softmax.reset(b);
        self.out.iter().for_each(|register| b.assign(*register, 0.0));
        let tiles = params.count_tiles(b, open);
        let left = b.value(tiles);
        let any = b.setp(Cmp::Gt, left, 0);
        b.if_(any, |b| {
            let begun = self.next_scores(b);
            (0..WARPS).for_each(|block| begun.add(b, block));
            begun.finish(b);
        });
        b.while_(
            |b| b.setp(Cmp::Gt, left, 0),
            |b| {
                b.assign(left, left - 1);
                let more = b.setp(Cmp::Gt, left, 0);
                self.step(b, more);
            },
        );
        let sinks = params.sinks.map(|_| self.queries.sinks(b, &self.frame.shared));
        self.queries.release(b, self.lead);
        let states = self.softmax.totals(b, &self.frame.shared);
        let block = self.block(b, open);
        let output = BlockOutput { params, open, block: &block };
        self.columns().finish(b, &output, states, sinks);
    }

    /// The tile whose scores are there: its probabilities and output, and the scores of the next one if there is one.
    fn step(&self, b: &mut Builder, more: Reg<bool>) {
        let (shared, softmax) = (&self.frame.shared, &self.frame.params.softmax);
        self.softmax.step(b, shared, softmax, &self.scores, (self.buffer, &self.out));
        let slot = self.done.take(b);
        let at = (slot.stage(), self.buffer);
        b.if_else(
            more,
            |b| {
                let begun = self.next_scores(b);
                let per_step = WARPS / STEPS;
                self.values.add_output(b, shared, at, &self.out, |b, step| {
                    (0..per_step).for_each(|n| begun.add(b, step * per_step + n));
                });
                begun.finish(b);
            },
            |b| self.values.add_output(b, shared, at, &self.out, |_, _| ()),
        );
        b.warp_sync();
        slot.release_if(b, self.lead);
        b.assign(self.buffer, self.buffer ^ 1);
    }

    /// Begins the scores of the next tile, of whichever segment, when it has come.
    fn next_scores(&self, b: &mut Builder) -> NextScores<'_> {
        let slot = self.ring.take(b);
        slot.wait(b);
        let stage = slot.stage();
        NextScores { warp: self, stage, begun: self.keys.begin(b, &self.frame.shared, stage) }
    }

    fn block(&self, b: &mut Builder, open: &OpenTile) -> Block {
        let config = &self.frame.config;
        Block::at(b, config.packing, config.group, open.first_block)
    }

    fn columns(&self) -> Columns<'_> {
        Columns { warp: self.number, lane: self.lane, out: &self.out, watch: self.watch }
    }
}

//! A warp that computes: scores of eight keys, the softmax, and 64 columns of the output.

use super::config::BLOCK;
use super::kernel::Frame;
use super::output::Columns;
use super::queries::Queries;
use super::scores::KeyPlace;
use super::softmax::RowSoftmax;
use super::values::ValuePlace;
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
    ring: Cursor<Consumer>,
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
        queries: Queries::new(b),
        out: b.regs(BLOCK as usize / 2),
        ring: shared.ring.consumer(b),
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

impl Warp<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let params = &self.frame.params;
        let block = self.block(b, open);
        let (row, quarter) = (b.eval(self.lane / 4), b.eval(self.lane % 4));
        self.queries.load(b, (params, open, &block), row, quarter);
        self.softmax.reset(b);
        self.out.iter().for_each(|register| b.assign(*register, 0.0));
        let tiles = params.count_tiles(b, open);
        let left = b.value(tiles);
        b.while_(
            |b| b.setp(Cmp::Gt, left, 0),
            |b| {
                self.step(b);
                b.assign(left, left - 1);
            },
        );
        let states = self.softmax.totals(b, &self.frame.shared);
        let output = BlockOutput { params, open, block: &block };
        self.columns().finish(b, &output, states);
    }

    /// The next KV tile, of whichever segment.
    fn step(&self, b: &mut Builder) {
        let (shared, softmax) = (&self.frame.shared, &self.frame.params.softmax);
        let slot = self.ring.take(b);
        slot.wait(b);
        let scores = self.keys.scores(b, shared, &self.queries, slot.stage());
        softmax.prepare(b, &scores);
        self.keys.hide_missing(b, shared, slot.stage(), &scores);
        self.softmax.step(b, shared, softmax, &scores, (self.buffer, &self.out));
        self.values.add_output(b, shared, (slot.stage(), self.buffer), &self.out);
        b.warp_sync();
        slot.release_if(b, self.lead);
        b.assign(self.buffer, self.buffer ^ 1);
    }

    fn block(&self, b: &mut Builder, open: &OpenTile) -> Block {
        let config = &self.frame.config;
        Block::at(b, config.packing, config.group, open.first_block)
    }

    fn columns(&self) -> Columns<'_> {
        Columns { warp: self.number, lane: self.lane, out: &self.out, watch: self.watch }
    }
}

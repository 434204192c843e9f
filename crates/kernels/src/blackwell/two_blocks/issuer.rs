//! The issuing warp: output of a tile, then scores of the next, for one block after the other.

use super::kernel::{BLOCKS, Shared};
use crate::blackwell::frame::Frame;
use crate::blackwell::products::{Products, Slots, Turn};
use crate::call::task::OpenTile;
use ptx::build::{Builder, Consumer, Cursor, Reg, SharedTiles, SignalCursor, TmemPtr};

struct Issuer<'f> {
    frame: &'f Frame,
    products: Products<'f>,
    tmem: TmemPtr,
    queries: (SharedTiles, Cursor<Consumer>),
    scores: SignalCursor,
    probabilities: SignalCursor,
    rest: SignalCursor,
    output: SignalCursor,
}

/// Emits the issuing warp.
pub fn emit(b: &mut Builder, frame: &Frame, shared: &Shared, tmem: TmemPtr) {
    let issuer = Issuer {
        frame,
        products: Products::new(b, frame, tmem, (shared.buffers.kv, &shared.buffers.kv_ring), None),
        tmem,
        queries: (shared.buffers.q, shared.buffers.q_ring.consumer(b)),
        scores: shared.scores.cursor(b),
        probabilities: shared.probabilities.cursor(b),
        rest: shared.rest.cursor(b),
        output: shared.output.cursor(b),
    };
    frame.params.for_each_tile(b, |b, open| issuer.run_tile(b, &open));
}

const TURNS: [Turn; BLOCKS as usize] = [Turn::First, Turn::Last];

impl Issuer<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        open.range.if_any(b, |b, n| {
            let (ring, cursor) = &self.queries;
            let q = cursor.take(b);
            q.wait(b);
            let tiles = q.tiles(b, *ring);
            let queries = [0, 1].map(|block: u32| self.products.queries(b, tiles.tile(block)));
            let keys = self.products.take_keys(b);
            for (queries, turn) in queries.into_iter().zip(TURNS) {
                self.issue_scores(b, queries, &keys, turn);
            }
            let started = b.predicate(false);
            open.range.while_more(b, n, |b, _| {
                self.issue_step(b, queries, started);
                b.assign(started, self.products.yes());
            });
            let free = q.empty(b);
            self.products.tell(b, free);
            let values = self.products.take_values(b);
            for turn in TURNS {
                self.issue_output(b, &values, started, turn);
            }
        });
    }

    /// The output of one tile and the scores of the next.
    fn issue_step(&self, b: &mut Builder, queries: [Reg<u64>; 2], started: Reg<bool>) {
        let values = self.products.take_values(b);
        let keys = self.products.take_keys(b);
        for (queries, turn) in queries.into_iter().zip(TURNS) {
            self.issue_output(b, &values, started, turn);
            self.issue_scores(b, queries, &keys, turn);
        }
    }

    fn issue_scores(&self, b: &mut Builder, queries: Reg<u64>, keys: &Slots, turn: Turn) {
        let to = self.products.score_columns(b, self.scores.stage);
        let done = self.scores.barrier(b);
        self.products.scores(b, queries, keys, to, turn, done);
        self.scores.advance(b);
    }

    fn issue_output(&self, b: &mut Builder, values: &Slots, started: Reg<bool>, turn: Turn) {
        self.probabilities.wait(b);
        b.tcgen05_fence_after();
        let block = self.probabilities.stage;
        let scores = self.products.score_columns(b, block);
        let base = b.eval(block * self.frame.map.output_stride + self.tmem.base);
        let to = TmemPtr { base, ..self.tmem }.columns(self.frame.map.output);
        let done = self.output.barrier(b);
        let rest = Some(&self.rest);
        self.products.output(b, scores, values, to, started, turn, rest, done);
        self.probabilities.advance(b);
        self.rest.advance(b);
        self.output.advance(b);
    }
}

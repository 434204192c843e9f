//! The issuing warp: scores of a tile, then the output of the tile before it.

use super::kernel::Shared;
use crate::blackwell::frame::Frame;
use crate::blackwell::products::{Products, Turn};
use crate::call::task::OpenTile;
use ptx::build::{Builder, Consumer, Cursor, Reg, SharedTiles, SignalCursor, TmemPtr};

struct Issuer<'f> {
    products: Products<'f>,
    /// First column of the output.
    accumulated: TmemPtr,
    queries: (SharedTiles, Cursor<Consumer>),
    scores: SignalCursor,
    probabilities: SignalCursor,
    output: SignalCursor,
}

/// Emits the issuing warp.
pub fn emit(b: &mut Builder, frame: &Frame, shared: &Shared, tmem: TmemPtr) {
    let issuer = Issuer {
        products: Products::new(
            b,
            frame,
            tmem,
            (shared.buffers.kv, &shared.buffers.kv_ring),
            shared.p,
        ),
        accumulated: tmem.columns(frame.map.output),
        queries: (shared.buffers.q, shared.buffers.q_ring.consumer(b)),
        scores: shared.scores.cursor(b),
        probabilities: shared.probabilities.cursor(b),
        output: shared.output.cursor(b),
    };
    frame.params.for_each_tile(b, |b, open| issuer.run_tile(b, &open));
}

impl Issuer<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        open.range.if_any(b, |b, n| {
            let (ring, cursor) = &self.queries;
            let q = cursor.take(b);
            q.wait(b);
            let queries = q.tile(b, *ring);
            let queries = self.products.queries(b, queries);
            let started = b.predicate(false);
            self.issue_scores(b, queries);
            open.range.while_more(b, n, |b, _| {
                self.issue_scores(b, queries);
                self.issue_output(b, started);
                b.assign(started, self.products.yes());
            });
            let free = q.empty(b);
            self.products.tell(b, free);
            self.issue_output(b, started);
        });
    }

    fn issue_scores(&self, b: &mut Builder, queries: Reg<u64>) {
        let to = self.products.score_columns(b, self.scores.stage);
        let keys = self.products.take_keys(b);
        let done = self.scores.barrier(b);
        self.products.scores(b, queries, &keys, to, Turn::Only, done);
        self.scores.advance(b);
    }

    fn issue_output(&self, b: &mut Builder, started: Reg<bool>) {
        self.probabilities.wait(b);
        b.tcgen05_fence_after();
        let scores = self.products.score_columns(b, self.probabilities.stage);
        let values = self.products.take_values(b);
        let done = self.output.barrier(b);
        self.products.output(b, scores, &values, self.accumulated, started, Turn::Only, None, done);
        self.probabilities.advance(b);
    }
}

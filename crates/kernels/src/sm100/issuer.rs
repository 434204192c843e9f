//! The issuing warp: one elected thread issues every multiply.
//!
//! Per tile of keys `S = Q·Kᵀ` and, one tile behind, `O += P·V`, so that the scores of the next tile
//! are computed while softmax works on this one. What each product waits for:
//!
//! - `S` of a tile: its keys; and that the tensor memory is free, which it is since the product that
//!   read `P` from it two tiles ago was issued before by this very thread, and waited for softmax;
//! - `O` of a tile: its values, and softmax's word that `P` is stored and `O` is rescaled for it.

use super::config::{Piece, TILE};
use super::kernel::Frame;
use super::operand::{Operand, instruction};
use crate::task::OpenTile;
use layout::hw::Major;
use ptx::build::{
    Builder, Cmp, Consumer, CtaGroup, Cursor, Reg, SignalCursor, Slot, Tcgen05A, TmemPtr,
};

struct Issuer<'f> {
    frame: &'f Frame,
    /// True in the one thread that issues.
    lead: Reg<bool>,
    tmem: TmemPtr,
    q: Cursor<Consumer>,
    kv: Cursor<Consumer>,
    scores: SignalCursor,
    probabilities: SignalCursor,
    output: SignalCursor,
    queries: Operand,
    keys: Operand,
    values: Operand,
    yes: Reg<bool>,
    no: Reg<bool>,
}

/// Emits the issuing warp.
pub fn emit(b: &mut Builder, frame: &Frame, tmem: TmemPtr) {
    let (shared, config) = (&frame.shared, &frame.config);
    let issuer = Issuer {
        frame,
        lead: b.elect(),
        tmem,
        q: shared.q_ring.consumer(b),
        kv: shared.kv_ring.consumer(b),
        scores: shared.scores.cursor(b),
        probabilities: shared.probabilities.cursor(b),
        output: shared.output.cursor(b),
        queries: Operand::new(config.query_tile()),
        keys: Operand::new(config.key_tile()),
        values: Operand::new(config.value_tile()),
        yes: b.predicate(true),
        no: b.predicate(false),
    };
    frame.params.for_each_tile(b, |b, open| issuer.run_tile(b, &open));
}

impl Issuer<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let begin = open.range.begin;
        let n = b.sub(open.range.end, 1);
        let any = b.setp(Cmp::Ge, n, begin);
        b.if_(any, |b| {
            let q = self.q.take(b);
            q.wait(b);
            let queries = q.buffer(b, self.frame.shared.q, self.frame.config.query_bytes());
            let queries = self.queries.at(b, queries);
            let started = b.predicate(false);
            self.issue_scores(b, queries);
            b.while_(
                |b| b.setp(Cmp::Gt, n, begin),
                |b| {
                    self.issue_scores(b, queries);
                    self.issue_output(b, started);
                    b.assign(started, self.yes);
                    let next = b.sub(n, 1);
                    b.assign(n, next);
                },
            );
            let free = q.empty(b);
            b.if_(self.lead, |b| b.tcgen05_commit(CtaGroup::One, free));
            self.issue_output(b, started);
        });
    }

    /// The tensor memory of the scores a cursor is at.
    fn score_columns(&self, b: &mut Builder, cursor: &SignalCursor) -> TmemPtr {
        let base = b.mad(cursor.stage, self.frame.map.score_stride, self.tmem.base);
        TmemPtr { base, column: 0 }
    }

    /// `S = Q·Kᵀ`.
    fn issue_scores(&self, b: &mut Builder, queries: Reg<u64>) {
        let to = self.score_columns(b, &self.scores);
        let shape = instruction(self.frame.config.half, TILE, Major::K);
        for piece in self.frame.config.key_pieces() {
            let slot = self.kv.take(b);
            slot.wait(b);
            b.if_(self.lead, |b| {
                let keys = self.slot_operand(b, &slot, &self.keys);
                for step in 0..piece.used / 16 {
                    let of_row = piece.column / 16 + step;
                    let q = self.queries.step(b, queries, of_row);
                    let k = self.keys.step(b, keys, step);
                    let accumulate = if of_row == 0 { self.no } else { self.yes };
                    let q = Tcgen05A::Shared(q);
                    b.tcgen05_mma_f16(CtaGroup::One, to, q, k, shape, accumulate);
                }
            });
            self.release(b, &slot);
        }
        let done = self.scores.barrier(b);
        b.if_(self.lead, |b| b.tcgen05_commit(CtaGroup::One, done));
        self.scores.advance(b);
    }

    /// `O = P·V`, or `O += P·V` once it is started.
    fn issue_output(&self, b: &mut Builder, started: Reg<bool>) {
        self.probabilities.wait(b);
        b.tcgen05_fence_after();
        let scores = self.score_columns(b, &self.probabilities);
        for piece in self.frame.config.value_pieces() {
            let slot = self.kv.take(b);
            slot.wait(b);
            b.if_(self.lead, |b| {
                let values = self.slot_operand(b, &slot, &self.values);
                self.issue_piece(b, piece, scores, values, started);
            });
            self.release(b, &slot);
        }
        let done = self.output.barrier(b);
        b.if_(self.lead, |b| b.tcgen05_commit(CtaGroup::One, done));
        self.probabilities.advance(b);
    }

    fn issue_piece(
        &self,
        b: &mut Builder,
        piece: Piece,
        scores: TmemPtr,
        values: Reg<u64>,
        started: Reg<bool>,
    ) {
        let shape = instruction(self.frame.config.half, piece.used, Major::Mn);
        let to = self.tmem.columns(self.frame.map.output + piece.column);
        for step in 0..TILE / 16 {
            let p = self.probability_step(b, scores, step);
            let v = self.values.step(b, values, step);
            let accumulate = if step == 0 { started } else { self.yes };
            b.tcgen05_mma_f16(CtaGroup::One, to, p, v, shape, accumulate);
        }
    }

    /// Sixteen columns of `P`.
    fn probability_step(&self, b: &mut Builder, scores: TmemPtr, step: u32) -> Tcgen05A {
        match self.frame.shared.p {
            None => Tcgen05A::Tmem(scores.columns(step * self.frame.map.probability_step)),
            Some(p) => {
                let operand = Operand::new(self.frame.config.probability_tile());
                let descriptor = operand.at(b, p);
                Tcgen05A::Shared(operand.step(b, descriptor, step))
            }
        }
    }

    fn slot_operand(&self, b: &mut Builder, slot: &Slot<Consumer>, operand: &Operand) -> Reg<u64> {
        let at = slot.buffer(b, self.frame.shared.kv, self.frame.config.slot_bytes());
        operand.at(b, at)
    }

    /// Frees the slot when everything issued so far has read it.
    fn release(&self, b: &mut Builder, slot: &Slot<Consumer>) {
        let free = slot.empty(b);
        b.if_(self.lead, |b| b.tcgen05_commit(CtaGroup::One, free));
    }
}

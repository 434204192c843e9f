//! The issuing warp of the even CTA: every multiply runs on both SMs of the CTA pair.

use super::config::{PANEL_BYTES, SLOT_ROWS};
use super::kernel::{BOTH, Frame};
use crate::blackwell::config::TILE;
use crate::blackwell::operand::instruction;
use crate::call::task::OpenTile;
use layout::hw::Major;
use ptx::build::{
    Builder, Consumer, CtaGroup, Cursor, MatrixOperand, Mbarrier, Reg, SignalCursor, Slot,
    Tcgen05A, TmemPtr,
};

struct Issuer<'f> {
    frame: &'f Frame,
    lead: Reg<bool>,
    tmem: TmemPtr,
    q: Cursor<Consumer>,
    kv: Cursor<Consumer>,
    scores: SignalCursor,
    probabilities: SignalCursor,
    output: SignalCursor,
    queries: MatrixOperand,
    keys: MatrixOperand,
    values: MatrixOperand,
    p: MatrixOperand,
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
        queries: MatrixOperand::new(b.target(), config.query_tile()),
        keys: MatrixOperand::new(b.target(), config.key_tile()),
        values: MatrixOperand::new(b.target(), config.value_tile()),
        p: MatrixOperand::new(b.target(), config.probability_tile()),
        yes: b.predicate(true),
        no: b.predicate(false),
    };
    frame.params.for_each_tile(b, |b, open| issuer.run_tile(b, &open));
}

impl Issuer<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        open.range.if_any(b, |b, n| {
            let q = self.q.take(b);
            q.wait(b);
            let started = b.predicate(false);
            self.issue_scores(b);
            open.range.while_more(b, n, |b, _| {
                self.issue_scores(b);
                self.issue_output(b, started);
                b.assign(started, self.yes);
            });
            let free = q.empty(b);
            self.tell(b, free);
            self.issue_output(b, started);
        });
    }

    /// `S = Q·Kᵀ` of 128 rows and 128 keys.
    fn issue_scores(&self, b: &mut Builder) {
        let config = &self.frame.config;
        let queries = self.queries.at(b, self.frame.shared.q.at());
        let shape = instruction(config.half, TILE, Major::K);
        let base = b.eval(self.scores.stage * self.frame.map.score_stride + self.tmem.base);
        let to = TmemPtr { base, ..self.tmem };
        for (column, steps) in config.key_pieces() {
            let slot = self.next_slot(b);
            b.if_(self.lead, |b| {
                let at = slot.tile(b, self.frame.shared.kv).at();
                let keys = self.keys.at(b, at);
                for step in 0..steps {
                    let of_row = column / 16 + step;
                    let q = Tcgen05A::Shared(self.queries.step(b, queries, of_row));
                    let k = self.keys.step(b, keys, step);
                    let accumulate = if of_row == 0 { self.no } else { self.yes };
                    b.tcgen05_mma_f16(CtaGroup::Two, to, q, k, shape, accumulate);
                }
            });
            self.release(b, &slot);
        }
        let done = self.scores.barrier(b);
        self.tell(b, done);
        self.scores.advance(b);
    }

    /// `O += P·V` of 128 rows and all value columns, 64 keys per slot.
    fn issue_output(&self, b: &mut Builder, started: Reg<bool>) {
        self.probabilities.wait(b);
        b.tcgen05_fence_after();
        for half in 0..TILE / SLOT_ROWS {
            let slot = self.next_slot(b);
            b.if_(self.lead, |b| self.output_steps(b, &slot, half, started));
            self.release(b, &slot);
        }
        let done = self.output.barrier(b);
        self.tell(b, done);
        self.probabilities.advance(b);
    }

    fn output_steps(&self, b: &mut Builder, slot: &Slot<Consumer>, half: u32, started: Reg<bool>) {
        let config = &self.frame.config;
        let shape = instruction(config.half, config.multiplied_columns(), Major::Mn);
        let at = slot.tile(b, self.frame.shared.kv).at();
        let probabilities = self.p.at(b, self.frame.shared.p.at());
        let accumulator_bytes = config.accumulator_panels() * PANEL_BYTES;
        for n in 0..config.accumulators() {
            let values = self.values.at(b, at.plus(n * accumulator_bytes));
            let to =
                self.tmem.columns(self.frame.map.output + n * self.frame.map.accumulator_stride);
            for step in 0..SLOT_ROWS / 16 {
                let of_tile = half * SLOT_ROWS / 16 + step;
                let p = Tcgen05A::Shared(self.p.step(b, probabilities, of_tile));
                let v = self.values.step(b, values, step);
                let accumulate = if of_tile == 0 { started } else { self.yes };
                b.tcgen05_mma_f16(CtaGroup::Two, to, p, v, shape, accumulate);
            }
        }
    }

    fn next_slot(&self, b: &mut Builder) -> Slot<Consumer> {
        let slot = self.kv.take(b);
        slot.wait(b);
        slot
    }

    fn release(&self, b: &mut Builder, slot: &Slot<Consumer>) {
        let free = slot.empty(b);
        self.tell(b, free);
    }

    /// Arrives on `barrier` of both CTAs when everything issued so far is done.
    fn tell(&self, b: &mut Builder, barrier: Mbarrier) {
        b.if_(self.lead, |b| b.tcgen05_commit_multicast(CtaGroup::Two, barrier, BOTH));
    }
}

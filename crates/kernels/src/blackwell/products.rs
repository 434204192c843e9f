//! The two products of a KV tile, issued by one elected thread: `S = Q·Kᵀ` and `O += P·V`.

use super::config::{Piece, TILE};
use super::frame::Frame;
use super::operand::instruction;
use layout::hw::Major;
use ptx::build::{
    Builder, Consumer, CtaGroup, Cursor, MatrixOperand, Mbarrier, Pipeline, Reg, SharedTile,
    SharedTiles, SignalCursor, Slot, SmemPtr, Tcgen05A, TmemPtr,
};
use std::ops::Range;

/// How often the keys or the values of a KV tile are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Once: its slots are awaited and freed.
    Only,
    /// For the first of two row blocks: its slots are awaited.
    First,
    /// For the second one: its slots are freed.
    Last,
}

impl Turn {
    /// Waits for a slot, if this is its first product.
    #[track_caller]
    fn wait(self, b: &mut Builder, slot: &Slot<Consumer>) {
        if self != Turn::Last {
            slot.wait(b);
        }
    }
}

/// The slots that hold the keys or the values of a KV tile.
pub type Slots = [(Piece, Slot<Consumer>)];

/// Keys whose probabilities are handed over first, where they are handed over in two parts: as many
/// as their product takes of the time in which the rest is exponentiated.
pub const EARLY_KEYS: u32 = 96;

/// The buffers, as the issuing warp reads them.
pub struct Products<'f> {
    frame: &'f Frame,
    /// True in the one thread that issues.
    lead: Reg<bool>,
    tmem: TmemPtr,
    /// The ring of keys and values.
    kv: SharedTiles,
    /// Where the next keys are.
    next_keys: Cursor<Consumer>,
    /// Where the next values are: behind the last keys taken, or, where values came with keys, at
    /// those that were taken for the scores before.
    next_values: Cursor<Consumer>,
    /// Probabilities, where they are in shared memory.
    p: Option<SharedTile>,
    queries: MatrixOperand,
    keys: MatrixOperand,
    values: MatrixOperand,
    yes: Reg<bool>,
    no: Reg<bool>,
}

impl<'f> Products<'f> {
    /// The issuer of a kernel (a converged warp).
    pub fn new(
        b: &mut Builder,
        frame: &'f Frame,
        tmem: TmemPtr,
        (kv, ring): (SharedTiles, &Pipeline),
        p: Option<SharedTile>,
    ) -> Self {
        let config = &frame.config;
        let next_keys = ring.consumer(b);
        let next_values = if config.shared_kv { ring.consumer(b) } else { next_keys };
        Products {
            frame,
            lead: b.elect(),
            tmem,
            kv,
            next_keys,
            next_values,
            p,
            queries: MatrixOperand::new(b.target(), config.query_tile()),
            keys: MatrixOperand::new(b.target(), config.key_tile()),
            values: MatrixOperand::new(b.target(), config.value_tile()),
            yes: b.predicate(true),
            no: b.predicate(false),
        }
    }

    /// True.
    pub fn yes(&self) -> Reg<bool> {
        self.yes
    }

    /// The descriptor of a tile of queries.
    #[track_caller]
    pub fn queries(&self, b: &mut Builder, tile: SharedTile) -> Reg<u64> {
        self.queries.at(b, tile.at())
    }

    /// The tensor memory of tile `index` of scores.
    #[track_caller]
    pub fn score_columns(&self, b: &mut Builder, index: Reg<u32>) -> TmemPtr {
        let base = b.eval(index * self.frame.map.score_stride + self.tmem.base);
        TmemPtr { base, column: self.tmem.column }
    }

    /// Takes the slots of the keys of the next KV tile.
    #[track_caller]
    pub fn take_keys(&self, b: &mut Builder) -> Vec<(Piece, Slot<Consumer>)> {
        take(b, &self.next_keys, self.frame.config.key_pieces())
    }

    /// Takes the slots of the next tile of values.
    #[track_caller]
    pub fn take_values(&self, b: &mut Builder) -> Vec<(Piece, Slot<Consumer>)> {
        let config = &self.frame.config;
        let values = take(b, &self.next_values, config.value_pieces());
        if config.shared_kv {
            let keys_alone = config.key_pieces().split_off(values.len());
            take(b, &self.next_values, keys_alone);
        }
        values
    }

    /// `S = Q·Kᵀ`; `done` is told.
    pub fn scores(
        &self,
        b: &mut Builder,
        queries: Reg<u64>,
        keys: &Slots,
        to: TmemPtr,
        turn: Turn,
        done: Mbarrier,
    ) {
        let values = if self.frame.config.shared_kv { self.frame.config.slice_dim() } else { 0 };
        for (piece, slot) in keys {
            turn.wait(b, slot);
            let at = self.buffer(b, slot);
            b.if_(self.lead, |b| {
                let keys = self.keys.at(b, at);
                self.score_steps(b, *piece, queries, keys, to);
            });
            if piece.column >= values {
                self.free(b, slot, turn);
            }
        }
        self.tell(b, done);
    }

    fn score_steps(
        &self,
        b: &mut Builder,
        piece: Piece,
        queries: Reg<u64>,
        keys: Reg<u64>,
        to: TmemPtr,
    ) {
        let shape = instruction(self.frame.config.half, TILE, Major::K);
        for step in 0..piece.used / 16 {
            let of_row = piece.column / 16 + step;
            let q = Tcgen05A::Shared(self.queries.step(b, queries, of_row));
            let k = self.keys.step(b, keys, step);
            let accumulate = if of_row == 0 { self.no } else { self.yes };
            b.tcgen05_mma_f16(CtaGroup::One, to, q, k, shape, accumulate);
        }
    }

    /// `O = P·V`, or `O += P·V` once it is `started`; `done` is told. `scores` is where `P` was
    /// computed from, `to` the first column of `O`. Probabilities behind the first [`EARLY_KEYS`] are
    /// awaited on `rest`, where they come later.
    pub fn output(
        &self,
        b: &mut Builder,
        scores: TmemPtr,
        values: &Slots,
        to: TmemPtr,
        started: Reg<bool>,
        turn: Turn,
        rest: Option<&SignalCursor>,
        done: Mbarrier,
    ) {
        let early = if rest.is_some() { EARLY_KEYS } else { TILE };
        for (piece, slot) in values {
            if !self.frame.config.shared_kv {
                turn.wait(b, slot);
            }
            self.output_steps(b, (*piece, slot), scores, to, started, 0..early / 16);
            if rest.is_none() {
                self.free(b, slot, turn);
            }
        }
        if let Some(rest) = rest {
            rest.wait(b);
            b.tcgen05_fence_after();
            for (piece, slot) in values {
                self.output_steps(b, (*piece, slot), scores, to, started, early / 16..TILE / 16);
                self.free(b, slot, turn);
            }
        }
        self.tell(b, done);
    }

    /// Some steps of 16 keys of `P·V`.
    fn output_steps(
        &self,
        b: &mut Builder,
        (piece, slot): (Piece, &Slot<Consumer>),
        scores: TmemPtr,
        to: TmemPtr,
        started: Reg<bool>,
        steps: Range<u32>,
    ) {
        let at = self.buffer(b, slot);
        let shape = instruction(self.frame.config.half, piece.used, Major::Mn);
        let to = to.columns(piece.column);
        b.if_(self.lead, |b| {
            let values = self.values.at(b, at);
            for step in steps {
                let p = self.probability_step(b, scores, step);
                let v = self.values.step(b, values, step);
                let accumulate = if step == 0 { started } else { self.yes };
                b.tcgen05_mma_f16(CtaGroup::One, to, p, v, shape, accumulate);
            }
        });
    }

    /// Sixteen columns of `P`.
    fn probability_step(&self, b: &mut Builder, scores: TmemPtr, step: u32) -> Tcgen05A {
        match self.p {
            None => Tcgen05A::Tmem(scores.columns(step * self.frame.map.probability_step)),
            Some(p) => {
                let descriptor = p.descriptor(b);
                Tcgen05A::Shared(p.step(b, descriptor, step))
            }
        }
    }

    #[track_caller]
    fn buffer(&self, b: &mut Builder, slot: &Slot<Consumer>) -> SmemPtr {
        slot.tile(b, self.kv).at()
    }

    /// Frees a slot when everything issued so far is done, if this was its last product.
    #[track_caller]
    fn free(&self, b: &mut Builder, slot: &Slot<Consumer>, turn: Turn) {
        if turn != Turn::First {
            let free = slot.empty(b);
            self.tell(b, free);
        }
    }

    /// Arrives on `barrier` when everything issued so far is done.
    #[track_caller]
    pub fn tell(&self, b: &mut Builder, barrier: Mbarrier) {
        b.if_(self.lead, |b| b.tcgen05_commit(CtaGroup::One, barrier));
    }
}

/// Takes a slot for each of `pieces`.
#[track_caller]
fn take(
    b: &mut Builder,
    cursor: &Cursor<Consumer>,
    pieces: Vec<Piece>,
) -> Vec<(Piece, Slot<Consumer>)> {
    pieces.into_iter().map(|piece| (piece, cursor.take(b))).collect()
}

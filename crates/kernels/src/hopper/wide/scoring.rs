//! The left warpgroup: scores, softmax, and the left half of the output columns.

use super::config::TILE;
use super::kernel::Frame;
use super::merge::Merging;
use crate::call::rows::Block;
use crate::call::task::OpenTile;
use crate::hopper::epilogue::{self, Columns, Sinks};
use crate::hopper::fragment;
use crate::hopper::parts::HeldRows;
use crate::hopper::scores::{Scores, Seen, SeenTile};
use crate::math::exact::Watch;
use crate::math::softmax::RowState;
use crate::moves::marks::Marks;
use crate::moves::output::BlockOutput;
use ptx::build::{
    Builder, Cmp, Consumer, Cursor, Producer, Reg, SharedArray, SignalCursor, Slot, WgmmaA,
};

struct Scoring<'f> {
    frame: &'f Frame,
    /// True in one thread per warp.
    lead: Reg<bool>,
    q: Cursor<Consumer>,
    k: Vec<Cursor<Consumer>>,
    v: Cursor<Consumer>,
    p: Cursor<Producer>,
    /// Says that the next tile's scores are computed, where the right warpgroup waits for that.
    scored: Option<SignalCursor>,
    scores: Scores,
    /// What was read of the marks of the keys in work, where they are listed.
    marks: Vec<Reg<u32>>,
    out: Vec<Reg<f32>>,
    yes: Reg<bool>,
    no: Reg<bool>,
    watch: Watch,
}

/// A row block in work.
struct View {
    queries: Reg<u64>,
    /// The pieces scores are computed from.
    keys: Vec<Slot<Consumer>>,
    /// The first piece whose values the next accumulation reads, where K = V.
    pending: Option<Slot<Consumer>>,
}

/// Emits the left warpgroup.
pub fn emit(b: &mut Builder, frame: &Frame) {
    let (config, shared) = (&frame.config, &frame.shared);
    let thread = b.thread();
    let thread = b.eval(thread % 128);
    let lane = b.eval(thread % 32);
    let scoring = Scoring {
        frame,
        lead: b.setp(Cmp::Eq, lane, 0),
        q: shared.q_ring.consumer(b),
        k: shared.k_rings.iter().map(|ring| ring.consumer(b)).collect(),
        v: shared.v_rings[0].consumer(b),
        p: shared.p_ring.producer(b),
        scored: shared.scored.map(|scored| scored.cursor(b)),
        scores: Scores::new(b, thread, config.half, TILE),
        marks: b.regs(shared.marks.as_ref().map_or(0, Marks::words)),
        out: b.regs(config.left_columns() as usize / 2),
        yes: b.predicate(true),
        no: b.predicate(false),
        watch: frame.params.watch(b),
    };
    frame.params.for_each_tile(b, |b, open| scoring.run_tile(b, &open));
    let merging = Merging::left(frame, scoring.columns());
    scoring.watch.revisit(b, &frame.params, |b, open| merging.run_tile_again(b, &open));
}

impl Scoring<'_> {
    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        self.scores.reset(b);
        for &register in &self.out {
            b.assign(register, 0.0);
        }
        let q = self.q.take(b);
        q.wait(b);
        let block = self.frame.block(b, open);
        let tiles = self.frame.params.count_tiles(b, open);
        let any = b.setp(Cmp::Gt, tiles, 0);
        let output = BlockOutput { params: &self.frame.params, open, block: &block };
        // They come while tiles are multiplied.
        let alone = self.frame.config.gathers && self.frame.config.parts == 1;
        let sinks = alone.then(|| epilogue::sinks(b, self.scores.thread, &output));
        b.if_else(
            any,
            |b| {
                let view = self.all_scores(b, open, &block, tiles);
                q.release_if(b, self.lead);
                self.last_output(b, &view);
            },
            |b| q.release_if(b, self.lead),
        );
        match self.frame.config.parts {
            1 => self.finish(b, &output, sinks),
            _ => self.merge(b, &output),
        }
    }

    /// Puts the parts of the keys together, and finishes some of the columns.
    fn merge(&self, b: &mut Builder, output: &BlockOutput<'_>) {
        let states = self.scores.totals(b);
        let merging = Merging::left(self.frame, self.columns());
        merging.meet(b, Some(states));
        merging.finish(b, output);
    }

    fn finish(&self, b: &mut Builder, output: &BlockOutput<'_>, sinks: Option<Sinks>) {
        if self.frame.params.cuts() {
            return self.finish_or_give(b, output);
        }
        let factors = match sinks {
            Some(sinks) => epilogue::finish_with(b, &self.scores, output, sinks),
            None => epilogue::finish(b, &self.scores, output),
        };
        let message = self.open_message(b);
        self.send(b, &message, factors, false);
        self.columns().write(b, output, factors);
    }

    /// Tells the right warpgroup the rows' states, and finishes the rows or leaves them to another CTA.
    fn finish_or_give(&self, b: &mut Builder, output: &BlockOutput<'_>) {
        let (params, thread) = (&self.frame.params, self.scores.thread);
        let rows = self.scores.totals(b);
        let message = self.open_message(b);
        self.send_states(b, &message, rows);
        let held = HeldRows { params, rows, out: &self.out };
        let warp = self.frame.row_warp(b, thread, false);
        self.frame.exchange(b, output, &held, warp, |b| {
            let factors = epilogue::finish_rows(b, thread, rows, output, true);
            self.columns().write(b, output, factors);
        });
    }

    fn columns(&self) -> Columns<'_> {
        Columns {
            thread: self.scores.thread,
            out: &self.out,
            first: 0,
            half: self.frame.config.half,
            watch: self.watch,
        }
    }

    /// All KV tiles, segment after segment, last to first, but the output of the last one visited.
    fn all_scores(&self, b: &mut Builder, open: &OpenTile, block: &Block, tiles: Reg<i32>) -> View {
        let queries = self.frame.shared.q.tile(0).descriptor(b);
        let keys: Vec<_> = self.k.iter().map(|cursor| cursor.take(b)).collect();
        let pending = self.frame.config.shared_kv.then(|| keys[0].copy(b));
        let view = View { queries, keys, pending };
        let params = &self.frame.params;
        if self.frame.config.listed && params.tiles_are_marked() {
            self.marked_scores(b, &view, tiles);
            return view;
        }
        if params.segments.len() == 1 {
            self.segment_scores(b, &view, open, block, 0, None);
            return view;
        }
        let visited = b.value::<u32>(0);
        params.for_each_segment(b, open, |b, segment, open| {
            let any = open.range.any(b);
            b.if_(any, |b| {
                let before = (segment > 0).then(|| b.setp(Cmp::Ne, visited, 0));
                self.segment_scores(b, &view, open, block, segment, before);
                b.assign(visited, 1);
            });
        });
        view
    }

    /// All tiles, where marks say which keys of each are seen: those of all segments are one sequence, and one loop.
    /// Loops of their own would be more machine code than the cache of instructions holds.
    fn marked_scores(&self, b: &mut Builder, view: &View, tiles: Reg<i32>) {
        let tile = SeenTile { seen: Seen::Marked(&self.marks), biases: None };
        self.first_scores(b, view, &tile);
        let left = b.eval(tiles - 1);
        b.while_(
            |b| b.setp(Cmp::Gt, left, 0),
            |b| {
                self.step(b, view, &tile);
                b.assign(left, left - 1);
            },
        );
    }

    /// All tiles of a segment. Its first one is the first of all unless another has been visited `before`.
    fn segment_scores(
        &self,
        b: &mut Builder,
        view: &View,
        open: &OpenTile,
        block: &Block,
        segment: usize,
        before: Option<Reg<bool>>,
    ) {
        let range = open.range;
        let n = range.end.before(b, 1);
        let last_token = block.last_token(b);
        let clear = open.bounds.clear_tiles(b, range, block.token, last_token);
        let windows = self.scores.windows(b, open, block);
        let keys = &self.frame.params.segments[segment];
        let tiling = &self.frame.params.tiling;
        let biases =
            keys.attn_mask.map(|mask| self.scores.mask_rows(b, &mask, tiling, open, block));
        let tile = |masked| {
            let seen = match masked {
                _ if keys.lists.is_some() => Seen::Marked(&self.marks),
                true => Seen::Within(&windows, n),
                false => Seen::All,
            };
            SeenTile { seen, biases: biases.as_ref().map(|rows| (rows, n)) }
        };
        match before {
            None => self.first_scores(b, view, &tile(true)),
            Some(before) => b.if_else(
                before,
                |b| self.step(b, view, &tile(true)),
                |b| self.first_scores(b, view, &tile(true)),
            ),
        }
        range.descend(b, n, clear, &keys.visible, |b, masked| self.step(b, view, &tile(masked)));
    }

    /// The first tile has nothing to overlap with.
    fn first_scores(&self, b: &mut Builder, view: &View, keys: &SeenTile<'_>) {
        self.issue_scores(b, view);
        self.release_keys(b, view, 0);
        self.scores.first_softmax(b, &self.frame.params.softmax, keys);
        let message = self.open_message(b);
        self.scores.round(b);
        self.send(b, &message, self.scores.rescale, true);
    }

    /// One tile's scores and probabilities, and the output of the one before it.
    fn step(&self, b: &mut Builder, view: &View, keys: &SeenTile<'_>) {
        match self.frame.config.output_first {
            true => self.output_then_scores(b, view, keys),
            false => self.scores_then_output(b, view, keys),
        }
    }

    /// The output of a tile goes before the scores of the next one: its place is free while those are computed.
    fn output_then_scores(&self, b: &mut Builder, view: &View, keys: &SeenTile<'_>) {
        fragment::rescale_rows(b, &self.out, self.scores.rescale);
        let values = self.take_values(b, view);
        self.issue_output(b, &values);
        if self.frame.config.stages == 1 {
            // The next keys come to the place of these values.
            b.wgmma_wait(0);
            self.frame.release(b, &values, self.lead);
        }
        self.take_keys(b, view);
        self.issue_scores(b, view);
        if self.frame.config.stages > 1 {
            b.wgmma_wait(1);
            self.frame.release(b, &values, self.lead);
        }
        // Who unpacks rows needs the place of the values sooner than the last scores need the tensor cores.
        let early = self.frame.config.unpacks;
        if early {
            self.say_scored(b);
        }
        self.release_keys(b, view, 0);
        if !early {
            self.say_scored(b);
        }
        self.scores.softmax(b, &self.frame.params.softmax, keys);
        let message = self.open_message(b);
        self.scores.round(b);
        self.send(b, &message, self.scores.rescale, true);
    }

    fn take_keys(&self, b: &mut Builder, view: &View) {
        for (slot, cursor) in view.keys.iter().zip(&self.k) {
            let next = cursor.take(b);
            slot.assign(b, &next);
        }
    }

    /// Scores of a tile and output of the one before it run on the tensor cores together; the softmax of
    /// the former overlaps the latter.
    fn scores_then_output(&self, b: &mut Builder, view: &View, keys: &SeenTile<'_>) {
        self.take_keys(b, view);
        self.issue_scores(b, view);
        fragment::rescale_rows(b, &self.out, self.scores.rescale);
        let values = self.take_values(b, view);
        self.issue_output(b, &values);
        self.release_keys(b, view, 1);
        self.scores.softmax(b, &self.frame.params.softmax, keys);
        let message = self.open_message(b);
        b.wgmma_wait(0);
        self.frame.release(b, &values, self.lead);
        self.scores.round(b);
        self.send(b, &message, self.scores.rescale, true);
    }

    /// Lets the right warpgroup multiply with the values of the tile before, where it waits for that.
    fn say_scored(&self, b: &mut Builder) {
        if let Some(scored) = &self.scored {
            let barrier = scored.barrier(b);
            barrier.arrive_if(b, self.lead);
            scored.advance(b);
        }
    }

    fn last_output(&self, b: &mut Builder, view: &View) {
        self.say_scored(b);
        fragment::rescale_rows(b, &self.out, self.scores.rescale);
        let values = self.take_values(b, view);
        self.issue_output(b, &values);
        b.wgmma_wait(0);
        self.frame.release(b, &values, self.lead);
    }

    /// Releases each piece of keys once it is read, `later` commit groups after those of the scores. Where
    /// K = V the first one still holds values to come.
    fn release_keys(&self, b: &mut Builder, view: &View, later: u32) {
        if let Some(pending) = &view.pending {
            b.wgmma_wait(later);
            pending.assign(b, &view.keys[0]);
            return view.keys[1..].iter().for_each(|keys| self.frame.release(b, keys, self.lead));
        }
        for (piece, keys) in view.keys.iter().enumerate() {
            b.wgmma_wait((view.keys.len() - 1 - piece) as u32 + later);
            self.frame.release(b, keys, self.lead);
        }
    }

    fn take_values(&self, b: &mut Builder, view: &View) -> Slot<Consumer> {
        if let Some(pending) = view.pending {
            return pending.copy(b);
        }
        let values = self.v.take(b);
        self.frame.await_rows(b, &values);
        values
    }

    /// `S = Q·Kᵀ`, one commit group per piece that can be released once it is read; where K = V, one.
    fn issue_scores(&self, b: &mut Builder, view: &View) {
        let config = &self.frame.config;
        let (q_operand, k_operand) = (config.queries().k_major(), config.keys().k_major());
        let mut step = 0;
        for (piece, panels) in config.key_pieces().into_iter().enumerate() {
            self.frame.await_rows(b, &view.keys[piece]);
            let at = self.frame.key_piece(b, &view.keys[piece], piece);
            let k = k_operand.at(b, at);
            if piece == 0 {
                if let Some(marks) = &self.frame.shared.marks {
                    marks.read(b, self.scores.thread, view.keys[0].stage(), &self.marks);
                }
                b.wgmma_fence();
            }
            for within in 0..(panels * 4).min(config.key_dim.div_ceil(16) - step) {
                let q_step = q_operand.step(b, view.queries, step);
                let k_step = k_operand.step(b, k, within);
                let accumulate = if step == 0 { self.no } else { self.yes };
                let q = WgmmaA::Shared(q_step, false);
                b.wgmma(config.half, &self.scores.scores, &q, k_step, false, accumulate);
                step += 1;
            }
            if !config.shared_kv {
                b.wgmma_commit();
            }
        }
        if config.shared_kv {
            b.wgmma_commit();
        }
    }

    /// `O += P·V`, one commit group.
    fn issue_output(&self, b: &mut Builder, values: &Slot<Consumer>) {
        let v_operand = self.frame.config.values().mn_major();
        let products = self.frame.products(b, values, 0, &self.out);
        b.wgmma_fence();
        for (step, p) in self.scores.probabilities.chunks_exact(4).enumerate() {
            let p = WgmmaA::Registers([p[0], p[1], p[2], p[3]]);
            for (out, v) in &products {
                let v_step = v_operand.step(b, *v, step as u32);
                b.wgmma(self.frame.config.half, out, &p, v_step, true, self.yes);
            }
        }
        b.wgmma_commit();
    }

    /// Waits for a free tile of probabilities, if anyone wants them.
    ///
    /// Called between the exponentials and the wait for `P·V`: the branch also keeps the assembler
    /// from sinking the exponentials behind that wait, where they would overlap nothing.
    fn open_message(&self, b: &mut Builder) -> Option<Slot<Producer>> {
        self.frame.has_right().then(|| {
            let slot = self.p.take(b);
            slot.wait(b);
            slot
        })
    }

    /// Hands the right warpgroup the factors of both rows, and the probabilities unless this is the
    /// last message of a row block.
    fn send(
        &self,
        b: &mut Builder,
        slot: &Option<Slot<Producer>>,
        factors: [Reg<f32>; 2],
        probabilities: bool,
    ) {
        let Some(slot) = slot else { return };
        let shared = &self.frame.shared;
        if probabilities {
            let to = slot.tile(b, shared.p);
            b.store_fragment(self.scores.thread, &self.scores.probabilities, to);
        }
        self.store_of_rows(b, slot, &[(&shared.factors, factors)]);
        if probabilities {
            b.fence_proxy_async();
        }
        self.publish(b, slot);
    }

    /// Hands the right warpgroup the states of both rows, as the last message of a row block that may be cut.
    fn send_states(&self, b: &mut Builder, slot: &Option<Slot<Producer>>, rows: [RowState; 2]) {
        let Some(slot) = slot else { return };
        let shared = &self.frame.shared;
        let sums = shared.sums.as_ref().expect("work tiles that are cut");
        let (max, sum) = (rows.map(|row| row.max), rows.map(|row| row.sum));
        self.store_of_rows(b, slot, &[(&shared.factors, max), (sums, sum)]);
        self.publish(b, slot);
    }

    /// Stores numbers of both rows of a thread, once per row, in the arrays of a message.
    fn store_of_rows(
        &self,
        b: &mut Builder,
        slot: &Slot<Producer>,
        numbers: &[(&SharedArray<f32>, [Reg<f32>; 2])],
    ) {
        let quad = b.eval(self.scores.thread % 4);
        let first_of_row = b.setp(Cmp::Eq, quad, 0);
        b.if_(first_of_row, |b| {
            let row = fragment::first_row(b, self.scores.thread);
            for (to, [upper, lower]) in numbers {
                let at = to.element(b, &[row, slot.stage()]);
                b.st_shared(at, *upper);
                b.st_shared(at.plus(to.offset(&[8])), *lower);
            }
        });
    }

    /// Says, once per warp, that a message is complete.
    #[track_caller]
    fn publish(&self, b: &mut Builder, slot: &Slot<Producer>) {
        b.warp_sync();
        let full = slot.full(b);
        full.arrive_if(b, self.lead);
    }
}

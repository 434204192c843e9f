//! A consumer warpgroup: scores, softmax, output accumulation for 64 rows.

use super::kernel::Frame;
use super::turns::Turns;
use crate::call::index::KvTile;
use crate::call::rows::Block;
use crate::call::task::{OpenTile, Order};
use crate::call::visible::TileRange;
use crate::hopper::epilogue::{self, Columns};
use crate::hopper::fragment;
use crate::hopper::parts::HeldRows;
use crate::hopper::scores::{MaskRows, Scores, Seen, SeenTile, Windows};
use crate::math::exact::Watch;
use crate::moves::marks::Marks;
use crate::moves::output::BlockOutput;
use ptx::build::{Builder, Cmp, Consumer, Cursor, Reg, Slot, WgmmaA};

/// Registers and cursors of one consumer warpgroup.
struct Warpgroup<'f> {
    frame: &'f Frame,
    /// Number among the consumers.
    number: Reg<u32>,
    /// True in one thread per warp.
    lead: Reg<bool>,
    turns: Option<Turns>,
    q: Cursor<Consumer>,
    k: Cursor<Consumer>,
    v: Cursor<Consumer>,
    scores: Scores,
    /// Output: `value dim / 2` per thread.
    out: Vec<Reg<f32>>,
    /// What was read of the marks of the keys in work, where they are listed.
    marks: Vec<Reg<u32>>,
    yes: Reg<bool>,
    no: Reg<bool>,
    watch: Watch,
}

/// The rows of a warpgroup within a tile.
struct View {
    windows: Windows,
    /// What is added to scores.
    biases: Option<MaskRows>,
    queries: Reg<u64>,
    /// KV tiles.
    range: TileRange,
    /// The keys the next scores are computed from, already waited for.
    keys: Slot<Consumer>,
    /// The keys whose values the next accumulation reads, where they share a buffer.
    pending: Option<Slot<Consumer>>,
}

/// Emits the consumer warpgroup of number `number`.
pub fn emit(b: &mut Builder, frame: &Frame, number: Reg<u32>) {
    let warpgroup = Warpgroup::new(b, frame, number);
    frame.params.for_each_tile(b, |b, open| warpgroup.run_tile(b, &open));
    if let Some(turns) = &warpgroup.turns {
        turns.end(b);
    }
    warpgroup.watch.revisit(b, &frame.params, |b, open| warpgroup.run_tile_again(b, &open));
}

impl<'f> Warpgroup<'f> {
    fn new(b: &mut Builder, frame: &'f Frame, number: Reg<u32>) -> Self {
        let config = &frame.config;
        let thread = b.thread();
        let thread = b.eval(thread % 128);
        let lane = b.eval(thread % 32);
        let turns = config.takes_turns().then(|| Turns::start(b, number, config.warpgroups));
        Warpgroup {
            frame,
            number,
            lead: b.setp(Cmp::Eq, lane, 0),
            turns,
            q: frame.shared.q_ring.consumer(b),
            k: frame.shared.k_ring.consumer(b),
            v: frame.shared.v_ring.consumer(b),
            scores: Scores::new(b, thread, config.half, config.tile),
            out: b.regs(config.value_dim as usize / 2),
            marks: b.regs(frame.shared.marks.as_ref().map_or(0, Marks::words)),
            yes: b.predicate(true),
            no: b.predicate(false),
            watch: frame.params.watch(b),
        }
    }

    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let block = self.block(b, open);
        let lonely = self.frame.config.warpgroups == 1;
        if !matches!(self.frame.params.order, Order::Shares(_)) || lonely {
            return self.run_block(b, open, &block);
        }
        let live = b.setp(Cmp::Lt, block.token.reg(), open.sequence.q_len);
        b.if_else(live, |b| self.run_block(b, open, &block), |b| self.pass_by(b, open));
    }

    /// Takes what is loaded for the other warpgroups, and gives it back.
    fn pass_by(&self, b: &mut Builder, open: &OpenTile) {
        let q = self.q.take(b);
        q.wait(b);
        q.release_if(b, self.lead);
        open.range.if_any(b, |b, n| {
            self.pass_step(b);
            open.range.while_more(b, n, |b, _| {
                if let Some(turns) = &self.turns {
                    turns.wait(b);
                    turns.pass(b);
                }
                self.pass_step(b);
            });
        });
    }

    fn pass_step(&self, b: &mut Builder) {
        let values = (!self.frame.config.shared_kv).then_some(&self.v);
        for ring in [Some(&self.k), values].into_iter().flatten() {
            let slot = ring.take(b);
            slot.wait(b);
            slot.release_if(b, self.lead);
        }
    }

    fn run_block(&self, b: &mut Builder, open: &OpenTile, block: &Block) {
        self.scores.reset(b);
        for &register in &self.out {
            b.assign(register, 0.0);
        }
        let q = self.q.take(b);
        q.wait(b);
        let queries = q.tiles(b, self.frame.shared.q).select(b, self.number);
        let queries = queries.descriptor(b);
        self.accumulate(b, open, block, &q, queries);
        let Some(exchange) = self.frame.params.exchange(open) else {
            return self.finish(b, open, block);
        };
        let warp = b.eval(self.scores.thread / 32);
        let warp = b.eval(self.number * 4 + warp);
        let (params, rows) = (&self.frame.params, self.scores.rows);
        let held = HeldRows { params, rows, out: &self.out };
        held.exchange(b, exchange, warp, |b| self.finish(b, open, block));
    }

    fn finish(&self, b: &mut Builder, open: &OpenTile, block: &Block) {
        let output = BlockOutput { params: &self.frame.params, open, block };
        let factors = epilogue::finish(b, &self.scores, &output);
        self.columns().write(b, &output, factors);
    }

    fn run_tile_again(&self, b: &mut Builder, open: &OpenTile) {
        let block = self.block(b, open);
        let output = BlockOutput { params: &self.frame.params, open, block: &block };
        open.if_finished_here(b, |b| self.columns().write_again(b, &output));
    }

    /// The rows of the warpgroup.
    fn block(&self, b: &mut Builder, open: &OpenTile) -> Block {
        let config = &self.frame.config;
        let number = open.first_block.plus(b, self.number);
        Block::at(b, config.packing, config.group, number)
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

    /// All KV tiles, last to first. The queries are given back before the last values are used.
    fn accumulate(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        block: &Block,
        q: &Slot<Consumer>,
        queries: Reg<u64>,
    ) {
        let any = open.range.any(b);
        b.if_else(
            any,
            |b| {
                let view = self.all_scores(b, open, block, queries);
                q.release_if(b, self.lead);
                self.last_output(b, &view);
            },
            |b| q.release_if(b, self.lead),
        );
    }

    /// Everything but the output of the first KV tile, which is the last one visited.
    fn all_scores(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        block: &Block,
        queries: Reg<u64>,
    ) -> View {
        let range = open.range;
        let n = range.end.before(b, 1);
        let last_token = block.last_token(b);
        let clear = open.bounds.clear_tiles(b, range, block.token, last_token);
        let windows = self.scores.windows(b, open, block);
        let params = &self.frame.params;
        let biases = params
            .keys()
            .attn_mask
            .map(|mask| self.scores.mask_rows(b, &mask, &params.tiling, open, block));
        let keys = self.k.take(b);
        self.frame.await_rows(b, &keys);
        let pending = self.frame.config.shared_kv.then(|| keys.copy(b));
        let view = View { windows, biases, queries, keys, pending, range };
        self.first_scores(b, &view, n);
        let visible = &params.keys().visible;
        range.descend(b, n, clear, visible, |b, masked| self.step(b, &view, n, masked));
        view
    }

    /// The first tile has nothing to overlap with.
    fn first_scores(&self, b: &mut Builder, view: &View, n: KvTile) {
        self.issue_scores(b, view);
        b.wgmma_wait(0);
        if !self.frame.config.shared_kv {
            view.keys.release_if(b, self.lead);
        }
        let softmax = &self.frame.params.softmax;
        self.scores.first_softmax(b, softmax, &self.tile(view, n, true));
        self.await_keys(b, view, n);
        self.scores.round(b);
    }

    /// Waits for the keys of tile `n - 1`, if there is one.
    ///
    /// Called between the exponentials and the wait for `P·V`: the branch also keeps the assembler
    /// from sinking the exponentials behind that wait, where they would overlap nothing.
    fn await_keys(&self, b: &mut Builder, view: &View, n: KvTile) {
        let more = view.range.has_before(b, n);
        let more = self.scores.once_added_up(b, more);
        b.if_(more, |b| {
            let next = self.k.take(b);
            self.frame.await_rows(b, &next);
            view.keys.assign(b, &next);
        });
    }

    /// Scores of tile `n` and output of tile `n + 1` run on the tensor cores together; the softmax of
    /// tile `n` overlaps the latter.
    fn step(&self, b: &mut Builder, view: &View, n: KvTile, masked: bool) {
        let early = self.frame.config.rescales_early();
        if let Some(turns) = &self.turns {
            turns.wait(b);
        }
        self.issue_scores(b, view);
        if early {
            self.rescale_out(b);
        }
        let values = self.take_values(b, view);
        if early {
            b.wgmma_fence();
        }
        self.issue_output(b, &values);
        if let Some(turns) = &self.turns {
            turns.pass(b);
        }
        b.wgmma_wait(1);
        match &view.pending {
            Some(pending) => pending.assign(b, &view.keys),
            None => view.keys.release_if(b, self.lead),
        }
        self.scores.softmax(b, &self.frame.params.softmax, &self.tile(view, n, masked));
        self.await_keys(b, view, n);
        b.wgmma_wait(0);
        values.release_if(b, self.lead);
        if !early {
            self.rescale_out(b);
        }
        self.scores.round(b);
    }

    /// Tile `n`, of which all keys are seen, unless they are `masked`.
    fn tile<'a>(&'a self, view: &'a View, n: KvTile, masked: bool) -> SeenTile<'a> {
        let seen = match masked {
            _ if self.frame.config.listed => Seen::Marked(&self.marks),
            true => Seen::Within(&view.windows, n),
            false => Seen::All,
        };
        SeenTile { seen, biases: view.biases.as_ref().map(|rows| (rows, n)) }
    }

    fn last_output(&self, b: &mut Builder, view: &View) {
        if self.frame.config.rescales_early() {
            self.rescale_out(b);
        }
        let values = self.take_values(b, view);
        b.wgmma_fence();
        self.issue_output(b, &values);
        b.wgmma_wait(0);
        values.release_if(b, self.lead);
    }

    fn take_values(&self, b: &mut Builder, view: &View) -> Slot<Consumer> {
        if let Some(pending) = view.pending {
            return pending.copy(b);
        }
        let values = self.v.take(b);
        self.frame.await_rows(b, &values);
        values
    }

    /// `S = Q·Kᵀ`, one commit group.
    fn issue_scores(&self, b: &mut Builder, view: &View) {
        let config = &self.frame.config;
        let (q_operand, k_operand) = (config.queries().k_major(), config.keys().k_major());
        let keys = view.keys.tile(b, self.frame.shared.k);
        let k = k_operand.at(b, keys.at());
        if let Some(marks) = &self.frame.shared.marks {
            marks.read(b, self.scores.thread, view.keys.stage(), &self.marks);
        }
        b.wgmma_fence();
        for step in 0..config.key_dim.div_ceil(16) {
            let q_step = q_operand.step(b, view.queries, step);
            let k_step = k_operand.step(b, k, step);
            let accumulate = if step == 0 { self.no } else { self.yes };
            let q = WgmmaA::Shared(q_step, false);
            b.wgmma(config.half, &self.scores.scores, &q, k_step, false, accumulate);
        }
        b.wgmma_commit();
    }

    /// `O += P·V`, one commit group, behind a fence of the registers it reads.
    fn issue_output(&self, b: &mut Builder, values: &Slot<Consumer>) {
        let config = &self.frame.config;
        let v_operand = config.values().mn_major();
        let values = values.tile(b, self.frame.shared.v);
        let v = v_operand.at(b, values.at());
        for (step, p) in self.scores.probabilities.chunks_exact(4).enumerate() {
            let v_step = v_operand.step(b, v, step as u32);
            let p = WgmmaA::Registers([p[0], p[1], p[2], p[3]]);
            b.wgmma(config.half, &self.out, &p, v_step, true, self.yes);
        }
        b.wgmma_commit();
    }

    fn rescale_out(&self, b: &mut Builder) {
        fragment::rescale_rows(b, &self.out, self.scores.rescale);
    }
}

//! A consumer warpgroup: scores, softmax, output accumulation for 64 rows.

use super::config::ROWS;
use super::epilogue;
use super::kernel::Frame;
use super::tile::{TileShape, advance};
use crate::rows::Block;
use crate::softmax::RowState;
use crate::task::OpenTile;
use crate::visible::RowWindow;
use ptx::build::{Builder, Cmp, Consumer, Cursor, Reg, Slot, SmemPtr, WgmmaA};

/// First named barrier of the turns; barrier 0 is the CTA's.
const TURN_BARRIER: u32 = 1;

/// Registers and cursors of one consumer warpgroup.
pub struct Warpgroup<'f> {
    pub frame: &'f Frame,
    /// Number among the consumers.
    pub number: Reg<u32>,
    /// Thread within the warpgroup.
    pub thread: Reg<u32>,
    /// True in one thread per warp.
    lead: Reg<bool>,
    q: Cursor<Consumer>,
    k: Cursor<Consumer>,
    v: Cursor<Consumer>,
    /// Scores, then probabilities: `tile / 2` per thread.
    scores: Vec<Reg<f32>>,
    /// Probabilities rounded to 16 bits, as A fragments.
    probabilities: Vec<Reg<u32>>,
    /// Output: `value dim / 2` per thread.
    pub out: Vec<Reg<f32>>,
    /// The two rows of a thread, 8 apart.
    pub rows: [RowState; 2],
    /// Factors on `out` that are due before the next accumulation, where rescaling is early.
    rescale: [Reg<f32>; 2],
    yes: Reg<bool>,
    no: Reg<bool>,
}

/// The rows of a warpgroup within a tile.
struct View {
    windows: [RowWindow; 2],
    queries: Reg<u64>,
    /// First tile of keys.
    begin: Reg<i32>,
    /// The keys the next scores are computed from, already waited for.
    keys: Slot<Consumer>,
    /// The keys whose values the next accumulation reads, where they share a buffer.
    pending: Option<Slot<Consumer>>,
}

/// Emits the consumer warpgroup of number `number`.
pub fn emit(b: &mut Builder, frame: &Frame, number: Reg<u32>) {
    b.grow_registers(frame.config.registers().1);
    let warpgroup = Warpgroup::new(b, frame, number);
    warpgroup.start_turns(b);
    frame.params.for_each_tile(b, |b, open| warpgroup.run_tile(b, &open));
    warpgroup.end_turns(b);
}

/// The column of accumulator register `i`, relative to the thread's first column.
fn column(i: usize) -> u32 {
    (8 * (i / 4) + i % 2) as u32
}

/// Accumulator registers of row `half` (0, or 1 for the row 8 further down).
pub fn of_row(registers: &[Reg<f32>], half: usize) -> Vec<Reg<f32>> {
    registers.iter().enumerate().filter(|(i, _)| (i / 2) % 2 == half).map(|(_, r)| *r).collect()
}

impl<'f> Warpgroup<'f> {
    fn new(b: &mut Builder, frame: &'f Frame, number: Reg<u32>) -> Self {
        let config = &frame.config;
        let thread = b.thread();
        let thread = b.and(thread, 127);
        let lane = b.and(thread, 31);
        Warpgroup {
            frame,
            number,
            thread,
            lead: b.setp(Cmp::Eq, lane, 0),
            q: frame.shared.q_ring.consumer(b),
            k: frame.shared.k_ring.consumer(b),
            v: frame.shared.v_ring.consumer(b),
            scores: b.regs(config.tile as usize / 2),
            probabilities: b.regs(config.tile as usize / 4),
            out: b.regs(config.value_dim as usize / 2),
            rows: [RowState::new(b), RowState::new(b)],
            rescale: [b.value(1.0), b.value(1.0)],
            yes: b.predicate(true),
            no: b.predicate(false),
        }
    }

    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        self.clear(b);
        let q = self.q.take(b);
        q.wait(b);
        let shape = config.queries();
        let queries = q.buffer(b, self.frame.shared.q, config.warpgroups * shape.bytes());
        let own = b.mul(self.number, shape.bytes());
        let queries = b.smem_add(queries, own);
        let number = b.add(open.first_block, self.number);
        let block = Block::at(b, config.packing, config.group, number);
        self.accumulate(b, open, &block, queries);
        epilogue::emit(b, self, open, &block, queries);
        b.fence_proxy_async();
        b.warp_sync();
        q.release_if(b, self.lead);
    }

    fn clear(&self, b: &mut Builder) {
        for row in &self.rows {
            row.reset(b);
        }
        for &register in &self.out {
            b.assign(register, 0.0);
        }
        for &factor in &self.rescale {
            b.assign(factor, 1.0);
        }
    }

    /// The row of this thread with the lower number.
    pub fn first_row(&self, b: &mut Builder) -> Reg<u32> {
        let warp = b.shr(self.thread, 5);
        let lane = b.and(self.thread, 31);
        let row = b.shr(lane, 2);
        b.mad(warp, 16, row)
    }

    /// All tiles of keys, last to first.
    fn accumulate(&self, b: &mut Builder, open: &OpenTile, block: &Block, queries: SmemPtr) {
        let range = open.range;
        let n = b.sub(range.end, 1);
        let any = b.setp(Cmp::Ge, n, range.begin);
        b.if_(any, |b| {
            let last_token = block.last_token(b);
            let clear = open.bounds.clear_tiles(b, range, block.token, last_token);
            let row = self.first_row(b);
            let windows = [0, 8].map(|offset| {
                let row = b.add(row, offset);
                let (token, _) = block.query(b, row);
                RowWindow::of(b, &open.bounds, token)
            });
            let queries = self.frame.config.queries().k_major(b, queries);
            let keys = self.k.take(b);
            keys.wait(b);
            let pending = self.frame.config.shared_kv.then(|| keys.copy(b));
            let view = View { windows, queries, keys, pending, begin: range.begin };
            self.first_scores(b, &view, n);
            self.steps(b, &view, n, clear.end, true);
            self.steps(b, &view, n, clear.begin, false);
            if self.frame.params.visible.has_left() {
                self.steps(b, &view, n, range.begin, true);
            }
            self.last_output(b, &view);
        });
    }

    /// The first tile has nothing to overlap with.
    fn first_scores(&self, b: &mut Builder, view: &View, n: Reg<i32>) {
        self.issue_scores(b, view);
        b.wgmma_wait(0);
        if !self.frame.config.shared_kv {
            view.keys.release_if(b, self.lead);
        }
        self.softmax(b, view, n, true);
        self.await_keys(b, view, n);
        self.round(b);
    }

    /// Waits for the keys of tile `n - 1`, if there is one.
    ///
    /// Called between the exponentials and the wait for `P·V`: the branch also keeps the assembler
    /// from sinking the exponentials behind that wait, where they would overlap nothing.
    fn await_keys(&self, b: &mut Builder, view: &View, n: Reg<i32>) {
        let more = b.setp(Cmp::Gt, n, view.begin);
        b.if_(more, |b| {
            let next = self.k.take(b);
            next.wait(b);
            view.keys.assign(b, &next);
        });
    }

    /// Tiles from `n - 1` down to `end`; `n` keeps count.
    fn steps(&self, b: &mut Builder, view: &View, n: Reg<i32>, end: Reg<i32>, masked: bool) {
        b.while_(
            |b| b.setp(Cmp::Gt, n, end),
            |b| {
                let next = b.sub(n, 1);
                b.assign(n, next);
                self.step(b, view, n, masked);
            },
        );
    }

    /// Scores of tile `n` and output of tile `n + 1` run on the tensor cores together; the softmax of
    /// tile `n` overlaps the latter.
    fn step(&self, b: &mut Builder, view: &View, n: Reg<i32>, masked: bool) {
        let early = self.frame.config.rescales_early();
        self.wait_turn(b);
        self.issue_scores(b, view);
        if early {
            self.rescale_out(b);
        }
        let values = self.take_values(b, view);
        self.issue_output(b, &values);
        self.pass_turn(b);
        b.wgmma_wait(1);
        match &view.pending {
            Some(pending) => pending.assign(b, &view.keys),
            None => view.keys.release_if(b, self.lead),
        }
        self.softmax(b, view, n, masked);
        self.await_keys(b, view, n);
        b.wgmma_wait(0);
        values.release_if(b, self.lead);
        if !early {
            self.rescale_out(b);
        }
        self.round(b);
    }

    fn last_output(&self, b: &mut Builder, view: &View) {
        if self.frame.config.rescales_early() {
            self.rescale_out(b);
        }
        let values = self.take_values(b, view);
        self.issue_output(b, &values);
        b.wgmma_wait(0);
        values.release_if(b, self.lead);
    }

    fn take_values(&self, b: &mut Builder, view: &View) -> Slot<Consumer> {
        if let Some(pending) = view.pending {
            return pending.copy(b);
        }
        let values = self.v.take(b);
        values.wait(b);
        values
    }

    /// `S = Q·Kᵀ`, one commit group.
    fn issue_scores(&self, b: &mut Builder, view: &View) {
        let config = &self.frame.config;
        let (left, right) = (config.queries(), config.keys());
        let at = view.keys.buffer(b, self.frame.shared.k, right.bytes());
        let k = right.k_major(b, at);
        b.wgmma_fence();
        for step in 0..config.key_dim.div_ceil(16) {
            let q_step = advance(b, view.queries, left.k_step(step));
            let k_step = advance(b, k, right.k_step(step));
            let accumulate = if step == 0 { self.no } else { self.yes };
            let q = WgmmaA::Shared(q_step, false);
            b.wgmma(config.half, &self.scores, &q, k_step, false, accumulate);
        }
        b.wgmma_commit();
    }

    /// `O += P·V`, one commit group.
    fn issue_output(&self, b: &mut Builder, values: &Slot<Consumer>) {
        let config = &self.frame.config;
        let shape: TileShape = config.values();
        let ring = if config.shared_kv { self.frame.shared.k } else { self.frame.shared.v };
        let at = values.buffer(b, ring, shape.bytes());
        let v = shape.mn_major(b, at);
        b.wgmma_fence();
        for (step, p) in self.probabilities.chunks_exact(4).enumerate() {
            let v_step = advance(b, v, shape.row_step(step as u32));
            let p = WgmmaA::Registers([p[0], p[1], p[2], p[3]]);
            b.wgmma(config.half, &self.out, &p, v_step, true, self.yes);
        }
        b.wgmma_commit();
    }

    fn softmax(&self, b: &mut Builder, view: &View, n: Reg<i32>, masked: bool) {
        let softmax = &self.frame.params.softmax;
        softmax.cap(b, &self.scores);
        let columns: Vec<u32> =
            (0..self.scores.len()).filter(|i| (i / 2) % 2 == 0).map(column).collect();
        let origin = masked.then(|| self.first_column(b, n));
        for half in 0..2 {
            let scores = of_row(&self.scores, half);
            if let Some(origin) = origin {
                view.windows[half].relative_to(b, origin).apply(b, &scores, &columns);
            }
            let factor = softmax.step(b, &self.rows[half], &scores, masked, |b, x| {
                let y = b.shuffle_xor(x, 1);
                let x = b.max(x, y);
                let y = b.shuffle_xor(x, 2);
                b.max(x, y)
            });
            b.assign(self.rescale[half], factor);
        }
    }

    /// Key of this thread's first column in tile `n`.
    fn first_column(&self, b: &mut Builder, n: Reg<i32>) -> Reg<i32> {
        let quad = b.and(self.thread, 3);
        let pair = b.shl(quad, 1).reinterpret::<i32>();
        b.mad(n, self.frame.config.tile as i32, pair)
    }

    fn rescale_out(&self, b: &mut Builder) {
        for (i, &register) in self.out.iter().enumerate() {
            b.scale(register, self.rescale[(i / 2) % 2]);
        }
    }

    /// Rounds probabilities to 16 bits: accumulator registers 2i, 2i+1 are A register i.
    fn round(&self, b: &mut Builder) {
        for (pair, &packed) in self.scores.chunks_exact(2).zip(&self.probabilities) {
            let rounded = b.pack(self.frame.config.half, pair[0], pair[1]);
            b.assign(packed, rounded);
        }
    }

    /// The last warpgroup lets the first one begin.
    fn start_turns(&self, b: &mut Builder) {
        if !self.frame.config.takes_turns() {
            return;
        }
        let last = b.setp(Cmp::Eq, self.number, self.frame.config.warpgroups - 1);
        b.if_(last, |b| b.barrier_arrive(TURN_BARRIER, 2 * 128));
    }

    fn wait_turn(&self, b: &mut Builder) {
        if self.frame.config.takes_turns() {
            let own = b.add(self.number, TURN_BARRIER);
            b.barrier_sync(own, 2 * 128);
        }
    }

    fn pass_turn(&self, b: &mut Builder) {
        let warpgroups = self.frame.config.warpgroups;
        if self.frame.config.takes_turns() {
            let next = b.add(self.number, 1);
            let wraps = b.setp(Cmp::Eq, next, warpgroups);
            let next = b.select::<u32>(wraps, 0, next);
            let barrier = b.add(next, TURN_BARRIER);
            b.barrier_arrive(barrier, 2 * 128);
        }
    }

    /// The turn that was passed to the first warpgroup at the end is taken, so that every arrival
    /// meets its wait.
    fn end_turns(&self, b: &mut Builder) {
        if !self.frame.config.takes_turns() {
            return;
        }
        let first = b.setp(Cmp::Eq, self.number, 0);
        b.if_(first, |b| b.barrier_sync(TURN_BARRIER, 2 * 128));
    }

    /// Panels of the output.
    pub fn out_shape(&self) -> TileShape {
        TileShape::new(ROWS, self.frame.config.value_dim)
    }
}

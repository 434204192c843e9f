//! A warp: scores, softmax and output of its rows; and its part in the copies.

use super::config::{Behind, QueryPlace};
use super::copies::{Columns as CopiedColumns, Copier, Count};
use super::kernel::Frame;
use super::matrices::{Matrices, Order, Places, STEP};
use super::ring::Ring;
use super::single::{self, QueryRows, RowPairs};
use crate::call::index::{KvTile, SliceIndex};
use crate::call::precision::Precision;
use crate::call::rows::Block;
use crate::call::task::OpenTile;
use crate::call::tensors::CHUNK;
use crate::hopper::epilogue::{self, Columns};
use crate::hopper::fragment;
use crate::hopper::scores::{MaskRows, Scores, Seen, SeenTile};
use crate::math::exact::Watch;
use crate::moves::output::BlockOutput;
use ptx::build::{Builder, Cmp, HalfType, Reg, SmemPtr};
use std::ops::Range;

/// Rows of a fragment.
const ROWS: u32 = 16;

/// A warp's registers.
pub struct Warp<'f> {
    pub frame: &'f Frame,
    copier: Copier,
    pub fragments: Vec<Fragment>,
    /// Bytes from the first queries in shared memory to the warp's.
    queries: Reg<u32>,
    /// Number of the warp's first row block, where there are more warps than one block has.
    first_block: Option<Reg<u32>>,
    /// Which half of the columns the warp has, where two share rows.
    pub half: Option<Reg<u32>>,
    /// Whether the warp has rows, where some have none.
    live: Option<Reg<bool>>,
    keys: Matrices,
    values: ValuePlaces,
    stage: Option<Reg<u32>>,
    pub watch: Watch,
}

/// Where a lane's values of a tile are.
enum ValuePlaces {
    Half(Matrices),
    Single(RowPairs),
}

/// 16 rows.
pub struct Fragment {
    pub scores: Scores,
    /// Output: a register per two columns of a row.
    pub out: Vec<Reg<f32>>,
    /// The queries of the first warp, in shared memory, where they are read more than once for a work tile.
    queries: Option<Matrices>,
    /// Queries, where they stay in registers.
    held: Vec<[Reg<u32>; 4]>,
}

/// What a fragment's rows are.
pub struct View {
    block: Block,
    /// What is added to scores.
    biases: Option<MaskRows>,
    /// Queries in memory, where they are read from there.
    pub queries: Option<QueryRows>,
}

/// Emits the warps.
pub fn emit(b: &mut Builder, frame: &Frame) {
    let warp = Warp::new(b, frame);
    if let (Some(parked), ValuePlaces::Half(values)) = (&frame.parked, &warp.values) {
        parked.leave_lanes(b, [warp.keys.first(), values.first()]);
    }
    frame.params.for_each_tile(b, |b, open| warp.run_tile(b, &open));
    warp.watch.revisit(b, &frame.params, |b, open| warp.run_tile_again(b, &open));
}

impl<'f> Warp<'f> {
    fn new(b: &mut Builder, frame: &'f Frame) -> Self {
        let config = &frame.config;
        let thread = b.thread();
        let of_block = b.eval(thread % 128);
        let row = b.eval(of_block / 32 * ROWS);
        let four = b.eval(thread / 128);
        let half = (config.shape.halves > 1).then_some(four);
        let apart = config.shape.warps > 4 && half.is_none();
        let first_block = apart.then(|| b.eval(four * config.shape.fragments));
        let mut queries = Self::first_queries(b, frame, thread, row);
        if let Some(first) = first_block {
            queries = b.eval(first * config.queries().bytes() + queries);
        }
        let fragments =
            (0..config.shape.fragments).map(|n| Fragment::new(b, frame, of_block, n)).collect();
        let toggles = config.parks();
        Warp {
            frame,
            copier: Copier::new(b, config.threads()),
            fragments,
            queries,
            first_block,
            half,
            live: config.has_idle_warps().then(|| b.setp(Cmp::Lt, row, config.rows)),
            keys: Matrices::new(b, frame.k.tile(0), Order::Rows).toggled(toggles),
            values: match config.precision {
                Precision::Half(_) => {
                    let values = Matrices::new(b, frame.v.tile(0), Order::Columns);
                    ValuePlaces::Half(values.toggled(toggles))
                }
                Precision::Single => ValuePlaces::Single(RowPairs::new(b, frame.v.tile(0))),
            },
            stage: (config.stages > 1).then(|| b.value(0)),
            watch: frame.params.watch(b),
        }
    }

    /// Bytes from a block's first queries in shared memory to those of the warp, whose first row is `row`.
    fn first_queries(b: &mut Builder, frame: &Frame, thread: Reg<u32>, row: Reg<u32>) -> Reg<u32> {
        let config = &frame.config;
        let row = match config.parks() && config.has_idle_warps() {
            // `row` also says whether the warp has rows. `ptxas` keeps what both are found from, and spills it for
            // sm_90, unless they are found in different ways.
            true => b.eval((thread & (128 - 32)) / (32 / ROWS)),
            false => row,
        };
        Matrices::bytes_to(b, frame.k.tile(0), row)
    }

    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let views = self.views(b, 0, open);
        if let Some(parked) = &self.frame.parked {
            parked.leave(b, &open.tile);
        }
        self.fragments.iter().for_each(|fragment| fragment.reset(b));
        self.frame.params.for_each_segment(b, open, |b, segment, open| {
            let any = open.range.any(b);
            b.if_(any, |b| match segment {
                0 => self.accumulate(b, segment, open, &views),
                _ => {
                    let views = self.views(b, segment, open);
                    self.accumulate(b, segment, open, &views);
                }
            });
        });
        if let Some(parked) = &self.frame.parked {
            let tile = parked.take(b, &open.tile);
            let sequence = self.frame.params.keys().lengths.sequence(b, tile.sequence);
            let open = self.frame.params.open_work_tile(b, sequence, tile);
            for (n, fragment) in (0..).zip(&self.fragments) {
                let block = self.block(b, &open, n);
                self.finish_block(b, fragment, &open, &block);
            }
            return;
        }
        for (fragment, view) in self.fragments.iter().zip(&views) {
            self.finish_block(b, fragment, open, &view.block);
        }
    }

    fn run_tile_again(&self, b: &mut Builder, open: &OpenTile) {
        self.frame.params.load_descale(b, open);
        for (n, fragment) in (0..).zip(&self.fragments) {
            let block = self.block(b, open, n);
            let output = BlockOutput { params: &self.frame.params, open, block: &block };
            let thread = fragment.scores.thread;
            self.for_each_part(b, open, |b, first, count| {
                epilogue::write_again(b, thread, &output, first, count);
            });
        }
    }

    /// Runs `body` if the warp has rows.
    fn if_live(&self, b: &mut Builder, body: impl FnOnce(&mut Builder)) {
        match self.live {
            None => body(b),
            Some(live) => b.if_(live, body),
        }
    }

    /// The row block of fragment `n`.
    fn block(&self, b: &mut Builder, open: &OpenTile, n: u32) -> Block {
        let config = &self.frame.config;
        let mut number = open.first_block.plus(b, n);
        if let Some(first) = self.first_block {
            number = number.plus(b, first);
        }
        Block::at(b, config.packing, config.group, number)
    }

    fn views(&self, b: &mut Builder, segment: usize, open: &OpenTile) -> Vec<View> {
        let params = &self.frame.params;
        let mut views = Vec::new();
        for (n, Fragment { scores, .. }) in (0..).zip(&self.fragments) {
            let block = self.block(b, open, n);
            let biases = params.segments[segment].attn_mask;
            let biases =
                biases.map(|mask| scores.mask_rows(b, &mask, &params.tiling, open, &block));
            let output = BlockOutput { params, open, block: &block };
            let reads = self.frame.config.query_place == QueryPlace::Memory;
            let queries = reads.then(|| QueryRows::new(b, scores.thread, &output));
            views.push(View { block, biases, queries });
        }
        views
    }

    fn finish_block(&self, b: &mut Builder, fragment: &Fragment, open: &OpenTile, block: &Block) {
        let output = BlockOutput { params: &self.frame.params, open, block };
        self.if_live(b, |b| self.finish(b, fragment, &output));
    }

    fn finish(&self, b: &mut Builder, fragment: &Fragment, output: &BlockOutput<'_>) {
        let (thread, totals) = (fragment.scores.thread, fragment.scores.totals(b));
        let writes_lse = self.half.is_none();
        let factors = epilogue::finish_rows(b, thread, totals, output, writes_lse);
        if let Some(half) = self.half {
            let first = b.setp(Cmp::Eq, half, 0);
            b.if_(first, |b| {
                epilogue::finish_rows(b, thread, totals, output, true);
            });
        }
        self.for_each_part(b, output.open, |b, first, count| {
            let (watch, out) = (self.watch, &fragment.out[..]);
            match self.frame.config.precision {
                Precision::Half(half) => {
                    let out = &out[..count as usize / 2];
                    Columns { thread, out, first, half, watch }.write(b, output, factors);
                }
                Precision::Single => {
                    let out = &out[..count.next_multiple_of(single::PANEL) as usize / 2];
                    single::Columns { thread, out, first, count, watch }.write(b, output, factors);
                }
            }
        });
    }

    /// Which part of the value columns the warp has, where they are shared out.
    fn part(&self, b: &mut Builder, open: &OpenTile) -> Option<Reg<u32>> {
        match (open.slice.map(SliceIndex::reg), self.half) {
            (Some(slice), Some(half)) => {
                Some(b.eval(slice * self.frame.config.shape.halves + half))
            }
            (slice, half) => slice.or(half),
        }
    }

    /// Runs `body` with the first one of the output columns that the warp has, and their number.
    fn for_each_part(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        body: impl Fn(&mut Builder, u32, u32),
    ) {
        let config = &self.frame.config;
        let part = self.part(b, open);
        for n in 0..config.parts() {
            let first = n * config.columns();
            let count = config.columns().min(config.value_dim.saturating_sub(first));
            if count == 0 {
                continue;
            }
            match part {
                None => body(b, first, count),
                Some(part) => {
                    let this = b.setp(Cmp::Eq, part, n);
                    b.if_(this, |b| body(b, first, count));
                }
            }
        }
    }

    /// All KV tiles of a segment, last to first.
    fn accumulate(&self, b: &mut Builder, segment: usize, open: &OpenTile, views: &[View]) {
        let config = &self.frame.config;
        let ring = match config.query_place {
            QueryPlace::Passed(behind) => self.pass_queries(b, (segment, open), behind),
            QueryPlace::Tiles | QueryPlace::Memory => self.begin(b, (segment, open)),
        };
        let first = Block::at(b, config.packing, config.group, open.first_block);
        let last_block = open.first_block.plus(b, config.blocks() - 1);
        let last_token = Block::at(b, config.packing, config.group, last_block).last_token(b);
        let clear = open.bounds.clear_tiles(b, open.range, first.token, last_token);
        let n = KvTile::new(b.value(open.range.end.reg()));
        let visible = &self.frame.params.segments[segment].visible;
        open.range.descend(b, n, clear, visible, |b, masked| {
            self.step(b, &ring, (open, views), n, masked);
        });
    }

    /// Starts the copies of queries and of the first tiles.
    #[track_caller]
    fn begin<'a>(&'a self, b: &mut Builder, (segment, open): (usize, &'a OpenTile)) -> Ring<'a> {
        if self.frame.config.waits_for_queries() {
            b.barrier_all();
        }
        self.copy_queries(b, open, &self.copier);
        b.cp_async_commit();
        self.frame.params.load_descale(b, open);
        let ring = Ring::new(b, self.frame, (segment, open), self.copier, self.stage);
        let last = open.range.end.before(b, 1);
        ring.fill(b, last);
        if self.frame.config.holds_queries() {
            b.cp_async_wait(ring.groups());
            b.barrier_all();
            self.hold_queries(b);
        }
        ring
    }

    /// Brings queries to registers through the ring, and the first tiles behind them.
    #[track_caller]
    fn pass_queries<'a>(
        &'a self,
        b: &mut Builder,
        (segment, open): (usize, &'a OpenTile),
        behind: Behind,
    ) -> Ring<'a> {
        // Found anew for each work tile: registers are short.
        let copier = Copier::new(b, self.frame.config.threads());
        let ring = Ring::new(b, self.frame, (segment, open), copier, self.stage);
        if let Some(stage) = self.stage {
            b.assign(stage, 0);
        }
        // Warps may still read the last values of the work tile before.
        b.barrier_all();
        self.copy_queries(b, open, &copier);
        let last = open.range.end.before(b, 1);
        ring.fill_first(b, last, behind);
        b.cp_async_wait(if behind == Behind::FirstTile { 1 } else { 0 });
        b.barrier_all();
        self.hold_queries(b);
        ring.fill_behind(b, last, behind);
        ring
    }

    /// Loads the queries to registers, where they stay.
    #[track_caller]
    fn hold_queries(&self, b: &mut Builder) {
        let config = &self.frame.config;
        let panel = config.queries().bytes() / config.queries().chunks;
        let (mut offset, mut both) = (self.queries, config.query_steps());
        if let Some(half) = self.half {
            offset = b.eval(half * (config.key_panels() * panel) + offset);
            both = config.steps_of_both();
        }
        for (n, fragment) in (0..).zip(&self.fragments) {
            let queries = match &fragment.queries {
                Some(queries) => queries.further(b, offset),
                None => Matrices::new(b, self.frame.q.tile(n), Order::Columns).further(b, offset),
            };
            fragment.hold(b, &queries, 0..both);
            if both < config.query_steps() {
                let rest = both..config.query_steps();
                self.if_first_half(b, |b| fragment.hold(b, &queries, rest));
            }
        }
    }

    /// Runs `body` in the warps of the first half of the columns.
    #[track_caller]
    fn if_first_half(&self, b: &mut Builder, body: impl FnOnce(&mut Builder)) {
        let half = self.half.expect("two warps that share rows");
        let first = b.setp(Cmp::Eq, half, 0);
        b.if_(first, body);
    }

    /// Copies the queries of all blocks.
    fn copy_queries(&self, b: &mut Builder, open: &OpenTile, copier: &Copier) {
        let (config, params) = (&self.frame.config, &self.frame.params);
        let count = Count::Fixed(config.units(config.key_dim));
        let columns = CopiedColumns { panels: config.queries().chunks, count };
        for number in 0..config.query_tiles() {
            let tile = self.frame.q.tile(number);
            let to = copier.to(b, tile);
            let number = open.first_block.plus(b, number);
            let block = Block::at(b, config.packing, config.group, number);
            let output = BlockOutput { params, open, block: &block };
            for turn in 0..copier.turns(super::ROWS) {
                let row = b.eval(copier.row + turn * copier.rows());
                let place = output.place(b, row);
                let at = [open.sequence.q_batch.reg(), place.head.reg(), place.token.reg()];
                let at = at.map(|number| b.select::<u32>(place.live, number, 0));
                let from = params.exact_queries.row(b, at);
                let from = copier.from(b, from);
                let to = copier.in_turn(tile, to, turn);
                copier.copy(b, place.live, from, (tile, to), &columns);
            }
        }
    }

    /// Tile `n`, of which all keys are seen unless they are `masked`.
    fn step(
        &self,
        b: &mut Builder,
        ring: &Ring<'_>,
        (open, views): (&OpenTile, &[View]),
        n: KvTile,
        masked: bool,
    ) {
        let config = &self.frame.config;
        let passed = config.passes_queries();
        if passed {
            ring.await_tile(b, n);
        } else {
            ring.await_keys(b, n);
        }
        self.if_live(b, |b| {
            self.score(b, views);
            self.give_scores(b);
        });
        let marks = ring.marks(b);
        if !passed {
            ring.await_values(b, n);
        }
        if self.half.is_some() && (passed || config.shared_kv) {
            self.await_scores(b);
        }
        self.if_live(b, |b| {
            self.take_scores(b);
            for (fragment, view) in self.fragments.iter().zip(views) {
                // Found anew for each tile: few are masked, and registers are short.
                let windows = masked.then(|| fragment.scores.windows(b, open, &view.block));
                let seen = match (&marks, &windows) {
                    (Some(words), _) => Seen::Marked(words),
                    (None, Some(windows)) => Seen::Within(windows, n),
                    (None, None) => Seen::All,
                };
                let biases = view.biases.as_ref().map(|rows| (rows, n));
                fragment.softmax(b, self.frame, &SeenTile { seen, biases });
            }
            self.add_output(b, open);
        });
        ring.advance(b);
    }

    /// The same places of the tile in work.
    #[track_caller]
    fn of_stage<P: Places>(&self, b: &mut Builder, first: &P, bytes: u32) -> P {
        match self.stage.filter(|_| self.frame.config.tiles() > 1) {
            None => first.clone(),
            Some(stage) => {
                let bytes = b.eval(stage * bytes);
                first.further(b, bytes)
            }
        }
    }

    /// Where the lane's keys, or values, of the first buffer are: in shared memory, where registers are short.
    #[track_caller]
    fn parked(&self, b: &mut Builder, which: usize, places: &Matrices) -> Matrices {
        match &self.frame.parked {
            None => places.clone(),
            Some(parked) => {
                let first = parked.lane(b, which, places.first());
                places.with_first(first)
            }
        }
    }

    /// `S = Q·Kᵀ`.
    fn score(&self, b: &mut Builder, views: &[View]) {
        let config = &self.frame.config;
        let keys = self.parked(b, 0, &self.keys);
        let keys = self.of_stage(b, &keys, self.frame.k.stride());
        for fragment in &self.fragments {
            fragment.scores.scores.iter().for_each(|score| b.assign(*score, 0.0));
        }
        let queries: Vec<_> = self.fragments.iter().map(|f| f.queries(b, self.queries)).collect();
        if config.precision == Precision::Single {
            return self.score_single(b, &keys, &queries, views);
        }
        let Some(half) = self.half else {
            let steps = 0..config.key_dim.div_ceil(STEP);
            return steps.for_each(|step| self.score_step(b, &keys, &queries, step));
        };
        let offsets = [config.queries(), config.keys()].map(|shape| shape.bytes() / shape.chunks);
        let [q, k] = offsets.map(|bytes| b.eval(half * (config.key_panels() * bytes)));
        let keys = keys.further(b, k);
        let queries: Vec<_> =
            queries.iter().map(|at| at.as_ref().map(|at| at.further(b, q))).collect();
        let both = config.steps_of_both();
        (0..both).for_each(|step| self.score_step(b, &keys, &queries, step));
        if both < config.query_steps() {
            let rest = both..config.query_steps();
            self.if_first_half(b, |b| {
                rest.for_each(|step| self.score_step(b, &keys, &queries, step));
            });
        }
    }

    /// Adds the products of 16 columns to the scores.
    fn score_step(
        &self,
        b: &mut Builder,
        keys: &Matrices,
        queries: &[Option<Matrices>],
        step: u32,
    ) {
        let config = &self.frame.config;
        let half = config.precision.half().expect("16-bit queries and keys");
        let sides = self.fragments.iter().zip(queries);
        let left: Vec<_> = sides.map(|(f, queries)| f.query(b, queries, step)).collect();
        for row in (0..config.shape.tile).step_by(STEP as usize) {
            let k = keys.load(b, row, step, false);
            for (n, k) in [[k[0], k[1]], [k[2], k[3]]].into_iter().enumerate() {
                for (fragment, q) in self.fragments.iter().zip(&left) {
                    let d = four(&fragment.scores.scores, row as usize / 8 + n);
                    b.mma_m16n8k16(half, &d, q, &k);
                }
            }
        }
    }

    /// Leaves what the warp has of its scores to the one with the same rows.
    fn give_scores(&self, b: &mut Builder) {
        let Some(exchange) = &self.frame.exchange else { return };
        let warp = b.warp().index();
        let at = self.exchanged(b, warp);
        for (n, scores) in self.fragments[0].scores.scores.chunks_exact(4).enumerate() {
            b.st_shared_vector(at.plus(exchange.offset(&[0, 0, n as u32])), scores);
        }
    }

    /// Waits for the warp with the same rows, and for no other.
    fn await_scores(&self, b: &mut Builder) {
        let warp = b.warp().index();
        let barrier = b.eval(warp % 4 + 1);
        b.barrier_sync(barrier, 64);
    }

    /// Adds what the warp with the same rows has of their scores.
    fn take_scores(&self, b: &mut Builder) {
        let Some(exchange) = &self.frame.exchange else { return };
        let warp = b.warp().index();
        let other = b.eval(warp ^ 4);
        let at = self.exchanged(b, other);
        for (n, scores) in self.fragments[0].scores.scores.chunks_exact(4).enumerate() {
            let others = b.ld_shared_vector::<f32>(at.plus(exchange.offset(&[0, 0, n as u32])), 4);
            for (&score, other) in scores.iter().zip(others) {
                let sum = b.add(score, other);
                b.assign(score, sum);
            }
        }
    }

    /// Where the lane's scores are that warp `warp` leaves.
    fn exchanged(&self, b: &mut Builder, warp: Reg<u32>) -> SmemPtr {
        let exchange = self.frame.exchange.as_ref().expect("two warps that share rows");
        let (zero, lane) = (b.value::<u32>(0), b.special("%laneid"));
        exchange.element(b, &[zero, lane, zero, warp])
    }

    /// `O += P·V`.
    fn add_output(&self, b: &mut Builder, open: &OpenTile) {
        let config = &self.frame.config;
        match (&self.values, config.precision) {
            (ValuePlaces::Half(values), Precision::Half(half)) => {
                let values = self.parked(b, 1, values);
                let values = self.in_work(b, open, &values);
                self.add_halves(b, half, &values);
            }
            (ValuePlaces::Single(values), _) => {
                let values = self.in_work(b, open, values);
                self.add_singles(b, &values);
            }
            (ValuePlaces::Half(_), Precision::Single) => panic!("values are where they are read"),
        }
    }

    /// Where the values of the tile in work are that the warp has accumulators for.
    #[track_caller]
    fn in_work<P: Places>(&self, b: &mut Builder, open: &OpenTile, first: &P) -> P {
        let config = &self.frame.config;
        let mut values = self.of_stage(b, first, self.frame.v.stride());
        // A CTA's own values are all that it copies, unless they are keys.
        let part = if config.shared_kv { self.part(b, open) } else { self.half };
        if let Some(part) = part {
            let bytes = config.units(config.columns()) / CHUNK * values.block_bytes();
            let offset = b.eval(part * bytes);
            values = values.further(b, offset);
        }
        values
    }

    /// `O += P·V` of 16-bit numbers.
    fn add_halves(&self, b: &mut Builder, half: HalfType, values: &Matrices) {
        let config = &self.frame.config;
        for (step, row) in (0..config.shape.tile).step_by(STEP as usize).enumerate() {
            for column in 0..config.columns().div_ceil(STEP) {
                let v = values.load(b, row, column, true);
                for (n, v) in [[v[0], v[1]], [v[2], v[3]]].into_iter().enumerate() {
                    let n = column as usize * 2 + n;
                    if n * 8 >= config.columns() as usize {
                        continue;
                    }
                    for fragment in &self.fragments {
                        let p = four(&fragment.scores.probabilities, step);
                        b.mma_m16n8k16(half, &four(&fragment.out, n), &p, &v);
                    }
                }
            }
        }
    }
}

/// Registers `4n` to `4n + 3`.
pub fn four<T: Copy>(registers: &[T], n: usize) -> [T; 4] {
    std::array::from_fn(|i| registers[4 * n + i])
}

impl Fragment {
    /// Fragment `n` of a warp; `thread` is its number among those of a row block.
    fn new(b: &mut Builder, frame: &Frame, thread: Reg<u32>, n: u32) -> Self {
        let config = &frame.config;
        let steps = if config.holds_queries() { config.query_steps() } else { 0 };
        Fragment {
            scores: Scores::rounded_to(b, thread, config.precision.half(), config.shape.tile)
                .without_shift(),
            out: b.regs(config.out_registers()),
            queries: (config.query_tiles() > 0 && !config.passes_queries())
                .then(|| Matrices::new(b, frame.q.tile(n), Order::Columns)),
            held: (0..steps).map(|_| std::array::from_fn(|_| b.reg())).collect(),
        }
    }

    fn reset(&self, b: &mut Builder) {
        self.scores.reset(b);
        self.out.iter().for_each(|register| b.assign(*register, 0.0));
    }

    /// Loads these steps of the queries to registers.
    fn hold(&self, b: &mut Builder, queries: &Matrices, steps: Range<u32>) {
        for step in steps {
            let loaded = queries.load(b, 0, step, false);
            let held = &self.held[step as usize];
            held.iter().zip(loaded).for_each(|(held, loaded)| b.assign(*held, loaded));
        }
    }

    /// Where the queries in shared memory are, the warp's being `offset` bytes from the first, unless they are in
    /// registers. Found anew
    /// for each tile: but for `offset` the lanes' addresses are those of keys and values.
    fn queries(&self, b: &mut Builder, offset: Reg<u32>) -> Option<Matrices> {
        let queries = self.queries.as_ref().filter(|_| self.held.is_empty())?;
        Some(queries.further(b, offset))
    }

    /// 16 columns of the queries.
    fn query(&self, b: &mut Builder, queries: &Option<Matrices>, step: u32) -> [Reg<u32>; 4] {
        match queries {
            Some(queries) => queries.load(b, 0, step, false),
            None => self.held[step as usize],
        }
    }

    /// Makes scores probabilities, and what was accumulated relative to what they are.
    fn softmax(&self, b: &mut Builder, frame: &Frame, keys: &SeenTile<'_>) {
        self.scores.softmax(b, &frame.params.softmax, keys);
        fragment::rescale_rows(b, &self.out, self.scores.rescale);
        self.scores.round(b);
    }
}

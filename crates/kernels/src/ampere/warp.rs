//! A warp: scores, softmax and output of its rows; and its part in the copies.

use super::copies::{Columns as CopiedColumns, Copier, Count};
use super::kernel::Frame;
use super::matrices::{Matrices, Order, STEP};
use super::ring::Ring;
use crate::call::index::KvTile;
use crate::call::rows::Block;
use crate::call::task::OpenTile;
use crate::hopper::epilogue::{self, Columns};
use crate::hopper::fragment;
use crate::hopper::scores::{MaskRows, Scores, Seen, SeenTile};
use crate::math::exact::Watch;
use crate::moves::output::BlockOutput;
use ptx::build::{Builder, Cmp, Reg};

/// Rows of a fragment.
const ROWS: u32 = 16;

/// A warp's registers.
struct Warp<'f> {
    frame: &'f Frame,
    copier: Copier,
    fragments: Vec<Fragment>,
    /// Bytes from the first queries in shared memory to the warp's.
    queries: Reg<u32>,
    /// Number of the warp's first row block, where there are more warps than one block has.
    first_block: Option<Reg<u32>>,
    /// Whether the warp has rows, where some have none.
    live: Option<Reg<bool>>,
    keys: Matrices,
    values: Matrices,
    stage: Option<Reg<u32>>,
    watch: Watch,
}

/// 16 rows.
struct Fragment {
    scores: Scores,
    /// Output: a register per two columns of a row.
    out: Vec<Reg<f32>>,
    /// The queries of the first warp.
    queries: Matrices,
    /// Queries, where they stay in registers.
    held: Vec<[Reg<u32>; 4]>,
}

/// What a fragment's rows are.
struct View {
    block: Block,
    /// What is added to scores.
    biases: Option<MaskRows>,
}

/// Emits the warps.
pub fn emit(b: &mut Builder, frame: &Frame) {
    let warp = Warp::new(b, frame);
    frame.params.for_each_tile(b, |b, open| warp.run_tile(b, &open));
    warp.watch.revisit(b, &frame.params, |b, open| warp.run_tile_again(b, &open));
}

impl<'f> Warp<'f> {
    fn new(b: &mut Builder, frame: &'f Frame) -> Self {
        let config = &frame.config;
        let thread = b.thread();
        let of_block = b.and(thread, 127);
        let row = b.shr(of_block, 5);
        let row = b.mul(row, ROWS);
        let first_block = (config.shape.warps > 4).then(|| {
            let four = b.shr(thread, 7);
            b.mul(four, config.shape.fragments)
        });
        let mut queries = Matrices::bytes_to(b, frame.q.tile(0), row);
        if let Some(first) = first_block {
            queries = b.mad(first, config.queries().bytes(), queries);
        }
        let fragments =
            (0..config.shape.fragments).map(|n| Fragment::new(b, frame, of_block, n)).collect();
        Warp {
            frame,
            copier: Copier::new(b, config.threads()),
            fragments,
            queries,
            first_block,
            live: config.has_idle_warps().then(|| b.setp(Cmp::Lt, row, config.packing.used())),
            keys: Matrices::new(b, frame.k.tile(0), Order::Rows),
            values: Matrices::new(b, frame.v.tile(0), Order::Columns),
            stage: (config.stages > 1).then(|| b.value(0)),
            watch: frame.params.watch(b),
        }
    }

    fn run_tile(&self, b: &mut Builder, open: &OpenTile) {
        let views = self.views(b, open);
        self.fragments.iter().for_each(|fragment| fragment.reset(b));
        let any = open.range.any(b);
        b.if_(any, |b| self.accumulate(b, open, &views));
        for (fragment, view) in self.fragments.iter().zip(&views) {
            let output = BlockOutput { params: &self.frame.params, open, block: &view.block };
            self.if_live(b, |b| self.finish(b, fragment, &output));
        }
    }

    fn run_tile_again(&self, b: &mut Builder, open: &OpenTile) {
        for (n, fragment) in (0..).zip(&self.fragments) {
            let block = self.block(b, open, n);
            let output = BlockOutput { params: &self.frame.params, open, block: &block };
            self.for_each_slice(b, open, fragment, |b, columns| columns.write_again(b, &output));
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

    fn views(&self, b: &mut Builder, open: &OpenTile) -> Vec<View> {
        let params = &self.frame.params;
        let mut views = Vec::new();
        for (n, Fragment { scores, .. }) in (0..).zip(&self.fragments) {
            let block = self.block(b, open, n);
            let biases = params.keys().attn_mask;
            let biases =
                biases.map(|mask| scores.mask_rows(b, &mask, &params.tiling, open, &block));
            views.push(View { block, biases });
        }
        views
    }

    fn finish(&self, b: &mut Builder, fragment: &Fragment, output: &BlockOutput<'_>) {
        let factors = epilogue::finish(b, &fragment.scores, output);
        self.for_each_slice(b, output.open, fragment, |b, columns| {
            columns.write(b, output, factors);
        });
    }

    /// Runs `body` with the output columns that this CTA has.
    fn for_each_slice(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        fragment: &Fragment,
        body: impl Fn(&mut Builder, Columns<'_>),
    ) {
        let config = &self.frame.config;
        for n in 0..config.slices {
            let first = n * config.columns();
            let count = config.columns().min(config.value_dim - first);
            let columns = Columns {
                thread: fragment.scores.thread,
                out: &fragment.out[..count as usize / 2],
                first,
                half: config.half,
                watch: self.watch,
            };
            match open.slice {
                None => body(b, columns),
                Some(slice) => {
                    let this = b.setp(Cmp::Eq, slice.reg(), n);
                    b.if_(this, |b| body(b, columns));
                }
            }
        }
    }

    /// All KV tiles, last to first.
    fn accumulate(&self, b: &mut Builder, open: &OpenTile, views: &[View]) {
        // The buffers are free when all warps are done with the work tile before.
        b.barrier_all();
        self.copy_queries(b, open);
        let ring = Ring::new(b, self.frame, open, self.copier, self.stage);
        let last = open.range.end.before(b, 1);
        ring.fill(b, last);
        if self.frame.config.holds_queries() {
            b.cp_async_wait(ring.groups());
            b.barrier_all();
            self.fragments.iter().for_each(|fragment| fragment.hold(b, self.queries));
        }
        let config = &self.frame.config;
        let first = Block::at(b, config.packing, config.group, open.first_block);
        let last_block = open.first_block.plus(b, config.blocks() - 1);
        let last_token = Block::at(b, config.packing, config.group, last_block).last_token(b);
        let clear = open.bounds.clear_tiles(b, open.range, first.token, last_token);
        let n = KvTile::new(b.value(open.range.end.reg()));
        let visible = &self.frame.params.keys().visible;
        open.range.descend(b, n, clear, visible, |b, masked| {
            self.step(b, &ring, (open, views), n, masked);
        });
    }

    /// Copies the queries of all blocks, one group.
    fn copy_queries(&self, b: &mut Builder, open: &OpenTile) {
        let (config, params) = (&self.frame.config, &self.frame.params);
        let columns =
            CopiedColumns { panels: config.queries().chunks, count: Count::Fixed(config.key_dim) };
        for number in 0..config.blocks() {
            let tile = self.frame.q.tile(number);
            let to = self.copier.to(b, tile);
            let number = open.first_block.plus(b, number);
            let block = Block::at(b, config.packing, config.group, number);
            let output = BlockOutput { params, open, block: &block };
            for turn in 0..self.copier.turns(super::ROWS) {
                let row = b.add(self.copier.row, turn * self.copier.rows());
                let place = output.place(b, row);
                let at = [open.sequence.q_batch.reg(), place.head.reg(), place.token.reg()];
                let at = at.map(|number| b.select::<u32>(place.live, number, 0));
                let from = params.exact_queries.row(b, at);
                let from = self.copier.from(b, from);
                let to = self.copier.in_turn(tile, to, turn);
                self.copier.copy(b, place.live, from, (tile, to), &columns);
            }
        }
        b.cp_async_commit();
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
        ring.await_keys(b, n);
        self.if_live(b, |b| self.score(b));
        let marks = ring.marks(b);
        ring.await_values(b, n);
        self.if_live(b, |b| {
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
            self.add_output(b, ring);
        });
        ring.advance(b);
    }

    /// The matrices of the tile in work.
    #[track_caller]
    fn of_stage(&self, b: &mut Builder, first: &Matrices, bytes: u32) -> Matrices {
        match self.stage {
            None => first.clone(),
            Some(stage) => {
                let bytes = b.mul(stage, bytes);
                first.further(b, bytes)
            }
        }
    }

    /// `S = Q·Kᵀ`.
    fn score(&self, b: &mut Builder) {
        let config = &self.frame.config;
        let keys = self.of_stage(b, &self.keys, config.keys().bytes());
        for fragment in &self.fragments {
            fragment.scores.scores.iter().for_each(|score| b.assign(*score, 0.0));
        }
        let queries: Vec<_> = self.fragments.iter().map(|f| f.queries(b, self.queries)).collect();
        for step in 0..config.key_dim.div_ceil(STEP) {
            let sides = self.fragments.iter().zip(&queries);
            let left: Vec<_> = sides.map(|(f, queries)| f.query(b, queries, step)).collect();
            for row in (0..config.shape.tile).step_by(STEP as usize) {
                let k = keys.load(b, row, step, false);
                for (n, k) in [[k[0], k[1]], [k[2], k[3]]].into_iter().enumerate() {
                    for (fragment, q) in self.fragments.iter().zip(&left) {
                        let d = four(&fragment.scores.scores, row as usize / 8 + n);
                        b.mma_m16n8k16(config.half, &d, q, &k);
                    }
                }
            }
        }
    }

    /// `O += P·V`.
    fn add_output(&self, b: &mut Builder, ring: &Ring<'_>) {
        let config = &self.frame.config;
        let shape = if config.shared_kv { config.keys() } else { config.values() };
        let mut values = self.of_stage(b, &self.values, shape.bytes());
        if config.shared_kv
            && let Some(offset) = ring.value_offset(b, values.block_bytes())
        {
            values = values.further(b, offset);
        }
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
                        b.mma_m16n8k16(config.half, &four(&fragment.out, n), &p, &v);
                    }
                }
            }
        }
    }
}

/// Registers `4n` to `4n + 3`.
fn four<T: Copy>(registers: &[T], n: usize) -> [T; 4] {
    std::array::from_fn(|i| registers[4 * n + i])
}

impl Fragment {
    /// Fragment `n` of a warp; `thread` is its number among those of a row block.
    fn new(b: &mut Builder, frame: &Frame, thread: Reg<u32>, n: u32) -> Self {
        let config = &frame.config;
        let steps = if config.holds_queries() { config.key_dim.div_ceil(STEP) } else { 0 };
        Fragment {
            scores: Scores::new(b, thread, config.half, config.shape.tile),
            out: b.regs(config.columns() as usize / 2),
            queries: Matrices::new(b, frame.q.tile(n), Order::Columns),
            held: (0..steps).map(|_| std::array::from_fn(|_| b.reg())).collect(),
        }
    }

    fn reset(&self, b: &mut Builder) {
        self.scores.reset(b);
        self.out.iter().for_each(|register| b.assign(*register, 0.0));
    }

    /// Loads the queries to registers, where they stay.
    fn hold(&self, b: &mut Builder, offset: Reg<u32>) {
        let queries = self.queries.further(b, offset);
        for (step, held) in (0..).zip(&self.held) {
            let loaded = queries.load(b, 0, step, false);
            held.iter().zip(loaded).for_each(|(held, loaded)| b.assign(*held, loaded));
        }
    }

    /// Where the queries are, the warp's being `offset` bytes from the first, unless they are in registers. Found anew
    /// for each tile: but for `offset` the lanes' addresses are those of keys and values.
    fn queries(&self, b: &mut Builder, offset: Reg<u32>) -> Option<Matrices> {
        self.held.is_empty().then(|| self.queries.further(b, offset))
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

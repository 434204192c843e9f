//! Rows of a block, one per thread: four warps, each at its own 32 lanes of tensor memory.

use super::config::TILE;
use super::marked::MarkReader;
use super::operand::VECTOR;
use crate::call::index::{KvTile, QueryToken};
use crate::call::rows::Block;
use crate::call::task::{OpenTile, Params};
use crate::call::visible::RowWindow;
use crate::math::bias::{MaskRow, RowScores};
use crate::math::exact::Watch;
use ptx::build::{Builder, Cmp, HalfType, Reg, SharedTile, TmemPtr};

/// Warps that hold the rows of a block.
pub const ROW_WARPS: u32 = 4;
/// Columns of tensor memory one load or store moves.
pub const COLUMNS_AT_ONCE: u32 = 32;

const _: () = assert!(ROW_WARPS * 32 == super::config::ROWS, "one thread per row");

/// A thread that holds a row, or half of one.
pub struct RowThread<'f> {
    pub params: &'f Params,
    /// Element type.
    pub half: HalfType,
    /// First row of the warp.
    pub first_row: Reg<u32>,
    /// The thread's row.
    pub row: Reg<u32>,
    /// Tensor memory, at this warp's lanes.
    pub tmem: TmemPtr,
    /// True in one thread per warp.
    pub lead: Reg<bool>,
    /// Whether the rows that it has written are finite.
    pub watch: Watch,
    /// Which keys exist, where lists leave some out.
    pub marks: Option<MarkReader<'f>>,
}

/// A KV tile as a row sees it.
pub struct SeenTile<'w> {
    /// Its number.
    n: KvTile,
    /// Whether some of its keys may lie outside the window.
    bounded: bool,
    /// Whether lists may leave some of its keys out.
    listed: bool,
    /// The keys the row sees.
    window: &'w RowWindow,
    /// What is added to its scores.
    bias: Option<MaskRow>,
}

impl SeenTile<'_> {
    /// Whether some of its keys may be hidden.
    pub fn masked(&self) -> bool {
        self.bounded || self.listed || self.bias.is_some()
    }
}

impl<'f> RowThread<'f> {
    /// Warp `warp` (0 to 3) of four that hold `rows` rows: 128, or 64 with two threads per row.
    pub fn new(
        b: &mut Builder,
        params: &'f Params,
        half: HalfType,
        tmem: TmemPtr,
        warp: Reg<u32>,
        rows: u32,
    ) -> Self {
        let lane = b.special("%laneid");
        let first_lane = b.eval(warp * 32);
        let lanes = b.eval(first_lane << 16);
        let first_row = b.eval(first_lane & (rows - 1));
        RowThread {
            params,
            half,
            first_row,
            row: b.eval(first_row + lane),
            tmem: TmemPtr { base: b.eval(tmem.base + lanes), column: tmem.column },
            lead: b.setp(Cmp::Eq, lane, 0),
            watch: params.watch(b),
            marks: None,
        }
    }

    /// This warp's lanes, `index` times `stride` columns on.
    #[track_caller]
    pub fn columns(&self, b: &mut Builder, index: Reg<u32>, stride: u32) -> TmemPtr {
        let base = b.eval(index * stride + self.tmem.base);
        TmemPtr { base, column: self.tmem.column }
    }

    /// The row of `columns` columns from `at` on, complete in registers.
    #[track_caller]
    pub fn load(&self, b: &mut Builder, at: TmemPtr, columns: u32) -> Vec<Reg<f32>> {
        let mut row = Vec::new();
        for first in (0..columns).step_by(COLUMNS_AT_ONCE as usize) {
            let some = (columns - first).min(COLUMNS_AT_ONCE);
            row.extend(b.tmem_load::<f32>(at.columns(first), some));
        }
        b.tmem_wait_load();
        row
    }

    /// Runs `step` for all KV tiles of the row's block, last to first, those that need a mask
    /// apart from those that do not.
    #[track_caller]
    pub fn for_each_tile(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        block: &Block,
        step: impl Fn(&mut Builder, &SeenTile<'_>),
    ) {
        if self.marks.is_some() {
            return self.for_each_listed_tile(b, open, step);
        }
        let n = KvTile::new(b.value(open.range.end.reg()));
        let last_token = block.last_token(b);
        let clear = open.bounds.clear_tiles(b, open.range, block.token, last_token);
        let (token, _) = block.query(b, self.row);
        let window = &RowWindow::of(b, &open.bounds, token);
        let Params { tiling, .. } = self.params;
        let mask = self.params.keys().attn_mask;
        let bias = mask.map(|mask| mask.row(b, tiling, open, block, self.row));
        open.range.descend(b, n, clear, &self.params.keys().visible, |b, bounded| {
            step(b, &SeenTile { n, bounded, listed: false, window, bias });
        });
    }

    /// The same where lists say which keys a row sees, in every tile.
    #[track_caller]
    fn for_each_listed_tile(
        &self,
        b: &mut Builder,
        open: &OpenTile,
        step: impl Fn(&mut Builder, &SeenTile<'_>),
    ) {
        let token = QueryToken::new(b.value(0));
        let window = &RowWindow::of(b, &open.bounds, token);
        open.range.for_each_down(b, |b, n| {
            step(b, &SeenTile { n, bounded: false, listed: true, window, bias: None });
        });
    }

    /// `columns` scores at `at` of a KV tile, from its first key on or that of number `first`:
    /// prepared, and `-inf` where the row does not see the key.
    #[track_caller]
    pub fn load_scores(
        &self,
        b: &mut Builder,
        at: TmemPtr,
        columns: u32,
        keys: &SeenTile<'_>,
        first: Option<Reg<u32>>,
    ) -> Vec<Reg<f32>> {
        let scores = self.load(b, at, columns);
        let softmax = &self.params.softmax;
        softmax.prepare(b, &scores);
        if let Some(marks) = &self.marks {
            softmax.without_bias(b, &scores);
            marks.hide(b, &scores, first, self.lead);
            return scores;
        }
        if !keys.masked() {
            softmax.without_bias(b, &scores);
            return scores;
        }
        let origin = match first {
            None => keys.n.first_key(b, TILE),
            Some(first) => b.eval(keys.n.reg() * TILE as i32 + first.reinterpret::<i32>()),
        };
        let columns: Vec<u32> = (0..columns).collect();
        let window = keys.bounded.then(|| keys.window.relative_to(b, origin));
        match &keys.bias {
            None => softmax.without_bias(b, &scores),
            Some(bias) => {
                let end = window.map(|window| window.end());
                let row = RowScores { scores: &scores, columns: &columns, origin, end };
                bias.add_to(b, softmax, &row);
            }
        }
        if let Some(window) = window {
            window.apply(b, &scores, &columns);
        }
        scores
    }

    /// Rounds a row of probabilities to 16 bits.
    #[track_caller]
    pub fn round(&self, b: &mut Builder, row: &[Reg<f32>]) -> Vec<Reg<u32>> {
        row.chunks(2).map(|p| b.pack(self.half, p[0], p[1])).collect()
    }

    /// Stores a run of packed probabilities in tensor memory, from `at` on.
    #[track_caller]
    pub fn store_in_tensor_memory(&self, b: &mut Builder, at: TmemPtr, packed: &[Reg<u32>]) {
        let mut first = 0;
        while first < packed.len() {
            // A store takes a power of two.
            let some = 1 << (packed.len() - first).min(COLUMNS_AT_ONCE as usize).ilog2();
            b.tmem_store(at.columns(first as u32), &packed[first..first + some]);
            first += some;
        }
        b.tmem_wait_store();
    }

    /// Stores a row of probabilities in shared memory, in an operand tile.
    #[track_caller]
    pub fn store_in_shared_memory(&self, b: &mut Builder, tile: SharedTile, packed: &[Reg<u32>]) {
        let vectors = tile.row(b, self.row);
        for (i, vector) in packed.chunks(VECTOR as usize / 2).enumerate() {
            let to = vectors.vector(b, i as u32 * VECTOR);
            b.st_shared_vector(to, vector);
        }
        b.fence_proxy_async();
    }

    /// Multiplies `columns` columns of the row, `output` being the first, by `factor`.
    #[track_caller]
    pub fn rescale(&self, b: &mut Builder, output: TmemPtr, columns: u32, factor: Reg<f32>) {
        for first in (0..columns).step_by(COLUMNS_AT_ONCE as usize) {
            let some = (columns - first).min(COLUMNS_AT_ONCE);
            let at = output.columns(first);
            let values = self.load(b, at, some);
            for &value in &values {
                b.scale(value, factor);
            }
            b.tmem_store(at, &values);
        }
        b.tmem_wait_store();
    }
}

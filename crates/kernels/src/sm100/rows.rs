//! Rows of a block, one per thread: four warps, each at its own 32 lanes of tensor memory.

use super::frame::Frame;
use super::operand::{RowUnits, UNIT};
use crate::visible::RowWindow;
use ptx::build::{Builder, Cmp, Reg, SmemPtr, TmemPtr};

/// Warps that hold the rows of a block.
pub const ROW_WARPS: u32 = 4;
/// Columns of tensor memory one load or store moves.
pub const COLUMNS_AT_ONCE: u32 = 32;

const _: () = assert!(ROW_WARPS * 32 == super::config::ROWS, "one thread per row");

/// A thread that holds a row.
pub struct RowThread<'f> {
    pub frame: &'f Frame,
    /// First row of the warp.
    pub first_row: Reg<u32>,
    /// The thread's row.
    pub row: Reg<u32>,
    /// Tensor memory, at this warp's lanes.
    pub tmem: TmemPtr,
    /// True in one thread per warp.
    pub lead: Reg<bool>,
}

impl<'f> RowThread<'f> {
    /// The rows of `warp`, 0 to 3 within its block.
    pub fn new(b: &mut Builder, frame: &'f Frame, tmem: TmemPtr, warp: Reg<u32>) -> Self {
        let lane = b.special("%laneid");
        let first_row = b.mul(warp, 32);
        let lanes = b.shl(first_row, 16);
        RowThread {
            frame,
            first_row,
            row: b.add(first_row, lane),
            tmem: TmemPtr { base: b.add(tmem.base, lanes), column: tmem.column },
            lead: b.setp(Cmp::Eq, lane, 0),
        }
    }

    /// This warp's lanes of tile `index` of scores.
    #[track_caller]
    pub fn score_columns(&self, b: &mut Builder, index: Reg<u32>) -> TmemPtr {
        let base = b.mad(index, self.frame.map.score_stride, self.tmem.base);
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

    /// The scores of key tile `n` at `at`: capped, and `-inf` where the row does not see the key.
    #[track_caller]
    pub fn load_scores(
        &self,
        b: &mut Builder,
        at: TmemPtr,
        window: &RowWindow,
        n: Reg<i32>,
        masked: bool,
    ) -> Vec<Reg<f32>> {
        let params = &self.frame.params;
        let tile = params.tiling.tile;
        let scores = self.load(b, at, tile);
        params.softmax.prepare(b, &scores);
        if masked {
            let origin = b.mul(n, tile as i32);
            let columns: Vec<u32> = (0..tile).collect();
            window.relative_to(b, origin).apply(b, &scores, &columns);
        }
        scores
    }

    /// Rounds a row of probabilities to 16 bits.
    #[track_caller]
    pub fn round(&self, b: &mut Builder, row: &[Reg<f32>]) -> Vec<Reg<u32>> {
        row.chunks(2).map(|p| b.pack(self.frame.config.half, p[0], p[1])).collect()
    }

    /// Stores a row of probabilities where the second product reads it: in place of its scores, or in
    /// the tile `p` in shared memory.
    #[track_caller]
    pub fn store_probabilities(
        &self,
        b: &mut Builder,
        scores: TmemPtr,
        p: Option<SmemPtr>,
        packed: &[Reg<u32>],
    ) {
        match p {
            None => {
                for (i, some) in packed.chunks(COLUMNS_AT_ONCE as usize).enumerate() {
                    b.tmem_store(scores.columns(i as u32 * COLUMNS_AT_ONCE), some);
                }
                b.tmem_wait_store();
            }
            Some(p) => {
                let tile = self.frame.config.probability_tile();
                let units = RowUnits::new(b, tile, p, self.row);
                for (i, unit) in packed.chunks(UNIT as usize / 2).enumerate() {
                    let to = units.unit(b, i as u32 * UNIT);
                    b.st_shared_vector(to, unit);
                }
                b.fence_proxy_async();
            }
        }
    }

    /// `O *= factor` for the row, `output` being its first column.
    #[track_caller]
    pub fn rescale(&self, b: &mut Builder, output: TmemPtr, factor: Reg<f32>) {
        let columns = self.frame.config.slice_dim().next_multiple_of(16);
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

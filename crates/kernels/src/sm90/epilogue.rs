//! The end of a tile: normalise, write LSE and output.
//!
//! Output rows go through a query buffer whose queries are no longer needed: each warp stores its 16
//! rows with `stmatrix` in swizzled panels, reads them back 16 bytes per lane, and writes whole
//! 128-byte lines. Only the warp itself touches these rows, so no barrier is needed. Partial results
//! are f32 and go straight to memory.

use super::config::ROWS;
use super::fragment;
use super::scores::Scores;
use super::tile::ROW_BYTES;
use crate::output::{BlockOutput, RowPlace};
use ptx::build::{Builder, Cmp, GlobalPtr, HalfType, Reg, SmemPtr};

/// Finished output columns of a warpgroup.
pub struct Columns<'a> {
    /// Thread within the warpgroup.
    pub thread: Reg<u32>,
    /// Accumulators.
    pub out: &'a [Reg<f32>],
    /// First column.
    pub first: u32,
    /// Element type of the output.
    pub half: HalfType,
    /// Panels that may be overwritten.
    pub staging: SmemPtr,
}

/// Completes both rows of a thread, writes their LSEs and returns the factors on their outputs.
pub fn finish(b: &mut Builder, scores: &Scores, output: &BlockOutput<'_>) -> [Reg<f32>; 2] {
    let places = places(b, scores.thread, output);
    let quad = b.and(scores.thread, 3);
    let first_of_row = b.setp(Cmp::Eq, quad, 0);
    [0, 1].map(|half| {
        let sum = scores.total(b, half);
        let result = output.finish_row(b, &places[half], scores.rows[half].max, sum);
        output.write_lse(b, &places[half], &result, Some(first_of_row));
        result.inverse
    })
}

fn places(b: &mut Builder, thread: Reg<u32>, output: &BlockOutput<'_>) -> [RowPlace; 2] {
    let row = fragment::first_row(b, thread);
    [0, 8].map(|offset| {
        let row = b.add(row, offset);
        output.place(b, row)
    })
}

impl Columns<'_> {
    /// Multiplies rows by `factors` and writes them.
    pub fn write(&self, b: &mut Builder, output: &BlockOutput<'_>, factors: [Reg<f32>; 2]) {
        fragment::scale_rows(b, self.out, factors);
        match output.params.output.partial {
            Some(partial) => self.write_partial(b, output, partial),
            None => self.write_staged(b, output),
        }
    }

    fn write_partial(&self, b: &mut Builder, output: &BlockOutput<'_>, partial: GlobalPtr) {
        let quad = b.and(self.thread, 3);
        let column = b.mul_wide(quad, 8);
        let places = places(b, self.thread, output);
        for (half, place) in places.iter().enumerate() {
            b.if_(place.live, |b| {
                let at = output.partial_row(b, place, partial, column);
                let at = at.plus(self.first as i64 * 4);
                let registers = fragment::of_row(self.out, half);
                for (group, pair) in registers.chunks_exact(2).enumerate() {
                    b.st_global_vector(at.plus(group as i64 * 32), pair);
                }
            });
        }
    }

    fn write_staged(&self, b: &mut Builder, output: &BlockOutput<'_>) {
        let pairs: Vec<Reg<u32>> =
            self.out.chunks_exact(2).map(|pair| b.pack(self.half, pair[0], pair[1])).collect();
        let panel_bytes = ROWS * ROW_BYTES;
        fragment::store(b, self.thread, &pairs, self.staging, panel_bytes);
        b.warp_sync();
        let warp = b.shr(self.thread, 5);
        let first_row = b.mul(warp, 16);
        let columns = self.out.len() as u32 * 2;
        let offset = (self.first > 0).then(|| b.value::<u32>(self.first * 2));
        output.write_staged(b, self.staging, panel_bytes, first_row, 16, columns, offset);
    }
}

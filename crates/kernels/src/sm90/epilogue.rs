//! The end of a tile: normalise, write LSE and output.
//!
//! Output rows go through the warpgroup's own query buffer (its queries are no longer needed): each
//! warp stores its 16 rows with `stmatrix` in the same swizzled panels, reads them back 16 bytes per
//! lane, and writes whole 128-byte lines. Only the warp itself touches these rows, so no barrier is
//! needed. Partial results are f32 and go straight to memory.

use super::consumer::Warpgroup;
use super::tile::ROW_BYTES;
use crate::output::{BlockOutput, RowPlace};
use crate::rows::Block;
use crate::softmax::RowResult;
use crate::task::OpenTile;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, SmemPtr};

/// Emits the end of a tile.
pub fn emit(
    b: &mut Builder,
    warpgroup: &Warpgroup<'_>,
    open: &OpenTile,
    block: &Block,
    staging: SmemPtr,
) {
    let config = &warpgroup.frame.config;
    let output = BlockOutput { params: &warpgroup.frame.params, open, block };
    let row = warpgroup.first_row(b);
    let places = [0, 8].map(|offset| {
        let row = b.add(row, offset);
        output.place(b, row)
    });
    let results = [0, 1].map(|half| finish_row(b, warpgroup, half, &output, &places[half]));
    let quad = b.and(warpgroup.thread, 3);
    let first_of_row = b.setp(Cmp::Eq, quad, 0);
    for half in 0..2 {
        output.write_lse(b, &places[half], &results[half], Some(first_of_row));
    }
    for (i, &register) in warpgroup.out.iter().enumerate() {
        b.scale(register, results[(i / 2) % 2].inverse);
    }
    match warpgroup.frame.params.output.partial {
        Some(partial) => write_partial(b, warpgroup, &output, &places, partial),
        None => {
            stage(b, warpgroup, staging);
            b.warp_sync();
            let warp = b.shr(warpgroup.thread, 5);
            let first = b.mul(warp, 16);
            let (panel, columns) = (warpgroup.out_shape().panel_bytes(), config.value_dim);
            output.write_staged(b, staging, panel, first, 16, columns, None);
        }
    }
}

/// Completes a row's sum over the four threads that share it.
fn finish_row(
    b: &mut Builder,
    warpgroup: &Warpgroup<'_>,
    half: usize,
    output: &BlockOutput<'_>,
    place: &RowPlace,
) -> RowResult {
    let row = &warpgroup.rows[half];
    let mut sum = row.sum;
    for distance in [1, 2] {
        let other = b.shuffle_xor(sum, distance);
        sum = b.add(sum, other);
    }
    output.finish_row(b, place, row.max, sum)
}

fn write_partial(
    b: &mut Builder,
    warpgroup: &Warpgroup<'_>,
    output: &BlockOutput<'_>,
    places: &[RowPlace; 2],
    partial: GlobalPtr,
) {
    let quad = b.and(warpgroup.thread, 3);
    let column = b.mul_wide(quad, 8);
    for (half, place) in places.iter().enumerate() {
        b.if_(place.live, |b| {
            let at = output.partial_row(b, place, partial, column);
            let registers = super::consumer::of_row(&warpgroup.out, half);
            for (group, pair) in registers.chunks_exact(2).enumerate() {
                b.st_global_vector(at.plus(group as i64 * 32), pair);
            }
        });
    }
}

/// Registers → swizzled panels, 16 rows × 16 columns per `stmatrix`.
fn stage(b: &mut Builder, warpgroup: &Warpgroup<'_>, staging: SmemPtr) {
    let shape = warpgroup.out_shape();
    let half = warpgroup.frame.config.half;
    let warp = b.shr(warpgroup.thread, 5);
    let lane = b.and(warpgroup.thread, 31);
    let low = b.and(lane, 15);
    let row = b.mad(warp, 16, low);
    let right = b.shr(lane, 4);
    let swizzle = b.and(row, 7);
    let unit = b.xor(right, swizzle);
    let unit = b.shl(unit, 4);
    let line = b.mul(row, ROW_BYTES);
    let line = b.smem_add(staging, line);
    for (step, group) in warpgroup.out.chunks(8).enumerate() {
        let step = step as u32;
        let packed: Vec<Reg<u32>> = group.chunks(2).map(|p| b.pack(half, p[0], p[1])).collect();
        let unit = b.xor(unit, (step % 4) * 32);
        let to = b.smem_add(line, unit).plus((step / 4) * shape.panel_bytes());
        match packed[..] {
            [x, y, z, w] => b.stmatrix4(to, [x, y, z, w]),
            [x, y] => b.stmatrix2(to, [x, y]),
            _ => unreachable!("value dims are multiples of 8"),
        }
    }
}

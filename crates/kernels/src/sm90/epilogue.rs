//! The end of a tile: normalise, write LSE and output.
//!
//! Output rows go through the warpgroup's own query buffer (its queries are no longer needed): each
//! warp stores its 16 rows with `stmatrix` in the same swizzled panels, reads them back 16 bytes per
//! lane, and writes whole 128-byte lines. Only the warp itself touches these rows, so no barrier is
//! needed. Partial results are f32 and go straight to memory.

use super::consumer::Warpgroup;
use super::kernel::OpenTile;
use super::tile::ROW_BYTES;
use crate::rows::Block;
use crate::sequence::element;
use crate::softmax::RowResult;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, SmemPtr};

/// One row's place.
struct RowPlace {
    /// Whether the row is a query.
    live: Reg<bool>,
    /// Token in the view.
    token: Reg<u32>,
    /// Query head.
    head: Reg<u32>,
}

/// Emits the end of a tile.
pub fn emit(
    b: &mut Builder,
    warpgroup: &Warpgroup<'_>,
    open: &OpenTile,
    block: &Block,
    staging: SmemPtr,
) {
    let row = warpgroup.first_row(b);
    let places = [0, 8].map(|offset| {
        let row = b.add(row, offset);
        place(b, warpgroup, open, block, row)
    });
    let results = [0, 1].map(|half| finish_row(b, warpgroup, half, &places[half]));
    for half in 0..2 {
        write_lse(b, warpgroup, open, &places[half], &results[half]);
    }
    for (i, &register) in warpgroup.out.iter().enumerate() {
        b.scale(register, results[(i / 2) % 2].inverse);
    }
    match warpgroup.frame.params.output.partial {
        Some(partial) => write_partial(b, warpgroup, open, &places, partial),
        None => {
            stage(b, warpgroup, staging);
            b.warp_sync();
            write_rows(b, warpgroup, open, block, staging);
        }
    }
}

fn place(
    b: &mut Builder,
    warpgroup: &Warpgroup<'_>,
    open: &OpenTile,
    block: &Block,
    row: Reg<u32>,
) -> RowPlace {
    let config = &warpgroup.frame.config;
    let (token, head) = block.query(b, row);
    let used = b.setp(Cmp::Lt, row, config.packing.used());
    let within = b.setp(Cmp::Lt, token, open.sequence.q_len);
    let live = b.and(used, within);
    let token = b.add(token, open.sequence.q_start);
    let head = b.mad(open.tile.kv_head, config.group, head);
    RowPlace { live, token, head }
}

/// Completes a row's sum over the four threads that share it.
fn finish_row(
    b: &mut Builder,
    warpgroup: &Warpgroup<'_>,
    half: usize,
    place: &RowPlace,
) -> RowResult {
    let row = &warpgroup.rows[half];
    let mut sum = row.sum;
    for distance in [1, 2] {
        let other = b.shuffle_xor(sum, distance);
        sum = b.add(sum, other);
    }
    let sink = warpgroup.frame.params.sinks.map(|sinks| {
        let logit = b.value::<f32>(0.0);
        b.if_(place.live, |b| {
            let at = element(b, sinks, place.head);
            let loaded = b.ld_global::<f32>(at);
            b.assign(logit, loaded);
        });
        logit
    });
    warpgroup.frame.params.softmax.finish(b, row.max, sum, sink)
}

/// The row's number in `[part, batch, head, token]`.
fn row_number(
    b: &mut Builder,
    warpgroup: &Warpgroup<'_>,
    open: &OpenTile,
    place: &RowPlace,
) -> Reg<u32> {
    let output = &warpgroup.frame.params.output;
    let head = b.mad(open.sequence.q_batch, output.heads, place.head);
    let row = b.mad(head, output.tokens, place.token);
    match output.rows_per_part {
        Some(rows) => b.mad(open.tile.split, rows, row),
        None => row,
    }
}

fn write_lse(
    b: &mut Builder,
    warpgroup: &Warpgroup<'_>,
    open: &OpenTile,
    place: &RowPlace,
    result: &RowResult,
) {
    let Some(lse) = warpgroup.frame.params.output.lse else { return };
    let quad = b.and(warpgroup.thread, 3);
    let first = b.setp(Cmp::Eq, quad, 0);
    let writes = b.and(first, place.live);
    b.if_(writes, |b| {
        let row = row_number(b, warpgroup, open, place);
        let at = element(b, lse, row);
        b.st_global(at, result.lse);
    });
}

fn write_partial(
    b: &mut Builder,
    warpgroup: &Warpgroup<'_>,
    open: &OpenTile,
    places: &[RowPlace; 2],
    partial: GlobalPtr,
) {
    let quad = b.and(warpgroup.thread, 3);
    let column = b.mul_wide(quad, 8);
    for (half, place) in places.iter().enumerate() {
        b.if_(place.live, |b| {
            let row = row_number(b, warpgroup, open, place);
            let at = b.mad_wide(row, warpgroup.frame.config.value_dim * 4, column);
            let at = b.global_add(partial, at);
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

/// Swizzled panels → output, 16 bytes per lane, four rows at a time.
fn write_rows(
    b: &mut Builder,
    warpgroup: &Warpgroup<'_>,
    open: &OpenTile,
    block: &Block,
    staging: SmemPtr,
) {
    let shape = warpgroup.out_shape();
    let value_dim = warpgroup.frame.config.value_dim;
    let warp = b.shr(warpgroup.thread, 5);
    let lane = b.and(warpgroup.thread, 31);
    let unit = b.and(lane, 7);
    let row_of_four = b.shr(lane, 3);
    let first = b.mad(warp, 16, row_of_four);
    for four in 0..4 {
        let row = b.add(first, four * 4);
        let place = place(b, warpgroup, open, block, row);
        let swizzle = b.and(row, 7);
        let swizzled = b.xor(unit, swizzle);
        let offset = b.shl(swizzled, 4);
        let offset = b.mad(row, ROW_BYTES, offset);
        let from = b.smem_add(staging, offset);
        b.if_(place.live, |b| {
            let to = row_address(b, warpgroup, open, &place, unit);
            for chunk in 0..shape.chunks {
                let columns = (value_dim - chunk * 64).min(64);
                let copy = |b: &mut Builder| {
                    let from = from.plus(chunk * shape.panel_bytes());
                    let values = b.ld_shared_vector::<u32>(from, 4);
                    b.st_global_vector(to.plus(chunk as i64 * 128), &values);
                };
                if columns == 64 {
                    copy(b);
                } else {
                    let within = b.setp(Cmp::Lt, unit, columns / 8);
                    b.if_(within, copy);
                }
            }
        });
    }
}

fn row_address(
    b: &mut Builder,
    warpgroup: &Warpgroup<'_>,
    open: &OpenTile,
    place: &RowPlace,
    unit: Reg<u32>,
) -> GlobalPtr {
    let (out, [batch, head, token]) =
        warpgroup.frame.params.output.rows.expect("an output that is not partial");
    let mut at = b.mul_wide(unit, 16);
    for (index, stride) in
        [(open.sequence.q_batch, batch), (place.head, head), (place.token, token)]
    {
        let index = b.widen(index);
        at = b.mad(index, stride, at);
    }
    b.global_add(out, at)
}

//! The end of a tile: normalise, write LSE and output.
//!
//! A thread holds a whole row, so neighbouring lanes write different rows. Output goes through the
//! tile's query buffer, 64 columns at a time: each warp stores its 32 rows with the swizzle, reads them
//! back 16 bytes per lane, and writes whole 128-byte lines. Only the warp itself touches these rows, so
//! no barrier is needed. Partial results are f32 and go straight to memory.

use super::operand::{RowUnits, UNIT};
use super::softmax_warps::{COLUMNS_AT_ONCE, RowThread};
use crate::output::{BlockOutput, RowPlace};
use crate::rows::Block;
use crate::softmax::RowResult;
use crate::task::OpenTile;
use ptx::build::{Builder, GlobalPtr, Reg, SmemPtr};

/// Columns staged at a time.
const PANEL: u32 = 64;
/// Rows of a warp.
const WARP_ROWS: u32 = 32;

/// Writes the rows of a tile that saw keys.
pub fn write_rows(
    b: &mut Builder,
    thread: &RowThread<'_>,
    open: &OpenTile,
    block: &Block,
    staging: SmemPtr,
) {
    thread.output.wait(b);
    b.tcgen05_fence_after();
    let output = BlockOutput { params: &thread.frame.params, open, block };
    let (place, result) = finish(b, thread, &output);
    let columns = thread.frame.config.slice_dim();
    let partial = output.params.output.partial.map(|rows| partial_row(b, &output, &place, rows));
    for first in (0..columns).step_by(PANEL as usize) {
        let some = (columns - first).min(PANEL);
        let at = thread.tmem.columns(thread.frame.map.output + first);
        let values = thread.load(b, at, some.next_multiple_of(16));
        for &value in &values {
            b.scale(value, result.inverse);
        }
        match partial {
            Some(row) => {
                b.if_(place.live, |b| write_partial(b, row, first, &values[..some as usize]))
            }
            None => write_panel(b, thread, &output, staging, first, &values[..some as usize]),
        }
    }
}

/// Writes zeros and an LSE of `-inf` for the rows of a tile without keys.
pub fn write_empty_rows(b: &mut Builder, thread: &RowThread<'_>, open: &OpenTile, block: &Block) {
    let output = BlockOutput { params: &thread.frame.params, open, block };
    let (place, _) = finish(b, thread, &output);
    let columns = thread.frame.config.slice_dim();
    b.if_(place.live, |b| {
        let zero = b.value::<u32>(0);
        let (row, bytes) = match output.params.output.partial {
            Some(rows) => (partial_row(b, &output, &place, rows), columns * 4),
            None => {
                let column = slice_column(b, &output, 2);
                let column = b.widen(column);
                (output.output_row(b, &place, column), columns * 2)
            }
        };
        for at in (0..bytes).step_by(16) {
            b.st_global_vector(row.plus(at.into()), &[zero; 4]);
        }
    });
}

fn finish(
    b: &mut Builder,
    thread: &RowThread<'_>,
    output: &BlockOutput<'_>,
) -> (RowPlace, RowResult) {
    let place = output.place(b, thread.row);
    let result = output.finish_row(b, &place, thread.state.max, thread.state.sum);
    output.write_lse(b, &place, &result, None);
    (place, result)
}

/// The byte where this CTA's columns begin in a row of elements of `bytes` bytes.
fn slice_column(b: &mut Builder, output: &BlockOutput<'_>, bytes: u32) -> Reg<u32> {
    match output.open.slice {
        None => b.value(0),
        Some(slice) => b.mul(slice, output.value_dim() / output.params.tiling.slices * bytes),
    }
}

fn partial_row(
    b: &mut Builder,
    output: &BlockOutput<'_>,
    place: &RowPlace,
    rows: GlobalPtr,
) -> GlobalPtr {
    let column = slice_column(b, output, 4);
    let column = b.widen(column);
    output.partial_row(b, place, rows, column)
}

fn write_partial(b: &mut Builder, row: GlobalPtr, first: u32, values: &[Reg<f32>]) {
    for (i, four) in values.chunks(4).enumerate() {
        b.st_global_vector(row.plus((first as i64 + 4 * i as i64) * 4), four);
    }
}

fn write_panel(
    b: &mut Builder,
    thread: &RowThread<'_>,
    output: &BlockOutput<'_>,
    staging: SmemPtr,
    first: u32,
    values: &[Reg<f32>],
) {
    let config = &thread.frame.config;
    let units = RowUnits::new(b, config.staging_tile(), staging, thread.row);
    for (i, unit) in values.chunks(UNIT as usize).enumerate() {
        let packed: Vec<Reg<u32>> =
            unit.chunks(2).map(|p| b.pack(config.half, p[0], p[1])).collect();
        let to = units.unit(b, i as u32 * UNIT);
        b.st_shared_vector(to, &packed);
    }
    b.warp_sync();
    let column = slice_column(b, output, 2);
    let column = b.add(column, first * 2);
    let columns = values.len() as u32;
    output.write_staged(b, staging, 0, thread.first_row, WARP_ROWS, columns, Some(column));
    b.warp_sync();
}

const _: () = assert!(PANEL.is_multiple_of(COLUMNS_AT_ONCE), "a panel is whole loads");

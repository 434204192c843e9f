//! The end of a block of rows: normalise, write LSE and output.
//!
//! A thread holds a whole row, so neighbouring lanes write different rows. Output goes through shared
//! memory, 64 columns at a time: each warp stores its 32 rows with the swizzle, reads them back 16
//! bytes per lane, and writes whole 128-byte lines. Only the warp itself touches these rows, so no
//! barrier is needed. Partial results are f32 and go straight to memory.

use super::operand::{RowUnits, UNIT};
use super::rows::{COLUMNS_AT_ONCE, RowThread};
use crate::output::{BlockOutput, RowPlace};
use crate::softmax::{RowResult, RowState};
use ptx::build::{Builder, GlobalPtr, Reg, SmemPtr, TmemPtr};

/// Columns staged at a time.
const PANEL: u32 = 64;
/// Rows of a warp.
const WARP_ROWS: u32 = 32;

const _: () = assert!(PANEL.is_multiple_of(COLUMNS_AT_ONCE), "a panel is whole loads");

/// Writes a row that saw keys: `accumulated` is its first column of `O`.
pub fn write_row(
    b: &mut Builder,
    thread: &RowThread<'_>,
    output: &BlockOutput<'_>,
    state: &RowState,
    accumulated: TmemPtr,
    staging: SmemPtr,
) {
    let (place, result) = finish(b, thread, output, state);
    let columns = thread.frame.config.slice_dim();
    let partial = output.params.output.partial.map(|rows| partial_row(b, output, &place, rows));
    for panel in (0..columns).step_by(PANEL as usize) {
        let end = (panel + PANEL).min(columns);
        for first in (panel..end).step_by(COLUMNS_AT_ONCE as usize) {
            let some = (end - first).min(COLUMNS_AT_ONCE);
            let values = thread.load(b, accumulated.columns(first), some.next_multiple_of(16));
            let values = &values[..some as usize];
            for &value in values {
                b.scale(value, result.inverse);
            }
            match partial {
                Some(row) => b.if_(place.live, |b| write_partial(b, row, first, values)),
                None => stage(b, thread, staging, first - panel, values),
            }
        }
        if partial.is_none() {
            write_panel(b, thread, output, staging, panel, end - panel);
        }
    }
}

/// Writes zeros and an LSE of `-inf` for a row of a tile without keys.
pub fn write_empty_row(
    b: &mut Builder,
    thread: &RowThread<'_>,
    output: &BlockOutput<'_>,
    state: &RowState,
) {
    let (place, _) = finish(b, thread, output, state);
    let columns = thread.frame.config.slice_dim();
    b.if_(place.live, |b| {
        let zero = b.value::<u32>(0);
        let (row, bytes) = match output.params.output.partial {
            Some(rows) => (partial_row(b, output, &place, rows), columns * 4),
            None => {
                let column = slice_column(b, output, 2);
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
    state: &RowState,
) -> (RowPlace, RowResult) {
    let place = output.place(b, thread.row);
    let result = output.finish_row(b, &place, state.max, state.sum);
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

/// Stores some columns of the row in the panel, from `column` on.
fn stage(
    b: &mut Builder,
    thread: &RowThread<'_>,
    staging: SmemPtr,
    column: u32,
    values: &[Reg<f32>],
) {
    let units = RowUnits::new(b, thread.frame.config.staging_tile(), staging, thread.row);
    for (i, unit) in values.chunks(UNIT as usize).enumerate() {
        let packed = thread.round(b, unit);
        let to = units.unit(b, column + i as u32 * UNIT);
        b.st_shared_vector(to, &packed);
    }
}

/// Writes the staged panel of the warp's rows, `first` being its column.
fn write_panel(
    b: &mut Builder,
    thread: &RowThread<'_>,
    output: &BlockOutput<'_>,
    staging: SmemPtr,
    first: u32,
    columns: u32,
) {
    b.warp_sync();
    let column = slice_column(b, output, 2);
    let column = b.add(column, first * 2);
    output.write_staged(b, staging, 0, thread.first_row, WARP_ROWS, columns, Some(column));
    b.warp_sync();
}

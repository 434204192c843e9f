//! The writing warps: finished rows from shared memory to where they belong.
//!
//! A warpgroup that is done with a block of rows leaves its columns where the last values were and goes on
//! with the next block. One warp for each of the two writes them meanwhile, and gives the place back.

use super::kernel::{Frame, WARPS};
use crate::output::BlockOutput;
use crate::sm90::config::ROWS;
use crate::task::OpenTile;
use ptx::build::{Builder, Cmp, Consumer, Cursor, Slot};

/// Emits the warp that writes the columns of unit `unit` of the values.
pub fn emit(b: &mut Builder, frame: &Frame, unit: usize) {
    let values = frame.shared.v_rings[unit].consumer(b);
    let staged = frame.shared.staged[unit].cursor(b);
    let lane = b.special("%laneid");
    let leads = b.setp(Cmp::Lt, lane, WARPS);
    frame.params.for_each_tile(b, |b, open| {
        last_values(b, &values, &open, |b, slot| {
            staged.wait(b);
            staged.advance(b);
            write(b, frame, unit, &open, slot);
            b.warp_sync();
            // In the place of the four warps that read the values.
            frame.release(b, slot, leads);
        });
    });
}

/// Runs `body` with the place of the last values of a tile, if it has any.
fn last_values(
    b: &mut Builder,
    values: &Cursor<Consumer>,
    open: &OpenTile,
    body: impl FnOnce(&mut Builder, &Slot<Consumer>),
) {
    open.range.if_any(b, |b, n| {
        let slot = values.take(b);
        open.range.while_more(b, n, |b, _| {
            let next = values.take(b);
            slot.assign(b, &next);
        });
        body(b, &slot);
    });
}

fn write(b: &mut Builder, frame: &Frame, unit: usize, open: &OpenTile, slot: &Slot<Consumer>) {
    let config = &frame.config;
    let (first, columns) = match unit {
        0 => (0, config.left_columns()),
        _ => (config.left_columns(), config.right_columns()),
    };
    let block = frame.block(b, open);
    let output = BlockOutput { params: &frame.params, open, block: &block };
    let staged = frame.value_unit(b, slot, unit);
    let (row, byte) = (b.value(0), b.value(first * 2));
    output.write_staged(b, staged, row, ROWS, columns, byte);
}

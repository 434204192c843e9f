//! The warp that brings operands.

use super::config::{COLUMNS, DEPTH, ROWS, Share};
use super::kernel::Frame;
use super::order::Tile;
use ptx::build::{Builder, Mbarrier, Producer, Reg, SharedTiles, Slot, TensorMapParam};

/// Both CTAs of a cluster.
const BOTH: u32 = 0b11;

/// Emits the warp; one of its threads copies.
pub fn emit(b: &mut Builder, frame: &Frame) {
    let lead = b.elect();
    b.if_(lead, |b| {
        let ring = frame.ring.producer(b);
        frame.work.for_each_tile(b, |b, tile| {
            let own = frame.own(b, tile);
            b.range(0, frame.steps, |b, step| {
                let slot = ring.take(b);
                slot.wait(b);
                load(b, frame, &slot, own, step);
            });
        });
    });
}

/// Copies one step of both operands.
#[track_caller]
fn load(b: &mut Builder, frame: &Frame, slot: &Slot<Producer>, own: Tile, step: Reg<u32>) {
    let full = slot.full(b);
    full.arrive_expect(b, frame.config.step_bytes());
    let column = b.mul(step, DEPTH);
    let [left, right] = frame.halves(b, slot);
    let share = frame.config.share;
    let [a, b_map, _] = frame.maps;
    copy(b, frame, a, left, [own.row, column], share == Share::Left, full, ROWS);
    copy(b, frame, b_map, right, [own.column, column], share == Share::Right, full, COLUMNS);
}

/// Copies one operand, or this CTA's half of it to both CTAs.
#[track_caller]
fn copy(
    b: &mut Builder,
    frame: &Frame,
    map: TensorMapParam,
    to: SharedTiles,
    [row, column]: [Reg<u32>; 2],
    shared: bool,
    full: Mbarrier,
    rows: u32,
) {
    if !shared {
        let at = [Builder::coordinate(column), Builder::coordinate(row)];
        return b.tma_load(to.at(), map, &at, full);
    }
    let row = b.mad(frame.rank, rows / 2, row);
    let at = [Builder::coordinate(column), Builder::coordinate(row)];
    let half = to.select(b, frame.rank);
    let both = b.value::<u16>(BOTH as u16);
    b.tma_load_multicast(half.at(), map, &at, full, both);
}

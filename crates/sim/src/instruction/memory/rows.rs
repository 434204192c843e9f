//! Loads of global memory by all lanes of a warp at once.

use crate::exec::Execution;
use crate::instruction::{Load, MemSpace};
use crate::machine::{Machine, Run};
use crate::memory::Allocation;
use crate::memory::address::GLOBAL_BASE;
use crate::register::lanes;
use crate::register::{FULL, LANES, Lane, Reg, Registers, Row32, Row64};
use crate::warp::WarpId;

/// Where the lanes of a warp load.
struct Places {
    /// Offsets in the allocation; those of other lanes mean nothing.
    at: [u64; LANES],
    /// Bytes of each lane.
    bytes: u64,
    /// The first byte of all of them and the one behind the last.
    span: std::ops::Range<u64>,
    mask: u32,
}

impl Places {
    /// The ranges loaded: one, if lanes follow each other without a gap.
    fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + Clone {
        let first = self.at[0];
        let follows = |i: usize| self.at[i] == first + i as u64 * self.bytes;
        let run = self.mask == FULL && (0..LANES).all(follows);
        let (mask, bytes) =
            if run { (1, LANES as u64 * self.bytes) } else { (self.mask, self.bytes) };
        lanes(mask).map(move |lane| (self.at[lane.0], bytes))
    }
}

impl Execution<'_, '_> {
    /// Loads for all lanes; false leaves the access to the general way.
    pub(crate) fn load_rows(&mut self, w: WarpId, load: &Load, mask: u32) -> Run<bool> {
        let plain = |d: &Option<Reg>| matches!(d, None | Some(Reg::R32(_) | Reg::R64(_)));
        if !load.dst.iter().all(plain) {
            return Ok(false);
        }
        let Some((allocation, places)) = self.machine.places(w, load, mask) else {
            return Ok(false);
        };
        if self.machine.launch.options.checks {
            let Places { span, bytes, at, .. } = &places;
            let unwritten = |lane: Lane| allocation.first_unwritten(at[lane.0], *bytes).is_some();
            if allocation.first_unwritten(span.start, span.end - span.start).is_some()
                && lanes(mask).any(unwritten)
            {
                return Ok(false);
            }
            if !allocation.read_only {
                let ranges = places.ranges().map(|(at, bytes)| (allocation.base + at, bytes));
                self.judge.note_global_reads(self.machine, w, ranges)?;
            }
        }
        for (dst, delta) in load.dst.iter().zip((0..).step_by(load.bytes.into())) {
            let Some(dst) = *dst else { continue };
            load_row(&mut self.machine.warps[w].registers, dst, allocation, &places, delta, load);
        }
        self.machine.count_bytes(load.space, places.bytes * u64::from(mask.count_ones()), false);
        Ok(true)
    }
}

impl<'a> Machine<'a> {
    /// The allocation that all lanes load from, and where, if there is one and every lane is aligned.
    fn places(&mut self, w: WarpId, load: &Load, mask: u32) -> Option<(&'a Allocation, Places)> {
        let Reg::R64(base) = load.addr.base else { return None };
        if !matches!(load.space, MemSpace::Global | MemSpace::Generic) {
            return None;
        }
        let bytes = u64::from(load.bytes) * load.dst.len() as u64;
        let row = self.warps[w].registers.r64(base);
        let mut at = row.0.map(|address| address.wrapping_add(load.addr.offset as u64));
        let (mut low, mut high, mut bits) = (u64::MAX, 0, 0);
        for lane in lanes(mask) {
            (low, high, bits) = (low.min(at[lane.0]), high.max(at[lane.0]), bits | at[lane.0]);
        }
        // Below are the windows of other spaces, and no allocation.
        if low < GLOBAL_BASE || bits & (bytes.next_power_of_two() - 1) != 0 {
            return None;
        }
        let mut hint = self.warps[w].global_hint;
        let length = (high - low).checked_add(bytes)?;
        let (allocation, offset) = self.launch.global.find(low, length, &mut hint).ok()?;
        self.warps[w].global_hint = hint;
        at = at.map(|address| address.wrapping_sub(low).wrapping_add(offset));
        Some((allocation, Places { at, bytes, span: offset..offset + length, mask }))
    }
}

/// Loads one element of every lane.
fn load_row(
    registers: &mut Registers,
    dst: Reg,
    allocation: &Allocation,
    places: &Places,
    delta: u64,
    load: &Load,
) {
    let mut values = [0; LANES];
    for lane in lanes(places.mask) {
        values[lane.0] = allocation.load(places.at[lane.0] + delta, load.bytes.into());
    }
    if let Some(sign) = load.sign {
        let shift = 64 - u32::from(sign);
        values = values.map(|value| ((value << shift) as i64 >> shift) as u64);
    }
    match dst {
        Reg::R32(d) => registers.set32(d, places.mask, &Row32(values.map(|value| value as u32))),
        Reg::R64(d) => registers.set64(d, places.mask, &Row64(values)),
        Reg::P(_) | Reg::R128(_) => {}
    }
}

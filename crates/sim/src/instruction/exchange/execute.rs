//! Exchanges between the lanes of a warp.

use crate::exec::Execution;
use crate::exec::Flow;
use crate::instruction::{Exchange, ShflMode, VoteKind};
use crate::machine::Run;
use crate::register::lanes;
use crate::register::{Lane, Reg, Registers, Row32};
use crate::rules::Rule;
use crate::tensor_copy::{ReduceOp, ReduceType, reduce};
use crate::warp::WarpId;

impl Execution<'_, '_> {
    pub(crate) fn warp_wide(&mut self, w: WarpId, op: &Exchange, mask: u32) -> Run<Flow> {
        let members = *self.machine.warps[w].registers.r32(op.members());
        if let Some(lane) = lanes(mask).find(|lane| members[*lane] & lane.mask() == 0) {
            let message = format!(
                "lane {lane} executes this with member mask {:#010x}, which lacks it",
                members[lane]
            );
            self.judge.survivable(self.machine, w, Some(lane), Rule::MemberMask, message, None)?;
        }
        let named = lanes(mask).fold(0, |all, lane| all | members[lane]);
        if let Some(wait) = self.machine.converge(w, named) {
            return Ok(Flow::Retry(wait));
        }
        if matches!(op, Exchange::WarpSync { .. }) {
            self.judge.synchronise_lanes(w);
        }
        if self.judge.follows(w) {
            self.judge.follow_exchange(self.machine, w, op, mask)?;
        }
        exchange(&mut self.machine.warps[w].registers, op, mask);
        Ok(Flow::Next)
    }
}

/// Executes an exchange for the lanes of `mask`. Lanes with the same member mask are one group, also one that
/// the mask lacks. Those whose guard is false do not take part although they are here.
pub(crate) fn exchange(r: &mut Registers, op: &Exchange, mask: u32) {
    let members = *r.r32(op.members());
    let mut left = mask;
    while left != 0 {
        let same = members[Lane::first(left)];
        let group = lanes(left).filter(|l| members[*l] == same);
        let group = group.fold(0, |all, lane| all | lane.mask());
        exchange_in_group(r, op, group);
        left &= !group;
    }
}

/// Executes an exchange for the lanes that do it together.
fn exchange_in_group(r: &mut Registers, op: &Exchange, active: u32) {
    match op {
        Exchange::Shfl { mode, d, p, s } => {
            let (row, valid) = shuffle(r, *mode, s, active);
            r.set32(*d, active, &row);
            if let Some(p) = p {
                r.set_p(*p, active, valid);
            }
        }
        Exchange::Vote { kind, d, a, .. } => vote(r, *kind, *d, *a, active),
        Exchange::Match { all, d, p, a, .. } => {
            for lane in lanes(active) {
                let value = r.lane(*a, lane);
                let same =
                    lanes(active).filter(|l| r.lane(*a, *l) == value).fold(0, |m, l| m | l.mask());
                let whole = same == active;
                let result = if *all && !whole { 0 } else { same };
                r.set_lane(Reg::R32(*d), lane, u64::from(result));
                if let Some(p) = p {
                    r.set_lane(Reg::P(*p), lane, whole.into());
                }
            }
        }
        Exchange::Elect { d, p, .. } => {
            let leader = active & active.wrapping_neg();
            r.set_p(*p, active, leader);
            if let Some(d) = d {
                r.set32(*d, active, &Row32::splat(leader.trailing_zeros()));
            }
        }
        Exchange::Redux { op, ty, nan, abs, d, a, .. } => {
            let value = redux(r.r32(*a), active, *op, *ty, *nan, *abs);
            r.set32(*d, active, &Row32::splat(value));
        }
        Exchange::WarpSync { .. } => {}
    }
}

fn shuffle(
    r: &Registers,
    mode: ShflMode,
    s: &[crate::register::R32; 4],
    active: u32,
) -> (Row32, u32) {
    let (value, b, c) = (r.r32(s[0]), r.r32(s[1]), r.r32(s[2]));
    let mut out = *value;
    let mut valid = 0;
    for lane in lanes(active) {
        let (b, c) = (b[lane] & 31, c[lane]);
        let (clamp, segment) = (c & 31, c >> 8 & 31);
        let this = lane.0 as u32;
        let highest = this & segment | clamp & !segment;
        let lowest = this & segment;
        let (from, inside) = match mode {
            ShflMode::Index => {
                let j = lowest | b & !segment;
                (j, j <= highest)
            }
            ShflMode::Up => (this.wrapping_sub(b), this as i32 - b as i32 >= highest as i32),
            ShflMode::Down => (this + b, this + b <= highest),
            ShflMode::Butterfly => (this ^ b, this ^ b <= highest),
        };
        if inside {
            out[lane] = value.0[(from & 31) as usize];
            valid |= lane.mask();
        }
    }
    (out, valid)
}

fn vote(r: &mut Registers, kind: VoteKind, d: Reg, a: (crate::register::P, bool), active: u32) {
    let yes = (r.p(a.0) ^ if a.1 { u32::MAX } else { 0 }) & active;
    let bits = match kind {
        VoteKind::Ballot => yes,
        VoteKind::All => u32::from(yes == active),
        VoteKind::Any => u32::from(yes != 0),
        VoteKind::Uniform => u32::from(yes == 0 || yes == active),
    };
    for lane in lanes(active) {
        r.set_lane(d, lane, bits.into());
    }
}

fn redux(row: &Row32, active: u32, op: ReduceOp, ty: ReduceType, nan: bool, abs: bool) -> u32 {
    let value = |lane: Lane| if abs { row[lane] & 0x7FFF_FFFF } else { row[lane] };
    if nan && lanes(active).any(|l| f32::from_bits(row[l]).is_nan()) {
        return 0x7FFF_FFFF;
    }
    let mut all = lanes(active);
    let first = all.next().map_or(0, value);
    let mut memory = first.to_le_bytes();
    for lane in all {
        let kept = memory;
        // Minimum and maximum of floats skip NaN.
        if ty == ReduceType::F32 && f32::from_bits(value(lane)).is_nan() {
            continue;
        }
        if ty == ReduceType::F32 && f32::from_bits(u32::from_le_bytes(kept)).is_nan() {
            memory = value(lane).to_le_bytes();
            continue;
        }
        if ty == ReduceType::F32 {
            let (a, b) = (f32::from_bits(u32::from_le_bytes(kept)), f32::from_bits(value(lane)));
            let picked = if op == ReduceOp::Max { a.max(b) } else { a.min(b) };
            memory = picked.to_bits().to_le_bytes();
            continue;
        }
        // The operations redux has are all defined on 32-bit integers.
        let _defined = reduce(op, ty, &mut memory, &value(lane).to_le_bytes());
    }
    u32::from_le_bytes(memory)
}

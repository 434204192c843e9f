//! Instructions that only touch a warp's own registers.

use crate::alu::{Compare, CvtSource, RowFn, bfe64, bit_insert, lop3, prmt};
use crate::instruction::{Arithmetic, MemSpace};
use crate::memory::address::{self, Window};
use crate::register::{FULL, Lane, P, R32, R64, Reg, Registers, Row32, Row64, lanes};

/// Executes `op` for the lanes of `mask`; `flag` is the carry flag.
#[inline(always)]
pub(crate) fn execute(r: &mut Registers, op: &Arithmetic, flag: P, mask: u32) {
    match op {
        Arithmetic::Row { f, d, s } => row(r, *f, *d, s, mask),
        Arithmetic::Mov32 { d, a } => {
            let a = *r.r32(*a);
            r.set32(*d, mask, &a);
        }
        Arithmetic::Mov64 { d, a } => {
            let a = *r.r64(*a);
            r.set64(*d, mask, &a);
        }
        Arithmetic::Compare { f, d, q, s, with } => {
            let raw = compare(r, *f, s);
            let join = |bits: u32, r: &Registers| match with {
                Some((op, p, negated)) => op.apply(bits, r.p(*p) ^ if *negated { FULL } else { 0 }),
                None => bits,
            };
            let (yes, no) = (join(raw, r), join(!raw, r));
            r.set_p(*d, mask, yes);
            if let Some(q) = q {
                r.set_p(*q, mask, no);
            }
        }
        Arithmetic::Select32 { d, s, p } => select32(r, *d, s, *p, mask),
        Arithmetic::Select64 { d, s, p } => select64(r, *d, s, *p, mask),
        Arithmetic::Logic { d, f, s } => {
            let [a, b] = s.map(|(p, negated)| r.p(p) ^ if negated { FULL } else { 0 });
            r.set_p(*d, mask, f.map_or(a, |f| f.apply(a, b)));
        }
        Arithmetic::Lop3 { .. }
        | Arithmetic::Prmt { .. }
        | Arithmetic::Lane3 { .. }
        | Arithmetic::Video { .. }
        | Arithmetic::Bfi { .. }
        | Arithmetic::Bfe64 { .. }
        | Arithmetic::Cvt { .. }
        | Arithmetic::StochasticCvt { .. }
        | Arithmetic::Pack { .. }
        | Arithmetic::Unpack { .. }
        | Arithmetic::Offset { .. }
        | Arithmetic::IsSpace { .. }
        | Arithmetic::Mapa { .. }
        | Arithmetic::CtaRank { .. }
        | Arithmetic::Carry { .. } => uncommon(r, op, flag, mask),
    }
}

#[inline(always)]
fn row(r: &mut Registers, f: RowFn, d: u32, s: &[u32; 3], mask: u32) {
    let (a, b, c) = (s[0], s[1], s[2]);
    match f {
        RowFn::A1(f) => narrow(r, d, mask, |out, r| f(out, r.r32(R32(a)))),
        RowFn::A2(f) => narrow(r, d, mask, |out, r| f(out, r.r32(R32(a)), r.r32(R32(b)))),
        RowFn::A3(f) => {
            narrow(r, d, mask, |out, r| f(out, r.r32(R32(a)), r.r32(R32(b)), r.r32(R32(c))));
        }
        RowFn::Narrow(f) => narrow(r, d, mask, |out, r| f(out, r.r64(R64(a)))),
        RowFn::B1(f) => wide(r, d, mask, |out, r| f(out, r.r64(R64(a)))),
        RowFn::B2(f) => wide(r, d, mask, |out, r| f(out, r.r64(R64(a)), r.r64(R64(b)))),
        RowFn::B3(f) => {
            wide(r, d, mask, |out, r| f(out, r.r64(R64(a)), r.r64(R64(b)), r.r64(R64(c))));
        }
        RowFn::Wide2(f) => wide(r, d, mask, |out, r| f(out, r.r32(R32(a)), r.r32(R32(b)))),
        RowFn::Wide3(f) => {
            wide(r, d, mask, |out, r| f(out, r.r32(R32(a)), r.r32(R32(b)), r.r64(R64(c))));
        }
        RowFn::Shift64(f) => wide(r, d, mask, |out, r| f(out, r.r64(R64(a)), r.r32(R32(b)))),
    }
}

#[inline(always)]
fn narrow(r: &mut Registers, d: u32, mask: u32, f: impl FnOnce(&mut Row32, &Registers)) {
    let mut out = Row32::splat(0);
    f(&mut out, r);
    r.set32(R32(d), mask, &out);
}

#[inline(always)]
fn wide(r: &mut Registers, d: u32, mask: u32, f: impl FnOnce(&mut Row64, &Registers)) {
    let mut out = Row64::splat(0);
    f(&mut out, r);
    r.set64(R64(d), mask, &out);
}

fn compare(r: &Registers, f: Compare, s: &[u32; 2]) -> u32 {
    match f {
        Compare::A(f) => f(r.r32(R32(s[0])), r.r32(R32(s[1]))),
        Compare::B(f) => f(r.r64(R64(s[0])), r.r64(R64(s[1]))),
    }
}

fn select32(r: &mut Registers, d: R32, s: &[R32; 2], p: (P, bool), mask: u32) {
    let yes = r.p(p.0) ^ if p.1 { FULL } else { 0 };
    let (a, b) = (*r.r32(s[0]), *r.r32(s[1]));
    let mut out = b;
    for i in 0..32 {
        if yes >> i & 1 != 0 {
            out.0[i] = a.0[i];
        }
    }
    r.set32(d, mask, &out);
}

fn select64(r: &mut Registers, d: R64, s: &[R64; 2], p: (P, bool), mask: u32) {
    let yes = r.p(p.0) ^ if p.1 { FULL } else { 0 };
    let (a, b) = (*r.r64(s[0]), *r.r64(s[1]));
    let mut out = b;
    for i in 0..32 {
        if yes >> i & 1 != 0 {
            out.0[i] = a.0[i];
        }
    }
    r.set64(d, mask, &out);
}

fn each(r: &mut Registers, d: Reg, mask: u32, f: impl Fn(&Registers, Lane) -> u64) {
    for lane in lanes(mask) {
        let value = f(r, lane);
        r.set_lane(d, lane, value);
    }
}

fn uncommon(r: &mut Registers, op: &Arithmetic, flag: P, mask: u32) {
    match op {
        Arithmetic::Lop3 { d, s, table, with } => {
            let [a, b, c] = s.map(|x| *r.r32(x));
            let out = Row32(std::array::from_fn(|i| lop3(a.0[i], b.0[i], c.0[i], *table)));
            r.set32(*d, mask, &out);
            if let Some((op, p, q)) = with {
                let nonzero = (0..32).fold(0, |m, i| m | u32::from(out.0[i] != 0) << i);
                let joined = op.apply(nonzero, r.p(*q));
                r.set_p(*p, mask, joined);
            }
        }
        Arithmetic::Prmt { d, s, mode } => {
            let [a, b, c] = s.map(|x| *r.r32(x));
            let lane = |i: usize| prmt(*mode, a.0[i], b.0[i], c.0[i]).unwrap_or(0);
            let out = Row32(std::array::from_fn(lane));
            r.set32(*d, mask, &out);
        }
        Arithmetic::Lane3 { f, d, s } => {
            let [a, b, c] = s.map(|x| *r.r32(x));
            let out = Row32(std::array::from_fn(|i| f(a.0[i], b.0[i], c.0[i])));
            r.set32(*d, mask, &out);
        }
        Arithmetic::Video { video, d, s } => {
            let [a, b, c] = s.map(|x| *r.r32(x));
            let out = Row32(std::array::from_fn(|i| video.apply(a.0[i], b.0[i], c.0[i])));
            r.set32(*d, mask, &out);
        }
        Arithmetic::Bfi { d, s, at } => {
            let bits = if matches!(d, Reg::R64(_)) { 64 } else { 32 };
            each(r, *d, mask, |r, i| {
                let [a, b] = s.map(|x| r.lane(x, i));
                bit_insert(bits, a, b, r.r32(at[0])[i], r.r32(at[1])[i])
            });
        }
        Arithmetic::Bfe64 { d, a, at, signed } => each(r, Reg::R64(*d), mask, |r, i| {
            bfe64(*signed, r.r64(*a)[i], r.r32(at[0])[i], r.r32(at[1])[i])
        }),
        Arithmetic::Cvt { cvt, d, s } => convert(r, cvt, *d, s, mask),
        Arithmetic::StochasticCvt { cvt, d, s } => each(r, *d, mask, |r, i| {
            let numbers = s[..cvt.count].iter().map(|s| r.r32(*s)[i]);
            cvt.apply(numbers, r.r32(s[cvt.count])[i]).into()
        }),
        Arithmetic::Pack { d, s, bits } => pack(r, *d, s, *bits, mask),
        Arithmetic::Unpack { d, a, bits } => unpack(r, d, *a, *bits, mask),
        Arithmetic::Offset { d, a, add, mask: keep } => {
            each(r, *d, mask, |r, i| r.lane(*a, i).wrapping_add(*add) & keep);
        }
        Arithmetic::IsSpace { d, a, space } => each(r, Reg::P(*d), mask, |r, i| {
            let found = match address::window(r.r64(*a)[i]) {
                Window::Global(_) => MemSpace::Global,
                Window::Shared(_) => MemSpace::Shared,
                Window::Local(_) => MemSpace::Local,
                Window::Param(_) => MemSpace::Param,
            };
            u64::from(found == *space)
        }),
        Arithmetic::Mapa { d, a, rank } => each(r, *d, mask, |r, i| {
            let keep = !0xFF00_0000u64;
            r.lane(*a, i) & keep | u64::from(r.r32(*rank)[i]) << 24
        }),
        Arithmetic::CtaRank { d, a } => {
            each(r, Reg::R32(*d), mask, |r, i| r.lane(*a, i) >> 24 & 0xFF)
        }
        Arithmetic::Carry { d, a, b, sub, carry_in, carry_out } => {
            let carry = Carry { sub: *sub, carry_in: *carry_in, carry_out: *carry_out, flag };
            carry.execute(r, *d, [*a, *b], mask);
        }
        Arithmetic::Row { .. }
        | Arithmetic::Mov32 { .. }
        | Arithmetic::Mov64 { .. }
        | Arithmetic::Compare { .. }
        | Arithmetic::Select32 { .. }
        | Arithmetic::Select64 { .. }
        | Arithmetic::Logic { .. } => execute(r, op, flag, mask),
    }
}

fn convert(r: &mut Registers, cvt: &crate::alu::Cvt, d: Reg, s: &[Reg; 2], mask: u32) {
    if let (Some(c), Reg::R32(d), [Reg::R32(a), Reg::R32(b)]) = (cvt.packs_nearest(), d, s) {
        let out = c.pack_rows(r.r32(*a), r.r32(*b), cvt.width() / 2);
        r.set32(d, mask, &out);
        return;
    }
    let second = if cvt.source == CvtSource::TwoSingles { s[1] } else { s[0] };
    each(r, d, mask, |r, i| cvt.apply(r.lane(s[0], i), r.lane(second, i)));
}

fn pack(r: &mut Registers, d: Reg, s: &[Reg], bits: u32, mask: u32) {
    if let (Reg::R64(d), [Reg::R32(a), Reg::R32(b)], 32) = (d, s, bits) {
        let (a, b) = (*r.r32(*a), *r.r32(*b));
        let out = Row64(std::array::from_fn(|i| u64::from(b.0[i]) << 32 | u64::from(a.0[i])));
        r.set64(d, mask, &out);
        return;
    }
    let keep = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    for lane in lanes(mask) {
        let value = s
            .iter()
            .rev()
            .fold(0u128, |value, part| value << bits | u128::from(r.lane(*part, lane) & keep));
        match d {
            Reg::R128(d) => r.set_lane128(d, lane, value),
            _ => r.set_lane(d, lane, value as u64),
        }
    }
}

fn unpack(r: &mut Registers, d: &[Option<Reg>], a: Reg, bits: u32, mask: u32) {
    if let ([low, high], Reg::R64(a), 32) = (d, a, bits) {
        let a = *r.r64(a);
        for (part, shift) in [(low, 0), (high, 32)] {
            if let Some(Reg::R32(d)) = part {
                let out = Row32(std::array::from_fn(|i| (a.0[i] >> shift) as u32));
                r.set32(*d, mask, &out);
            }
        }
        return;
    }
    let keep = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    for lane in lanes(mask) {
        let value = match a {
            Reg::R128(a) => r.lane128(a, lane),
            _ => u128::from(r.lane(a, lane)),
        };
        for (i, part) in d.iter().enumerate() {
            if let Some(part) = part {
                r.set_lane(*part, lane, (value >> (bits * i as u32)) as u64 & keep);
            }
        }
    }
}

/// `add.cc` and its family; the carry flag is a predicate.
struct Carry {
    sub: bool,
    carry_in: bool,
    carry_out: bool,
    flag: P,
}

impl Carry {
    fn execute(&self, r: &mut Registers, d: Reg, [a, b]: [Reg; 2], mask: u32) {
        let bits = if matches!(d, Reg::R64(_)) { 64 } else { 32 };
        let keep = (1u128 << bits) - 1;
        for lane in lanes(mask) {
            let [x, y] = [a, b].map(|reg| u128::from(r.lane(reg, lane)) & keep);
            let c = u128::from(self.carry_in && lane.is_in(r.p(self.flag)));
            let (value, out) = if self.sub {
                (x.wrapping_sub(y).wrapping_sub(c) & keep, x < y + c)
            } else {
                ((x + y + c) & keep, x + y + c > keep)
            };
            r.set_lane(d, lane, value as u64);
            if self.carry_out {
                r.set_p(self.flag, lane.mask(), u32::from(out) << lane.0);
            }
        }
    }
}

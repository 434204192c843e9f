//! Which numbers a register holds, and when two of them differ by rounding only.
//!
//! Stores name bits, not numbers (`st.shared.b32`), so the type is that of the instructions which
//! compute what is stored. Two results of one computation, done in different orders or with multiplies
//! fused into additions or not, differ in their last places. How far they may be apart and still count
//! as that is a matter of evidence: 16 units of f32 are nearly impossible by chance, one unit of bf16 is
//! not rare, and numbers of 8 bits are so few that nothing follows from their being neighbours.

use crate::instruction::Use;
use crate::instruction::{Arithmetic, Exchange, Op};
use crate::load::{Fill, Kernel};
use crate::register::Reg;
use std::collections::HashSet;

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbers {
    F64,
    F32,
    F32x2,
    Tf32,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
}

/// How a number is made of bits.
struct Format {
    bits: u32,
    /// Bits of the fraction, those included that are always zero.
    fraction: u32,
    /// Zeros at the end.
    zeros: u32,
    /// Units in the last place that rounding explains.
    units: u64,
}

impl Numbers {
    /// The type that a modifier names.
    fn from_modifier(name: &str) -> Option<Numbers> {
        Some(match name {
            "f64" => Numbers::F64,
            "f32" => Numbers::F32,
            "f32x2" => Numbers::F32x2,
            "tf32" => Numbers::Tf32,
            "f16" => Numbers::F16,
            "f16x2" => Numbers::F16x2,
            "bf16" => Numbers::Bf16,
            "bf16x2" => Numbers::Bf16x2,
            _ => return None,
        })
    }

    /// The name of one of them.
    pub(super) fn name(self) -> &'static str {
        match self {
            Numbers::F64 => "f64",
            Numbers::F32 | Numbers::F32x2 => "f32",
            Numbers::Tf32 => "tf32",
            Numbers::F16 | Numbers::F16x2 => "f16",
            Numbers::Bf16 | Numbers::Bf16x2 => "bf16",
        }
    }

    /// One of a pair.
    pub(super) fn element(self) -> Option<Numbers> {
        match self {
            Numbers::F32x2 => Some(Numbers::F32),
            Numbers::F16x2 => Some(Numbers::F16),
            Numbers::Bf16x2 => Some(Numbers::Bf16),
            _ => None,
        }
    }

    fn pair(self) -> Option<Numbers> {
        let pairs = [Numbers::F32x2, Numbers::F16x2, Numbers::Bf16x2];
        pairs.into_iter().find(|pair| pair.element() == Some(self))
    }

    fn format(self) -> Format {
        let (bits, fraction, zeros, units) = match self {
            Numbers::F64 => (64, 52, 0, 16),
            Numbers::F32 | Numbers::F32x2 => (32, 23, 0, 16),
            Numbers::Tf32 => (32, 23, 13, 1),
            Numbers::F16 | Numbers::F16x2 => (16, 10, 0, 1),
            Numbers::Bf16 | Numbers::Bf16x2 => (16, 7, 0, 1),
        };
        Format { bits, fraction, zeros, units }
    }

    /// Bits of the register that hold something.
    fn width(self) -> u32 {
        let count = if self.element().is_some() { 2 } else { 1 };
        count * self.format().bits
    }

    /// The most units in the last place between the numbers of two values of `bytes` bytes, if rounding
    /// explains all differences.
    pub(super) fn rounding(self, a: u64, b: u64, bytes: u32) -> Option<u64> {
        if self.width() != 8 * bytes {
            return None;
        }
        let format = self.format();
        let parts = (0..self.width()).step_by(format.bits as usize);
        let apart: Option<Vec<u64>> =
            parts.map(|shift| format.units_apart(a >> shift, b >> shift)).collect();
        apart?.into_iter().max()
    }
}

impl Format {
    /// Units in the last place between two numbers, if rounding explains them.
    fn units_apart(&self, a: u64, b: u64) -> Option<u64> {
        let mask = u64::MAX >> (64 - self.bits);
        let (a, b) = (a & mask, b & mask);
        if a == b {
            return Some(0);
        }
        let all_ones = (mask >> 1) & (u64::MAX << self.fraction);
        if a & all_ones == all_ones || b & all_ones == all_ones {
            return None;
        }
        let units = self.ordered(a).abs_diff(self.ordered(b)) >> self.zeros;
        (units <= self.units).then_some(units)
    }

    /// An integer that grows as the number does; both zeros are 0.
    fn ordered(&self, bits: u64) -> i64 {
        let sign = 1 << (self.bits - 1);
        let magnitude = (bits & (sign - 1)) as i64;
        if bits & sign == 0 { magnitude } else { -magnitude }
    }
}

/// What is known of a register.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    /// Constants only.
    Nothing,
    Numbers(Numbers),
    Other,
}

impl Known {
    fn of(numbers: Option<Numbers>) -> Known {
        numbers.map_or(Known::Other, Known::Numbers)
    }

    fn and(self, other: Known) -> Known {
        match (self, other) {
            (Known::Nothing, known) | (known, Known::Nothing) => known,
            (a, b) if a == b => a,
            _ => Known::Other,
        }
    }
}

/// Registers that are looked through for the one that a value was computed in. Compilers copy a value a few times; the
/// limit keeps endless chains of copies from exhausting the stack.
const MOST_COPIES: usize = 256;

/// The numbers a register holds, if all instructions that write it agree.
pub(super) fn numbers_in(kernel: &Kernel, reg: Reg) -> Option<Numbers> {
    match known(kernel, reg, &mut HashSet::new()) {
        Known::Numbers(numbers) => Some(numbers),
        Known::Nothing | Known::Other => None,
    }
}

fn known(kernel: &Kernel, reg: Reg, seen: &mut HashSet<Reg>) -> Known {
    if !seen.insert(reg) || is_constant(kernel, reg) {
        return Known::Nothing;
    }
    if seen.len() > MOST_COPIES {
        return Known::Other;
    }
    let mut sum = None;
    for inst in &kernel.code {
        let mut writes = false;
        inst.op.registers(&mut |r, how| writes |= r == reg && how == Use::Write);
        if writes {
            let text = kernel.sources.get(inst.source as usize).map_or("", |s| &s.text);
            let result = written(kernel, &inst.op, text, seen);
            sum = Some(sum.unwrap_or(Known::Nothing).and(result));
        }
    }
    sum.unwrap_or(Known::Other)
}

fn is_constant(kernel: &Kernel, reg: Reg) -> bool {
    kernel.fills.iter().any(|fill| match (fill, reg) {
        (Fill::Const32(r, _), Reg::R32(reg)) => *r == reg,
        (Fill::Const64(r, _), Reg::R64(reg)) => *r == reg,
        _ => false,
    })
}

/// What an instruction writes.
fn written(kernel: &Kernel, op: &Op, text: &str, seen: &mut HashSet<Reg>) -> Known {
    let mut all = |sources: &[Reg]| {
        let each = sources.iter().map(|source| known(kernel, *source, seen));
        each.fold(Known::Nothing, Known::and)
    };
    match op {
        Op::Arithmetic(Arithmetic::Mov32 { a, .. }) => all(&[Reg::R32(*a)]),
        Op::Arithmetic(Arithmetic::Mov64 { a, .. }) => all(&[Reg::R64(*a)]),
        Op::Arithmetic(Arithmetic::Select32 { s, .. }) => all(&s.map(Reg::R32)),
        Op::Arithmetic(Arithmetic::Select64 { s, .. }) => all(&s.map(Reg::R64)),
        Op::Exchange(Exchange::Shfl { s, .. }) => all(&[Reg::R32(s[0])]),
        Op::Arithmetic(Arithmetic::Pack { s, .. }) => match all(s) {
            Known::Numbers(one) if s.len() == 2 => Known::of(one.pair()),
            Known::Nothing => Known::Nothing,
            _ => Known::Other,
        },
        Op::Arithmetic(Arithmetic::Unpack { a, .. }) => match all(&[*a]) {
            Known::Numbers(pair) => Known::of(pair.element()),
            known => known,
        },
        _ => Known::of(result(text)),
    }
}

/// Instructions whose result has the type they name last.
const TYPED: [&str; 19] = [
    "add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "tanh", "sin",
    "cos", "min", "max", "neg", "abs", "ld",
];

/// The numbers that an instruction computes.
fn result(text: &str) -> Option<Numbers> {
    let mut words = text.split_whitespace();
    let guarded = text.starts_with('@');
    let name = if guarded { words.nth(1) } else { words.next() }?;
    let mut parts = name.trim_end_matches(';').split('.');
    let opcode = parts.next()?;
    let mut types = parts.filter_map(Numbers::from_modifier);
    match opcode {
        "cvt" => types.next(),
        // Accumulators of 16 bits are packed.
        "mma" | "wgmma" => types.next().map(|d| if d == Numbers::F16 { Numbers::F16x2 } else { d }),
        _ if TYPED.contains(&opcode) => types.next_back(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_types_of_instructions() {
        for (text, numbers) in [
            ("fma.rn.ftz.f32 %f1, %f2, %f3, %f4;", Some(Numbers::F32)),
            ("@%p1 add.rn.f32x2 %rd1, %rd2, %rd3;", Some(Numbers::F32x2)),
            ("cvt.rn.bf16x2.f32 %r1, %f1, %f2;", Some(Numbers::Bf16x2)),
            ("cvt.f32.f16 %f1, %h1;", Some(Numbers::F32)),
            ("cvt.rna.tf32.f32 %r1, %f1;", Some(Numbers::Tf32)),
            ("cvt.rni.s32.f32 %r1, %f1;", Some(Numbers::F32)),
            (
                "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1, %r2}, ...",
                Some(Numbers::F16x2),
            ),
            ("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1}, ...", Some(Numbers::F32)),
            ("add.u32 %r1, %r2, %r3;", None),
            ("ld.shared.b32 %r1, [%r2];", None),
            ("setp.lt.f32 %p1, %f1, %f2;", None),
        ] {
            assert_eq!(result(text), numbers, "{text}");
        }
    }

    #[test]
    fn rounding_is_a_matter_of_the_last_places() {
        let f32 = |a: f32, b: f32| Numbers::F32.rounding(a.to_bits().into(), b.to_bits().into(), 4);
        assert_eq!(f32(1.0, 1.0), Some(0));
        assert_eq!(f32(1.0, 1.0 + f32::EPSILON), Some(1));
        assert_eq!(f32(1.0, 1.0 - f32::EPSILON), Some(2));
        assert_eq!(f32(0.0, -0.0), Some(0));
        assert_eq!(f32(1e-45, -1e-45), Some(2));
        assert_eq!(f32(1.0, 1.0 + 17.0 * f32::EPSILON), None);
        assert_eq!(f32(1.0, -1.0), None);
        assert_eq!(f32(f32::MAX, f32::INFINITY), None);
        assert_eq!(f32(f32::NAN, 1.0), None);
        assert_eq!(Numbers::F32.rounding(0, 1, 8), None);
    }

    #[test]
    fn each_of_a_pair_is_judged_alone() {
        let bf16 = |a, b| Numbers::Bf16x2.rounding(a, b, 4);
        assert_eq!(bf16(0x3F80_3F80, 0x3F81_3F7F), Some(1));
        assert_eq!(bf16(0x3F80_3F80, 0x3F80_3F82), None);
        assert_eq!(bf16(0x3F80_7FFF, 0x3F80_8000), None);
        assert_eq!(Numbers::F16x2.rounding(0x3C00_3C00, 0x3C01_3BFF, 4), Some(1));
        assert_eq!(
            Numbers::F32x2.rounding(0x3F80_0000_3F80_0000, 0x3F80_0010_3F80_0000, 8),
            Some(16)
        );
        assert_eq!(Numbers::Tf32.rounding(0x3F80_0000, 0x3F80_2000, 4), Some(1));
        assert_eq!(Numbers::Tf32.rounding(0x3F80_0000, 0x3F80_4000, 4), None);
    }
}

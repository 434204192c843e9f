//! Arithmetic: instructions that touch nothing but registers of their own lane.

mod comparison;
mod decode;
mod execute;
mod moves;

pub(crate) use execute::execute as execute_arithmetic;

use super::memory::MemSpace;
use super::operands::{Use, Visit, all, outs, reads32, regs};
use crate::alu::{BoolOp, Compare, Cvt, RowFn, StochasticCvt, Video};
use crate::register::{P, R32, R64, Reg};
use crate::timing::{Class, Cost};
use Use::{Read, Write};

/// An arithmetic instruction.
pub enum Arithmetic {
    /// A row function; the slots' files follow from its shape.
    Row {
        /// Function.
        f: RowFn,
        /// Destination.
        d: u32,
        /// Sources.
        s: [u32; 3],
    },
    /// `lop3.b32`.
    Lop3 {
        /// Destination.
        d: R32,
        /// Sources.
        s: [R32; 3],
        /// Truth table.
        table: u8,
        /// `.and`/`.or` with a predicate: operation, result, input.
        with: Option<(BoolOp, P, P)>,
    },
    /// `prmt.b32`.
    Prmt {
        /// Destination.
        d: R32,
        /// Sources and selector.
        s: [R32; 3],
        /// Mode.
        mode: Option<&'static str>,
    },
    /// `bfi`.
    Bfi {
        /// Destination.
        d: Reg,
        /// Field source and base.
        s: [Reg; 2],
        /// Position and length.
        at: [R32; 2],
    },
    /// `bfe` of 64 bits.
    Bfe64 {
        /// Destination.
        d: R64,
        /// Source.
        a: R64,
        /// Position and length.
        at: [R32; 2],
        /// Signed.
        signed: bool,
    },
    /// `dp4a`, `dp2a` and other lane functions over three 32-bit sources.
    Lane3 {
        /// Function.
        f: fn(u32, u32, u32) -> u32,
        /// Destination.
        d: R32,
        /// Sources.
        s: [R32; 3],
    },
    /// `vabsdiff4` and other video instructions.
    Video {
        /// What it does.
        video: Video,
        /// Destination.
        d: R32,
        /// Sources.
        s: [R32; 3],
    },
    /// `mad.lo` and friends with carry.
    Carry {
        /// Destination.
        d: Reg,
        /// First addend.
        a: Reg,
        /// Second addend.
        b: Reg,
        /// Subtract.
        sub: bool,
        /// Use the carry flag.
        carry_in: bool,
        /// Set the carry flag.
        carry_out: bool,
    },
    /// `setp`.
    Compare {
        /// Comparison.
        f: Compare,
        /// Result.
        d: P,
        /// Complement's result.
        q: Option<P>,
        /// Operand slots.
        s: [u32; 2],
        /// Third operand.
        with: Option<(BoolOp, P, bool)>,
    },
    /// `selp` of up to 32 bits.
    Select32 {
        /// Destination.
        d: R32,
        /// If true, if false.
        s: [R32; 2],
        /// Condition.
        p: (P, bool),
    },
    /// `selp` of 64 bits.
    Select64 {
        /// Destination.
        d: R64,
        /// If true, if false.
        s: [R64; 2],
        /// Condition.
        p: (P, bool),
    },
    /// Logic on predicates.
    Logic {
        /// Destination.
        d: P,
        /// Operation (`None` moves the first operand).
        f: Option<BoolOp>,
        /// Operands with negation.
        s: [(P, bool); 2],
    },
    /// `mov` of up to 32 bits.
    Mov32 {
        /// Destination.
        d: R32,
        /// Source.
        a: R32,
    },
    /// `mov` of 64 bits.
    Mov64 {
        /// Destination.
        d: R64,
        /// Source.
        a: R64,
    },
    /// `mov` that packs elements into a wider register.
    Pack {
        /// Destination.
        d: Reg,
        /// Elements, lowest first.
        s: Box<[Reg]>,
        /// Bits of an element.
        bits: u32,
    },
    /// `mov` that splits a register into elements.
    Unpack {
        /// Elements, lowest first.
        d: Box<[Option<Reg>]>,
        /// Source.
        a: Reg,
        /// Bits of an element.
        bits: u32,
    },
    /// `cvt`.
    Cvt {
        /// The conversion.
        cvt: Box<Cvt>,
        /// Destination.
        d: Reg,
        /// Sources.
        s: [Reg; 2],
    },
    /// `cvt.rs`.
    StochasticCvt {
        /// The conversion.
        cvt: StochasticCvt,
        /// Destination.
        d: Reg,
        /// The numbers, and behind them the random bits.
        s: Box<[R32]>,
    },
    /// `cvta` and its inverse: adds a constant.
    Offset {
        /// Destination.
        d: Reg,
        /// Source.
        a: Reg,
        /// Added modulo 2^64.
        add: u64,
        /// Bits kept.
        mask: u64,
    },
    /// `isspacep`.
    IsSpace {
        /// Result.
        d: P,
        /// Address.
        a: R64,
        /// Space.
        space: MemSpace,
    },
    /// `mapa`.
    Mapa {
        /// Destination.
        d: Reg,
        /// Address.
        a: Reg,
        /// Rank.
        rank: R32,
    },
    /// `getctarank`.
    CtaRank {
        /// Destination.
        d: R32,
        /// Address.
        a: Reg,
    },
}

const INTEGERS: [&str; 6] = ["u16", "s16", "u32", "s32", "u64", "s64"];

/// How what the sources of an instruction hold shows in its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Any bit of a source in the whole result.
    Whole,
    /// A bit of a source in those of the result that are not lower, as in sums of integers.
    Upwards,
    /// Bits are moved, or units of so many bits computed each by itself.
    Bits(u8),
}

impl Arithmetic {
    /// Tells `visit` every register operand but the carry flag.
    pub fn registers(&self, visit: Visit<'_>) {
        use Arithmetic as A;
        match self {
            A::Row { f, d, s } => row(visit, *f, *d, s),
            A::Lop3 { d, s, with, .. } => {
                reads32(visit, *s);
                visit(Reg::R32(*d), Write);
                if let Some((_, p, q)) = with {
                    visit(Reg::P(*q), Read);
                    visit(Reg::P(*p), Write);
                }
            }
            A::Prmt { d, s, .. } | A::Lane3 { d, s, .. } | A::Video { d, s, .. } => {
                reads32(visit, *s);
                visit(Reg::R32(*d), Write);
            }
            A::Bfi { d, s, at } => {
                regs(visit, s);
                reads32(visit, *at);
                visit(*d, Write);
            }
            A::Bfe64 { d, a, at, .. } => {
                visit(Reg::R64(*a), Read);
                reads32(visit, *at);
                visit(Reg::R64(*d), Write);
            }
            A::Carry { d, a, b, .. } => {
                regs(visit, &[*a, *b]);
                visit(*d, Write);
            }
            A::Compare { f, d, q, s, with } => {
                compare(visit, *f, s);
                if let Some((_, p, _)) = with {
                    visit(Reg::P(*p), Read);
                }
                visit(Reg::P(*d), Write);
                if let Some(q) = q {
                    visit(Reg::P(*q), Write);
                }
            }
            A::Select32 { d, s, p } => {
                reads32(visit, *s);
                visit(Reg::P(p.0), Read);
                visit(Reg::R32(*d), Write);
            }
            A::Select64 { d, s, p } => {
                s.iter().for_each(|r| visit(Reg::R64(*r), Read));
                visit(Reg::P(p.0), Read);
                visit(Reg::R64(*d), Write);
            }
            A::Logic { d, s, .. } => {
                s.iter().for_each(|(p, _)| visit(Reg::P(*p), Read));
                visit(Reg::P(*d), Write);
            }
            A::Mov32 { d, a } => {
                visit(Reg::R32(*a), Read);
                visit(Reg::R32(*d), Write);
            }
            A::Mov64 { d, a } => {
                visit(Reg::R64(*a), Read);
                visit(Reg::R64(*d), Write);
            }
            A::Pack { d, s, .. } => {
                regs(visit, s);
                visit(*d, Write);
            }
            A::Unpack { d, a, .. } => {
                visit(*a, Read);
                outs(visit, d);
            }
            A::Cvt { d, s, .. } => {
                regs(visit, s);
                visit(*d, Write);
            }
            A::StochasticCvt { d, s, .. } => {
                all(visit, s, Read);
                visit(*d, Write);
            }
            A::Offset { d, a, .. } => {
                visit(*a, Read);
                visit(*d, Write);
            }
            A::IsSpace { d, a, .. } => {
                visit(Reg::R64(*a), Read);
                visit(Reg::P(*d), Write);
            }
            A::Mapa { d, a, rank } => {
                regs(visit, &[*a, Reg::R32(*rank)]);
                visit(*d, Write);
            }
            A::CtaRank { d, a } => {
                visit(*a, Read);
                visit(Reg::R32(*d), Write);
            }
        }
    }

    /// Issue cycles and class. A move costs nothing: the assembler lets both registers be one.
    pub fn cost(&self) -> Cost {
        use Arithmetic as A;
        let cycles = match self {
            A::Mov32 { .. } | A::Mov64 { .. } => 0,
            A::Pack { bits: 32, .. } | A::Unpack { bits: 32, .. } => 0,
            A::Row { .. }
            | A::Lop3 { .. }
            | A::Prmt { .. }
            | A::Bfi { .. }
            | A::Bfe64 { .. }
            | A::Lane3 { .. }
            | A::Video { .. }
            | A::Carry { .. }
            | A::Compare { .. }
            | A::Select32 { .. }
            | A::Select64 { .. }
            | A::Logic { .. }
            | A::Pack { .. }
            | A::Unpack { .. }
            | A::Cvt { .. }
            | A::StochasticCvt { .. }
            | A::Offset { .. }
            | A::IsSpace { .. }
            | A::Mapa { .. }
            | A::CtaRank { .. } => 1,
        };
        (cycles, Class::Arithmetic)
    }

    /// How its sources show in its results; `instruction` is what it was decoded from.
    pub fn flow(&self, instruction: Option<&ptx::ast::Instruction>) -> Flow {
        use Arithmetic as A;
        match self {
            A::Select32 { .. }
            | A::Select64 { .. }
            | A::Logic { .. }
            | A::Mov32 { .. }
            | A::Mov64 { .. }
            | A::Pack { .. }
            | A::Unpack { .. }
            | A::Lop3 { .. }
            | A::Prmt { .. }
            | A::Bfi { .. }
            | A::Bfe64 { .. }
            | A::Offset { add: 0, .. } => Flow::Bits(1),
            A::Offset { .. } => Flow::Upwards,
            A::Cvt { .. } => Flow::Bits(8),
            A::Row { .. } => instruction.map_or(Flow::Whole, row_flow),
            A::Lane3 { .. }
            | A::Video { .. }
            | A::Carry { .. }
            | A::Compare { .. }
            | A::StochasticCvt { .. }
            | A::IsSpace { .. }
            | A::Mapa { .. }
            | A::CtaRank { .. } => Flow::Whole,
        }
    }
}

/// The flow of a row function by the instruction that names it.
fn row_flow(instruction: &ptx::ast::Instruction) -> Flow {
    let has = |modifiers: &[&str]| modifiers.iter().any(|modifier| instruction.has(modifier));
    match instruction.opcode.as_str() {
        "and" | "or" | "xor" | "not" | "shl" | "shr" | "shf" | "bfe" | "brev" => Flow::Bits(1),
        _ if has(&["f16x2", "bf16x2", "u16x2", "s16x2"]) => Flow::Bits(16),
        _ if has(&["f32x2"]) => Flow::Bits(32),
        "add" | "sub" | "mul" | "mad" | "neg" if has(&INTEGERS) && !has(&["hi", "sat"]) => {
            Flow::Upwards
        }
        _ => Flow::Whole,
    }
}

fn row(visit: Visit<'_>, f: RowFn, d: u32, s: &[u32; 3]) {
    let narrow = |i: usize| Reg::R32(R32(s[i]));
    let wide = |i: usize| Reg::R64(R64(s[i]));
    let (sources, destination): (Vec<Reg>, Reg) = match f {
        RowFn::A1(_) => (vec![narrow(0)], Reg::R32(R32(d))),
        RowFn::A2(_) => (vec![narrow(0), narrow(1)], Reg::R32(R32(d))),
        RowFn::A3(_) => (vec![narrow(0), narrow(1), narrow(2)], Reg::R32(R32(d))),
        RowFn::Narrow(_) => (vec![wide(0)], Reg::R32(R32(d))),
        RowFn::B1(_) => (vec![wide(0)], Reg::R64(R64(d))),
        RowFn::B2(_) => (vec![wide(0), wide(1)], Reg::R64(R64(d))),
        RowFn::B3(_) => (vec![wide(0), wide(1), wide(2)], Reg::R64(R64(d))),
        RowFn::Wide2(_) => (vec![narrow(0), narrow(1)], Reg::R64(R64(d))),
        RowFn::Wide3(_) => (vec![narrow(0), narrow(1), wide(2)], Reg::R64(R64(d))),
        RowFn::Shift64(_) => (vec![wide(0), narrow(1)], Reg::R64(R64(d))),
    };
    regs(visit, &sources);
    visit(destination, Write);
}

fn compare(visit: Visit<'_>, f: Compare, s: &[u32; 2]) {
    let reg = |slot: u32| match f {
        Compare::A(_) => Reg::R32(R32(slot)),
        Compare::B(_) => Reg::R64(R64(slot)),
    };
    regs(visit, &s.map(reg));
}

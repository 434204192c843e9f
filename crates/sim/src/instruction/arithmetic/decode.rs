//! Decoding of arithmetic, logic, comparison and conversion.

use crate::alu::{
    BoolOp, Cvt, CvtSource, RowFn, StochasticCvt, Video, bit_op, double_op, float_op,
    float_pair_op, half_op, integer_op, mixed_op, mufu, packed_integer_op, saturate,
    special_lane_op, wide_op,
};
use crate::instruction::Arithmetic;
use crate::load::same_count;
use crate::load::{Decoded, Loader, arg};
use crate::numeric::{Flush, Rounding};
use crate::register::Reg;
use ptx::ast::{Instruction, Type};
use ptx::resolve::{Arg, Resolved};

/// The modifiers of an arithmetic instruction, sorted out.
struct Mods {
    rounding: Rounding,
    flush: Flush,
    sat: bool,
    approx: bool,
    carry_out: bool,
    /// What is left: parts that select the operation, joined by dots (`lo`, `NaN`).
    rest: String,
    types: Vec<&'static str>,
}

fn is_type(name: &str) -> bool {
    Type::from_name(name).is_some() || matches!(name, "u16x2" | "s16x2" | "tf32")
}

impl Mods {
    fn of(instruction: &Instruction) -> Mods {
        let mut mods = Mods {
            rounding: Rounding::Nearest,
            flush: Flush::Keep,
            sat: false,
            approx: false,
            carry_out: false,
            rest: String::new(),
            types: Vec::new(),
        };
        for modifier in &instruction.modifiers {
            match modifier.as_str() {
                "rn" => {}
                "rz" => mods.rounding = Rounding::Zero,
                "rm" => mods.rounding = Rounding::Down,
                "rp" => mods.rounding = Rounding::Up,
                "ftz" => mods.flush = Flush::ToZero,
                "sat" => mods.sat = true,
                "approx" | "full" => mods.approx = true,
                "cc" => mods.carry_out = true,
                name if is_type(name) => mods.types.push(name),
                name => {
                    mods.rest.push('.');
                    mods.rest.push_str(name);
                }
            }
        }
        mods
    }

    fn ty(&self) -> Decoded<&'static str> {
        self.types.last().copied().ok_or_else(|| "the instruction has no type".into())
    }
}

fn is_half(ty: &str) -> bool {
    matches!(ty, "f16" | "bf16" | "f16x2" | "bf16x2")
}

fn unknown<T>() -> Decoded<T> {
    Err("this form of the instruction is not known here".into())
}

impl<'m> Loader<'m> {
    pub(crate) fn arithmetic(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        match opcode {
            "setp" => self.setp(i),
            "set" => self.set(i),
            "selp" => self.selp(i),
            "slct" => self.slct(i),
            "cvt" => self.cvt(i),
            "lop3" => self.lop3(i),
            "prmt" => self.prmt(i),
            "bfi" => self.bfi(i),
            "dp4a" | "dp2a" => self.lane_op(opcode, i),
            "vadd2" | "vadd4" | "vsub2" | "vsub4" | "vavrg2" | "vavrg4" | "vabsdiff2"
            | "vabsdiff4" | "vmin2" | "vmin4" | "vmax2" | "vmax4" | "vset2" | "vset4" => {
                self.video(opcode, i)
            }
            "testp" => self.testp(i),
            "addc" | "subc" | "madc" => self.carry(opcode, i, true),
            _ => self.row_op(opcode, i),
        }
    }

    fn row_op(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        let mods = Mods::of(i.instruction);
        if mods.carry_out {
            return self.carry(opcode, i, false);
        }
        let ty = mods.ty()?;
        if ty == "pred" {
            return self.predicate_logic(opcode, i);
        }
        if opcode == "bfe" && matches!(ty, "u64" | "s64") {
            let (d, a) = (self.d64(i, 0)?, self.s64(i, 1)?);
            let at = [self.s32(i, 2)?, self.s32(i, 3)?];
            self.emit(i, Arithmetic::Bfe64 { d, a, at, signed: ty == "s64" });
            return Ok(());
        }
        let three = if matches!(opcode, "min" | "max") && i.args.len() == 4 { "3" } else { "" };
        let name = format!("{opcode}{three}{}", mods.rest);
        let f =
            row_function(opcode, &name, &mods, ty).ok_or_else(|| unknown::<()>().unwrap_err())?;
        if mods.flush == Flush::ToZero && is_half(ty) {
            return self.emit_flushed(i, f, &mods, ty);
        }
        self.emit_row(i, f)?;
        self.saturate_result(i, &mods, ty)
    }

    /// `.ftz` of f16 and bf16: subnormal operands and results are zeros.
    fn emit_flushed(&mut self, i: &Resolved<'m>, f: RowFn, mods: &Mods, ty: &str) -> Decoded<()> {
        let flush = half_op("flush", ty).ok_or("no .ftz")?;
        let d = self.d32(i, 0)?.0;
        let mut s = [d; 3];
        for (slot, index) in s.iter_mut().zip(1..i.args.len()) {
            let (from, to) = (self.s32(i, index)?.0, self.frame.new32().0);
            self.emit(i, Arithmetic::Row { f: flush, d: to, s: [from; 3] });
            *slot = to;
        }
        self.emit(i, Arithmetic::Row { f, d, s });
        self.emit(i, Arithmetic::Row { f: flush, d, s: [d; 3] });
        self.saturate_result(i, mods, ty)
    }

    fn saturate_result(&mut self, i: &Resolved<'m>, mods: &Mods, ty: &str) -> Decoded<()> {
        if mods.sat && (ty == "f32" || is_half(ty)) {
            let f = if ty == "f32" { saturate() } else { half_op("sat", ty).ok_or("no .sat")? };
            let d = self.d32(i, 0)?.0;
            self.emit(i, Arithmetic::Row { f, d, s: [d, d, d] });
        }
        Ok(())
    }

    /// Emits a row function over operands 0 (destination) and 1.. (sources).
    fn emit_row(&mut self, i: &Resolved<'m>, f: RowFn) -> Decoded<()> {
        let (d, s) = match f {
            RowFn::A1(_) => (self.d32(i, 0)?.0, [self.s32(i, 1)?.0, 0, 0]),
            RowFn::A2(_) => (self.d32(i, 0)?.0, [self.s32(i, 1)?.0, self.s32(i, 2)?.0, 0]),
            RowFn::A3(_) => {
                (self.d32(i, 0)?.0, [self.s32(i, 1)?.0, self.s32(i, 2)?.0, self.s32(i, 3)?.0])
            }
            RowFn::B1(_) => (self.d64(i, 0)?.0, [self.s64(i, 1)?.0, 0, 0]),
            RowFn::B2(_) => (self.d64(i, 0)?.0, [self.s64(i, 1)?.0, self.s64(i, 2)?.0, 0]),
            RowFn::B3(_) => {
                (self.d64(i, 0)?.0, [self.s64(i, 1)?.0, self.s64(i, 2)?.0, self.s64(i, 3)?.0])
            }
            RowFn::Wide2(_) => (self.d64(i, 0)?.0, [self.s32(i, 1)?.0, self.s32(i, 2)?.0, 0]),
            RowFn::Wide3(_) => {
                (self.d64(i, 0)?.0, [self.s32(i, 1)?.0, self.s32(i, 2)?.0, self.s64(i, 3)?.0])
            }
            RowFn::Narrow(_) => (self.d32(i, 0)?.0, [self.s64(i, 1)?.0, 0, 0]),
            RowFn::Shift64(_) => (self.d64(i, 0)?.0, [self.s64(i, 1)?.0, self.s32(i, 2)?.0, 0]),
        };
        self.emit(i, Arithmetic::Row { f, d, s });
        Ok(())
    }

    fn predicate_logic(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        let d = self.predicate_destination(arg(i, 0)?)?;
        let a = self.predicate(arg(i, 1)?)?;
        let (f, s) = match opcode {
            "not" => (None, [(a.0, !a.1), a]),
            _ => {
                let f = BoolOp::from_name(opcode).ok_or("not an operation on predicates")?;
                (Some(f), [a, self.predicate(arg(i, 2)?)?])
            }
        };
        self.emit(i, Arithmetic::Logic { d, f, s });
        Ok(())
    }

    fn selp(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let p = self.predicate(arg(i, 3)?)?;
        let ty = i.instruction.modifiers.last().and_then(|m| Type::from_name(m.as_str()));
        let op = if ty.ok_or("unknown type")?.bits() == 64 {
            Arithmetic::Select64 { d: self.d64(i, 0)?, s: [self.s64(i, 1)?, self.s64(i, 2)?], p }
        } else {
            Arithmetic::Select32 { d: self.d32(i, 0)?, s: [self.s32(i, 1)?, self.s32(i, 2)?], p }
        };
        self.emit(i, op);
        Ok(())
    }

    fn cvt(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        if i.instruction.has("pack") {
            return self.lane_op("cvt.pack", i);
        }
        if i.instruction.has("rs") {
            return self.stochastic_cvt(i);
        }
        let cvt = Cvt::decode(i.instruction).ok_or("this conversion is not known here")?;
        let cvt = cvt.into_register(self.register_bits(i, 0));
        let d = self.reg(i, 0)?;
        let from = i.instruction.modifiers.last().map_or("", |m| m.as_str());
        let bits = Type::from_name(from).map_or(32, Type::bits);
        let a = self.source(arg(i, 1)?, bits)?;
        let b = match cvt.source {
            CvtSource::TwoSingles => self.source(arg(i, 2)?, bits)?,
            CvtSource::Scalar | CvtSource::Pair => a,
        };
        self.emit(i, Arithmetic::Cvt { cvt: Box::new(cvt), d, s: [a, b] });
        Ok(())
    }

    fn stochastic_cvt(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let modifiers: Vec<&str> = i.instruction.modifiers.iter().map(|m| m.as_str()).collect();
        let cvt = StochasticCvt::parse(&modifiers).ok_or("this conversion is not known here")?;
        let d = self.reg(i, 0)?;
        let operands = i.args[1..].iter().flat_map(|arg| self.elements(arg).to_vec());
        let operands: Vec<Arg> = operands.collect();
        let s: Box<[_]> = operands.iter().map(|arg| self.source32(arg)).collect::<Decoded<_>>()?;
        same_count(s.len(), cvt.count + 1)?;
        self.emit(i, Arithmetic::StochasticCvt { cvt, d, s });
        Ok(())
    }

    fn lop3(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let with_op = i.instruction.modifiers.first().and_then(|m| BoolOp::from_name(m.as_str()));
        let (d, p) = match arg(i, 0)? {
            Arg::Pair(a, b) => {
                let d = match self.destination(a)? {
                    None => self.frame.new32(),
                    Some(Reg::R32(d)) => d,
                    Some(_) => return Err("lop3 into a register of another width".into()),
                };
                (d, Some(self.predicate_destination(b)?))
            }
            _ => (self.d32(i, 0)?, None),
        };
        let s = [self.s32(i, 1)?, self.s32(i, 2)?, self.s32(i, 3)?];
        let table = self.immediate(i, 4)? as u8;
        let with = match (with_op, p) {
            (Some(op), Some(p)) => Some((op, p, self.predicate(arg(i, 5)?)?.0)),
            _ => None,
        };
        self.emit(i, Arithmetic::Lop3 { d, s, table, with });
        Ok(())
    }

    fn prmt(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let mode = i.instruction.modifiers.iter().map(|m| m.as_str()).find(|m| *m != "b32");
        if crate::alu::prmt(mode, 0, 0, 0).is_none() {
            return unknown();
        }
        let d = self.d32(i, 0)?;
        let s = [self.s32(i, 1)?, self.s32(i, 2)?, self.s32(i, 3)?];
        self.emit(i, Arithmetic::Prmt { d, s, mode });
        Ok(())
    }

    fn bfi(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let wide = i.instruction.has("b64");
        let bits = if wide { 64 } else { 32 };
        let d = self.reg(i, 0)?;
        let s = [self.source(arg(i, 1)?, bits)?, self.source(arg(i, 2)?, bits)?];
        let at = [self.s32(i, 3)?, self.s32(i, 4)?];
        self.emit(i, Arithmetic::Bfi { d, s, at });
        Ok(())
    }

    fn video(&mut self, name: &str, i: &Resolved<'m>) -> Decoded<()> {
        let modifiers: Vec<&str> = i.instruction.modifiers.iter().map(|m| m.as_str()).collect();
        let video = Video::parse(name, &modifiers).ok_or("this form is not known here")?;
        let (d, s) = (self.d32(i, 0)?, [self.s32(i, 1)?, self.s32(i, 2)?, self.s32(i, 3)?]);
        self.emit(i, Arithmetic::Video { video, d, s });
        Ok(())
    }

    /// Lane functions of up to three 32-bit sources.
    fn lane_op(&mut self, name: &str, i: &Resolved<'m>) -> Decoded<()> {
        let modifiers: Vec<&str> = i.instruction.modifiers.iter().map(|m| m.as_str()).collect();
        let f = special_lane_op(name, &modifiers).ok_or("this form is not known here")?;
        let d = self.d32(i, 0)?;
        let zero = self.constants.const32(&mut self.frame, 0);
        let mut s = [zero; 3];
        for (slot, index) in s.iter_mut().zip(1..i.args.len()) {
            *slot = self.s32(i, index)?;
        }
        self.emit(i, Arithmetic::Lane3 { f, d, s });
        Ok(())
    }

    /// `add.cc`, `addc{.cc}`, `sub.cc`, `subc`, `mad{c}.{lo,hi}.cc`.
    fn carry(&mut self, opcode: &str, i: &Resolved<'m>, carry_in: bool) -> Decoded<()> {
        let mods = Mods::of(i.instruction);
        let wide = Type::from_name(mods.ty()?).is_some_and(|t| t.bits() == 64);
        let bits = if wide { 64 } else { 32 };
        let d = self.reg(i, 0)?;
        let (a, b) = if opcode.starts_with("mad") {
            let half = integer_op(&format!("mul{}", mods.rest), type_of(mods.ty()?)?);
            let product = self.frame.new_reg(if wide { Type::B64 } else { Type::B32 });
            let s = match wide {
                true => [self.s64(i, 1)?.0, self.s64(i, 2)?.0, 0],
                false => [self.s32(i, 1)?.0, self.s32(i, 2)?.0, 0],
            };
            self.emit(i, Arithmetic::Row { f: half.ok_or("this product")?, d: slot(product), s });
            (product, self.source(arg(i, 3)?, bits)?)
        } else {
            (self.source(arg(i, 1)?, bits)?, self.source(arg(i, 2)?, bits)?)
        };
        let sub = opcode.starts_with("sub");
        self.emit(i, Arithmetic::Carry { d, a, b, sub, carry_in, carry_out: mods.carry_out });
        Ok(())
    }
}

fn type_of(name: &str) -> Decoded<Type> {
    Type::from_name(name).ok_or_else(|| format!("type .{name} is not known here"))
}

fn slot(reg: Reg) -> u32 {
    match reg {
        Reg::P(p) => p.0,
        Reg::R32(r) => r.0,
        Reg::R64(r) | Reg::R128(r) => r.0,
    }
}

fn row_function(opcode: &str, name: &str, mods: &Mods, ty: &str) -> Option<RowFn> {
    if mods.types.len() == 2 && mods.types[0] == "f32" && ty != "f32" {
        return mixed_op(name, ty);
    }
    match ty {
        "f32" => {
            let unit =
                mods.approx || matches!(opcode, "ex2" | "lg2" | "sin" | "cos" | "tanh" | "rsqrt");
            if unit { mufu(name, mods.flush) } else { float_op(name, mods.rounding, mods.flush) }
        }
        "f32x2" => float_pair_op(name, mods.rounding, mods.flush),
        ty if is_half(ty) => half_op(name, ty),
        "f64" => double_op(name, mods.rounding),
        "u16x2" | "s16x2" => packed_integer_op(name, ty),
        _ => {
            let ty = Type::from_name(ty)?;
            let saturated = if mods.sat { format!("{name}.sat") } else { name.to_string() };
            integer_op(&saturated, ty).or_else(|| wide_op(name, ty)).or_else(|| bit_op(name, ty))
        }
    }
}

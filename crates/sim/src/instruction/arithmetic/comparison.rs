//! Decoding of comparisons.

use crate::alu::{
    BoolOp, Compare, Half, bit_op, compare_float, compare_half, compare_integer, test_property,
};
use crate::instruction::Arithmetic;
use crate::load::{Decoded, Loader, arg};
use crate::register::{P, R32};
use ptx::ast::Type;
use ptx::resolve::{Arg, Resolved};

impl<'m> Loader<'m> {
    /// The comparison of the operands at `at`, of packed types that of one half.
    fn compare(&mut self, i: &Resolved<'m>, at: usize, half: Half) -> Decoded<(Compare, [u32; 2])> {
        let ty = i.instruction.modifiers.last().ok_or("no type")?.as_str();
        let ty = Type::from_name(ty).ok_or("unknown type")?;
        let name = i.instruction.modifiers.first().ok_or("no comparison")?.as_str();
        let f = match ty {
            Type::F32 | Type::F64 => compare_float(name, ty, i.instruction.has("ftz")),
            Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2 => compare_half(name, ty, half),
            _ => compare_integer(name, ty),
        };
        let f = f.ok_or_else(|| format!("comparison .{name} of .{ty} is not known here"))?;
        let s = match f {
            Compare::A(_) => [self.s32(i, at)?.0, self.s32(i, at + 1)?.0],
            Compare::B(_) => [self.s64(i, at)?.0, self.s64(i, at + 1)?.0],
        };
        Ok((f, s))
    }

    /// `.and`, `.or` or `.xor` with the predicate that follows the compared operands.
    fn joined(&mut self, i: &Resolved<'m>) -> Decoded<Option<(BoolOp, P, bool)>> {
        let op = i.instruction.modifiers.get(1).and_then(|m| BoolOp::from_name(m.as_str()));
        let Some(op) = op else { return Ok(None) };
        let (p, negated) = self.predicate(arg(i, 3)?)?;
        Ok(Some((op, p, negated)))
    }

    pub(crate) fn setp(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let (d, q) = match arg(i, 0)? {
            Arg::Pair(a, b) => {
                (self.predicate_destination(a)?, Some(self.predicate_destination(b)?))
            }
            a => (self.predicate_destination(a)?, None),
        };
        let with = self.joined(i)?;
        let (f, s) = self.compare(i, 1, Half::Low)?;
        // Of a packed type the second predicate is the upper half's, not the complement.
        if let (true, Some(q)) = (is_packed(i), q) {
            let (g, s) = self.compare(i, 1, Half::High)?;
            self.emit(i, Arithmetic::Compare { f: g, d: q, q: None, s, with });
            self.emit(i, Arithmetic::Compare { f, d, q: None, s, with });
            return Ok(());
        }
        self.emit(i, Arithmetic::Compare { f, d, q, s, with });
        Ok(())
    }

    /// `set`: a comparison into a register, of packed types half by half.
    pub(crate) fn set(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let [.., to, _] = &i.instruction.modifiers[..] else {
            return Err("set without types".into());
        };
        let to = to.as_str();
        let yes = match to {
            "f32" => 1f32.to_bits(),
            "f16" | "f16x2" => 0x3C00,
            "bf16" | "bf16x2" => 0x3F80,
            "u16" | "s16" => 0xFFFF,
            "u32" | "s32" if is_packed(i) => 0xFFFF,
            "u32" | "s32" => u32::MAX,
            other => return Err(format!("set into .{other} is not known here")),
        };
        let d = self.d32(i, 0)?;
        if !is_packed(i) {
            return self.set_half(i, d, Half::Low, yes);
        }
        // Both halves before the destination, which may be an operand too.
        let [low, high] = [self.frame.new32(), self.frame.new32()];
        self.set_half(i, low, Half::Low, yes)?;
        self.set_half(i, high, Half::High, yes << 16)?;
        let f = bit_op("or", Type::B32).ok_or("no or")?;
        self.emit(i, Arithmetic::Row { f, d: d.0, s: [low.0, high.0, 0] });
        Ok(())
    }

    fn set_half(&mut self, i: &Resolved<'m>, d: R32, half: Half, yes: u32) -> Decoded<()> {
        let with = self.joined(i)?;
        let (f, s) = self.compare(i, 1, half)?;
        let p = self.frame.new_p();
        self.emit(i, Arithmetic::Compare { f, d: p, q: None, s, with });
        let values = [yes, 0].map(|v| self.constants.const32(&mut self.frame, v));
        self.emit(i, Arithmetic::Select32 { d, s: values, p: (p, false) });
        Ok(())
    }

    pub(crate) fn slct(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let [.., ty, by] = &i.instruction.modifiers[..] else {
            return Err("slct without types".into());
        };
        let by = Type::from_name(by.as_str()).ok_or("unknown type")?;
        let zero = self.constants.const32(&mut self.frame, 0);
        let f = match by {
            Type::S32 => compare_integer("ge", by),
            Type::F32 => compare_float("ge", by, i.instruction.has("ftz")),
            _ => None,
        };
        let p = self.frame.new_p();
        let s = [self.s32(i, 3)?.0, zero.0];
        self.emit(
            i,
            Arithmetic::Compare { f: f.ok_or("slct by this type")?, d: p, q: None, s, with: None },
        );
        let wide = Type::from_name(ty.as_str()).is_some_and(|t| t.bits() == 64);
        let p = (p, false);
        let op = if wide {
            Arithmetic::Select64 { d: self.d64(i, 0)?, s: [self.s64(i, 1)?, self.s64(i, 2)?], p }
        } else {
            Arithmetic::Select32 { d: self.d32(i, 0)?, s: [self.s32(i, 1)?, self.s32(i, 2)?], p }
        };
        self.emit(i, op);
        Ok(())
    }

    pub(crate) fn testp(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let modifiers = &i.instruction.modifiers;
        let ty = modifiers.last().and_then(|m| Type::from_name(m.as_str())).ok_or("no type")?;
        let f = match modifiers.first().map_or("", |m| m.as_str()) {
            "notanumber" => compare_float("nan", ty, false),
            "number" => compare_float("num", ty, false),
            name => test_property(name, ty),
        };
        let d = self.predicate_destination(arg(i, 0)?)?;
        let f = f.ok_or("testp of this kind is not known here")?;
        let a = match f {
            Compare::A(_) => self.s32(i, 1)?.0,
            Compare::B(_) => self.s64(i, 1)?.0,
        };
        self.emit(i, Arithmetic::Compare { f, d, q: None, s: [a, a], with: None });
        Ok(())
    }
}

fn is_packed(i: &Resolved) -> bool {
    let ty = i.instruction.modifiers.last().map_or("", |m| m.as_str());
    matches!(ty, "f16x2" | "bf16x2")
}

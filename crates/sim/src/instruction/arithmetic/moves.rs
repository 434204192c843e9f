//! Decoding of moves, and of conversions between address spaces.

use crate::alu::compare_integer;
use crate::instruction::{Arithmetic, Control, element_type, space};
use crate::load::{Decoded, Loader, arg};
use crate::register::{R64, Reg};
use ptx::ast::{Instruction, Type};
use ptx::resolve::{Arg, Resolved};

impl<'m> Loader<'m> {
    pub(crate) fn mov(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        match (arg(i, 0)?, arg(i, 1)?) {
            (Arg::Vector(parts), _) if parts.len() > 1 => return self.unpack(i),
            (_, Arg::Vector(parts)) if parts.len() > 1 => return self.pack(i),
            (_, Arg::Special(name))
                if name.as_str().contains("clock") || name.as_str().contains("timer") =>
            {
                let d = self.reg(i, 0)?;
                let shift = if name.as_str().ends_with("_hi") { 32 } else { 0 };
                self.emit(i, Control::Clock { d, shift });
                return Ok(());
            }
            _ => {}
        }
        let op = match self.reg(i, 0)? {
            // `%is_explicit_cluster`.
            Reg::P(d) if matches!(arg(i, 1)?, Arg::Special(_)) => {
                let f = compare_integer("ne", Type::U32).ok_or("no comparison")?;
                let zero = self.constants.const32(&mut self.frame, 0);
                let s = [self.s32(i, 1)?.0, zero.0];
                Arithmetic::Compare { f, d, q: None, s, with: None }
            }
            Reg::P(d) => {
                let a = self.predicate(arg(i, 1)?)?;
                Arithmetic::Logic { d, f: None, s: [a, a] }
            }
            Reg::R32(d) => Arithmetic::Mov32 { d, a: self.s32(i, 1)? },
            Reg::R64(d) => Arithmetic::Mov64 { d, a: self.s64(i, 1)? },
            Reg::R128(d) => {
                let Reg::R128(a) = self.reg(i, 1)? else { return Err("mov.b128 of this".into()) };
                let high = |r: R64| R64(r.0 + 1);
                self.emit(i, Arithmetic::Mov64 { d: high(d), a: high(a) });
                Arithmetic::Mov64 { d, a }
            }
        };
        self.emit(i, op);
        Ok(())
    }

    fn width(&self, instruction: &Instruction, parts: usize) -> Decoded<u32> {
        Ok(element_type(instruction)?.bits() / parts as u32)
    }

    fn pack(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let Arg::Vector(parts) = arg(i, 1)? else { return Err("not a vector".into()) };
        let bits = self.width(i.instruction, parts.len())?;
        let s = parts.iter().map(|part| self.source(part, bits)).collect::<Decoded<_>>()?;
        let d = self.reg(i, 0)?;
        self.emit(i, Arithmetic::Pack { d, s, bits });
        Ok(())
    }

    fn unpack(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let d = self.destinations(arg(i, 0)?)?;
        let total = element_type(i.instruction)?.bits();
        let bits = total / d.len() as u32;
        let a = self.source(arg(i, 1)?, total)?;
        self.emit(i, Arithmetic::Unpack { d, a, bits });
        Ok(())
    }

    /// `cvta{.to}.space.size`.
    pub(crate) fn cvta(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let to = i.instruction.has("to");
        let space = i
            .instruction
            .modifiers
            .iter()
            .map(|m| m.as_str())
            .find(|m| !matches!(*m, "to" | "u64" | "u32"));
        let window = Self::window(space.ok_or("cvta without a space")?)?;
        let d = self.reg(i, 0)?;
        let bits = if i.instruction.has("u32") { 32 } else { 64 };
        let a = self.source(arg(i, 1)?, bits)?;
        let add = if to { window.wrapping_neg() } else { window };
        self.emit(i, Arithmetic::Offset { d, a, add, mask: u64::MAX });
        Ok(())
    }

    pub(crate) fn mapa(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let bits = if i.instruction.has("u64") { 64 } else { 32 };
        let op = Arithmetic::Mapa {
            d: self.reg(i, 0)?,
            a: self.source(arg(i, 1)?, bits)?,
            rank: self.s32(i, 2)?,
        };
        self.emit(i, op);
        Ok(())
    }

    /// `createpolicy`: there are no caches here.
    pub(crate) fn cache_policy(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let d = self.d64(i, 0)?;
        let a = self.constants.const64(&mut self.frame, 0);
        self.emit(i, Arithmetic::Mov64 { d, a });
        Ok(())
    }

    pub(crate) fn is_space(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let op = Arithmetic::IsSpace {
            d: self.predicate_destination(arg(i, 0)?)?,
            a: self.s64(i, 1)?,
            space: space(i.instruction),
        };
        self.emit(i, op);
        Ok(())
    }

    pub(crate) fn cta_rank(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let op = Arithmetic::CtaRank { d: self.d32(i, 0)?, a: self.reg(i, 1)? };
        self.emit(i, op);
        Ok(())
    }
}

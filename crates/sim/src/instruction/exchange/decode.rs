//! Decoding of instructions in which the lanes of a warp exchange values.

use crate::instruction::{Exchange, ShflMode, VoteKind};
use crate::instruction::{atom_type, reduce_op};
use crate::load::{Decoded, Loader, arg};
use crate::register::{P, R32, Reg};
use ptx::resolve::{Arg, Resolved};

impl<'m> Loader<'m> {
    pub(crate) fn warp_wide(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        let op = match opcode {
            "elect" => self.elect(i)?,
            "shfl" => self.shfl(i)?,
            "vote" => self.vote(i)?,
            "match" => self.matching(i)?,
            _ => self.redux(i)?,
        };
        self.emit(i, op);
        Ok(())
    }

    /// `d|p` or `d`.
    fn with_predicate(&mut self, i: &Resolved<'m>) -> Decoded<(Option<R32>, Option<P>)> {
        let (d, p) = match arg(i, 0)? {
            Arg::Pair(a, b) => ((**a).clone(), Some(self.predicate_destination(b)?)),
            a => (a.clone(), None),
        };
        let d = match self.destination(&d)? {
            Some(Reg::R32(r)) => Some(r),
            None => None,
            Some(_) => return Err("the destination must be a 32-bit register".into()),
        };
        Ok((d, p))
    }

    fn elect(&mut self, i: &Resolved<'m>) -> Decoded<Exchange> {
        let (d, p) = self.with_predicate(i)?;
        Ok(Exchange::Elect { d, p: p.ok_or("elect.sync needs d|p")?, mask: self.s32(i, 1)? })
    }

    fn shfl(&mut self, i: &Resolved<'m>) -> Decoded<Exchange> {
        let mode = i.instruction.modifiers.iter().find_map(|m| match m.as_str() {
            "idx" => Some(ShflMode::Index),
            "up" => Some(ShflMode::Up),
            "down" => Some(ShflMode::Down),
            "bfly" => Some(ShflMode::Butterfly),
            _ => None,
        });
        let (d, p) = self.with_predicate(i)?;
        let d = d.unwrap_or_else(|| self.frame.new32());
        let mask = match i.args.get(4) {
            Some(mask) => self.source32(mask)?,
            None => self.constants.const32(&mut self.frame, u32::MAX),
        };
        let s = Box::new([self.s32(i, 1)?, self.s32(i, 2)?, self.s32(i, 3)?, mask]);
        Ok(Exchange::Shfl { mode: mode.ok_or("shfl without a mode")?, d, p, s })
    }

    fn vote(&mut self, i: &Resolved<'m>) -> Decoded<Exchange> {
        let kind = i.instruction.modifiers.iter().find_map(|m| match m.as_str() {
            "all" => Some(VoteKind::All),
            "any" => Some(VoteKind::Any),
            "uni" => Some(VoteKind::Uniform),
            "ballot" => Some(VoteKind::Ballot),
            _ => None,
        });
        let d = self.reg(i, 0)?;
        let a = self.predicate(arg(i, 1)?)?;
        let mask = self.s32(i, 2)?;
        Ok(Exchange::Vote { kind: kind.ok_or("vote without a kind")?, d, a, mask })
    }

    fn matching(&mut self, i: &Resolved<'m>) -> Decoded<Exchange> {
        let (d, p) = self.with_predicate(i)?;
        let bits = if i.instruction.has("b64") { 64 } else { 32 };
        let a = self.source(arg(i, 1)?, bits)?;
        let d = d.unwrap_or_else(|| self.frame.new32());
        Ok(Exchange::Match { all: i.instruction.has("all"), d, p, a, mask: self.s32(i, 2)? })
    }

    fn redux(&mut self, i: &Resolved<'m>) -> Decoded<Exchange> {
        let ty = i.instruction.modifiers.last().ok_or("no type")?;
        Ok(Exchange::Redux {
            op: reduce_op(i).ok_or("redux without an operation")?,
            ty: atom_type(ty.as_str())?.0,
            nan: i.instruction.has("NaN"),
            abs: i.instruction.has("abs"),
            d: self.d32(i, 0)?,
            a: self.s32(i, 1)?,
            mask: self.s32(i, 2)?,
        })
    }
}

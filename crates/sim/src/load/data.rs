//! Decoding of moves, loads, stores and atomics.

use super::operand::holding;
use super::{Decoded, Loader, arg};
use crate::alu::compare_integer;
use crate::op::{AtomOp, Atomic, Load, MemSpace, Op, Store};
use crate::register::Reg;
use crate::tensor_copy::{ReduceOp, ReduceType};
use ptx::ast::{Instruction, Type};
use ptx::resolve::{Arg, Resolved};

/// The element type called `name`, and the bytes of one operand.
pub(super) fn atom_type(name: &str) -> Decoded<(ReduceType, u32)> {
    let packed = name.strip_suffix("x2").unwrap_or(name);
    let ty = match packed {
        // Exchanged as bits.
        "b16" | "b128" => Some(ReduceType::U64),
        _ => ReduceType::from_modifier(packed),
    };
    let bytes = Type::from_name(name).map(|ty| ty.bits() / 8);
    ty.zip(bytes).ok_or_else(|| format!("atomic operations on .{name} are not known here"))
}

/// The reduction an instruction names.
pub(super) fn reduce_op(i: &Resolved) -> Option<ReduceOp> {
    i.instruction.modifiers.iter().find_map(|m| ReduceOp::from_modifier(m.as_str()))
}

/// The space a memory instruction names.
pub(super) fn space(instruction: &Instruction) -> MemSpace {
    let mut spaces = instruction.modifiers.iter().filter_map(|m| match m.as_str() {
        "global" | "const" => Some(MemSpace::Global),
        "shared" | "shared::cta" | "shared::cluster" => Some(MemSpace::Shared),
        "local" => Some(MemSpace::Local),
        "param" | "param::entry" | "param::func" => Some(MemSpace::Param),
        _ => None,
    });
    spaces.next_back().unwrap_or(MemSpace::Generic)
}

fn is_strong(instruction: &Instruction) -> bool {
    ["volatile", "relaxed", "acquire", "release", "mmio"].iter().any(|m| instruction.has(m))
}

/// Checks what a load or store moves: one, two, four or eight elements of whole bytes.
fn check_vector(ty: Type, elements: usize) -> Decoded<()> {
    match (ty, elements) {
        (Type::Pred, _) => Err("a predicate has no place in memory".into()),
        (_, 1 | 2 | 4 | 8) => Ok(()),
        _ => Err(format!("a vector of {elements} elements: there are those of 2, 4 and 8")),
    }
}

fn element_type(instruction: &Instruction) -> Decoded<Type> {
    let name = instruction.modifiers.last().ok_or("no type")?;
    Type::from_name(name.as_str()).ok_or_else(|| format!("type .{name} is not known here"))
}

impl<'m> Loader<'m> {
    pub(super) fn data(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        match opcode {
            "mov" => self.mov(i),
            "ld" | "ldu" => self.load_op(i),
            "st" => self.store_op(i),
            "atom" | "red" => self.atomic(opcode, i),
            "cvta" => self.cvta(i),
            "isspacep" => {
                let op = Op::IsSpace {
                    d: self.predicate_destination(arg(i, 0)?)?,
                    a: self.s64(i, 1)?,
                    space: space(i.instruction),
                };
                self.emit(i, op);
                Ok(())
            }
            "mapa" => self.mapa(i),
            "getctarank" => {
                let op = Op::CtaRank { d: self.d32(i, 0)?, a: self.reg(i, 1)? };
                self.emit(i, op);
                Ok(())
            }
            other => Err(format!("instruction `{other}` is not known here")),
        }
    }

    fn mov(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        match (arg(i, 0)?, arg(i, 1)?) {
            (Arg::Vector(parts), _) if parts.len() > 1 => return self.unpack(i),
            (_, Arg::Vector(parts)) if parts.len() > 1 => return self.pack(i),
            (_, Arg::Special(name))
                if name.as_str().contains("clock") || name.as_str().contains("timer") =>
            {
                let d = self.reg(i, 0)?;
                let shift = if name.as_str().ends_with("_hi") { 32 } else { 0 };
                self.emit(i, Op::Clock { d, shift });
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
                Op::Compare { f, d, q: None, s, with: None }
            }
            Reg::P(d) => {
                let a = self.predicate(arg(i, 1)?)?;
                Op::Logic { d, f: None, s: [a, a] }
            }
            Reg::R32(d) => Op::Mov32 { d, a: self.s32(i, 1)? },
            Reg::R64(d) => Op::Mov64 { d, a: self.s64(i, 1)? },
            Reg::R128(d) => {
                let Reg::R128(a) = self.reg(i, 1)? else { return Err("mov.b128 of this".into()) };
                let high = |r: crate::register::R64| crate::register::R64(r.0 + 1);
                self.emit(i, Op::Mov64 { d: high(d), a: high(a) });
                Op::Mov64 { d, a }
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
        self.emit(i, Op::Pack { d, s, bits });
        Ok(())
    }

    fn unpack(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let d = self.destinations(arg(i, 0)?)?;
        let total = element_type(i.instruction)?.bits();
        let bits = total / d.len() as u32;
        let a = self.source(arg(i, 1)?, total)?;
        self.emit(i, Op::Unpack { d, a, bits });
        Ok(())
    }

    fn load_op(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let ty = element_type(i.instruction)?;
        let dst = self.destinations(arg(i, 0)?)?;
        check_vector(ty, dst.len())?;
        dst.iter().flatten().try_for_each(|d| holding(*d, ty.bits()).map(|_| ()))?;
        let addr = self.address(i, 1)?;
        let signed = matches!(ty, Type::S8 | Type::S16 | Type::S32);
        let mut space = space(i.instruction);
        if self.is_call_parameter(arg(i, 1)?) {
            space = MemSpace::Local;
        }
        let load = Load {
            space,
            dst,
            bytes: (ty.bits() / 8) as u8,
            sign: signed.then_some(ty.bits() as u8),
            addr,
            strong: is_strong(i.instruction),
        };
        self.emit(i, Op::Load(Box::new(load)));
        Ok(())
    }

    fn store_op(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        if i.instruction.has("async") {
            return self.store_async(i);
        }
        if i.instruction.has("bulk") {
            return self.store_zeros(i);
        }
        let ty = element_type(i.instruction)?;
        let value = arg(i, 1)?.clone();
        let src = self.elements(&value).iter().map(|e| self.source(e, ty.bits()));
        let src = src.collect::<Decoded<Box<[Reg]>>>()?;
        check_vector(ty, src.len())?;
        let mut space = space(i.instruction);
        if self.is_call_parameter(arg(i, 0)?) {
            space = MemSpace::Local;
        }
        let addr = self.address(i, 0)?;
        let bytes = (ty.bits() / 8) as u8;
        let store = Store { space, src, bytes, addr, strong: is_strong(i.instruction) };
        self.emit(i, Op::Store(Box::new(store)));
        Ok(())
    }

    /// `st.bulk`: zeros.
    fn store_zeros(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        if self.immediate(i, 2)? != 0 {
            return Err("st.bulk stores zeros only".into());
        }
        let space = space(i.instruction);
        let size = arg(i, 1)?;
        let bits = if matches!(size, Arg::Reg(_)) { 32 } else { 64 };
        let (addr, bytes) = (self.address(i, 0)?, self.source(size, bits)?);
        self.emit(i, Op::StoreZeros { space, addr, bytes });
        Ok(())
    }

    fn atomic(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
        if i.instruction.has("async") {
            return self.store_async(i);
        }
        let op = match () {
            _ if i.instruction.has("exch") => AtomOp::Exch,
            _ if i.instruction.has("cas") => AtomOp::Cas,
            _ => AtomOp::Reduce(reduce_op(i).ok_or("an atomic without a known operation")?),
        };
        // The type may stand behind the operation or before it.
        let mut names = i.instruction.modifiers.iter().rev().map(|m| m.as_str());
        let last = names.clone().next().ok_or("no type")?;
        let (ty, bytes) =
            names.find_map(|name| atom_type(name).ok()).map_or_else(|| atom_type(last), Ok)?;
        if bytes > 8 && matches!(op, AtomOp::Reduce(_)) {
            return Err("128 bits can only be exchanged".into());
        }
        let bits = 8 * bytes;
        let first = usize::from(opcode == "atom");
        let dst = match first {
            1 => self.destinations(arg(i, 0)?)?,
            _ => Box::new([]),
        };
        let addr = self.address(i, first)?;
        let value = arg(i, first + 1)?.clone();
        let src = self.elements(&value).iter().map(|e| self.source(e, bits));
        let src = src.collect::<Decoded<Box<[Reg]>>>()?;
        check_vector(Type::B32, src.len())?;
        dst.iter().flatten().try_for_each(|d| holding(*d, bits).map(|_| ()))?;
        let swap = match op {
            AtomOp::Cas => Some(self.source(arg(i, first + 2)?, bits)?),
            _ => None,
        };
        let space = space(i.instruction);
        self.emit(i, Op::Atomic(Box::new(Atomic { space, op, ty, bytes, dst, src, swap, addr })));
        Ok(())
    }

    /// `cvta{.to}.space.size`.
    fn cvta(&mut self, i: &Resolved<'m>) -> Decoded<()> {
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
        self.emit(i, Op::Offset { d, a, add, mask: u64::MAX });
        Ok(())
    }

    fn mapa(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let bits = if i.instruction.has("u64") { 64 } else { 32 };
        let op = Op::Mapa {
            d: self.reg(i, 0)?,
            a: self.source(arg(i, 1)?, bits)?,
            rank: self.s32(i, 2)?,
        };
        self.emit(i, op);
        Ok(())
    }
}

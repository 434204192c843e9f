//! Decoding of moves, loads, stores and atomics.

use crate::instruction::{AtomOp, Atomic, Load, MemSpace, MemoryAccess, Store};
use crate::load::holding;
use crate::load::{Decoded, Loader, arg};
use crate::register::Reg;
use crate::tensor_copy::{ReduceOp, ReduceType};
use ptx::ast::{Instruction, Type};
use ptx::resolve::{Arg, Resolved};

/// The element type called `name`, and the bytes of one operand.
pub(crate) fn atom_type(name: &str) -> Decoded<(ReduceType, u32)> {
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
pub(crate) fn reduce_op(i: &Resolved) -> Option<ReduceOp> {
    i.instruction.modifiers.iter().find_map(|m| ReduceOp::from_modifier(m.as_str()))
}

/// The space a memory instruction names.
pub(crate) fn space(instruction: &Instruction) -> MemSpace {
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

pub(crate) fn element_type(instruction: &Instruction) -> Decoded<Type> {
    let name = instruction.modifiers.last().ok_or("no type")?;
    Type::from_name(name.as_str()).ok_or_else(|| format!("type .{name} is not known here"))
}

impl<'m> Loader<'m> {
    pub(crate) fn load_op(&mut self, i: &Resolved<'m>) -> Decoded<()> {
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
        self.emit(i, MemoryAccess::Load(Box::new(load)));
        Ok(())
    }

    pub(crate) fn store_op(&mut self, i: &Resolved<'m>) -> Decoded<()> {
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
        self.emit(i, MemoryAccess::Store(Box::new(store)));
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
        self.emit(i, MemoryAccess::StoreZeros { space, addr, bytes });
        Ok(())
    }

    pub(crate) fn atomic(&mut self, opcode: &str, i: &Resolved<'m>) -> Decoded<()> {
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
            AtomOp::Exch | AtomOp::Reduce(_) => None,
        };
        let space = space(i.instruction);
        self.emit(
            i,
            MemoryAccess::Atomic(Box::new(Atomic { space, op, ty, bytes, dst, src, swap, addr })),
        );
        Ok(())
    }
}

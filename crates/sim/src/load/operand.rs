//! Operands to register rows.

use super::layout::Place;
use super::{Decoded, Loader, Special, arg, function_address};
use crate::instruction::{Addr, Arithmetic};
use crate::matrix::OperandError;
use crate::memory::address;
use crate::register::{P, R32, R64, Reg};
use ptx::resolve::{Arg, Base, Resolved, Var};

impl<'m> Loader<'m> {
    /// The register operand at `index`.
    pub(crate) fn reg(&mut self, i: &Resolved, index: usize) -> Decoded<Reg> {
        self.any_reg(arg(i, index)?)
    }

    /// Declared bits of the register at `index`, 0 where there is none.
    pub(crate) fn register_bits(&self, i: &Resolved, index: usize) -> u32 {
        match i.args.get(index) {
            Some(Arg::Reg(r)) => self.body.registers[r.0 as usize].ty.bits(),
            _ => 0,
        }
    }

    /// A register operand of any kind; `_` becomes a row nobody reads.
    pub(crate) fn any_reg(&mut self, arg: &Arg) -> Decoded<Reg> {
        match arg {
            Arg::Reg(r) => Ok(self.registers[r.0 as usize]),
            Arg::Vector(elements) if elements.len() == 1 => self.any_reg(&elements[0]),
            other => Err(format!("expected a register, found {}", kind(other))),
        }
    }

    /// A destination: `None` for `_`.
    pub(crate) fn destination(&mut self, arg: &Arg) -> Decoded<Option<Reg>> {
        match arg {
            Arg::Sink => Ok(None),
            other => self.any_reg(other).map(Some),
        }
    }

    /// Destinations of a vector or scalar operand.
    pub(crate) fn destinations(&mut self, arg: &Arg) -> Decoded<Box<[Option<Reg>]>> {
        match arg {
            Arg::Vector(elements) => elements.iter().map(|e| self.destination(e)).collect(),
            other => Ok(Box::new([self.destination(other)?])),
        }
    }

    /// Elements of a vector operand, or the operand alone.
    pub(crate) fn elements<'a>(&self, arg: &'a Arg) -> &'a [Arg] {
        match arg {
            Arg::Vector(elements) => elements,
            other => std::slice::from_ref(other),
        }
    }

    /// A 32-bit source at `index`.
    pub(crate) fn s32(&mut self, i: &Resolved, index: usize) -> Decoded<R32> {
        self.source32(arg(i, index)?)
    }

    /// A 64-bit source at `index`.
    pub(crate) fn s64(&mut self, i: &Resolved, index: usize) -> Decoded<R64> {
        self.source64(arg(i, index)?)
    }

    /// A 32-bit destination at `index`.
    pub(crate) fn d32(&mut self, i: &Resolved, index: usize) -> Decoded<R32> {
        match arg(i, index)? {
            Arg::Sink => Ok(self.frame.new32()),
            arg => match self.any_reg(arg)? {
                Reg::R32(r) => Ok(r),
                _ => Err(format!("operand {} must be a register of at most 32 bits", index + 1)),
            },
        }
    }

    /// A 64-bit destination at `index`.
    pub(crate) fn d64(&mut self, i: &Resolved, index: usize) -> Decoded<R64> {
        match arg(i, index)? {
            Arg::Sink => Ok(self.frame.new64()),
            arg => match self.any_reg(arg)? {
                Reg::R64(r) => Ok(r),
                _ => Err(format!("operand {} must be a 64-bit register", index + 1)),
            },
        }
    }

    /// A source of at most 32 bits.
    pub(crate) fn source32(&mut self, arg: &Arg) -> Decoded<R32> {
        let value = match arg {
            Arg::Reg(_) | Arg::Vector(_) => {
                return match self.any_reg(arg)? {
                    Reg::R32(r) => Ok(r),
                    _ => Err("a 64-bit or predicate register where 32 bits are due".into()),
                };
            }
            Arg::Integer(value) => *value as u32,
            Arg::F32(bits) => *bits,
            Arg::F64(bits) => (f64::from_bits(*bits) as f32).to_bits(),
            Arg::Special(name) => return self.special32(name.as_str()),
            Arg::Variable(var, offset) => return self.variable32(*var, *offset),
            other => return Err(format!("expected a 32-bit source, found {}", kind(other))),
        };
        Ok(self.constants.const32(&mut self.frame, value))
    }

    /// A 64-bit source.
    pub(crate) fn source64(&mut self, arg: &Arg) -> Decoded<R64> {
        let value = match arg {
            Arg::Reg(_) | Arg::Vector(_) => {
                return match self.any_reg(arg)? {
                    Reg::R64(r) => Ok(r),
                    _ => Err("a register of another width where 64 bits are due".into()),
                };
            }
            Arg::Integer(value) => *value as u64,
            Arg::F32(bits) => u64::from(*bits),
            Arg::F64(bits) => *bits,
            Arg::Special(name) => {
                let special = Special::from_name(name.as_str())
                    .ok_or_else(|| format!("special register {name} is not known here"))?;
                return Ok(self.constants.special64(&mut self.frame, special));
            }
            Arg::Variable(var, offset) => return self.variable64(*var, *offset),
            Arg::Function(name) => function_address(self.module, *name)
                .ok_or_else(|| format!("`{name}` is defined nowhere in the module"))?,
            other => return Err(format!("expected a 64-bit source, found {}", kind(other))),
        };
        Ok(self.constants.const64(&mut self.frame, value))
    }

    /// A source of `bits` in a register that has as many or more, or a constant.
    pub(crate) fn source(&mut self, arg: &Arg, bits: u32) -> Decoded<Reg> {
        match arg {
            Arg::Reg(_) => holding(self.any_reg(arg)?, bits),
            Arg::Vector(elements) if elements.len() == 1 => self.source(&elements[0], bits),
            _ if bits > 64 => {
                Err(format!("expected a register of {bits} bits, found {}", kind(arg)))
            }
            _ if bits == 64 => self.source64(arg).map(Reg::R64),
            _ => self.source32(arg).map(Reg::R32),
        }
    }

    /// A predicate source with its negation; immediates become constant predicates.
    pub(crate) fn predicate(&mut self, arg: &Arg) -> Decoded<(P, bool)> {
        match arg {
            Arg::Reg(r) => match self.registers[r.0 as usize] {
                Reg::P(p) => Ok((p, false)),
                _ => Err("expected a predicate register".into()),
            },
            Arg::Not(r) => match self.registers[r.0 as usize] {
                Reg::P(p) => Ok((p, true)),
                _ => Err("expected a predicate register".into()),
            },
            // The carry flag's neighbour is never written: a predicate that is always false.
            Arg::Integer(value) => Ok((self.false_predicate(), *value != 0)),
            other => Err(format!("expected a predicate, found {}", kind(other))),
        }
    }

    /// A predicate that no instruction writes.
    fn false_predicate(&mut self) -> P {
        self.frame.new_p()
    }

    /// A predicate destination.
    pub(crate) fn predicate_destination(&mut self, arg: &Arg) -> Decoded<P> {
        match arg {
            Arg::Sink => Ok(self.frame.new_p()),
            Arg::Reg(_) => self.predicate(arg).map(|(p, _)| p),
            other => Err(format!("expected a predicate register, found {}", kind(other))),
        }
    }

    /// An immediate that counts something.
    pub(crate) fn count(&self, i: &Resolved, index: usize) -> Decoded<u32> {
        let value = self.immediate(i, index)?;
        u32::try_from(value).map_err(|_| format!("operand {} is {value}", index + 1))
    }

    /// An immediate integer.
    pub(crate) fn immediate(&self, i: &Resolved, index: usize) -> Decoded<i128> {
        match arg(i, index)? {
            Arg::Integer(value) => Ok(*value),
            other => {
                Err(format!("operand {} must be an immediate, found {}", index + 1, kind(other)))
            }
        }
    }

    /// The address operand at `index`.
    pub(crate) fn address(&mut self, i: &Resolved, index: usize) -> Decoded<Addr> {
        self.address_of(arg(i, index)?)
    }

    /// An address operand.
    pub(crate) fn address_of(&mut self, arg: &Arg) -> Decoded<Addr> {
        let (base, offset) = match arg {
            Arg::Address(base, offset) | Arg::TensorAddress(base, offset, _) => (*base, *offset),
            other => return Err(format!("expected an address, found {}", kind(other))),
        };
        let base = match base {
            Base::Reg(r) => self.registers[r.0 as usize],
            Base::Absolute(address) => Reg::R64(self.constants.const64(&mut self.frame, address)),
            Base::Variable(var) => Reg::R64(self.variable64(var, 0)?),
        };
        match base {
            Reg::R32(_) | Reg::R64(_) => Ok(Addr { base, offset }),
            _ => Err("an address must be a 32- or 64-bit register".into()),
        }
    }

    fn special32(&mut self, name: &str) -> Decoded<R32> {
        if name == "WARP_SZ" {
            return Ok(self.constants.const32(&mut self.frame, 32));
        }
        let special = Special::from_name(name)
            .ok_or_else(|| format!("special register {name} is not known here"))?;
        Ok(self.constants.special32(&mut self.frame, special))
    }

    /// Where the variable is that the current function calls `var`.
    pub(crate) fn place_of(&self, var: Var) -> Decoded<Place> {
        let variable = self.body.variables[var.0 as usize].variable;
        self.variables.of(variable).ok_or_else(|| "a variable without a place".into())
    }

    fn variable32(&mut self, var: Var, offset: i64) -> Decoded<R32> {
        let place = self.place_of(var)?;
        let frame = &mut self.frame;
        match place {
            Place::Shared(at) => Ok(self.constants.shared32(frame, at.wrapping_add(offset as u32))),
            Place::Param(at) | Place::Local(at) => {
                Ok(self.constants.const32(frame, at.wrapping_add(offset as u32)))
            }
            Place::Module => Err("a global variable's address needs 64 bits".into()),
        }
    }

    fn variable64(&mut self, var: Var, offset: i64) -> Decoded<R64> {
        let place = self.place_of(var)?;
        let name = self.body.variables[var.0 as usize].variable.name;
        let frame = &mut self.frame;
        match place {
            Place::Shared(at) => Ok(self.constants.shared64(frame, at.wrapping_add(offset as u32))),
            Place::Param(at) | Place::Local(at) => {
                Ok(self.constants.const64(frame, u64::from(at).wrapping_add(offset as u64)))
            }
            Place::Module if offset == 0 => Ok(self.constants.global(frame, name)),
            Place::Module => {
                let base = self.constants.global(&mut self.frame, name);
                let d = self.frame.new64();
                self.emit_unguarded(Arithmetic::Offset {
                    d: Reg::R64(d),
                    a: Reg::R64(base),
                    add: offset as u64,
                    mask: u64::MAX,
                });
                Ok(d)
            }
        }
    }

    /// Whether a variable operand names a parameter of a call, which lives in local memory.
    pub(crate) fn is_call_parameter(&self, arg: &Arg) -> bool {
        let Arg::Address(Base::Variable(var), _) = arg else { return false };
        matches!(self.place_of(*var), Ok(Place::Local(_)))
    }

    /// The window a `cvta` adds for a space.
    pub(crate) fn window(space: &str) -> Decoded<u64> {
        Ok(match space {
            "global" | "const" => 0,
            "shared" | "shared::cta" | "shared::cluster" => address::SHARED_WINDOW,
            "local" => address::LOCAL_WINDOW,
            "param" | "param::entry" => address::PARAM_WINDOW,
            other => return Err(format!("address space .{other} is not known here")),
        })
    }

    /// Sources of a vector operand.
    pub(crate) fn row_list(&mut self, arg: &Arg) -> Decoded<Box<[R32]>> {
        self.elements(arg).to_vec().iter().map(|e| self.source32(e)).collect()
    }

    /// Destinations of a vector operand.
    pub(crate) fn destination_list(&mut self, arg: &Arg) -> Decoded<Box<[R32]>> {
        let destinations = self.destinations(arg)?;
        let row = |d: &Option<Reg>| match d {
            Some(Reg::R32(r)) => Ok(*r),
            Some(_) => Err("a matrix in registers that have not 32 bits".into()),
            None => Ok(self.frame.new32()),
        };
        destinations.iter().map(row).collect()
    }
}

/// `reg`, if it has at least `bits` bits.
pub(crate) fn holding(reg: Reg, bits: u32) -> Decoded<Reg> {
    let has = match reg {
        Reg::P(_) => 1,
        Reg::R32(_) => 32,
        Reg::R64(_) => 64,
        Reg::R128(_) => 128,
    };
    // A predicate holds nothing but itself, and 128 bits are moved as a whole.
    let whole = bits != 1 && has == 1 || bits <= 64 && has == 128;
    match has >= bits && !whole {
        true => Ok(reg),
        false => Err(format!("a register of {has} bits where {bits} are due")),
    }
}

/// What an operand is, for messages.
pub(crate) fn kind(arg: &Arg) -> &'static str {
    match arg {
        Arg::Reg(_) => "a register",
        Arg::Not(_) => "a negated predicate",
        Arg::Special(_) => "a special register",
        Arg::Variable(..) => "a variable's address",
        Arg::Label(_) => "a label",
        Arg::BranchTargets(_) => "branch targets",
        Arg::Function(_) => "a function",
        Arg::Integer(_) => "an integer",
        Arg::F32(_) | Arg::F64(_) => "a floating-point number",
        Arg::Sink => "`_`",
        Arg::Vector(_) => "a vector",
        Arg::Address(..) => "an address",
        Arg::TensorAddress(..) => "a tensor address",
        Arg::Pair(..) => "a pair",
        Arg::List(_) => "a list",
        Arg::Text(_) => "a string",
    }
}

pub(crate) fn modifiers<'i>(i: &'i Resolved) -> impl Iterator<Item = &'static str> + 'i {
    i.instruction.modifiers.iter().map(|m| m.as_str())
}

pub(crate) fn told(error: OperandError) -> String {
    error.to_string()
}

pub(crate) fn same_count(found: usize, due: usize) -> Decoded<()> {
    if found == due {
        return Ok(());
    }
    Err(format!("{found} registers where this shape has {due}"))
}

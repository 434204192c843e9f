//! Operands to arguments.

use super::error::{ResolveError, ResolveErrorKind};
use super::scope::{Meaning, Names, ScopeId, element};
use super::{Arg, Base, Reg, is_special_register};
use crate::Symbol;
use crate::ast::{Address, AddressBase, Instruction, Operand};

impl Names<'_> {
    pub(super) fn args(
        &mut self,
        scope: ScopeId,
        operands: &[Operand],
        user: &Instruction,
    ) -> Result<Vec<Arg>, ResolveError> {
        operands.iter().map(|operand| self.arg(scope, operand, user)).collect()
    }

    /// The register called `name`.
    pub(super) fn register(
        &mut self,
        scope: ScopeId,
        name: Symbol,
        user: &Instruction,
    ) -> Result<Reg, ResolveError> {
        match self.lookup(scope, name, user)? {
            Some(Meaning::Register(reg)) => Ok(reg),
            Some(_) => Err(wrong(ResolveErrorKind::NotARegister, name, user)),
            None => Err(wrong(ResolveErrorKind::Undeclared, name, user)),
        }
    }

    fn arg(
        &mut self,
        scope: ScopeId,
        operand: &Operand,
        user: &Instruction,
    ) -> Result<Arg, ResolveError> {
        Ok(match operand {
            Operand::Name(name) => self.named(scope, *name, user)?,
            Operand::NameOffset(name, offset) => match self.base(scope, *name, user)? {
                Base::Variable(var) => Arg::Variable(var, *offset),
                _ => return Err(wrong(ResolveErrorKind::NotAnAddress, *name, user)),
            },
            Operand::Not(name) => Arg::Not(self.register(scope, *name, user)?),
            Operand::Integer { value, .. } => Arg::Integer(*value),
            Operand::F32(bits) => Arg::F32(*bits),
            Operand::F64(bits) => Arg::F64(*bits),
            Operand::Sink => Arg::Sink,
            Operand::Vector(elements) => Arg::Vector(self.args(scope, elements, user)?),
            Operand::List(elements) => Arg::List(self.args(scope, elements, user)?),
            Operand::Address(address) => {
                let (base, offset) = self.address(scope, address, user)?;
                Arg::Address(base, offset)
            }
            Operand::TensorAddress(address, groups) => {
                let (base, offset) = self.address(scope, address, user)?;
                Arg::TensorAddress(base, offset, self.args(scope, groups, user)?)
            }
            Operand::Pair(a, b) => {
                let a = self.arg(scope, a, user)?;
                Arg::Pair(Box::new(a), Box::new(self.arg(scope, b, user)?))
            }
            Operand::Text(text) => Arg::Text(text.clone()),
        })
    }

    fn named(
        &mut self,
        scope: ScopeId,
        name: Symbol,
        user: &Instruction,
    ) -> Result<Arg, ResolveError> {
        Ok(match self.lookup(scope, name, user)? {
            Some(Meaning::Register(reg)) => Arg::Reg(reg),
            Some(Meaning::VectorRegister(length)) => {
                let elements =
                    (0..length).map(|i| self.register(scope, element(name, i), user).map(Arg::Reg));
                Arg::Vector(elements.collect::<Result<_, _>>()?)
            }
            Some(Meaning::Variable(var)) => Arg::Variable(var, 0),
            Some(Meaning::Label(at)) => Arg::Label(at),
            Some(Meaning::BranchTargets(labels)) => {
                let targets = labels.iter().map(|label| self.label(scope, *label, user));
                Arg::BranchTargets(targets.collect::<Result<_, _>>()?)
            }
            Some(Meaning::Function) => Arg::Function(name),
            None if is_special_register(name.as_str()) => Arg::Special(name),
            None => return Err(wrong(ResolveErrorKind::Undeclared, name, user)),
        })
    }

    fn label(
        &mut self,
        scope: ScopeId,
        name: Symbol,
        user: &Instruction,
    ) -> Result<usize, ResolveError> {
        match self.lookup(scope, name, user)? {
            Some(Meaning::Label(at)) => Ok(at),
            Some(_) => Err(wrong(ResolveErrorKind::NotALabel, name, user)),
            None => Err(wrong(ResolveErrorKind::Undeclared, name, user)),
        }
    }

    fn address(
        &mut self,
        scope: ScopeId,
        address: &Address,
        user: &Instruction,
    ) -> Result<(Base, i64), ResolveError> {
        let base = match address.base {
            AddressBase::Name(name) => self.base(scope, name, user)?,
            AddressBase::Absolute(address) => Base::Absolute(address),
        };
        Ok((base, address.offset))
    }

    fn base(
        &mut self,
        scope: ScopeId,
        name: Symbol,
        user: &Instruction,
    ) -> Result<Base, ResolveError> {
        match self.lookup(scope, name, user)? {
            Some(Meaning::Register(reg)) => Ok(Base::Reg(reg)),
            Some(Meaning::Variable(var)) => Ok(Base::Variable(var)),
            Some(_) => Err(wrong(ResolveErrorKind::NotAnAddress, name, user)),
            None => Err(wrong(ResolveErrorKind::Undeclared, name, user)),
        }
    }
}

fn wrong(kind: ResolveErrorKind, name: Symbol, user: &Instruction) -> ResolveError {
    ResolveError { kind, name, line: user.line.0 }
}

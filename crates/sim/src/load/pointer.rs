//! Calls through pointers.
//!
//! The address of a function is [`CODE`] plus its number in the module; no memory is there. A call
//! through a pointer branches on that number to a copy of each function that it may mean: those whose
//! address is taken anywhere, with parameters and results as large as those of the call.

use super::layout::size_of;
use super::{Loader, Op};
use crate::error::Error;
use crate::instruction::{Arithmetic, Control, Pc};
use crate::register::Reg;
use crate::variables;
use ptx::Symbol;
use ptx::ast::{Function, Item, Module, Operand, Statement, Variable};
use ptx::resolve::{Arg, Body, Resolved};

/// Where functions have their addresses: outside all memory.
const CODE: u64 = 0x00C0_DE00_0000;

/// The functions of a module that have a body, in the order of their numbers.
fn defined(module: &Module) -> impl Iterator<Item = &Function> {
    module.functions().filter(|f| !f.entry && f.body.is_some())
}

/// The address of a function.
pub(crate) fn address(module: &Module, name: Symbol) -> Option<u64> {
    let number = defined(module).position(|f| f.name == name)?;
    Some(CODE + number as u64)
}

/// The functions of a module whose address is taken, by number.
pub(crate) fn taken(module: &Module) -> Vec<Option<Symbol>> {
    let mut names = Vec::new();
    for item in &module.items {
        match item {
            Item::Variable(Variable { init: Some(init), .. }) => variables::names(init, &mut names),
            Item::Function(Function { body: Some(body), .. }) => moved(body, &mut names),
            _ => {}
        }
    }
    defined(module).map(|f| names.contains(&f.name).then_some(f.name)).collect()
}

/// The names that `mov` takes.
fn moved(body: &[Statement], names: &mut Vec<Symbol>) {
    for statement in body {
        match statement {
            Statement::Block(inner) => moved(inner, names),
            Statement::Instruction(i) if i.opcode == "mov" => {
                names.extend(i.operands.iter().filter_map(|operand| match operand {
                    Operand::Name(name) => Some(*name),
                    _ => None,
                }));
            }
            _ => {}
        }
    }
}

/// The pointer that a call goes through.
pub(crate) fn pointer(i: &Resolved) -> Option<usize> {
    let calls = i.instruction.opcode == "call";
    i.args.iter().position(|arg| calls && matches!(arg, Arg::Reg(_)))
}

impl<'m> Loader<'m> {
    /// Decodes a call through a pointer and every function that it may call.
    pub(crate) fn call_through(&mut self, i: &Resolved<'m>, pointer: usize) -> Result<(), Error> {
        let skip = self.skip_unless_guard(i);
        let at = self.source64(&i.args[pointer]).map_err(|reason| unsupported(i, reason))?;
        let index = self.frame.new32();
        let (d, a, mask) = (Reg::R32(index), Reg::R64(at), u64::from(u32::MAX));
        self.emit_unguarded(Op::Arithmetic(Arithmetic::Offset {
            d,
            a,
            add: CODE.wrapping_neg(),
            mask,
        }));
        let branch = self.code.len();
        self.emit_unguarded(Op::Control(Control::BranchIndex { index, targets: Box::new([]) }));
        self.branches.pop();
        let (mut starts, mut ends) = (Vec::new(), Vec::new());
        let taken = self.taken.clone();
        for name in taken {
            let callee = name.and_then(|name| self.functions.get(&name));
            starts.push(match callee.filter(|callee| self.fits(i, pointer, callee)) {
                Some(callee) => {
                    let start = self.code.len() as Pc;
                    self.inline_body(i, callee)?;
                    ends.push(self.code.len());
                    self.emit_unguarded(Op::Control(Control::Branch { target: 0 }));
                    self.branches.pop();
                    Some(start)
                }
                None => None,
            });
        }
        let nowhere = self.code.len() as Pc;
        self.emit_unguarded(Op::Control(Control::Trap(
            "a call through a pointer to no function of that kind",
        )));
        let end = self.code.len() as Pc;
        let targets = starts.into_iter().map(|start| start.unwrap_or(nowhere)).collect();
        self.code[branch].op = Op::Control(Control::BranchIndex { index, targets });
        for index in ends.into_iter().chain(skip) {
            self.code[index].op = Op::Control(Control::Branch { target: end });
        }
        Ok(())
    }

    /// Whether a function takes and gives what a call passes; one that is being called already would be
    /// recursion.
    fn fits(&self, i: &Resolved, pointer: usize, callee: &Body) -> bool {
        let Function { params, returns, name, .. } = callee.function;
        let same = |args: &[Arg], formals: &[Variable]| {
            let bytes = |arg: &Arg| match arg {
                Arg::Variable(var, _) => size_of(self.body.variables[var.0 as usize].variable).1,
                Arg::Reg(r) => u64::from(self.body.registers[r.0 as usize].ty.bits() / 8),
                _ => 0,
            };
            let fits = |(arg, formal): (&Arg, &Variable)| {
                let passed = bytes(arg);
                passed == 0 || passed == size_of(formal).1
            };
            args.len() == formals.len() && args.iter().zip(formals).all(fits)
        };
        let [results, arguments] = super::call::passed(i, pointer);
        !self.calls.contains(name) && same(arguments, params) && same(results, returns)
    }
}

fn unsupported(i: &Resolved, reason: String) -> Error {
    super::call::unsupported(i, reason)
}

//! Calls of device functions.
//!
//! A function is decoded anew at every place that calls it, so that lanes that leave it by
//! different ways meet again behind the call. Its registers and variables exist once: without
//! recursion a thread is never in it twice. Parameters are bytes of the thread's local memory;
//! a call copies what is passed to where the function looks for it.

use super::layout::{Place, size_of};
use super::operand::kind;
use super::pointer::{pointer, taken};
use super::{Decoded, Loader, Op};
use crate::error::{Error, Unsupported};
use crate::instruction::{
    Addr, Arithmetic, Control, Load, MemSpace, MemoryAccess, Pc, Store, SystemCall,
};
use crate::register::Reg;
use ptx::Symbol;
use ptx::ast::{Item, Module, Space, Type, Variable};
use ptx::resolve::{Arg, Body, Resolved, Var, resolve};
use std::collections::HashMap;

/// Device functions by name.
pub(crate) type Functions<'m> = HashMap<Symbol, Body<'m>>;

/// Decoded instructions a kernel may have, its calls inlined.
const MAX_CODE: usize = 1 << 20;

/// The functions with a body that a kernel calls, directly or not.
pub(crate) fn reachable<'m>(module: &'m Module, kernel: &Body<'m>) -> Result<Functions<'m>, Error> {
    let mut found = Functions::new();
    let mut left = called(module, kernel);
    while let Some(name) = left.pop() {
        let name = aliased(module, name);
        if found.contains_key(&name) {
            continue;
        }
        let defined = module.functions().find(|f| !f.entry && f.body.is_some() && f.name == name);
        let Some(function) = defined else { continue };
        let body = resolve(module, function).map_err(|e| Error::Load(e.to_string()))?;
        left.extend(called(module, &body));
        found.insert(name, body);
    }
    for item in &module.items {
        if let Item::Alias(alias, target) = item
            && let Some(body) = found.get(target)
        {
            found.insert(*alias, body.clone());
        }
    }
    Ok(found)
}

fn aliased(module: &Module, name: Symbol) -> Symbol {
    let target = module.items.iter().find_map(|item| match item {
        Item::Alias(alias, target) if *alias == name => Some(*target),
        _ => None,
    });
    target.unwrap_or(name)
}

/// The functions that a body calls, or may call through a pointer.
fn called(module: &Module, body: &Body) -> Vec<Symbol> {
    let calls = body.instructions.iter().filter(|i| i.instruction.opcode == "call");
    let mut names: Vec<Symbol> = calls.filter_map(function_of).collect();
    if body.instructions.iter().any(|i| pointer(i).is_some()) {
        names.extend(taken(module).into_iter().flatten());
    }
    names
}

fn function_of(i: &Resolved) -> Option<Symbol> {
    i.args.iter().find_map(|arg| match arg {
        Arg::Function(name) => Some(*name),
        _ => None,
    })
}

pub(crate) fn unsupported(i: &Resolved, reason: String) -> Error {
    let instruction = i.instruction.to_string();
    Error::Unsupported(Unsupported { instruction, line: i.instruction.line.0, reason })
}

/// Where a call names what it calls: by a pointer, or by name.
fn target(i: &Resolved) -> usize {
    let named = || i.args.iter().position(|arg| matches!(arg, Arg::Function(_)));
    pointer(i).or_else(named).unwrap_or(0)
}

/// The operands in front of what is called, which take its results, and those behind it.
pub(crate) fn passed<'a>(i: &'a Resolved, at: usize) -> [&'a [Arg]; 2] {
    let list = |args: &'a [Arg]| match args {
        [Arg::List(list), ..] => &list[..],
        other => other,
    };
    [list(&i.args[..at]), list(i.args.get(at + 1..).unwrap_or_default())]
}

/// One side of a copy between caller and function.
enum Slot {
    Memory(u32),
    Register(Reg),
}

impl<'m> Loader<'m> {
    /// Whether a function is being inlined.
    pub(crate) fn inlined(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The function an instruction calls, if the module defines it.
    pub(crate) fn callee(&self, i: &Resolved) -> Option<&'m Body<'m>> {
        if i.instruction.opcode != "call" {
            return None;
        }
        self.functions.get(&function_of(i)?)
    }

    /// Decodes a call and the function it calls.
    pub(crate) fn inline(&mut self, i: &Resolved<'m>, callee: &'m Body<'m>) -> Result<(), Error> {
        let skip = self.skip_unless_guard(i);
        self.inline_body(i, callee)?;
        if let Some(index) = skip {
            let end = self.code.len() as Pc;
            self.code[index].op = Op::Control(Control::Branch { target: end });
        }
        Ok(())
    }

    /// Decodes a function where it is called, its guard aside.
    pub(crate) fn inline_body(
        &mut self,
        i: &Resolved<'m>,
        callee: &'m Body<'m>,
    ) -> Result<(), Error> {
        let unsupported = |reason: String| unsupported(i, reason);
        let name = callee.function.name;
        if self.calls.contains(&name) {
            return Err(unsupported(format!("`{name}` calls itself: recursion is not known here")));
        }
        if self.code.len() > MAX_CODE {
            return Err(unsupported(format!("more than {MAX_CODE} instructions after inlining")));
        }
        let source = self.source;
        let [results, arguments] = passed(i, target(i));
        let (params, returns) = (&callee.function.params, &callee.function.returns);
        if arguments.len() != params.len() || results.len() != returns.len() {
            let text =
                format!("`{name}` has {} parameters and {} results", params.len(), returns.len());
            return Err(unsupported(text));
        }
        for (argument, param) in arguments.iter().zip(params) {
            self.pass(argument, param, callee).map_err(&unsupported)?;
        }
        self.decode_body(callee)?;
        self.source = source;
        for (result, from) in results.iter().zip(returns) {
            self.fetch(result, from, callee).map_err(&unsupported)?;
        }
        Ok(())
    }

    /// A guarded call: lanes that do not take part go around it.
    pub(crate) fn skip_unless_guard(&mut self, i: &Resolved<'m>) -> Option<usize> {
        i.guard?;
        let index = self.code.len();
        self.emit(i, Op::Control(Control::Branch { target: 0 }));
        self.branches.pop();
        if let Some((_, negated)) = &mut self.code[index].guard {
            *negated = !*negated;
        }
        Some(index)
    }

    fn decode_body(&mut self, callee: &'m Body<'m>) -> Result<(), Error> {
        let name = callee.function.name;
        let registers = self.registers_of(callee);
        let caller = std::mem::replace(&mut self.body, callee);
        let registers = std::mem::replace(&mut self.registers, registers);
        let branches = std::mem::take(&mut self.branches);
        self.calls.push(name);
        let outcome = self.instructions();
        self.calls.pop();
        self.branches = branches;
        self.registers = registers;
        self.body = caller;
        outcome
    }

    fn registers_of(&mut self, callee: &Body) -> Vec<Reg> {
        let frame = &mut self.frame;
        let fresh = || callee.registers.iter().map(|r| frame.new_reg(r.ty)).collect();
        self.called_registers.entry(callee.function.name).or_insert_with(fresh).clone()
    }

    /// Copies an argument to where the function expects it.
    fn pass(&mut self, argument: &Arg, param: &Variable, callee: &Body) -> Decoded<()> {
        let to = self.formal(param, callee)?;
        let bytes = size_of(param).1 as u32;
        let from = match argument {
            Arg::Variable(var, 0) => match self.place_of(*var)? {
                Place::Local(at) => Slot::Memory(at),
                _ => return Err(format!("`{}` passed by the address of memory", param.name)),
            },
            value => Slot::Register(self.source(value, param.ty.bits())?),
        };
        self.copy_slot(to, from, bytes);
        Ok(())
    }

    /// Copies a result to where the caller wants it.
    fn fetch(&mut self, result: &Arg, from: &Variable, callee: &Body) -> Decoded<()> {
        let from_slot = self.formal(from, callee)?;
        let to = match result {
            Arg::Sink => return Ok(()),
            Arg::Variable(var, 0) => match self.place_of(*var)? {
                Place::Local(at) => Slot::Memory(at),
                _ => return Err("a result must be a .param variable or a register".into()),
            },
            Arg::Reg(_) => Slot::Register(self.any_reg(result)?),
            other => return Err(format!("a result in {}", kind(other))),
        };
        self.copy_slot(to, from_slot, size_of(from).1 as u32);
        Ok(())
    }

    /// Where a function keeps a parameter or result.
    fn formal(&mut self, variable: &Variable, callee: &Body) -> Decoded<Slot> {
        if variable.space == Space::Reg {
            let index = callee.registers.iter().position(|r| r.name == variable.name);
            let registers = self.registers_of(callee);
            // One that the function never names needs a place all the same.
            return Ok(Slot::Register(match index {
                Some(index) => registers[index],
                None => self.frame.new_reg(variable.ty),
            }));
        }
        match self.variables.of(variable) {
            Some(Place::Local(at)) => Ok(Slot::Memory(at)),
            _ => Err(format!("parameter `{}` has no place", variable.name)),
        }
    }

    fn copy_slot(&mut self, to: Slot, from: Slot, bytes: u32) {
        match (to, from) {
            (Slot::Memory(to), Slot::Memory(from)) => self.copy_local(to, from, bytes),
            (Slot::Memory(to), Slot::Register(from)) => self.store_local(to, from, bytes),
            (Slot::Register(to), Slot::Memory(from)) => self.load_local(to, from, bytes),
            (Slot::Register(Reg::R32(d)), Slot::Register(Reg::R32(a))) => {
                self.emit_unguarded(Op::Arithmetic(Arithmetic::Mov32 { d, a }));
            }
            (Slot::Register(Reg::R64(d)), Slot::Register(Reg::R64(a))) => {
                self.emit_unguarded(Op::Arithmetic(Arithmetic::Mov64 { d, a }));
            }
            (Slot::Register(d), Slot::Register(a)) => {
                self.emit_unguarded(Op::Arithmetic(Arithmetic::Offset {
                    d,
                    a,
                    add: 0,
                    mask: u64::MAX,
                }));
            }
        }
    }

    fn copy_local(&mut self, to: u32, from: u32, bytes: u32) {
        let mut at = 0;
        while at < bytes {
            let places = to | from | at;
            let fits = |n: &u32| places.is_multiple_of(*n) && bytes - at >= *n;
            let n = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
            let through = self.frame.new_reg(if n == 8 { Type::B64 } else { Type::B32 });
            self.load_local(through, from + at, n);
            self.store_local(to + at, through, n);
            at += n;
        }
    }

    fn local(&mut self, at: u32) -> Addr {
        let base = Reg::R64(self.constants.const64(&mut self.frame, at.into()));
        Addr { base, offset: 0 }
    }

    fn load_local(&mut self, to: Reg, from: u32, bytes: u32) {
        let load = Load {
            space: MemSpace::Local,
            dst: Box::new([Some(to)]),
            bytes: bytes as u8,
            sign: None,
            addr: self.local(from),
            strong: false,
        };
        self.emit_unguarded(Op::MemoryAccess(MemoryAccess::Load(Box::new(load))));
    }

    fn store_local(&mut self, to: u32, from: Reg, bytes: u32) {
        let store = Store {
            space: MemSpace::Local,
            src: Box::new([from]),
            bytes: bytes as u8,
            addr: self.local(to),
            strong: false,
        };
        self.emit_unguarded(Op::MemoryAccess(MemoryAccess::Store(Box::new(store))));
    }

    fn bytes_of(&self, var: Var) -> u64 {
        size_of(self.body.variables[var.0 as usize].variable).1
    }

    /// A call of something every driver provides.
    pub(crate) fn call_system(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let [results, arguments] = passed(i, target(i));
        let call = match function_of(i).map(Symbol::as_str) {
            Some("vprintf") => SystemCall::Print,
            Some("__assertfail") => SystemCall::AssertionFailed,
            Some("cudaTriggerProgrammaticLaunchCompletion") => {
                self.emit(i, Op::Nop);
                return Ok(());
            }
            Some(name) => return Err(format!("`{name}` is defined nowhere in the module")),
            None => return Err("a call of no function".into()),
        };
        let place = |(arg, bytes): (&Arg, u64)| match arg {
            Arg::Variable(var, 0) => match self.place_of(*var)? {
                Place::Local(_) if self.bytes_of(*var) < bytes => {
                    Err(format!("a parameter has {} bytes: {bytes} are due", self.bytes_of(*var)))
                }
                Place::Local(at) => Ok(at),
                _ => Err("parameters of a call must be .param variables".to_string()),
            },
            other => Err(format!("a parameter that is {}", kind(other))),
        };
        // Pointers, but for the line of a failed assertion.
        let sizes = match call {
            SystemCall::Print => [8, 8, 8, 8, 8],
            SystemCall::AssertionFailed => [8, 8, 4, 8, 8],
        };
        let arguments = arguments.iter().zip(sizes).map(place).collect::<Decoded<Box<[u32]>>>()?;
        let result = results.first().map(|result| place((result, 4))).transpose()?;
        self.emit(i, Op::Control(Control::System { call, arguments, result }));
        Ok(())
    }
}

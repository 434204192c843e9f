//! Declarations (rules 3, 4, 5 and 7).

use super::launch::total_bytes;
use super::{Findings, initial};
use crate::Symbol;
use crate::ast::{Function, Item, Linkage, Module, Registers, Space, Statement, Type, Variable};
use std::collections::HashSet;

/// Where a variable is declared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Module,
    /// A kernel's parameters.
    Kernel,
    /// A function's parameters and results.
    Function,
    Body,
}

/// Constant memory of a module.
const MOST_CONSTANT: u64 = 64 << 10;

pub(super) fn check_module(module: &Module, found: &mut Findings) {
    let mut defined: HashSet<Symbol> = HashSet::new();
    let mut files: HashSet<u32> = HashSet::new();
    let functions = || module.functions().map(|function| function.name);
    for item in &module.items {
        let name = match item {
            Item::Function(function) if function.body.is_some() => function.name,
            Item::Variable(variable) => {
                check_variable(variable, Scope::Module, found);
                if variable.linkage == Some(Linkage::Extern) {
                    continue;
                }
                variable.name
            }
            Item::File(file) => {
                if !files.insert(file.index) {
                    found.add(3, format!(".file {}", file.index), "is defined twice".into());
                }
                continue;
            }
            Item::Alias(alias, aliasee) => {
                for name in
                    [alias, aliasee].into_iter().filter(|name| !functions().any(|f| f == **name))
                {
                    found.add(
                        3,
                        format!(".alias {alias}, {aliasee}"),
                        format!("`{name}` is no function"),
                    );
                }
                continue;
            }
            _ => continue,
        };
        if !defined.insert(name) {
            found.add(3, name, "is defined twice".into());
        }
    }
    check_constants(module, found);
}

fn check_constants(module: &Module, found: &mut Findings) {
    let constants = module.items.iter().filter_map(|item| match item {
        Item::Variable(variable) if variable.space == Space::Const => Some(variable),
        _ => None,
    });
    let bytes = total_bytes(constants);
    if bytes > MOST_CONSTANT {
        found.add(7, ".const", format!("constants of {bytes} bytes, {MOST_CONSTANT} fit"));
    }
}

/// Checks the parameters and the body of a function.
pub(super) fn check_function(function: &Function, found: &mut Findings) {
    let scope = if function.entry { Scope::Kernel } else { Scope::Function };
    for variable in function.params.iter().chain(&function.returns) {
        check_variable(variable, scope, found);
    }
    check_body(function.body.as_deref().unwrap_or_default(), found);
}

fn check_body(statements: &[Statement], found: &mut Findings) {
    for statement in statements {
        match statement {
            Statement::Registers(registers) => check_registers(registers, found),
            Statement::Variable(variable) => check_variable(variable, Scope::Body, found),
            Statement::Block(inner) => check_body(inner, found),
            _ => {}
        }
    }
}

fn check_registers(registers: &Registers, found: &mut Findings) {
    let ty = registers.ty;
    if is_instruction_type(ty) {
        let message = format!("no register is of type .{ty}: use .b{}", ty.bits());
        found.add(4, registers, message);
    }
    let bits = u32::from(registers.vector.unwrap_or(1)) * ty.bits();
    if registers.vector == Some(8) || bits > 128 {
        found.add(4, registers, "a vector register has 2 or 4 elements, 128 bits at most".into());
    }
}

fn check_variable(variable: &Variable, scope: Scope, found: &mut Findings) {
    let mut wrong = |message: String| found.add(5, variable.name, message);
    let pointed = variable.pointer.and_then(|pointer| pointer.align);
    for align in variable.align.into_iter().chain(pointed).filter(|align| !align.is_power_of_two())
    {
        wrong(format!("alignment {align} is not a power of two"));
    }
    if let Some(message) = misplaced(variable, scope) {
        wrong(message);
    }
    let ty = variable.ty;
    if variable.space != Space::Reg && (is_instruction_type(ty) || ty == Type::Pred) {
        wrong(format!("no variable is of type .{ty}"));
    }
    let bits = u32::from(variable.vector.unwrap_or(1)) * ty.bits();
    if variable.vector == Some(8) || variable.vector.is_some() && bits > 128 {
        wrong("a vector has 2 or 4 elements, 128 bits at most".into());
    }
    if let Some(message) = wrong_extents(variable, scope) {
        wrong(message);
    }
    if let Some(message) = initial::mistake(variable) {
        wrong(message);
    }
}

/// What is wrong with a variable of its state space in its scope.
fn misplaced(variable: &Variable, scope: Scope) -> Option<String> {
    use Space::*;
    let possible = match scope {
        Scope::Module => matches!(variable.space, Global | Const | Shared),
        Scope::Kernel => variable.space == Param,
        Scope::Function => matches!(variable.space, Param | Reg),
        Scope::Body => variable.linkage.is_none(),
    };
    let common = variable.linkage == Some(Linkage::Common) && variable.space != Global;
    match (possible, scope) {
        _ if common => Some("only .global variables are .common".into()),
        (true, _) => None,
        (false, Scope::Body) => Some("a variable of a function has no linkage".into()),
        (false, Scope::Module) => Some("no variable of a module is in this state space".into()),
        (false, _) => Some("no parameter is in this state space".into()),
    }
}

/// What is wrong with a variable's extents.
fn wrong_extents(variable: &Variable, scope: Scope) -> Option<String> {
    let open = |extent: &Option<u64>| extent.is_none_or(|n| n == 0);
    let elsewhere = variable.linkage == Some(Linkage::Extern) || variable.init.is_some();
    let extents = &variable.extents;
    if extents.iter().skip(1).any(open) {
        return Some("only the first extent can be open".into());
    }
    if extents.first().is_some_and(open) && !elsewhere && scope != Scope::Function {
        return Some("an array without extent, which nothing else gives".into());
    }
    let parameter = matches!(scope, Scope::Kernel | Scope::Function);
    (parameter && (extents.len() > 1 || variable.vector.is_some()))
        .then(|| "a parameter is a number, or an array of one extent".into())
}

/// Types that instructions have and neither registers nor memory do.
fn is_instruction_type(ty: Type) -> bool {
    matches!(ty, Type::Bf16 | Type::Bf16x2 | Type::F32x2)
}

//! Declarations (rules 3, 4 and 5).

use super::Findings;
use crate::Symbol;
use crate::ast::{Item, Linkage, Module, Registers, Space, Statement, Type, Variable};
use std::collections::HashSet;

pub(super) fn check_module(module: &Module, found: &mut Findings) {
    let mut defined: HashSet<Symbol> = HashSet::new();
    for item in &module.items {
        let name = match item {
            Item::Function(function) if function.body.is_some() => function.name,
            Item::Variable(variable) => {
                check_variable(variable, found);
                if variable.linkage == Some(Linkage::Extern) {
                    continue;
                }
                variable.name
            }
            _ => continue,
        };
        if !defined.insert(name) {
            found.add(3, name, "is defined twice".into());
        }
    }
}

pub(super) fn check_body(statements: &[Statement], found: &mut Findings) {
    for statement in statements {
        match statement {
            Statement::Registers(registers) => check_registers(registers, found),
            Statement::Variable(variable) => check_variable(variable, found),
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

fn check_variable(variable: &Variable, found: &mut Findings) {
    if variable.space == Space::Reg {
        return;
    }
    if let Some(align) = variable.align
        && !align.is_power_of_two()
    {
        found.add(5, variable.name, format!("alignment {align} is not a power of two"));
    }
    let ty = variable.ty;
    if is_instruction_type(ty) || ty == Type::Pred {
        found.add(5, variable.name, format!("no variable is of type .{ty}"));
    }
}

/// Types that instructions have and neither registers nor memory do.
fn is_instruction_type(ty: Type) -> bool {
    matches!(ty, Type::Bf16 | Type::Bf16x2 | Type::F32x2)
}

//! Operands against slots (rules 11, 12 and 13).

use super::operation::Operation;
use super::slot::{Kind, Slot, Value};
use super::types::{Class, Want};
use super::{Report, address};
use crate::ast::{Space, Type};
use crate::resolve::{Arg, Reg};

pub(super) fn check(operation: &Operation<'_>, slots: &[Slot], report: &mut Report<'_>) {
    let args = operation.args();
    let least = slots.iter().filter(|s| !s.optional && s.kind != Kind::Rest).count();
    let open = slots.last().is_some_and(|slot| slot.kind == Kind::Rest);
    if args.len() < least || args.len() > slots.len() && !open {
        let takes = match (least == slots.len(), open) {
            (_, true) => format!("at least {least}"),
            (true, _) => least.to_string(),
            (false, _) => format!("{least} to {}", slots.len()),
        };
        return report(11, format!("takes {takes} operands, found {}", args.len()));
    }
    for (i, (arg, slot)) in args.iter().zip(slots).enumerate() {
        if slot.kind == Kind::Rest {
            break;
        }
        let mut at =
            |rule: u8, message: String| report(rule, format!("operand {}: {message}", i + 1));
        fit(operation, arg, slot, &mut at);
    }
}

fn fit(operation: &Operation<'_>, arg: &Arg, slot: &Slot, report: &mut Report<'_>) {
    match slot.kind {
        Kind::Value(value) => fit_value(operation, arg, value, slot.result, report),
        Kind::Vector(value, length) => {
            fit_vector(operation, arg, value, length, slot.result, report)
        }
        Kind::Pair { value, both } => fit_pair(operation, arg, value, both, report),
        Kind::Movable(want) => fit_movable(operation, arg, want, slot.result, report),
        Kind::Condition => fit_condition(operation, arg, report),
        Kind::Address(place) => address::fit(operation, arg, place, report),
        Kind::TensorAddress(length) => address::fit_tensor(operation, arg, length, report),
        Kind::DescriptorOrTensorMemory => match arg {
            Arg::Address(..) => address::fit_tensor_memory(operation, arg, report),
            _ => fit_value(operation, arg, Value::of(Want::of(Type::U64)), false, report),
        },
        Kind::Label => {
            if !matches!(arg, Arg::Label(_)) {
                report(11, "must be a label".into());
            }
        }
        Kind::Constant => {
            if !matches!(arg, Arg::Integer(_)) {
                report(11, "must be an integer constant".into());
            }
        }
        Kind::Anything | Kind::Rest => {}
    }
}

fn fit_value(
    operation: &Operation<'_>,
    arg: &Arg,
    value: Value,
    result: bool,
    report: &mut Report<'_>,
) {
    let want = value.want;
    match arg {
        Arg::Reg(reg) => fit_register(operation, *reg, want, value.wide, report),
        Arg::Not(reg) if want.class == Class::Predicate && !result => {
            fit_register(operation, *reg, want, false, report);
        }
        Arg::Sink if result && value.sink => {}
        // Memory instructions take `{%r}` for `%r`.
        Arg::Vector(one) if one.len() == 1 && matches!(operation.opcode, "ld" | "st") => {
            fit_value(operation, &one[0], value, result, report);
        }
        _ if result => report(11, "must be a register".into()),
        Arg::Integer(_) | Arg::F32(_) | Arg::F64(_) => fit_immediate(arg, want, report),
        Arg::Special(_) if operation.opcode == "cvt" && want.class == Class::Integer => {}
        Arg::Special(name) => {
            report(11, format!("{name} must go through `mov` first"));
        }
        _ => report(11, format!("must be a .{} register or immediate", want.name)),
    }
}

fn fit_register(
    operation: &Operation<'_>,
    reg: Reg,
    want: Want,
    wide: bool,
    report: &mut Report<'_>,
) {
    let ty = operation.register(reg);
    if !want.suits(ty, wide) {
        let name = operation.register_name(reg);
        report(12, format!("{name} is of type .{ty}, which does not hold .{}", want.name));
    }
}

/// An immediate must be of the operand's kind: no integer for a float, no float for an integer.
fn fit_immediate(arg: &Arg, want: Want, report: &mut Report<'_>) {
    let right = match (arg, want.class) {
        (Arg::Integer(_), Class::Bits | Class::Integer | Class::Predicate) => true,
        (Arg::F32(_), Class::Bits) => want.bits == 32,
        (Arg::F64(_), Class::Bits) => want.bits == 64,
        (Arg::F32(_) | Arg::F64(_), Class::Float(ty)) => matches!(ty, Type::F32 | Type::F64),
        _ => false,
    };
    if !right {
        report(13, format!("this immediate is no .{}", want.name));
    }
}

fn fit_vector(
    operation: &Operation<'_>,
    arg: &Arg,
    value: Value,
    length: usize,
    result: bool,
    report: &mut Report<'_>,
) {
    let Arg::Vector(elements) = arg else {
        return report(11, format!("must be a vector of {length}"));
    };
    if elements.len() != length {
        return report(11, format!("must be a vector of {length}, found {}", elements.len()));
    }
    for element in elements {
        match element {
            Arg::Sink if result => {}
            _ => fit_value(operation, element, value, result, report),
        }
    }
}

fn fit_pair(
    operation: &Operation<'_>,
    arg: &Arg,
    value: Value,
    both: bool,
    report: &mut Report<'_>,
) {
    match arg {
        Arg::Pair(first, second) => {
            let value = Value { sink: true, ..value };
            fit_value(operation, first, value, true, report);
            let predicate = Value { sink: true, ..Value::of(Want::of(Type::Pred)) };
            fit_value(operation, second, predicate, true, report);
        }
        _ if both => report(11, "must be a pair of a register and a predicate".into()),
        _ => fit_value(operation, arg, value, true, report),
    }
}

fn fit_condition(operation: &Operation<'_>, arg: &Arg, report: &mut Report<'_>) {
    match arg {
        Arg::Reg(reg) | Arg::Not(reg) => {
            fit_register(operation, *reg, Want::of(Type::Pred), false, report);
        }
        Arg::Integer(_) => {}
        _ => report(11, "must be a predicate".into()),
    }
}

fn fit_movable(
    operation: &Operation<'_>,
    arg: &Arg,
    want: Want,
    result: bool,
    report: &mut Report<'_>,
) {
    match arg {
        Arg::Vector(elements) => fit_parts(operation, elements, want, result, report),
        Arg::Special(name) => {
            let wide = matches!(name.as_str(), "%clock64" | "%globaltimer" | "%current_graph_exec");
            let bits = if wide { 64..=64 } else { 16..=32 };
            if !bits.contains(&want.bits) && *name != "%gridid" {
                let width = if wide { 64 } else { 32 };
                report(12, format!("{name} has {width} bits, .{} has {}", want.name, want.bits));
            }
        }
        Arg::Variable(var, _) => {
            let space = operation.variable(*var).variable.space;
            let narrow =
                matches!(space, Space::Shared | Space::Param | Space::Const | Space::Local);
            if want.bits != 64 && !(narrow && want.bits == 32) {
                report(12, format!("an address does not fit into .{}", want.name));
            }
        }
        Arg::Function(_) | Arg::Label(_) | Arg::BranchTargets(_) => {}
        _ => fit_value(operation, arg, Value::of(want), result, report),
    }
}

/// `mov.b64 %rd, {%lo, %hi}`: the parts together are as wide as the whole.
fn fit_parts(
    operation: &Operation<'_>,
    elements: &[Arg],
    want: Want,
    result: bool,
    report: &mut Report<'_>,
) {
    if want.class != Class::Bits {
        return report(11, format!("only a .bN type is made of parts, not .{}", want.name));
    }
    if elements.is_empty() || !(want.bits as usize).is_multiple_of(elements.len()) {
        return report(11, format!("{} parts do not make up .{}", elements.len(), want.name));
    }
    let bits = want.bits / elements.len() as u32;
    for element in elements {
        match element {
            Arg::Reg(reg) if operation.register(*reg).bits() != bits => {
                let (name, ty) = (operation.register_name(*reg), operation.register(*reg));
                report(12, format!("{name} is of type .{ty}, the parts have {bits} bits"));
            }
            Arg::Reg(_) => {}
            Arg::Sink if result => {}
            Arg::Integer(_) | Arg::F32(_) | Arg::F64(_) if !result => {}
            _ => report(11, "a part must be a register".into()),
        }
    }
}

//! Addresses (rules 11, 12, 14 and 15).

use super::Report;
use super::operation::Operation;
use super::slot::{Memory, Place};
use crate::ast::{Space, Type, Variable};
use crate::resolve::{Arg, Base, Owner, Reg};

pub(super) fn fit(operation: &Operation<'_>, arg: &Arg, place: Place, report: &mut Report<'_>) {
    let Arg::Address(base, offset) = arg else {
        return report(11, "must be an address in brackets".into());
    };
    fit_base(operation, *base, *offset, place, report);
}

pub(super) fn fit_tensor_memory(operation: &Operation<'_>, arg: &Arg, report: &mut Report<'_>) {
    fit(operation, arg, Place { space: Memory::Tensor, align: 1 }, report);
}

/// `[map, {coordinates}]`.
pub(super) fn fit_tensor(
    operation: &Operation<'_>,
    arg: &Arg,
    length: usize,
    report: &mut Report<'_>,
) {
    let Arg::TensorAddress(base, offset, groups) = arg else {
        return report(11, "must be a tensor map with coordinates, [map, {…}]".into());
    };
    fit_base(operation, *base, *offset, Place { space: Memory::Generic, align: 64 }, report);
    let Some(Arg::Vector(coordinates)) = groups.first() else {
        return report(11, format!("must have a vector of {length} coordinates"));
    };
    if coordinates.len() != length {
        report(11, format!("must have {length} coordinates, found {}", coordinates.len()));
    }
    for coordinate in coordinates {
        match coordinate {
            Arg::Reg(reg) if operation.register(*reg).bits() != 32 => {
                let ty = operation.register(*reg);
                report(12, format!("coordinates have 32 bits, not .{ty}"));
            }
            Arg::Reg(_) | Arg::Integer(_) => {}
            _ => report(11, "a coordinate must be a register or an integer".into()),
        }
    }
}

fn fit_base(
    operation: &Operation<'_>,
    base: Base,
    offset: i64,
    place: Place,
    report: &mut Report<'_>,
) {
    match base {
        Base::Reg(reg) => fit_register(operation, reg, place.space, report),
        Base::Variable(var) => {
            let used = operation.variable(var);
            if place.space == Memory::Tensor {
                return report(14, format!("`{}` is not in tensor memory", used.variable.name));
            }
            fit_space(used.variable, place.space, report);
            fit_write(operation, used.variable, used.owner, report);
            fit_alignment(used.variable, offset, place.align, report);
        }
        Base::Absolute(_) => {}
    }
}

fn fit_register(operation: &Operation<'_>, reg: Reg, memory: Memory, report: &mut Report<'_>) {
    use Type::*;
    let ty = operation.register(reg);
    let (fits, takes) = match memory {
        Memory::Tensor => (matches!(ty, B32 | U32 | S32), "32"),
        Memory::Generic | Memory::Space(Space::Global) => (matches!(ty, B64 | U64 | S64), "64"),
        Memory::Space(_) => (matches!(ty, B32 | U32 | S32 | B64 | U64 | S64), "32 or 64"),
    };
    if !fits {
        let name = operation.register_name(reg);
        report(
            12,
            format!("{name} is of type .{ty}; an address here is an integer of {takes} bits"),
        );
    }
}

fn fit_space(variable: &Variable, memory: Memory, report: &mut Report<'_>) {
    if let Memory::Space(space) = memory
        && space != variable.space
    {
        let (name, declared) = (variable.name, variable.space);
        report(14, format!("`{name}` is in {declared}, and is used as {space}"));
    }
}

/// Constants and kernel parameters are read only.
fn fit_write(
    operation: &Operation<'_>,
    variable: &Variable,
    owner: Owner,
    report: &mut Report<'_>,
) {
    let writes = matches!(operation.opcode, "st" | "red" | "atom");
    let parameter = matches!(owner, Owner::Parameter(_));
    if writes && (variable.space == Space::Const || parameter) {
        let what = if parameter { "a parameter" } else { "constant" };
        report(14, format!("`{}` is {what} and cannot be written", variable.name));
    }
}

fn fit_alignment(variable: &Variable, offset: i64, align: u32, report: &mut Report<'_>) {
    let declared = alignment(variable);
    let align = i64::from(align);
    if align > 1 && (i64::from(declared) % align != 0 || offset % align != 0) {
        let name = variable.name;
        report(
            15,
            format!("`{name}` is aligned to {declared} bytes; {name}+{offset} must be to {align}"),
        );
    }
}

/// The declared alignment, or the natural one.
pub(super) fn alignment(variable: &Variable) -> u32 {
    let natural = variable.ty.bits().div_ceil(8) * u32::from(variable.vector.unwrap_or(1));
    variable.align.unwrap_or(natural)
}

//! Initial values of variables (rule 5).

use crate::ast::{Initializer, Linkage, Operand, Space, Type, Variable};

/// What is wrong with a variable's initial value, if anything.
pub(super) fn mistake(variable: &Variable) -> Option<String> {
    let init = variable.init.as_ref()?;
    if !matches!(variable.space, Space::Global | Space::Const) {
        return Some("a variable of this state space has no initial value".into());
    }
    if variable.linkage == Some(Linkage::Extern) {
        return Some("a variable that is defined elsewhere has no initial value here".into());
    }
    if variable.ty == Type::F16 || variable.ty == Type::F16x2 {
        return Some(format!("a variable of type .{} has no initial value", variable.ty));
    }
    let vector = variable.vector.map(u64::from);
    value(init, &variable.extents, vector, variable.ty).err()
}

/// A value for these extents, of vectors of so many elements.
fn value(
    init: &Initializer,
    extents: &[Option<u64>],
    vector: Option<u64>,
    ty: Type,
) -> Result<(), String> {
    match (init, extents, vector) {
        (Initializer::List(values), [extent, inner @ ..], _) => {
            let count = values.len() as u64;
            if let Some(extent) = extent.filter(|extent| count > *extent) {
                return Err(format!("{count} values for {extent} elements"));
            }
            values.iter().try_for_each(|init| value(init, inner, vector, ty))
        }
        (Initializer::List(values), [], Some(elements)) => {
            if values.len() as u64 != elements {
                return Err(format!("{} values for a vector of {elements}", values.len()));
            }
            values.iter().try_for_each(|init| value(init, &[], None, ty))
        }
        (Initializer::List(_), [], None) => Err("a list where a number is due".into()),
        (_, [_, ..], _) | (_, [], Some(_)) => Err("a number where a list is due".into()),
        (number, [], None) => element(number, ty),
    }
}

/// A number or an address. Addresses are unsigned; a mask takes one byte of them.
fn element(init: &Initializer, ty: Type) -> Result<(), String> {
    let is_float = matches!(ty, Type::F32 | Type::F64);
    let is_bits = matches!(ty, Type::B8 | Type::B16 | Type::B32 | Type::B64 | Type::B128);
    let fits = match init {
        Initializer::Value(Operand::Integer { .. }) => !is_float,
        Initializer::Value(Operand::F32(_) | Operand::F64(_)) => is_float || is_bits,
        Initializer::Value(Operand::Name(_) | Operand::NameOffset(..))
        | Initializer::Generic(..) => ty == Type::U64,
        Initializer::Masked(mask, _) => {
            let shift = mask.trailing_zeros();
            if shift % 8 != 0 || mask.checked_shr(shift) != Some(0xFF) {
                return Err(format!("{mask:#x} masks no byte of an address"));
            }
            matches!(ty, Type::U8 | Type::U32 | Type::U64)
        }
        _ => false,
    };
    if fits { Ok(()) } else { Err(format!("`{init}` is no value of type .{ty}")) }
}

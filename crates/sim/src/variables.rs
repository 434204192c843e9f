//! Module-scope variables: their memory and initial values.

use crate::error::Error;
use crate::load::{Kernel, align_of, size_of};
use crate::memory::{Contents, Global};
use crate::register::R64;
use ptx::Module;
use ptx::ast::{Initializer, Item, Operand, Space, Type, Variable};

/// Allocates the module variables a kernel uses; the register row and address of each.
pub(crate) fn place(
    module: &Module,
    kernel: &Kernel,
    global: &mut Global,
) -> Result<Vec<(R64, u64)>, Error> {
    let mut placed = Vec::new();
    for (name, row) in &kernel.globals {
        let variable = module.items.iter().find_map(|item| match item {
            Item::Variable(v) if v.name == *name.as_str() => Some(v),
            _ => None,
        });
        let Some(variable) = variable else {
            return Err(Error::Load(format!("`{name}` is not a variable of the module")));
        };
        let contents = Contents::Bytes(initial(variable)?);
        let read_only = variable.space == Space::Const;
        debug_assert!(align_of(variable) <= 512);
        let index = global.allocate(name, size_of(variable).1.max(1), &contents, read_only);
        placed.push((*row, global.get(index).base));
    }
    Ok(placed)
}

fn initial(variable: &Variable) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    if let Some(init) = &variable.init {
        write(init, variable.ty, &mut bytes)
            .map_err(|what| Error::Load(format!("initial value of `{}`: {what}", variable.name)))?;
    }
    bytes.resize(size_of(variable).1.max(1) as usize, 0);
    Ok(bytes)
}

fn write(init: &Initializer, ty: Type, bytes: &mut Vec<u8>) -> Result<(), String> {
    let width = ty.bits().max(8) as usize / 8;
    let value: u128 = match init {
        Initializer::List(values) => return values.iter().try_for_each(|v| write(v, ty, bytes)),
        Initializer::Value(Operand::Integer { value, .. }) => *value as u128,
        Initializer::Value(Operand::F32(bits)) => u128::from(*bits),
        Initializer::Value(Operand::F64(bits)) if width == 4 => {
            u128::from((f64::from_bits(*bits) as f32).to_bits())
        }
        Initializer::Value(Operand::F64(bits)) => u128::from(*bits),
        other => return Err(format!("`{other}` is not known here")),
    };
    bytes.extend(&value.to_le_bytes()[..width]);
    Ok(())
}

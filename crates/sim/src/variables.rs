//! Module-scope variables: their memory and initial values.

use crate::error::Error;
use crate::limits::Limits;
use crate::load::{Kernel, align_of, extents_of, function_address, size_of};
use crate::memory::{Allocation, Contents, Global, Request};
use crate::register::R64;
use ptx::ast::{Initializer, Item, Linkage, Operand, Space, Variable};
use ptx::{Module, Symbol};
use std::collections::HashMap;

/// Addresses of the variables that have memory.
pub(crate) type Addresses = HashMap<Symbol, u64>;

/// Allocates the module variables a kernel uses, and those whose addresses they hold; the register
/// row and address of each that it names.
pub(crate) fn place(
    module: &Module,
    kernel: &Kernel,
    global: &mut Global,
    given: &Addresses,
) -> Result<Vec<(R64, u64)>, Error> {
    let mut wanted: Vec<Symbol> =
        kernel.globals.iter().map(|(name, _)| Symbol::new(name)).collect();
    let mut placed = Vec::new();
    let mut addresses = given.clone();
    while let Some(name) = wanted.pop() {
        if addresses.contains_key(&name) {
            continue;
        }
        if let Some(code) = function_address(module, name) {
            addresses.insert(name, code);
            continue;
        }
        let variable = find(module, name)?;
        let index = global.allocate(&Request {
            name: name.as_str(),
            bytes: size_of(variable).1.max(1),
            align: align_of(variable),
            contents: ZEROS,
            read_only: variable.space == Space::Const,
        })?;
        addresses.insert(name, global.get(index).base);
        placed.push((variable, index));
        variable.init.iter().for_each(|init| names(init, &mut wanted));
    }
    for (variable, index) in placed {
        initialise(variable, global.get(index), &addresses)?;
    }
    Ok(kernel.globals.iter().map(|(name, row)| (*row, addresses[&Symbol::new(name)])).collect())
}

/// A module-scope variable that has memory of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleVariable {
    /// Name.
    pub name: Symbol,
    /// Size.
    pub bytes: u64,
    /// Alignment.
    pub align: u64,
    /// Whether kernels may only read it.
    pub read_only: bool,
}

/// The variables of a module in global and constant memory, those defined elsewhere left out.
pub fn module_variables(module: &Module) -> Vec<ModuleVariable> {
    let has_memory = |v: &&Variable| {
        matches!(v.space, Space::Global | Space::Const) && v.linkage != Some(Linkage::Extern)
    };
    let variables = module.items.iter().filter_map(|item| match item {
        Item::Variable(variable) => Some(variable),
        _ => None,
    });
    let described = variables.filter(has_memory).map(|variable| ModuleVariable {
        name: variable.name,
        bytes: size_of(variable).1.max(1),
        align: align_of(variable),
        read_only: variable.space == Space::Const,
    });
    described.collect()
}

/// The bytes a variable starts with, where all variables of the module are at `addresses`.
///
/// # Errors
/// If the module has no such variable, or its initial value is not one.
pub fn initial_value(
    module: &Module,
    name: Symbol,
    addresses: &HashMap<Symbol, u64>,
) -> Result<Vec<u8>, Error> {
    let variable = find(module, name)?;
    let mut global = Global::new(&Limits::default());
    let index = global.allocate(&Request {
        name: name.as_str(),
        bytes: size_of(variable).1.max(1),
        align: align_of(variable),
        contents: ZEROS,
        read_only: false,
    })?;
    let mut addresses = addresses.clone();
    let mut named = Vec::new();
    variable.init.iter().for_each(|init| names(init, &mut named));
    let code = |name: Symbol| Some((name, function_address(module, name)?));
    addresses.extend(named.into_iter().filter_map(code));
    initialise(variable, global.get(index), &addresses)?;
    Ok(global.get(index).to_vec())
}

fn initialise(
    variable: &Variable,
    memory: &Allocation,
    addresses: &Addresses,
) -> Result<(), Error> {
    let Some(init) = &variable.init else { return Ok(()) };
    let width = u64::from(variable.ty.bits().max(8) / 8);
    Writer { width, addresses, memory }
        .write(init, &extents_of(variable), 0)
        .map_err(|what| Error::Load(format!("initial value of `{}`: {what}", variable.name)))
}

const ZEROS: Contents = Contents::Bytes(&[]);

/// Bytes of a grid's workspace: its size and a barrier.
const GRID_WORKSPACE: u64 = 8;

/// Allocates the memory in which the CTAs of a cooperative launch meet, for a kernel that asks for it:
/// its address, or 0.
pub(crate) fn grid_workspace(kernel: &Kernel, global: &mut Global) -> Result<u64, Error> {
    if !kernel.has_grid_workspace {
        return Ok(0);
    }
    let index = global.allocate(&Request {
        name: "the grid's workspace",
        bytes: GRID_WORKSPACE,
        align: 8,
        contents: ZEROS,
        read_only: false,
    })?;
    Ok(global.get(index).base)
}

fn find(module: &Module, name: Symbol) -> Result<&Variable, Error> {
    let found = module.items.iter().find_map(|item| match item {
        Item::Variable(v) if v.name == name => Some(v),
        _ => None,
    });
    found.ok_or_else(|| Error::Load(format!("`{name}` is not a variable of the module")))
}

/// The variables whose addresses an initial value holds.
pub(crate) fn names(init: &Initializer, found: &mut Vec<Symbol>) {
    match init {
        Initializer::List(values) => values.iter().for_each(|value| names(value, found)),
        Initializer::Masked(_, inner) => names(inner, found),
        Initializer::Generic(name, _)
        | Initializer::Value(Operand::Name(name) | Operand::NameOffset(name, _)) => {
            found.push(*name);
        }
        Initializer::Value(_) => {}
    }
}

/// Writes initial values into memory that is zero.
struct Writer<'a> {
    /// Bytes of a number.
    width: u64,
    addresses: &'a Addresses,
    memory: &'a Allocation,
}

impl Writer<'_> {
    /// Writes a value of these extents at an offset.
    fn write(&self, init: &Initializer, extents: &[u64], at: u64) -> Result<(), String> {
        match (init, extents) {
            (Initializer::List(values), [extent, inner @ ..]) => {
                if values.len() as u64 > *extent {
                    return Err(format!("{} values for {extent} elements", values.len()));
                }
                let step = inner.iter().product::<u64>() * self.width;
                let mut places = values.iter().zip((at..).step_by(step.max(1) as usize));
                places.try_for_each(|(value, at)| self.write(value, inner, at))
            }
            (Initializer::List(_), []) => Err("a list where a number is due".into()),
            (_, [_, ..]) => Err("a number where a list is due".into()),
            (number, []) => {
                let width = self.width as usize;
                let bytes = value(number, width, self.addresses)?.to_le_bytes();
                self.memory.write_from(at, &bytes[..width]);
                Ok(())
            }
        }
    }
}

/// One number. Variables lie in one window here, so their addresses are generic ones as they are.
fn value(init: &Initializer, width: usize, addresses: &Addresses) -> Result<u128, String> {
    let address = |name: &Symbol, offset: i64| {
        let base = addresses.get(name).ok_or_else(|| format!("`{name}` has no address"))?;
        Ok(u128::from(base.wrapping_add_signed(offset)))
    };
    match init {
        Initializer::Value(Operand::Integer { value, .. }) => Ok(*value as u128),
        Initializer::Value(Operand::F32(bits)) => Ok(u128::from(*bits)),
        Initializer::Value(Operand::F64(bits)) if width == 4 => {
            Ok(u128::from((f64::from_bits(*bits) as f32).to_bits()))
        }
        Initializer::Value(Operand::F64(bits)) => Ok(u128::from(*bits)),
        Initializer::Value(Operand::Name(name)) => address(name, 0),
        Initializer::Value(Operand::NameOffset(name, offset))
        | Initializer::Generic(name, offset) => address(name, *offset),
        Initializer::Masked(mask, inner) => {
            let byte = value(inner, 8, addresses)? & u128::from(*mask);
            Ok(byte >> mask.trailing_zeros().min(63))
        }
        other => Err(format!("`{other}` is not known here")),
    }
}

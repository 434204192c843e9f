//! Names to things: a function body as one flat list of instructions over numbered registers.
//!
//! PTX scopes registers, labels and variables by block, and inline assembly reuses the same names
//! in many blocks of one kernel. [`resolve`] settles this once for everybody: each register in use
//! gets a dense number and a type, each label becomes the index of the instruction behind it, each
//! variable a dense number. Vector registers (`.reg .v4 .f32 %v`) become their elements, so a
//! [`Reg`] is always one scalar.
//!
//! ```
//! # let text = ".version 8.7 .target sm_90a .address_size 64 .entry f() {
//! #     .reg .b32 %r<9>; L: add.u32 %r7, %r8, 1; bra L; }";
//! # let module = sixwarp_ptx::parse(text)?;
//! use sixwarp_ptx::resolve::{Arg, resolve};
//! let body = resolve(&module, module.entry("f").unwrap()).unwrap();
//! assert_eq!(body.registers.len(), 2);
//! assert_eq!(body.instructions[1].args, [Arg::Label(0)]);
//! # Ok::<(), sixwarp_ptx::ParseError>(())
//! ```

mod args;
mod error;
mod scope;
mod special;

pub use error::{ResolveError, ResolveErrorKind};
pub use special::is_special_register;

use crate::Symbol;
use crate::ast::{self, Function, Guard, Loc, Module, Statement, Type, Variable};
use scope::{Names, ScopeId};

/// A register: an index into [`Body::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

/// A variable or parameter: an index into [`Body::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Var(pub u32);

/// What is known of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Its name in the text; `%v.x` for an element of a vector register.
    pub name: Symbol,
    /// Its declared type.
    pub ty: Type,
}

/// A variable in use and where it was declared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VariableUse<'m> {
    /// The declaration.
    pub variable: &'m Variable,
    /// Who declared it.
    pub owner: Owner,
}

/// Who declared a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The module.
    Module,
    /// The function's parameter list, at this place.
    Parameter(usize),
    /// The function's return list, at this place.
    Return(usize),
    /// The function's body or a block in it.
    Body,
}

/// A function body, flat.
#[derive(Clone, Debug, PartialEq)]
pub struct Body<'m> {
    /// The function.
    pub function: &'m Function,
    /// The registers that the body names, by [`Reg`].
    pub registers: Vec<Register>,
    /// Variables by [`Var`]: the parameters in order, the module's, then the body's own.
    pub variables: Vec<VariableUse<'m>>,
    /// The instructions in source order. A label is an index into this list; one behind the last
    /// instruction is its length.
    pub instructions: Vec<Resolved<'m>>,
}

/// An instruction whose names are resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved<'m> {
    /// The instruction as written: opcode, modifiers, line.
    pub instruction: &'m ast::Instruction,
    /// The guard register, and whether it is negated.
    pub guard: Option<(Reg, bool)>,
    /// The operands.
    pub args: Vec<Arg>,
    /// The `.loc` in force.
    pub loc: Option<Loc>,
}

/// A resolved operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// A register.
    Reg(Reg),
    /// `!%p`.
    Not(Reg),
    /// A special register such as `%tid.x`, or `WARP_SZ`.
    Special(Symbol),
    /// The address of a variable plus an offset.
    Variable(Var, i64),
    /// The index of the instruction behind a label.
    Label(usize),
    /// The labels of the `.branchtargets` that a `brx.idx` names.
    BranchTargets(Vec<usize>),
    /// A function, or a `.callprototype` or `.calltargets` label.
    Function(Symbol),
    /// An integer.
    Integer(i128),
    /// Bits of an f32.
    F32(u32),
    /// Bits of an f64.
    F64(u64),
    /// `_`.
    Sink,
    /// `{a, b, …}`, also a whole vector register.
    Vector(Vec<Arg>),
    /// `[base+offset]`.
    Address(Base, i64),
    /// `[base+offset, group, …]`.
    TensorAddress(Base, i64, Vec<Arg>),
    /// `a|b`.
    Pair(Box<Arg>, Box<Arg>),
    /// `(a, b)` of a call.
    List(Vec<Arg>),
    /// A string.
    Text(String),
}

/// What an address starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A register.
    Reg(Reg),
    /// A variable or parameter.
    Variable(Var),
    /// A number.
    Absolute(u64),
}

/// Resolves the names in `function`'s body. A declaration has an empty body.
pub fn resolve<'m>(module: &'m Module, function: &'m Function) -> Result<Body<'m>, ResolveError> {
    let mut names = Names::new(module, function)?;
    let mut flat = Vec::new();
    let mut walk = Walk { names: &mut names, flat: &mut flat, loc: None };
    walk.block(function.body.as_deref().unwrap_or_default(), ScopeId::FUNCTION)?;
    let mut instructions = Vec::with_capacity(flat.len());
    for Placed { instruction, scope, loc } in flat {
        let guard = match instruction.guard {
            Some(Guard { register, negated }) => {
                Some((names.register(scope, register, instruction)?, negated))
            }
            None => None,
        };
        let args = names.args(scope, &instruction.operands, instruction)?;
        instructions.push(Resolved { instruction, guard, args, loc });
    }
    let (registers, variables) = names.into_tables();
    Ok(Body { function, registers, variables, instructions })
}

/// An instruction, the block it stands in and the `.loc` in force.
struct Placed<'m> {
    instruction: &'m ast::Instruction,
    scope: ScopeId,
    loc: Option<Loc>,
}

/// The first pass: declarations into scopes, instructions into a list.
struct Walk<'w, 'm> {
    names: &'w mut Names<'m>,
    flat: &'w mut Vec<Placed<'m>>,
    loc: Option<Loc>,
}

impl<'m> Walk<'_, 'm> {
    fn block(&mut self, statements: &'m [Statement], scope: ScopeId) -> Result<(), ResolveError> {
        for (i, statement) in statements.iter().enumerate() {
            let line = self.flat.last().map_or(0, |placed| placed.instruction.line.0);
            match statement {
                Statement::Registers(registers) => {
                    self.names.declare_registers(scope, registers, line)?;
                }
                Statement::Variable(variable) => {
                    self.names.declare_variable(scope, variable, line)?;
                }
                Statement::Label(name) => {
                    let directive = match statements.get(i + 1) {
                        Some(Statement::Directive(text)) => Some(text.as_str()),
                        _ => None,
                    };
                    self.names.declare_label(scope, *name, self.flat.len(), directive, line)?;
                }
                Statement::Instruction(instruction) => {
                    self.flat.push(Placed { instruction, scope, loc: self.loc });
                }
                Statement::Block(inner) => {
                    let child = self.names.child_of(scope);
                    self.block(inner, child)?;
                }
                Statement::Loc(loc) => self.loc = Some(*loc),
                Statement::Pragma(_) | Statement::Directive(_) => {}
            }
        }
        Ok(())
    }
}

//! The blocks of a function and what each declares.

use super::error::{ResolveError, ResolveErrorKind};
use super::{Owner, Reg, Register, Var, VariableUse};
use crate::Symbol;
use crate::ast::{Function, Instruction, Item, Module, Registers, Space, Type, Variable};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScopeId(usize);

impl ScopeId {
    const MODULE: ScopeId = ScopeId(0);
    /// The function's parameters and outermost block.
    pub(super) const FUNCTION: ScopeId = ScopeId(1);
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    Register(Reg),
    /// A register of this many elements.
    VectorRegister(u8),
    Variable(Var),
    Label(usize),
    BranchTargets(Vec<Symbol>),
    Function,
}

/// A name of a scope.
#[derive(Clone, Debug)]
enum Declaration {
    /// A register that no instruction named so far.
    Unused(Type),
    Used(Meaning),
}

/// `%r<n>`: names made of a prefix and a number below `count`.
struct Range {
    prefix: &'static str,
    count: u32,
    ty: Type,
    vector: Option<u8>,
}

impl Range {
    fn contains(&self, name: &str) -> bool {
        let Some(digits) = name.strip_prefix(self.prefix) else { return false };
        let canonical = digits == "0" || digits.starts_with(|c: char| matches!(c, '1'..='9'));
        canonical && digits.parse().is_ok_and(|number: u32| number < self.count)
    }
}

struct Scope {
    parent: Option<ScopeId>,
    names: HashMap<Symbol, Declaration>,
    ranges: Vec<Range>,
}

/// All scopes of a function, and the tables that grow as names are used.
pub(super) struct Names<'m> {
    scopes: Vec<Scope>,
    registers: Vec<Register>,
    variables: Vec<VariableUse<'m>>,
}

impl<'m> Names<'m> {
    pub(super) fn new(module: &'m Module, function: &'m Function) -> Result<Self, ResolveError> {
        let mut names = Names { scopes: Vec::new(), registers: Vec::new(), variables: Vec::new() };
        names.push(None);
        names.push(Some(ScopeId::MODULE));
        for (i, variable) in function.params.iter().enumerate() {
            names.declare_owned(ScopeId::FUNCTION, variable, Owner::Parameter(i), 0)?;
        }
        for (i, variable) in function.returns.iter().enumerate() {
            names.declare_owned(ScopeId::FUNCTION, variable, Owner::Return(i), 0)?;
        }
        for item in &module.items {
            names.declare_item(item)?;
        }
        Ok(names)
    }

    pub(super) fn into_tables(self) -> (Vec<Register>, Vec<VariableUse<'m>>) {
        (self.registers, self.variables)
    }

    /// A new block inside `parent`.
    pub(super) fn child_of(&mut self, parent: ScopeId) -> ScopeId {
        self.push(Some(parent))
    }

    fn push(&mut self, parent: Option<ScopeId>) -> ScopeId {
        self.scopes.push(Scope { parent, names: HashMap::new(), ranges: Vec::new() });
        ScopeId(self.scopes.len() - 1)
    }

    fn declare_item(&mut self, item: &'m Item) -> Result<(), ResolveError> {
        match item {
            // A variable or function may be declared before it is defined.
            Item::Variable(v) if self.scopes[0].names.contains_key(&v.name) => {}
            Item::Variable(v) => self.declare_owned(ScopeId::MODULE, v, Owner::Module, 0)?,
            Item::Function(f) => {
                self.scopes[0].names.insert(f.name, Declaration::Used(Meaning::Function));
            }
            Item::Alias(name, _) => {
                self.scopes[0].names.insert(*name, Declaration::Used(Meaning::Function));
            }
            Item::File(_) | Item::Section { .. } | Item::Pragma(_) => {}
        }
        Ok(())
    }

    fn declare(
        &mut self,
        scope: ScopeId,
        name: Symbol,
        declaration: Declaration,
        line: u32,
    ) -> Result<(), ResolveError> {
        if self.scopes[scope.0].ranges.iter().any(|range| range.contains(name.as_str())) {
            return Err(ResolveError { kind: ResolveErrorKind::Duplicate, name, line });
        }
        self.insert(scope, name, declaration, line)
    }

    /// Declares a name that may belong to a range of the block.
    fn insert(
        &mut self,
        scope: ScopeId,
        name: Symbol,
        declaration: Declaration,
        line: u32,
    ) -> Result<(), ResolveError> {
        match self.scopes[scope.0].names.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(declaration);
                Ok(())
            }
            Entry::Occupied(_) => {
                Err(ResolveError { kind: ResolveErrorKind::Duplicate, name, line })
            }
        }
    }

    fn declare_owned(
        &mut self,
        scope: ScopeId,
        variable: &'m Variable,
        owner: Owner,
        line: u32,
    ) -> Result<(), ResolveError> {
        let declaration = match (variable.space, variable.vector) {
            (Space::Reg, None) => Declaration::Unused(variable.ty),
            (Space::Reg, Some(n)) => {
                return self.declare_vector(scope, variable.name, n, variable.ty, line);
            }
            _ => {
                self.variables.push(VariableUse { variable, owner });
                Declaration::Used(Meaning::Variable(Var(self.variables.len() as u32 - 1)))
            }
        };
        self.declare(scope, variable.name, declaration, line)
    }

    pub(super) fn declare_variable(
        &mut self,
        scope: ScopeId,
        variable: &'m Variable,
        line: u32,
    ) -> Result<(), ResolveError> {
        self.declare_owned(scope, variable, Owner::Body, line)
    }

    pub(super) fn declare_registers(
        &mut self,
        scope: ScopeId,
        registers: &Registers,
        line: u32,
    ) -> Result<(), ResolveError> {
        let Registers { vector, ty, names } = registers;
        for &(name, count) in names {
            match (count, *vector) {
                (Some(count), vector) => {
                    let range = Range { prefix: name.as_str(), count, ty: *ty, vector };
                    self.declare_range(scope, range, line)?;
                }
                (None, None) => self.declare(scope, name, Declaration::Unused(*ty), line)?,
                (None, Some(n)) => self.declare_vector(scope, name, n, *ty, line)?,
            }
        }
        Ok(())
    }

    /// Declares `%r<n>`, of which the block has neither another nor a name in it.
    fn declare_range(
        &mut self,
        scope: ScopeId,
        range: Range,
        line: u32,
    ) -> Result<(), ResolveError> {
        let Scope { names, ranges, .. } = &mut self.scopes[scope.0];
        let again = ranges.iter().any(|other| other.prefix == range.prefix);
        let inside = names.keys().find(|name| range.contains(name.as_str())).copied();
        if let Some(name) = inside.or_else(|| again.then(|| Symbol::new(range.prefix))) {
            return Err(ResolveError { kind: ResolveErrorKind::Duplicate, name, line });
        }
        ranges.push(range);
        Ok(())
    }

    fn declare_vector(
        &mut self,
        scope: ScopeId,
        name: Symbol,
        length: u8,
        ty: Type,
        line: u32,
    ) -> Result<(), ResolveError> {
        let whole = Declaration::Used(Meaning::VectorRegister(length));
        self.insert(scope, name, whole, line)?;
        for i in 0..length {
            self.insert(scope, element(name, i), Declaration::Unused(ty), line)?;
        }
        Ok(())
    }

    /// Declares a label, or the name of the `.branchtargets`-like directive behind it.
    pub(super) fn declare_label(
        &mut self,
        scope: ScopeId,
        name: Symbol,
        at: usize,
        directive: Option<&str>,
        line: u32,
    ) -> Result<(), ResolveError> {
        let meaning = match directive {
            None => Meaning::Label(at),
            Some(text) => match text.strip_prefix(".branchtargets") {
                Some(list) => {
                    Meaning::BranchTargets(list.split(',').map(|l| l.trim().into()).collect())
                }
                None => Meaning::Function,
            },
        };
        self.declare(scope, name, Declaration::Used(meaning), line)
    }

    /// What `name` means in `scope`; registers get their number here, at first use.
    pub(super) fn lookup(
        &mut self,
        scope: ScopeId,
        name: Symbol,
        user: &Instruction,
    ) -> Result<Option<Meaning>, ResolveError> {
        let mut at = Some(scope);
        while let Some(id) = at {
            let found = match self.scopes[id.0].names.get(&name) {
                Some(declaration) => Some(declaration.clone()),
                None => self.declare_from_range(id, name, user)?,
            };
            match found {
                Some(Declaration::Unused(ty)) => {
                    return self.number_register(id, name, ty, user).map(Some);
                }
                Some(Declaration::Used(meaning)) => return Ok(Some(meaning)),
                None => at = self.scopes[id.0].parent,
            }
        }
        Ok(None)
    }

    /// `name`, if a range of the scope declares it or the vector register it is an element of.
    fn declare_from_range(
        &mut self,
        id: ScopeId,
        name: Symbol,
        user: &Instruction,
    ) -> Result<Option<Declaration>, ResolveError> {
        let text = name.as_str();
        let whole = text.split('.').next().unwrap_or(text);
        let ranges = &self.scopes[id.0].ranges;
        let Some(&Range { ty, vector, .. }) = ranges.iter().find(|range| range.contains(whole))
        else {
            return Ok(None);
        };
        match vector {
            Some(length) => {
                self.declare_vector(id, Symbol::new(whole), length, ty, user.line.0)?;
                Ok(self.scopes[id.0].names.get(&name).cloned())
            }
            None => Ok((whole == text).then_some(Declaration::Unused(ty))),
        }
    }

    fn number_register(
        &mut self,
        id: ScopeId,
        name: Symbol,
        ty: Type,
        user: &Instruction,
    ) -> Result<Meaning, ResolveError> {
        let kind = ResolveErrorKind::TooManyRegisters;
        let number = u32::try_from(self.registers.len()).map_err(|_| ResolveError {
            kind,
            name,
            line: user.line.0,
        })?;
        self.registers.push(Register { name, ty });
        self.scopes[id.0].names.insert(name, Declaration::Used(Meaning::Register(Reg(number))));
        Ok(Meaning::Register(Reg(number)))
    }
}

/// The name of a vector register's element.
pub(super) fn element(name: Symbol, index: u8) -> Symbol {
    const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];
    match COMPONENTS.get(usize::from(index)) {
        Some(component) => Symbol::new(&format!("{name}.{component}")),
        None => Symbol::new(&format!("{name}.{index}")),
    }
}

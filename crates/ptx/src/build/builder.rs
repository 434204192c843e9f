//! The builder itself: registers, statements, source lines, parameters, shared memory.

use super::value::{Reg, Scalar};
use crate::Symbol;
use crate::ast::*;
use std::collections::HashMap;
use std::panic::Location;

/// A PTX target: architecture name and the lowest PTX version that knows what we emit for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Ampere (A100): mma.sync, cp.async.
    Sm80,
    /// Ampere for graphics (A10, RTX 30).
    Sm86,
    /// Ada (L4, L40S, RTX 40).
    Sm89,
    /// Hopper with wgmma and setmaxnreg.
    Sm90a,
    /// Datacenter Blackwell with tcgen05.
    Sm100a,
    /// Blackwell Ultra.
    Sm103a,
    /// Blackwell for graphics (RTX 50).
    Sm120,
}

impl Target {
    /// Name as in `.target`.
    pub fn name(self) -> &'static str {
        match self {
            Target::Sm80 => "sm_80",
            Target::Sm86 => "sm_86",
            Target::Sm89 => "sm_89",
            Target::Sm90a => "sm_90a",
            Target::Sm100a => "sm_100a",
            Target::Sm103a => "sm_103a",
            Target::Sm120 => "sm_120",
        }
    }

    /// Whether bf16 numbers are multiplied without an addition.
    pub fn multiplies_bf16(self) -> bool {
        !matches!(self, Target::Sm80 | Target::Sm86 | Target::Sm89)
    }

    /// PTX version to declare.
    pub fn version(self) -> (u32, u32) {
        match self {
            Target::Sm80 | Target::Sm86 | Target::Sm89 => (8, 0),
            Target::Sm90a => (8, 3),
            Target::Sm100a | Target::Sm120 => (8, 7),
            Target::Sm103a => (8, 8),
        }
    }

    /// Whether what we emit for it copies boxes of tensors (TMA).
    pub fn copies_tensors(self) -> bool {
        matches!(self, Target::Sm90a | Target::Sm100a | Target::Sm103a)
    }

    /// Whether what we emit for it gathers rows by tensor copies, four at a time.
    pub fn gathers_rows(self) -> bool {
        matches!(self, Target::Sm100a | Target::Sm103a)
    }

    /// Whether what we emit for it lets launches overlap (programmatic dependent launch).
    pub fn overlaps_launches(self) -> bool {
        matches!(self, Target::Sm90a | Target::Sm100a | Target::Sm103a)
    }
}

/// A finished kernel.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The PTX function.
    pub function: Function,
    /// Dynamic shared memory it addresses.
    pub shared_bytes: u32,
    files: Vec<&'static str>,
    /// The least PTX version that has all its instructions.
    version: (u32, u32),
}

/// Emits one kernel, instruction by instruction.
///
/// Methods that emit take the caller's Rust line along as `.loc`.
pub struct Builder {
    name: Symbol,
    target: Target,
    params: Vec<Variable>,
    pub(super) directives: Vec<FunctionDirective>,
    pub(super) body: Vec<Statement>,
    registers: HashMap<&'static str, (Type, u32)>,
    labels: u32,
    files: Vec<&'static str>,
    location: Option<(u32, u32, u32)>,
    shared_bytes: u32,
    pub(super) threads: Option<u32>,
    pub(super) version: (u32, u32),
}

impl Builder {
    /// Starts a kernel called `name`.
    pub fn new(name: &str, target: Target) -> Self {
        Builder {
            name: Symbol::new(name),
            target,
            params: Vec::new(),
            directives: Vec::new(),
            body: Vec::new(),
            registers: HashMap::new(),
            labels: 0,
            files: Vec::new(),
            location: None,
            shared_bytes: 0,
            threads: None,
            version: target.version(),
        }
    }

    /// The target it emits for.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Says that every CTA has `threads` threads, and that `ctas` of them are to fit a processor.
    pub fn launch_bounds(&mut self, threads: u32, ctas: u32) {
        self.directive("maxntid", &[threads.into(), 1, 1]);
        self.directive("minnctapersm", &[ctas.into()]);
        self.threads = Some(threads);
    }

    /// Adds a directive such as `maxnreg`.
    pub fn directive(&mut self, name: &str, values: &[u64]) {
        let name = Symbol::new(name);
        self.directives.push(FunctionDirective { name, values: values.to_vec(), strings: vec![] });
    }

    /// A new register.
    pub fn reg<T: Scalar>(&mut self) -> Reg<T> {
        let (_, count) = self.registers.entry(T::PREFIX).or_insert((T::DECLARED, 0));
        let symbol = Symbol::new(&format!("{}{}", T::PREFIX, count));
        *count += 1;
        Reg::from_symbol(symbol)
    }

    /// `n` new registers.
    pub fn regs<T: Scalar>(&mut self, n: usize) -> Vec<Reg<T>> {
        (0..n).map(|_| self.reg()).collect()
    }

    /// A new label.
    pub fn label(&mut self) -> Symbol {
        self.labels += 1;
        Symbol::new(&format!("$L{}", self.labels))
    }

    /// Places a label.
    pub fn place(&mut self, label: Symbol) {
        self.body.push(Statement::Label(label));
    }

    /// Reserves `bytes` of dynamic shared memory and returns its byte offset. Kernels reserve tiles,
    /// arrays, pipelines and signals instead, which know their sizes.
    pub(super) fn reserve_shared(&mut self, bytes: u32, align: u32) -> u32 {
        let offset = self.shared_bytes.next_multiple_of(align);
        self.shared_bytes = offset + bytes;
        offset
    }

    /// Adds a parameter and returns its name.
    pub(super) fn push_param(&mut self, name: &str, ty: Type, array: Option<(u64, u32)>) -> Symbol {
        let symbol = Symbol::new(&format!("{}_{name}", self.name));
        self.params.push(Variable {
            linkage: None,
            space: Space::Param,
            align: array.map(|(_, align)| align),
            pointer: None,
            attribute: None,
            vector: None,
            ty,
            name: symbol,
            extents: array.map(|(n, _)| Some(n)).into_iter().collect(),
            init: None,
        });
        symbol
    }

    /// Emits an instruction: `opcode` with dotted modifiers, then operands.
    #[track_caller]
    pub fn emit(&mut self, opcode: &str, operands: Vec<Operand>) {
        self.emit_guarded(None, opcode, operands);
    }

    /// Emits an instruction that only threads with a true predicate execute.
    #[track_caller]
    pub fn emit_if(&mut self, guard: Reg<bool>, opcode: &str, operands: Vec<Operand>) {
        self.emit_guarded(
            Some(Guard { register: guard.symbol(), negated: false }),
            opcode,
            operands,
        );
    }

    #[track_caller]
    pub(super) fn emit_guarded(
        &mut self,
        guard: Option<Guard>,
        opcode: &str,
        operands: Vec<Operand>,
    ) {
        self.locate(Location::caller());
        let mut parts = opcode.split('.');
        let opcode = Symbol::new(parts.next().unwrap_or_default());
        let modifiers = parts.map(Symbol::new).collect();
        let line = Line::default();
        self.body.push(Statement::Instruction(Instruction {
            guard,
            opcode,
            modifiers,
            operands,
            line,
        }));
    }

    fn locate(&mut self, at: &'static Location<'static>) {
        let file = match self.files.iter().position(|f| *f == at.file()) {
            Some(index) => index,
            None => {
                self.files.push(at.file());
                self.files.len() - 1
            }
        };
        let location = (file as u32 + 1, at.line(), at.column());
        if self.location.replace(location) != Some(location) {
            let (file, line, column) = location;
            self.body.push(Statement::Loc(Loc { file, line, column, inlined_at: None }));
        }
    }

    /// Ends the kernel.
    pub fn finish(mut self) -> Kernel {
        self.emit("ret", vec![]);
        let mut classes: Vec<_> = self.registers.into_iter().collect();
        classes.sort_by_key(|(prefix, _)| *prefix);
        let mut body: Vec<Statement> = classes
            .into_iter()
            .map(|(prefix, (ty, count))| {
                let names = vec![(Symbol::new(prefix), Some(count))];
                Statement::Registers(Registers { vector: None, ty, names })
            })
            .collect();
        body.append(&mut self.body);
        let function = Function {
            linkage: Some(Linkage::Visible),
            entry: true,
            returns: vec![],
            name: self.name,
            params: self.params,
            directives: self.directives,
            body: Some(body),
        };
        let (shared_bytes, files, version) = (self.shared_bytes, self.files, self.version);
        Kernel { function, shared_bytes, files, version }
    }
}

/// Name of the dynamic shared memory array every kernel addresses.
pub(super) const DYNAMIC_SHARED: &str = "sixwarp_shared";

/// Puts kernels into one module.
pub fn module(target: Target, kernels: Vec<Kernel>) -> Module {
    let mut paths: Vec<&'static str> = Vec::new();
    let mut functions = Vec::new();
    let version = kernels.iter().map(|kernel| kernel.version).max();
    for mut kernel in kernels {
        let numbers: Vec<u32> =
            kernel.files.iter().map(|path| file_number(&mut paths, path)).collect();
        renumber(kernel.function.body.as_mut().expect("a kernel has a body"), &numbers);
        functions.push(Item::Function(kernel.function));
    }
    let files = paths.iter().enumerate().map(|(i, path)| {
        Item::File(File { index: i as u32 + 1, path: path.to_string(), stamp: None })
    });
    let items = std::iter::once(Item::Variable(dynamic_shared())).chain(files).chain(functions);
    Module {
        version: version.unwrap_or(target.version()),
        target: vec![Symbol::new(target.name())],
        address_size: 64,
        items: items.collect(),
    }
}

fn dynamic_shared() -> Variable {
    Variable {
        linkage: Some(Linkage::Extern),
        space: Space::Shared,
        align: Some(1024),
        pointer: None,
        attribute: None,
        vector: None,
        ty: Type::B8,
        name: Symbol::new(DYNAMIC_SHARED),
        extents: vec![None],
        init: None,
    }
}

fn file_number(paths: &mut Vec<&'static str>, path: &'static str) -> u32 {
    let index = paths.iter().position(|p| *p == path).unwrap_or_else(|| {
        paths.push(path);
        paths.len() - 1
    });
    index as u32 + 1
}

fn renumber(body: &mut [Statement], numbers: &[u32]) {
    for statement in body {
        match statement {
            Statement::Loc(loc) => loc.file = numbers[loc.file as usize - 1],
            Statement::Block(inner) => renumber(inner, numbers),
            _ => {}
        }
    }
}

//! The rules a program keeps for its target.
//!
//! - **L1** the first `.target` is an architecture known here.
//! - **L2** a launch names a kernel of the module that has a body.
//! - **L3** the grid has at least one CTA and at most 2³¹ − 1 × 65535 × 65535.
//! - **L4** the block has at least one thread and at most 1024 × 1024 × 64, 1024 in all.
//! - **L5** the block is what `.reqntid` says, and no larger than `.maxntid`.
//! - **L6** the cluster has at least one CTA, at most 8 (16 with a warning: not every device can),
//!   and divides the grid; more than one needs `sm_90`.
//! - **L7** the cluster is what `.reqnctapercluster` says, and no larger than `.maxclusterrank`.
//! - **L8** static and dynamic shared memory together fit a CTA. Of the module's variables those count that
//!   the kernel itself names: what only functions name is known to the assembler.
//! - **L9** there are as many arguments as parameters.
//! - **L10** each argument has its parameter's size and kind; a tensor map needs 128 bytes aligned
//!   to 64, and bytes need as many as the parameter has.
//! - **L11** an argument's buffer exists and its offset lies inside.
//! - **L12** a tensor map keeps its own rules, its swizzle exists on the target, its buffer is
//!   aligned to 16 bytes, and its tensor lies inside the buffer.
//! - **L13** parameters take at most 32764 bytes.
//! - **L14** overlapping the previous launch needs `sm_90`.
//! - **L15** buffer names are distinct and alignments powers of two.
//! - **L16** an address among the bytes of a buffer or an argument lies inside them and is that of a buffer.

use crate::report::{Rule, Violation, Warning};
use crate::{Argument, Buffer, Launch, Limits, Pointer, Program, TensorMap};
use ptx::Symbol;
use ptx::ast::{
    AddressBase, Function, FunctionDirective, Item, Module, Operand, Space, Statement, Type,
    Variable,
};
use std::collections::HashSet;

impl Program {
    /// Checks the rules listed at the head of this module: warnings, or every violation.
    ///
    /// A program without violations is refused by no engine for its shape.
    pub fn check(&self) -> Result<Vec<Warning>, Vec<Violation>> {
        let limits = limits(&self.module).map_err(|violation| vec![violation])?;
        let mut checker = Checker { program: self, limits, violations: vec![], warnings: vec![] };
        checker.buffers();
        for (number, launch) in self.launches.iter().enumerate() {
            checker.launch(number, launch);
        }
        if checker.violations.is_empty() { Ok(checker.warnings) } else { Err(checker.violations) }
    }
}

/// L1.
fn limits(module: &Module) -> Result<Limits, Violation> {
    let target = module.target.first().map_or("", |t| t.as_str());
    Limits::of(target).ok_or_else(|| {
        Rule::L(1).broken(format!("target `{target}` is not an architecture known here"))
    })
}

/// L2.
fn kernel<'m>(module: &'m Module, launch: &Launch) -> Result<&'m Function, Violation> {
    module.entry(&launch.kernel).ok_or_else(|| {
        // Kernels that are not launched may have been left unread: they have no body then.
        let names: Vec<&str> =
            module.functions().filter(|f| f.entry).map(|f| f.name.as_str()).collect();
        let text = format!("the module has no such kernel; it has: {}", names.join(", "));
        Rule::L(2).broken(text).at(&format!("`{}`", launch.kernel))
    })
}

/// L3 to L8, L13, L14.
fn shape(limits: &Limits, module: &Module, launch: &Launch, kernel: &Function) -> Vec<Violation> {
    let mut found = geometry(limits, launch);
    found.extend(directives(launch, kernel));
    found.extend(shared_memory(limits, module, launch, kernel));
    let bytes = parameter_bytes(&kernel.params);
    if bytes > limits.param_bytes {
        let text = format!("parameters take {bytes} bytes: at most {}", limits.param_bytes);
        found.push(Rule::L(13).broken(text));
    }
    found
}

struct Checker<'a> {
    program: &'a Program,
    limits: Limits,
    violations: Vec<Violation>,
    warnings: Vec<Warning>,
}

impl Checker<'_> {
    /// L15, L16.
    fn buffers(&mut self) {
        let buffers = &self.program.buffers;
        for (i, buffer) in buffers.iter().enumerate() {
            if buffers[..i].iter().any(|other| other.name == buffer.name) {
                let text = format!("two buffers are called `{}`", buffer.name);
                self.violations.push(Rule::L(15).broken(text));
            }
            if !buffer.align.is_power_of_two() {
                let text = format!("buffer `{}`: alignment {}", buffer.name, buffer.align);
                self.violations.push(Rule::L(15).broken(text + " is no power of two"));
            }
            let place = format!("buffer `{}`", buffer.name);
            let wrong = self.wrong_pointers(&buffer.pointers, buffer.bytes);
            self.violations.extend(wrong.into_iter().map(|violation| violation.at(&place)));
        }
    }

    fn launch(&mut self, number: usize, launch: &Launch) {
        let module = &self.program.module;
        let kernel = match kernel(module, launch) {
            Ok(kernel) => kernel,
            Err(violation) => {
                self.violations.push(violation.at(&format!("launch {number}")));
                return;
            }
        };
        let place = format!("launch {number} (`{}`)", launch.kernel);
        let mut found = shape(&self.limits, module, launch, kernel);
        found.extend(self.arguments(launch, kernel));
        self.violations.extend(found.into_iter().map(|violation| violation.at(&place)));
        self.warn(launch, &place);
    }

    /// L9 to L12, L16.
    fn arguments(&self, launch: &Launch, kernel: &Function) -> Vec<Violation> {
        let (given, taken) = (launch.args.len(), kernel.params.len());
        if given != taken {
            let text = format!("{given} arguments for {taken} parameters");
            return vec![Rule::L(9).broken(text)];
        }
        let mut found = Vec::new();
        for (i, (argument, param)) in launch.args.iter().zip(&kernel.params).enumerate() {
            let place = format!("argument {i} (`{}`)", param.name);
            let wrong = mismatch(argument, param).into_iter().chain(self.wrong_memory(argument));
            found.extend(wrong.map(|violation| violation.at(&place)));
        }
        found
    }

    /// L16.
    fn wrong_pointers(&self, pointers: &[Pointer], bytes: u64) -> Vec<Violation> {
        let mut found = Vec::new();
        for (n, Pointer { offset, buffer, .. }) in pointers.iter().enumerate() {
            let count = self.program.buffers.len();
            if buffer.0 >= count {
                let text = format!("address {n} is that of buffer {}; there are {count}", buffer.0);
                found.push(Rule::L(16).broken(text));
            }
            if bytes.checked_sub(Pointer::BYTES).is_none_or(|last| *offset > last) {
                let text = format!("address {n} takes 8 bytes from byte {offset} on, of {bytes}");
                found.push(Rule::L(16).broken(text));
            }
        }
        found
    }

    /// L11, L12, L16.
    fn wrong_memory(&self, argument: &Argument) -> Vec<Violation> {
        let (id, offset) = match argument {
            Argument::Buffer(id, offset) => (*id, *offset),
            Argument::TensorMap(map) => (map.buffer, map.offset),
            Argument::Bytes(bytes, pointers) => {
                return self.wrong_pointers(pointers, bytes.len() as u64);
            }
            Argument::U32(_) | Argument::U64(_) | Argument::F32(_) => return vec![],
        };
        let Some(buffer) = self.program.get(id) else {
            let text = format!("buffer {} of {}", id.0, self.program.buffers.len());
            return vec![Rule::L(11).broken(text)];
        };
        if offset > buffer.bytes {
            let text = format!("byte {offset} of `{}`, which has {}", buffer.name, buffer.bytes);
            return vec![Rule::L(11).broken(text)];
        }
        match argument {
            Argument::TensorMap(map) => self.wrong_tensor_map(map, buffer),
            _ => vec![],
        }
    }

    fn wrong_tensor_map(&self, map: &TensorMap, buffer: &Buffer) -> Vec<Violation> {
        let mut found = map.check().err().unwrap_or_default();
        if map.swizzle.needs_sm100() && self.limits.sm < 100 {
            let text = format!("swizzle {:?} needs sm_100, not sm_{}", map.swizzle, self.limits.sm);
            found.push(Rule::L(12).broken(text));
        }
        if !buffer.align.is_multiple_of(16) {
            let text = format!("buffer `{}` is aligned to {}", buffer.name, buffer.align);
            found.push(Rule::L(12).broken(text + ": a tensor map needs 16"));
        }
        let end = map.offset.saturating_add(map.footprint());
        if end > buffer.bytes {
            let text = format!("the tensor ends at byte {end} of `{}`", buffer.name);
            found.push(Rule::L(12).broken(format!("{text}, which has {}", buffer.bytes)));
        }
        found
    }

    fn warn(&mut self, launch: &Launch, place: &str) {
        let ctas = product(&launch.cluster);
        if ctas > u64::from(self.limits.cluster) {
            let text = format!("a cluster of {ctas} CTAs does not fit every device");
            self.warnings.push(Rule::L(6).warns(text).at(place));
        }
        for (i, argument) in launch.args.iter().enumerate() {
            if let Argument::TensorMap(map) = argument {
                let place = format!("{place}: argument {i}");
                let warnings = map.check().unwrap_or_default();
                self.warnings.extend(warnings.into_iter().map(|warning| warning.at(&place)));
            }
        }
    }
}

/// L3, L4, L6, L14.
fn geometry(limits: &Limits, launch: &Launch) -> Vec<Violation> {
    let Launch { grid, block, cluster, .. } = launch;
    let mut found = Vec::new();
    let outside = |is: &[u32; 3], most: &[u32; 3]| (0..3).any(|i| is[i] == 0 || is[i] > most[i]);
    if outside(grid, &limits.grid) {
        found.push(Rule::L(3).broken(format!("grid {grid:?}: 1 to {:?}", limits.grid)));
    }
    let threads = product(block);
    if outside(block, &limits.block) || threads > u64::from(limits.threads) {
        let most = limits.threads;
        let text = format!("block {block:?}: 1 to {:?}, {most} threads in all", limits.block);
        found.push(Rule::L(4).broken(text));
    }
    let ctas = product(cluster);
    if ctas == 0 || ctas > u64::from(limits.cluster_with_opt_in) {
        let text = format!("cluster {cluster:?}: 1 to {} CTAs", limits.cluster_with_opt_in);
        found.push(Rule::L(6).broken(format!("{text} on sm_{}", limits.sm)));
    } else if (0..3).any(|i| !grid[i].is_multiple_of(cluster[i])) {
        let text = format!("cluster {cluster:?} does not divide grid {grid:?}");
        found.push(Rule::L(6).broken(text));
    }
    if launch.overlaps_previous && limits.sm < 90 {
        let text = format!("overlapping the previous launch needs sm_90, not sm_{}", limits.sm);
        found.push(Rule::L(14).broken(text));
    }
    found
}

/// L8.
fn shared_memory(
    limits: &Limits,
    module: &Module,
    launch: &Launch,
    kernel: &Function,
) -> Option<Violation> {
    let fixed = static_shared_bytes(module, kernel);
    let total = fixed.saturating_add(launch.shared_bytes.into());
    let most = u64::from(limits.shared_bytes);
    (total > most).then(|| {
        let dynamic = launch.shared_bytes;
        let text =
            format!("shared memory {dynamic} dynamic + {fixed} static bytes: at most {most}");
        Rule::L(8).broken(text)
    })
}

fn product(dims: &[u32; 3]) -> u64 {
    dims.iter().fold(1, |product: u64, &dim| product.saturating_mul(dim.into()))
}

/// L5, L7.
fn directives(launch: &Launch, kernel: &Function) -> Vec<Violation> {
    let mut found = Vec::new();
    for FunctionDirective { name, values, .. } in &kernel.directives {
        let extent = |i: usize| values.get(i).copied().unwrap_or(1);
        let exact = |dims: &[u32; 3]| (0..3).all(|i| u64::from(dims[i]) == extent(i));
        let total = values.iter().fold(1, |total: u64, value| total.saturating_mul(*value));
        let broken = match name.as_str() {
            "reqntid" if !exact(&launch.block) => Some((5, launch.block)),
            "maxntid" if product(&launch.block) > total => Some((5, launch.block)),
            "reqnctapercluster" if !exact(&launch.cluster) => Some((7, launch.cluster)),
            "maxclusterrank" if product(&launch.cluster) > total => Some((7, launch.cluster)),
            _ => None,
        };
        if let Some((rule, is)) = broken {
            found.push(Rule::L(rule).broken(format!("{is:?} against .{name} {values:?}")));
        }
    }
    found
}

/// L10.
fn mismatch(argument: &Argument, param: &Variable) -> Option<Violation> {
    let bytes = variable_bytes(param);
    let scalar = param.extents.is_empty() && param.vector.is_none();
    let float = matches!(param.ty, Type::F16 | Type::Bf16 | Type::F32 | Type::F64);
    let (fits, needs) = match argument {
        Argument::Buffer(..) | Argument::U64(_) => {
            (scalar && bytes == 8 && !float, "64-bit integer")
        }
        Argument::U32(_) => (scalar && bytes == 4 && !float, "32-bit integer"),
        Argument::F32(_) => {
            (scalar && matches!(param.ty, Type::F32 | Type::B32), "`.f32` or `.b32`")
        }
        Argument::TensorMap(_) => {
            let aligned = param.align.is_some_and(|align| align.is_multiple_of(64));
            (bytes == 128 && aligned, "`.align 64 .b8 [128]`")
        }
        Argument::Bytes(given, _) => {
            let text = format!("{} bytes are given, `{param}` has {bytes}", given.len());
            return (given.len() as u64 != bytes).then(|| Rule::L(10).broken(text));
        }
    };
    (!fits).then(|| Rule::L(10).broken(format!("needs a {needs} parameter, this is `{param}`")))
}

/// Bytes of a variable or parameter; an open extent counts nothing.
pub fn variable_bytes(variable: &Variable) -> u64 {
    let count = variable.extents.iter().fold(1u64, |n, e| n.saturating_mul(e.unwrap_or(0)));
    let lanes = u64::from(variable.vector.unwrap_or(1));
    count.saturating_mul(lanes * u64::from(variable.ty.bits()).div_ceil(8))
}

/// Bytes of a parameter list, each parameter on its alignment.
fn parameter_bytes(params: &[Variable]) -> u64 {
    params.iter().fold(0, |end, param| {
        let natural = param.ty.bits().div_ceil(8);
        let align = u64::from(param.align.unwrap_or(natural)).max(1);
        let start = u64::checked_next_multiple_of(end, align).unwrap_or(u64::MAX);
        start.saturating_add(variable_bytes(param))
    })
}

/// Bytes of the sized `.shared` variables that the kernel declares, and of the module's that it names.
pub fn static_shared_bytes(module: &Module, kernel: &Function) -> u64 {
    let body = kernel.body.as_deref().unwrap_or_default();
    let mut named = HashSet::new();
    names_in(body, &mut named);
    let outside = module.items.iter().filter_map(|item| match item {
        Item::Variable(variable) if named.contains(&variable.name) => Some(shared_bytes(variable)),
        _ => None,
    });
    outside.fold(shared_in(body), u64::saturating_add)
}

fn names_in(body: &[Statement], named: &mut HashSet<Symbol>) {
    for statement in body {
        match statement {
            Statement::Instruction(i) => i.operands.iter().for_each(|o| names_of(o, named)),
            Statement::Block(inner) => names_in(inner, named),
            _ => {}
        }
    }
}

fn names_of(operand: &Operand, named: &mut HashSet<Symbol>) {
    match operand {
        Operand::Name(name) | Operand::NameOffset(name, _) => {
            named.insert(*name);
        }
        Operand::Address(address) | Operand::TensorAddress(address, _) => {
            if let AddressBase::Name(name) = address.base {
                named.insert(name);
            }
        }
        Operand::Vector(list) | Operand::List(list) => list.iter().for_each(|o| names_of(o, named)),
        Operand::Pair(a, b) => [a, b].into_iter().for_each(|o| names_of(o, named)),
        _ => {}
    }
}

fn shared_in(body: &[Statement]) -> u64 {
    let bytes = body.iter().map(|statement| match statement {
        Statement::Variable(variable) => shared_bytes(variable),
        Statement::Block(inner) => shared_in(inner),
        _ => 0,
    });
    bytes.fold(0, u64::saturating_add)
}

fn shared_bytes(variable: &Variable) -> u64 {
    if variable.space == Space::Shared { variable_bytes(variable) } else { 0 }
}

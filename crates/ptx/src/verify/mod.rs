//! The verifier: what is wrong with a module, found without an assembler.
//!
//! It accepts what `ptxas` accepts, save where a text assembles and yet cannot be meant: misaligned
//! addresses (rule 15), more threads than a CTA can have (rule 6), bulk copies without brackets
//! around their addresses or with tensor maps of 32 bits (rules 11 and 12), truth tables of more
//! than 8 bits (rule 13). Opcodes whose operands it has no form for pass unchecked.
//!
//! # Rules
//!
//! Module
//!
//! 1. The first `.target` is a known architecture, what follows it another one or an option, and
//!    `.version` exists and is no older than the architecture.
//! 2. `.address_size` is 64.
//! 3. A function, module-scope variable or file number is defined once; an alias names functions.
//! 4. Registers are of a type that registers can have: not `.bf16`, `.bf16x2` or `.f32x2`, whose
//!    values live in `.b16`, `.b32` and `.b64`; a vector register has at most 128 bits.
//! 5. A variable can exist: its alignment is a power of two, its type one that memory can have, its
//!    state space and linkage are possible where it is declared, a vector has 128 bits at most, an
//!    array has an extent, and an initial value has the variable's shape and type.
//! 6. Directives of a kernel or function are known, have as many positive numbers as they take, and
//!    can be met: at most 1024 threads, at most 16 CTAs in a cluster, not both `.reqntid` and
//!    `.maxntid`, nor `.reqnctapercluster` and `.maxclusterrank`.
//! 7. A kernel's parameters and static shared memory and the module's constants fit.
//!
//! Instructions
//!
//! 8. Every name is declared, once in its block.
//! 9. The opcode is one of PTX.
//! 10. Target and `.version` have what the instruction needs.
//! 11. Operands are as many as, and of the kinds that, the instruction takes.
//! 12. A register's type suits its operand: `.bN` registers hold anything of N bits, signed and
//!     unsigned mix, floats do not; `ld`, `st` and `cvt` take wider registers. Addresses are 64
//!     bits wide in global and generic space, 32 in tensor memory, either elsewhere.
//! 13. An immediate is of a kind and in the range that its operand takes.
//! 14. A variable is used in its own state space; constants and kernel parameters are not written.
//! 15. An address made of a variable and an offset is aligned for the access: naturally for loads,
//!     stores and atomics, to 8 bytes for an mbarrier, 16 for the shared side of a bulk copy.
//! 16. Modifiers that an instruction cannot do without are there: a rounding, `.approx`, `.sync`.
//! 17. A guard is a predicate register.

mod address;
mod declaration;
mod feature;
mod fit;
mod form;
mod immediate;
mod initial;
mod launch;
mod matrix;
mod modifier;
mod operation;
mod slot;
mod target;
mod types;

use crate::Symbol;
use crate::ast::{Function, Module};
use crate::resolve::{Body, resolve};
use operation::Operation;
use std::fmt;
use target::Target;

/// The number of a rule in the list at the head of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rule(pub u8);

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {}", self.0)
    }
}

/// A rule that a module breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The function it is in, if in one.
    pub function: Option<Symbol>,
    /// The line of PTX text; 0 is unknown.
    pub line: u32,
    /// The instruction or declaration.
    pub subject: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(function) = self.function {
            write!(f, "{function}: ")?;
        }
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "`{}`: {} ({})", self.subject, self.message, self.rule)
    }
}

/// Everything wrong with `module`, in source order; nothing if it obeys the rules.
///
/// ```
/// let text = ".version 8.7 .target sm_100a .address_size 64
///     .entry f() { .reg .b64 %rd<2>; wgmma.fence.sync.aligned; mov.b32 %rd1, 0; }";
/// let module = sixwarp_ptx::parse(text)?;
/// let rules: Vec<u8> = sixwarp_ptx::verify(&module).iter().map(|v| v.rule.0).collect();
/// assert_eq!(rules, [10, 12]);
/// # Ok::<(), sixwarp_ptx::ParseError>(())
/// ```
pub fn verify(module: &Module) -> Vec<Violation> {
    let mut found = Findings { function: None, list: Vec::new() };
    let target = target::check(module, &mut found);
    declaration::check_module(module, &mut found);
    for function in module.functions() {
        found.function = Some(function.name);
        launch::check(module, function, target, &mut found);
        declaration::check_function(function, &mut found);
        check_body(module, function, target, &mut found);
    }
    found.list
}

/// What is wrong with the header and the declarations of `module` (rules 1 to 7), as far as `functions` are
/// concerned: quick, however many others the module has.
pub fn verify_declarations<'m>(
    module: &'m Module,
    functions: impl IntoIterator<Item = &'m Function>,
) -> Vec<Violation> {
    let mut found = Findings { function: None, list: Vec::new() };
    let target = target::check(module, &mut found);
    declaration::check_module(module, &mut found);
    for function in functions {
        found.function = Some(function.name);
        launch::check(module, function, target, &mut found);
        declaration::check_function(function, &mut found);
    }
    found.list
}

fn check_body(module: &Module, function: &Function, target: Option<Target>, found: &mut Findings) {
    match resolve(module, function) {
        Ok(body) => check_instructions(&body, target, found),
        Err(error) => found.list.push(Violation {
            rule: Rule(8),
            function: found.function,
            line: error.line,
            subject: error.name.to_string(),
            message: error.to_string(),
        }),
    }
}

fn check_instructions(body: &Body<'_>, target: Option<Target>, found: &mut Findings) {
    for resolved in &body.instructions {
        let operation = Operation::new(body, resolved);
        let mut report = |rule: u8, message: String| {
            found.list.push(Violation {
                rule: Rule(rule),
                function: found.function,
                line: resolved.instruction.line.0,
                subject: operation.text(),
                message,
            });
        };
        operation.check_guard(&mut report);
        if !form::is_opcode(operation.opcode) {
            report(9, format!("`{}` is not an opcode of PTX", operation.opcode));
            continue;
        }
        if let Some(target) = target {
            feature::check(&operation, target, &mut report);
        }
        modifier::check(&operation, &mut report);
        if let Some(slots) = form::slots(&operation) {
            fit::check(&operation, &slots, &mut report);
        }
        immediate::check(&operation, &mut report);
    }
}

/// The violations so far and the function they are in.
struct Findings {
    function: Option<Symbol>,
    list: Vec<Violation>,
}

impl Findings {
    /// Adds a violation that belongs to no instruction.
    fn add(&mut self, rule: u8, subject: impl fmt::Display, message: String) {
        let (function, subject) = (self.function, subject.to_string());
        self.list.push(Violation { rule: Rule(rule), function, line: 0, subject, message });
    }
}

/// Where the checks of one instruction report to.
type Report<'r> = dyn FnMut(u8, String) + 'r;

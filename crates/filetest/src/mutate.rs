//! Mutants of a kernel: each synchronisation removed, each parity flipped, one at a time.
//!
//! What a checker is worth shows when a kernel that works is broken on purpose. [`mutants`] deletes
//! every fence, wait, barrier, arrive and commit of a module and inverts the parity of every
//! mbarrier wait; each mutant must be told from the original by a report or by a wrong result.

use ptx::Symbol;
use ptx::ast::{Instruction, Item, Loc, Module, Operand, Registers, Statement, Type};

/// What was done to an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was removed (a wait: it succeeds at once).
    Deleted,
    /// Its parity was inverted.
    ParityFlipped,
}

/// One change of one instruction of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// What is done.
    pub change: Change,
    /// The instruction, as it is in the original.
    pub instruction: String,
    /// The function it is in.
    pub function: String,
    /// PTX line, 0 if unknown.
    pub line: u32,
    /// File and line of the source that `.loc` names, if any.
    pub source: Option<(String, u32)>,
    /// Number of the instruction in the module.
    index: usize,
}

impl Mutant {
    /// The opcode with its modifiers.
    pub fn opcode(&self) -> &str {
        let mut words = self.instruction.split_whitespace();
        let opcode = words.find(|word| !word.starts_with('@'));
        opcode.unwrap_or_default().trim_end_matches(';')
    }

    /// The changed module.
    pub fn module(&self, original: &Module) -> Module {
        changed(original, self.index, Replacement::Changed(self.change))
    }

    /// The original with a trap at this instruction: it shows whether a run comes here at all.
    pub fn probe(&self, original: &Module) -> Module {
        changed(original, self.index, Replacement::Trap)
    }
}

/// What is put in an instruction's place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replacement {
    Changed(Change),
    Trap,
}

/// The register that holds an inverted parity.
const FLIPPED: &str = "%mutant_parity";

/// Whether deleting the instruction breaks a synchronisation.
fn is_synchronisation(instruction: &Instruction) -> bool {
    let has = |name: &str| instruction.has(name);
    let starts =
        |prefix: &str| instruction.modifiers.iter().any(|m| m.as_str().starts_with(prefix));
    match instruction.opcode.as_str() {
        "fence" | "bar" | "barrier" => true,
        "mbarrier" => !has("init") && !has("inval") && !has("pending_count"),
        "wgmma" => !has("mma_async"),
        "tcgen05" => starts("fence::") || starts("wait::") || has("commit"),
        "cp" => has("wait_group") || has("wait_all") || has("commit_group") || has("mbarrier"),
        "griddepcontrol" => has("wait"),
        _ => false,
    }
}

/// The operand that holds the parity of a parity wait.
fn parity_operand(instruction: &Instruction) -> Option<usize> {
    let waits = instruction.has("try_wait") || instruction.has("test_wait");
    (instruction.opcode == *"mbarrier" && waits && instruction.has("parity")).then_some(2)
}

/// Every mutant of the kernels of a module, in source order.
pub fn mutants(module: &Module) -> Vec<Mutant> {
    let mut found = Vec::new();
    let mut index = 0;
    for function in module.functions() {
        let Some(body) = &function.body else { continue };
        walk(body, &mut None, &mut |instruction, loc| {
            let deleted = is_synchronisation(instruction).then_some(Change::Deleted);
            let flipped = parity_operand(instruction).map(|_| Change::ParityFlipped);
            found.extend([deleted, flipped].into_iter().flatten().map(|change| Mutant {
                change,
                instruction: instruction.to_string(),
                function: function.name.to_string(),
                line: instruction.line.0,
                source: loc.and_then(|loc| Some((path(module, loc.file)?, loc.line))),
                index,
            }));
            index += 1;
        });
    }
    found
}

/// Calls `f` with each instruction and the `.loc` before it.
fn walk(body: &[Statement], loc: &mut Option<Loc>, f: &mut impl FnMut(&Instruction, Option<Loc>)) {
    for statement in body {
        match statement {
            Statement::Instruction(instruction) => f(instruction, *loc),
            Statement::Block(body) => walk(body, loc, f),
            Statement::Loc(next) => *loc = Some(*next),
            _ => {}
        }
    }
}

/// The path of file number `index`.
fn path(module: &Module, index: u32) -> Option<String> {
    module.items.iter().find_map(|item| match item {
        Item::File(file) if file.index == index => Some(file.path.clone()),
        _ => None,
    })
}

/// A copy of `module` with instruction number `target` changed.
fn changed(module: &Module, target: usize, with: Replacement) -> Module {
    let mut module = module.clone();
    let mut index = 0;
    for item in &mut module.items {
        let Item::Function(function) = item else { continue };
        let Some(body) = &mut function.body else { continue };
        let before = index;
        rewrite(body, &mut index, target, with);
        let flips = with == Replacement::Changed(Change::ParityFlipped);
        if flips && (before..index).contains(&target) {
            body.insert(
                0,
                Statement::Registers(Registers {
                    vector: None,
                    ty: Type::B32,
                    names: vec![(Symbol::new(FLIPPED), None)],
                }),
            );
        }
    }
    module
}

fn rewrite(body: &mut Vec<Statement>, index: &mut usize, target: usize, with: Replacement) {
    let mut at = 0;
    while at < body.len() {
        match &mut body[at] {
            Statement::Block(inner) => rewrite(inner, index, target, with),
            Statement::Instruction(instruction) => {
                if *index == target {
                    let replacement = match with {
                        Replacement::Changed(Change::Deleted) => deleted(instruction),
                        Replacement::Changed(Change::ParityFlipped) => flipped(instruction),
                        Replacement::Trap => vec![self::instruction(instruction, "trap", vec![])],
                    };
                    *index += 1;
                    let count = replacement.len();
                    let replacement = replacement.into_iter().map(Statement::Instruction);
                    body.splice(at..=at, replacement);
                    at += count;
                    continue;
                }
                *index += 1;
            }
            _ => {}
        }
        at += 1;
    }
}

/// An instruction with the guard and line of another.
fn instruction(like: &Instruction, opcode: &str, operands: Vec<Operand>) -> Instruction {
    let mut parts = opcode.split('.');
    Instruction {
        guard: like.guard,
        opcode: Symbol::new(parts.next().unwrap_or_default()),
        modifiers: parts.map(Symbol::new).collect(),
        operands,
        line: like.line,
    }
}

/// What stands for a removed instruction: nothing, or what later code needs of its results.
fn deleted(old: &Instruction) -> Vec<Instruction> {
    if old.has("try_wait") || old.has("test_wait") {
        let (one, predicate) = (Operand::int(0), old.operands[0].clone());
        return vec![instruction(old, "setp.eq.u32", vec![predicate, one.clone(), one])];
    }
    Vec::new()
}

fn flipped(old: &Instruction) -> Vec<Instruction> {
    let mut new = old.clone();
    let Some(at) = parity_operand(old) else { return vec![new] };
    let parity = new.operands[at].clone();
    if let Operand::Integer { value, .. } = parity {
        new.operands[at] = Operand::int(1 - value);
        return vec![new];
    }
    let register = Operand::Name(Symbol::new(FLIPPED));
    let invert = vec![register.clone(), parity, Operand::int(1)];
    new.operands[at] = register;
    vec![instruction(old, "xor.b32", invert), new]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = ".version 8.6
.target sm_90a
.address_size 64
.visible .entry k() {
    .reg .pred p;
    .reg .b32 r, b;
    fence.proxy.async.shared::cta;
    mbarrier.init.shared.b64 [b], 1;
    {
    WAIT:
        mbarrier.try_wait.parity.shared.b64 p, [b], r;
        @!p bra WAIT;
    }
    wgmma.wait_group.sync.aligned 0;
    ret;
}
";

    #[test]
    fn each_synchronisation_gives_a_mutant() {
        let module = ptx::parse(SOURCE).unwrap();
        let mutants = mutants(&module);
        let summary: Vec<_> = mutants.iter().map(|m| (m.change, m.line)).collect();
        assert_eq!(
            summary,
            [
                (Change::Deleted, 7),
                (Change::Deleted, 11),
                (Change::ParityFlipped, 11),
                (Change::Deleted, 14),
            ]
        );
        let text = |i: usize| mutants[i].module(&module).to_string();
        assert!(!text(0).contains("fence.proxy.async"));
        assert!(text(1).contains("setp.eq.u32 p, 0, 0"));
        assert!(text(2).contains("xor.b32 %mutant_parity, r, 1"));
        assert!(text(2).contains("p, [b], %mutant_parity"));
        assert!(mutants[3].probe(&module).to_string().contains("trap;"));
        for mutant in &mutants {
            assert_eq!(mutant.function, "k");
            ptx::parse(&mutant.module(&module).to_string()).unwrap();
        }
    }

    #[test]
    fn immediate_parities_flip_in_place() {
        let module = ptx::parse(&SOURCE.replace("[b], r;", "[b], 0;")).unwrap();
        let flipped = &mutants(&module)[2];
        assert!(flipped.module(&module).to_string().contains("p, [b], 1"));
    }
}

//! Thousands of wrong instructions, judged by the verifier and by `ptxas`.
//!
//! Every instruction of `features.ptx` is bent in each operand: replaced by things of other types
//! and kinds, dropped, doubled. What the verifier rejects, `ptxas` must reject, save where our
//! rules are stricter on purpose; and it must find all but a few in a hundred of those that `ptxas` finds.

use crate::{kernel, rejected_by_ptxas, violations};
use sixwarp_ptx::ast::{Instruction, Operand, Statement};
use sixwarp_ptx::{Violation, parse};

const REPLACEMENTS: &[&str] = &[
    "%p1",
    "%h1",
    "%r1",
    "%rd1",
    "%f1",
    "%fd1",
    "%u1",
    "%us1",
    "%hf1",
    "7",
    "0f3F800000",
    "[%rd1]",
    "[smem]",
    "{%r1, %r2}",
    "_",
    "%tid.x",
    "smem",
];

fn statements(body: &str) -> Vec<Statement> {
    let module = parse(&kernel("sm_100a", "9.0", body)).unwrap_or_else(|e| panic!("{e}"));
    module.entry("k").and_then(|kernel| kernel.body.clone()).expect("the kernel")
}

fn instructions(body: &str) -> Vec<Instruction> {
    let only = |statement| match statement {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    };
    let mut all: Vec<_> = statements(body).into_iter().filter_map(only).collect();
    all.pop(); // The `ret` that `kernel` adds.
    all
}

fn replacements() -> Vec<Operand> {
    let body: String = REPLACEMENTS.iter().map(|text| format!("x {text};")).collect();
    instructions(&body).into_iter().filter_map(|mut i| i.operands.pop()).collect()
}

fn bent(instruction: &Instruction, replacements: &[Operand]) -> Vec<String> {
    let mut mutants = Vec::new();
    let mut keep = |operands: Vec<Operand>| {
        mutants.push(Instruction { operands, ..instruction.clone() }.to_string());
    };
    let original = &instruction.operands;
    for place in 0..original.len() {
        for replacement in replacements {
            let mut operands = original.clone();
            operands[place] = replacement.clone();
            keep(operands);
        }
        let mut operands = original.clone();
        operands.remove(place);
        keep(operands);
        let mut operands = original.clone();
        operands.insert(place, original[place].clone());
        keep(operands);
    }
    mutants
}

/// Whether our rules are stricter than `ptxas` here, on purpose: misalignment is found only when
/// it runs, and it lets bulk copies take anything for an address.
fn stricter_on_purpose(mutant: &str) -> bool {
    let lenient = |v: &Violation| v.rule.0 == 15 || v.message.contains("address in brackets");
    mutant.starts_with("movmatrix")
        || violations(&kernel(ARCH, VERSION, mutant)).iter().all(lenient)
}

const ARCH: &str = "sm_100a";
const VERSION: &str = "9.0";

/// Of the mutants, one in so many is judged.
const STEP: usize = 17;

fn mutants() -> Vec<String> {
    let replacements = replacements();
    let examples = crate::features::examples().filter(|example| !example.contains(".reg"));
    let right = examples.filter(|e| violations(&kernel(ARCH, VERSION, e)).is_empty());
    let all = right.flat_map(instructions).flat_map(|i| bent(&i, &replacements));
    all.step_by(STEP).collect()
}

#[test]
fn the_same_mutants_as_ptxas() {
    let mutants = mutants();
    let (mut too_strict, mut missed, mut found) = (Vec::new(), Vec::new(), 0);
    for chunk in mutants.chunks(20) {
        let snippets: Vec<&str> = chunk.iter().map(String::as_str).collect();
        let rejected = rejected_by_ptxas(ARCH, VERSION, &snippets);
        for (i, mutant) in snippets.iter().enumerate() {
            let ours = !violations(&kernel(ARCH, VERSION, mutant)).is_empty();
            match (ours, rejected.contains(&i)) {
                (true, false) if !stricter_on_purpose(mutant) => too_strict.push(*mutant),
                (false, true) => missed.push(*mutant),
                (true, true) => found += 1,
                _ => {}
            }
        }
    }
    assert!(too_strict.is_empty(), "ptxas accepts\n{}", too_strict.join("\n"));
    assert!(found >= 400, "{found} mistakes found");
    assert!(missed.len() * 50 <= found, "{found} found, but not\n{}", missed.join("\n"));
}

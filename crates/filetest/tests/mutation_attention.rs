//! The attention kernels, broken on purpose: each fence, wait, barrier and arrive removed, each
//! parity flipped, one at a time. Every such mutant must be found out in some mode.
//!
//! By default every sixth mutant is tried; `FILETEST_ALL=1` tries them all (minutes) and prints
//! each verdict. `tests/mutation/attention.txt` lists what may survive, by kernel, with the reason
//! why it is harmless there.

use cases::CaseData;
use filetest::{Change, Mutant, SimEngine, Verdict, survey};
use kernels::{Arch, PlanOptions, plan};
use program::Program;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

/// One processor, so that one CTA works on all tiles.
const PROCESSORS: u32 = 1;

/// Several tiles of queries for one CTA, and more tiles of keys than there are buffers.
const CASE: &str = r#"
[[case]]
name = "mutation"
heads = 7
kv_heads = 1
dim = 64
queries = 130
keys = 600
mask = "causal"
"#;

/// The program and the contents of its buffers.
fn attention(arch: Arch) -> (Program, Vec<Vec<u8>>) {
    let case = cases::parse(CASE).expect("a case").remove(0);
    let problem = case.problem().expect("a valid case");
    let data = CaseData::new(&case).expect("data of a valid case");
    let options = PlanOptions { processors: PROCESSORS, ..PlanOptions::for_arch(arch) };
    let program = plan(&problem, arch, &options).expect("a supported case").program;
    let slots = problem.slots();
    let contents = program.buffers.iter().map(|buffer| {
        let slot = slots.iter().find(|slot| slot.to_string() == buffer.name);
        slot.map_or_else(|| vec![0; buffer.bytes as usize], |slot| data.bytes(*slot))
    });
    let contents = contents.collect();
    (program, contents)
}

/// The modes anyone's kernel must run in, and last the one that asks for every fence of the manual.
fn engines() -> Vec<SimEngine> {
    let modes = SimEngine::MODES.into_iter().chain(["pedantic"]);
    modes.map(|mode| SimEngine::mode(mode, 1).limited(1 << 24)).collect()
}

/// Which mutants to try.
fn stride() -> usize {
    if std::env::var_os("FILETEST_ALL").is_some() { 1 } else { 6 }
}

/// Verdicts on the chosen mutants.
fn verdicts(arch: Arch) -> Vec<Verdict> {
    let (program, inputs) = attention(arch);
    let engines = engines();
    let run = |engine: &SimEngine| {
        let result = engine.run(&program, &inputs);
        result.unwrap_or_else(|e| panic!("{arch:?} ({}), unbroken: {e}", engine.mode))
    };
    let right = run(&engines[0]);
    for engine in &engines[1..] {
        assert!(run(engine) == right, "{arch:?}: another result in mode {}", engine.mode);
    }
    let number = Cell::new(0usize);
    let wanted = |_: &Mutant| number.replace(number.get() + 1).is_multiple_of(stride());
    survey(&program, &inputs, &engines, wanted, |got| *got == right)
}

/// The change and the opcode: registers and lines move too often to name them.
fn summary(verdict: &Verdict) -> String {
    let opcode = verdict.instruction.split_whitespace().find(|word| !word.starts_with('@'));
    let change = match verdict.change {
        Change::Deleted => "without",
        Change::ParityFlipped => "flipped",
    };
    format!("{change} {}", opcode.unwrap_or_default().trim_end_matches(';'))
}

/// What may survive in a kernel.
fn harmless(kernel: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mutation/attention.txt");
    let text = std::fs::read_to_string(path).expect("the list of survivors");
    let parse = |line: &str| {
        let (mutant, _reason) = line.split_once(" # ").expect("a reason behind every survivor");
        mutant.trim().to_owned()
    };
    let lines = text.lines().filter_map(|line| line.strip_prefix(&format!("{kernel}: ")));
    lines.map(parse).collect()
}

fn check(arch: Arch, kernel: &str) {
    let verdicts = verdicts(arch);
    let harmless = harmless(kernel);
    let alive: Vec<&Verdict> = verdicts.iter().filter(|v| v.survives()).collect();
    verdicts.iter().for_each(|verdict| println!("{kernel}: {verdict}"));
    let reached = verdicts.iter().filter(|verdict| verdict.reached).count();
    println!("{kernel}: {} of {reached} found out", reached - alive.len());
    let unexplained: Vec<String> = alive
        .iter()
        .filter(|verdict| !harmless.contains(&summary(verdict)))
        .map(|verdict| format!("{} ({verdict})", summary(verdict)))
        .collect();
    assert!(unexplained.is_empty(), "{kernel} survives {unexplained:#?}");
}

#[test]
fn hopper() {
    check(Arch::Sm90, "sm90");
}

#[test]
fn blackwell() {
    check(Arch::Sm100, "sm100");
}

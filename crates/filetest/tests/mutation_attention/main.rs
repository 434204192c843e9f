//! The attention kernels, broken on purpose: each fence, wait, barrier and arrive removed, each
//! parity flipped, one at a time. Every such mutant must be found out in some mode.
//!
//! Those nobody can find out are in `tests/mutation/attention.txt`, one per line, each with the reason
//! why it is harmless. The list is exact: a survivor that it lacks, one that is found out after all,
//! and one that no kernel has any more are all failures. (Of the last kind are also instructions that
//! no run comes to.) `--nocapture` shows what found each mutant out.
//!
//! Mutants of the list are tried in one mode, all others in seven until one finds them: those that survive would take
//! a third of the time.

mod places;
mod subjects;

use filetest::{Mutant, SimEngine, Verdict, mutants, survey};
use program::Program;
use std::collections::BTreeMap;
use std::path::Path;
use subjects::Subject;

/// The modes that find most, first the one that finds more than the others.
fn engines() -> Vec<SimEngine> {
    let fixed = [("latest", 1), ("adversarial", 1), ("eager", 1)];
    let random = (1..=4).map(|seed| ("random", seed));
    let engine = |(mode, seed)| SimEngine::mode(mode, seed).pedantic().on_one_thread();
    fixed.into_iter().chain(random).map(|mode| engine(mode).limited(1 << 22)).collect()
}

/// How the reasons of mutants begin that some schedules find out.
const SOMETIMES: &str = "some schedules find it: ";

/// Reasons of the known survivors of a kernel by their names.
fn known_survivors(kernel: &str) -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/mutation/attention.txt");
    let text = std::fs::read_to_string(path).expect("the list of survivors");
    let parse = |line: &str| {
        let (mutant, reason) = line.split_once(" # ").expect("a reason behind every survivor");
        (mutant.trim().to_owned(), reason.to_owned())
    };
    let lines = text.lines().filter_map(|line| line.strip_prefix(&format!("{kernel}: ")));
    lines.map(parse).collect()
}

/// What found mutants out, and how many.
fn tally(verdicts: &[Verdict]) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for verdict in verdicts {
        let by = match &verdict.caught {
            Some(caught) => caught.by.as_str(),
            None if verdict.reached => "survives",
            None => "not executed",
        };
        *counts.entry(by).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(by, n)| format!("{n} {by}")).collect();
    counts.join(", ")
}

/// Mutants of a kernel with their names.
fn named_mutants(subject: &Subject, program: &Program) -> (Vec<String>, Vec<Mutant>) {
    let all = mutants(&program.module);
    let from = |mutant: &Mutant, file: &&str| {
        mutant.source.as_ref().is_some_and(|(source, _)| source.ends_with(*file))
    };
    let here = |mutant: &Mutant| {
        let files = subject.files;
        subject.function.is_none_or(|name| mutant.function == name)
            && (files.is_empty() || files.iter().any(|file| from(mutant, file)))
    };
    places::names(&all).into_iter().zip(all).filter(|(_, mutant)| here(mutant)).unzip()
}

/// What became of the mutants of a program: of those that the list has, and of the others.
fn verdicts(
    kernel: &str,
    program: &Program,
    inputs: &[Vec<u8>],
    [listed, others]: [Vec<Mutant>; 2],
) -> Vec<Verdict> {
    let engines = engines();
    let run = |engine: &SimEngine| {
        let result = engine.run(program, inputs);
        result.unwrap_or_else(|e| panic!("{kernel} ({}), unbroken: {e}", engine.mode))
    };
    let right = run(&engines[0]);
    for engine in &engines[1..] {
        assert!(run(engine) == right, "{kernel}: another result in mode {}", engine.mode);
    }
    // What waits for earlier launches is tried with one: the same once more.
    let launches = [program.launches.clone(), program.launches.clone()].concat();
    let twice = Program { launches, ..program.clone() };
    let waits_for_launches = |mutant: &Mutant| mutant.opcode().starts_with("griddepcontrol");
    let which = |mutant: &Mutant| if waits_for_launches(mutant) { &twice } else { program };
    let survey = |list, engines| survey(list, which, inputs, engines, |got| *got == right);
    [survey(listed, &engines[..1]), survey(others, &engines)].concat()
}

fn check(subject: &Subject) {
    let kernel = subject.name;
    let (program, inputs) = subject.program();
    let (names, list) = named_mutants(subject, &program);
    let known = known_survivors(kernel);
    let all = names.into_iter().zip(list);
    let (listed, others): (Vec<_>, Vec<_>) = all.partition(|(name, _)| known.contains_key(name));
    let (names, listed): (Vec<_>, Vec<_>) = listed.into_iter().unzip();
    let (other_names, others): (Vec<_>, Vec<_>) = others.into_iter().unzip();
    let names = [names, other_names].concat();
    let verdicts = verdicts(kernel, &program, &inputs, [listed, others]);
    names.iter().zip(&verdicts).for_each(|(name, v)| println!("{kernel}: {name}: {v}"));
    println!("{kernel}: of {} mutants {}", verdicts.len(), tally(&verdicts));
    let alive = names.iter().zip(&verdicts).filter(|(_, verdict)| verdict.caught.is_none());
    let alive: BTreeMap<&String, &Verdict> = alive.collect();
    let unexplained = alive.iter().filter(|(name, _)| !known.contains_key(**name));
    let unexplained: Vec<String> = unexplained.map(|(name, v)| format!("{name} ({v})")).collect();
    let (gone, mut caught): (Vec<&String>, Vec<&String>) =
        known.keys().filter(|name| !alive.contains_key(name)).partition(|n| !names.contains(n));
    caught.retain(|name| !known[*name].starts_with(SOMETIMES));
    assert!(
        unexplained.is_empty() && gone.is_empty() && caught.is_empty(),
        "{kernel}: survivors without a reason:\n{unexplained:#?}\n\
         listed, but found out:\n{caught:#?}\nlisted, but no longer there:\n{gone:#?}"
    );
}

#[test]
fn sm80() {
    check(&subjects::SM80);
}

#[test]
fn sm80_shared() {
    check(&subjects::SM80_SHARED);
}

#[test]
fn sm80_passed() {
    check(&subjects::SM80_PASSED);
}

#[test]
fn sm80_halves() {
    check(&subjects::SM80_HALVES);
}

#[test]
fn sm80_packed() {
    check(&subjects::SM80_PACKED);
}

#[test]
fn sm90() {
    check(&subjects::SM90);
}

#[test]
fn sm90_turns() {
    check(&subjects::SM90_TURNS);
}

#[test]
fn sm90_shared() {
    check(&subjects::SM90_SHARED);
}

#[test]
fn sm90_gather() {
    check(&subjects::SM90_GATHER);
}

#[test]
fn sm90_cut() {
    check(&subjects::SM90_CUT);
}

#[test]
fn sm90_tail() {
    check(&subjects::SM90_TAIL);
}

#[test]
fn sm90_combine() {
    check(&subjects::SM90_COMBINE);
}

#[test]
fn sm90_wide() {
    check(&subjects::SM90_WIDE);
}

#[test]
fn sm90_wide_shared() {
    check(&subjects::SM90_WIDE_SHARED);
}

#[test]
fn sm90_wide_cut() {
    check(&subjects::SM90_WIDE_CUT);
}

#[test]
fn sm90_wide_lists() {
    check(&subjects::SM90_WIDE_LISTS);
}

#[test]
fn sm90_wide_fp8() {
    check(&subjects::SM90_WIDE_FP8);
}

#[test]
fn sm90_few_heads() {
    check(&subjects::SM90_FEW_HEADS);
}

#[test]
fn sm90_merge() {
    check(&subjects::SM90_MERGE);
}

#[test]
fn sm100_six() {
    check(&subjects::SM100_SIX);
}

#[test]
fn sm100_six_shared() {
    check(&subjects::SM100_SIX_SHARED);
}

#[test]
fn sm100_six_cut() {
    check(&subjects::SM100_SIX_CUT);
}

#[test]
fn sm100_six_lists() {
    check(&subjects::SM100_SIX_LISTS);
}

#[test]
fn sm100_sixteen() {
    check(&subjects::SM100_SIXTEEN);
}

#[test]
fn sm100_sixteen_cut() {
    check(&subjects::SM100_SIXTEEN_CUT);
}

#[test]
fn sm100_pair() {
    check(&subjects::SM100_PAIR);
}

#[test]
fn sm100_pair_lists() {
    check(&subjects::SM100_PAIR_LISTS);
}

#[test]
fn sm100_pair_fp8() {
    check(&subjects::SM100_PAIR_FP8);
}

#[test]
fn sm100_pair_raw() {
    check(&subjects::SM100_PAIR_RAW);
}

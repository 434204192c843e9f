//! Every signal of the Blackwell kernels is needed: without it, the simulator objects or the result is
//! wrong.
//!
//! [`NOT_MODELLED`] lists what the simulator cannot miss, because it does not model what they order.

mod common;

use cases::{CaseData, EngineError, Expected, Outcome};
use common::Simulated;
use filetest::{Mutant, mutants};
use program::Program;
use sixwarp_kernels::{Arch, RowBlocks, plan};
use std::sync::Arc;

/// Orders of events a mutant must survive to count as unnoticed.
const ORDERS: [(&str, u64); 5] =
    [("eager", 0), ("latest", 0), ("random", 1), ("random", 2), ("adversarial", 0)];

/// Several tiles per CTA, rings that wrap, maxima that move.
const CASE: &str = "
[[case]]
name = 'mutants-d{dim}'
heads = 4
queries = 130
keys = 400
mask = 'causal'
amplitude = 3.0
each = { dim = [128, 512] }
";

/// Lanes of a warp run together; loads from tensor memory are complete when they are used; fences
/// order what is in order anyway; launches do not overlap; a buffer that was written by threads may be
/// overwritten by a copy.
const NOT_MODELLED: [&str; 6] = [
    "bar.warp.sync",
    "tcgen05.wait::ld",
    "tcgen05.fence",
    "fence.mbarrier_init",
    "griddepcontrol.wait",
    "fence.proxy.async",
];

/// What is wrong with a program, in the first order of events that shows it.
fn complaint(
    program: &Program,
    engine: &mut Simulated,
    data: &CaseData,
    expected: &Expected,
) -> Option<String> {
    ORDERS.iter().find_map(|(mode, seed)| {
        engine.simulator = sim::Options::mode(mode, *seed).expect("a mode");
        engine.simulator.max_instructions = 1 << 22;
        match engine.run_program(program, &data.problem, data) {
            Err(EngineError::Failed(message)) => Some(message),
            Err(error) => panic!("{error}"),
            Ok(outputs) => match cases::judge(&data.problem, &outputs, expected) {
                Outcome::Passed(_) => None,
                outcome => Some(outcome.to_string()),
            },
        }
    })
}

/// Mutants of a case's kernels that nothing tells from the original.
fn unnoticed(name: &str, row_blocks: RowBlocks) -> Vec<String> {
    let cases = cases::parse(CASE).expect("cases");
    let case = cases.into_iter().find(|case| case.name == name).expect("a case");
    let data = CaseData::new(&case).expect("a valid case");
    let expected = Expected::new(&data).expect("an oracle");
    let mut engine = Simulated::on(Arch::Sm100);
    engine.options.row_blocks = row_blocks;
    engine.options.processors = 2;
    let program = plan(&data.problem, engine.arch, &engine.options).expect("supported").program;
    assert_eq!(complaint(&program, &mut engine, &data, &expected), None, "the original");
    let mut noticed = |mutant: &Mutant| {
        let broken = Program { module: Arc::new(mutant.module.clone()), ..program.clone() };
        let probe = Program { module: Arc::new(mutant.probe.clone()), ..program.clone() };
        let is_reached = complaint(&probe, &mut engine, &data, &expected).is_some();
        !is_reached || complaint(&broken, &mut engine, &data, &expected).is_some()
    };
    let modelled = |m: &&Mutant| !NOT_MODELLED.iter().any(|name| m.instruction.contains(name));
    let all = mutants(&program.module);
    let unnoticed = all.iter().filter(modelled).filter(|mutant| !noticed(mutant));
    unnoticed.map(|m| format!("{:?}: {}", m.change, m.instruction)).collect()
}

/// Waits that another wait implies here, though not by themselves: the loader's for queries (the ring
/// is shorter than the tile before), its first for slots of a tile (that for queries came before), and
/// the correction's for the output (scores are committed after it).
const IMPLIED_WAITS: usize = 2;

#[track_caller]
fn only_implied_waits(unnoticed: &[String]) {
    let is_wait = |mutant: &String| mutant.starts_with("Deleted: mbarrier.try_wait");
    assert!(unnoticed.iter().all(is_wait), "{unnoticed:#?}");
    assert!(unnoticed.len() <= IMPLIED_WAITS, "{unnoticed:#?}");
}

#[test]
fn six_warps() {
    only_implied_waits(&unnoticed("mutants-d128", RowBlocks::One));
}

#[test]
fn two_blocks_of_rows() {
    only_implied_waits(&unnoticed("mutants-d128", RowBlocks::Two));
}

#[test]
fn a_pair_of_ctas() {
    only_implied_waits(&unnoticed("mutants-d512", RowBlocks::Auto));
}

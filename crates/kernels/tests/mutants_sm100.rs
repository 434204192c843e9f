//! Every fence, wait, barrier, arrival, commit and parity of the Blackwell kernels is needed: without
//! it the simulator objects or the result is another one. [`HARMLESS`] and [`IMPLIED`] list what is not
//! missed, and why.

mod common;

use cases::CaseData;
use common::Simulated;
use filetest::{Mutant, SimEngine, Verdict, survey};
use sixwarp_kernels::{Arch, RowBlocks, Split, plan};

/// Orders of events a mutant must survive; the first one also applies every rule of the manual.
const ORDERS: [(&str, u64); 4] =
    [("pedantic", 0), ("latest", 0), ("random", 1), ("adversarial", 0)];

/// Several tiles per CTA, rings that wrap, maxima that move.
const CASE: &str = "
[[case]]
name = 'mutants-d{dim}-{shared}'
heads = 2
queries = 130
keys = 300
mask = 'causal'
amplitude = 3.0
each = { dim = [128, 512], shared = [false, true] }
";

/// Instructions that nobody misses, in which file, and why; they are not tried.
const HARMLESS: [(&str, &str, &str); 4] = [
    ("bar.warp.sync", "", "the simulator runs the lanes of a warp in step"),
    (
        "fence.mbarrier_init",
        "allocation.rs",
        "the barrier behind it publishes the initialisation too",
    ),
    ("griddepcontrol.wait", "allocation.rs", "no other grid runs"),
    ("tcgen05.fence", "allocation.rs", "no tensor memory was used yet, or none will be any more"),
];

/// Instructions of which some, in this file, only repeat what another one implies.
const IMPLIED: [(&str, &str, &str); 3] = [
    (
        "mbarrier.try_wait",
        "fill.rs",
        "the loader has waited for a slot freed later, or for queries",
    ),
    ("mbarrier.try_wait", "wide/loader.rs", "the loader has waited for queries freed later"),
    (
        "mbarrier.try_wait",
        "correction.rs",
        "scores, and so factors, are committed after the output",
    ),
];

fn is_among(
    list: &[(&str, &str, &str)],
    instruction: &str,
    source: &Option<(String, u32)>,
) -> bool {
    let file = source.as_ref().map_or("", |(file, _)| file);
    list.iter().any(|(name, place, _)| instruction.contains(name) && file.ends_with(place))
}

/// Mutants of the case's kernel that nothing tells from the original, though they should be.
fn unnoticed(name: &str, row_blocks: RowBlocks, processors: u32) -> Vec<String> {
    let cases = cases::parse(CASE).expect("cases");
    let case = cases.into_iter().find(|case| case.name == name).expect("a case");
    let data = CaseData::new(&case).expect("a valid case");
    let mut engine = Simulated::on(Arch::Sm100);
    engine.options.row_blocks = row_blocks;
    engine.options.split = Split::Never;
    engine.options.processors = processors;
    let program = plan(&data.problem, engine.arch, &engine.options).expect("supported").program;
    let memory = common::memory(&program, &data.problem, &data);
    let orders = ORDERS.map(|(mode, seed)| SimEngine::mode(mode, seed).limited(1 << 22));
    let results = orders.iter().map(|order| order.run(&program, &memory).expect("the original"));
    let results: Vec<_> = results.collect();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "the original differs by order");
    let wanted = |mutant: &Mutant| !is_among(&HARMLESS, &mutant.instruction, &mutant.source);
    let verdicts = survey(&program, &memory, &orders, wanted, |got| *got == results[0]);
    let alive: Vec<&Verdict> = verdicts.iter().filter(|verdict| verdict.survives()).collect();
    alive.iter().for_each(|verdict| println!("{verdict}"));
    let unexplained = alive.iter().filter(|v| !is_among(&IMPLIED, &v.instruction, &v.source));
    unexplained.map(ToString::to_string).collect()
}

#[test]
fn six_warps() {
    assert_eq!(unnoticed("mutants-d128-false", RowBlocks::One, 1), Vec::<String>::new());
}

#[test]
fn six_warps_whose_keys_are_values() {
    assert_eq!(unnoticed("mutants-d128-true", RowBlocks::One, 1), Vec::<String>::new());
}

#[test]
fn two_blocks_of_rows() {
    assert_eq!(unnoticed("mutants-d128-false", RowBlocks::Two, 1), Vec::<String>::new());
}

#[test]
fn a_pair_of_ctas() {
    assert_eq!(unnoticed("mutants-d512-false", RowBlocks::Auto, 2), Vec::<String>::new());
}

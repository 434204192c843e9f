//! Work shared out by lengths on the device: right for any lengths, and in equal shares.

mod common;

use cases::{Case, Outcome};
use common::{Simulated, memory};
use sim::Row;
use sixwarp_kernels::{Arch, Split, plan};

/// Processors among which work is shared out.
const PROCESSORS: u32 = 8;

/// Queries and keys of the sequences of a batch.
type Batch = (Vec<u64>, Vec<u64>);

/// A causal batch from pages.
fn case(name: &str, (queries, keys): &Batch) -> Case {
    let text = format!(
        "[[case]]\nname = \"{name}\"\nheads = 4\nkv_heads = 2\ndim = 64\nqueries = {queries:?}\nkeys = {keys:?}\n\
         mask = \"causal\"\nlayout = \"paged\"\npage = 128\nsinks = \"random\"\n"
    );
    cases::parse(&text).expect("a case").remove(0)
}

/// Batches in which work lies where one would not look for it.
fn batches() -> Vec<(&'static str, Batch)> {
    let of = |queries: u64, keys: &[u64]| (vec![queries; keys.len()], keys.to_vec());
    vec![
        ("one-long-first", of(1, &[6000, 1, 1, 2, 1, 130, 1, 1])),
        ("one-long-last", of(1, &[1, 1, 2, 1, 130, 1, 1, 6000])),
        ("nothing-but-the-middle", of(1, &[0, 0, 0, 5000, 0, 0])),
        ("longer-and-longer", of(1, &[100, 300, 700, 1500, 3100])),
        ("one-prefill", (vec![1, 1, 700, 1, 0, 1], vec![900, 10, 700, 2000, 44, 128])),
        ("more-queries-than-keys", (vec![300, 1], vec![20, 1500])),
        ("drafts", of(5, &[1000, 64, 2200, 640])),
    ]
}

fn simulated() -> Simulated {
    let mut engine = Simulated::on(Arch::Sm90);
    engine.options.processors = PROCESSORS;
    engine
}

#[test]
fn any_lengths_give_the_right_numbers() {
    for split in [Split::Auto, Split::Never] {
        let mut engine = simulated();
        engine.options.split = split;
        for (name, batch) in batches() {
            let outcome = cases::check(&case(name, &batch), &mut engine);
            assert!(matches!(outcome, Outcome::Passed(_)), "{name} {split:?}: {outcome}");
        }
    }
}

/// A NaN that some rows do not see, in units that are cut: the CTA that finishes one has the whole row.
#[test]
fn rows_of_cut_units_are_computed_again() {
    let mut engine = simulated();
    let whole = case("drafts-and-a-nan", &(vec![5; 3], vec![1500; 3]));
    let special = vec!["v[1497] = nan".to_owned()];
    let outcome = cases::check(&Case { special, ..whole }, &mut engine);
    assert!(matches!(outcome, Outcome::Passed(_)), "{outcome}");
}

/// Bytes are what counts: a tile of keys takes the same copies, whoever it is for.
#[test]
fn no_processor_gets_more_than_its_share() {
    for (name, batch) in batches() {
        let case = case(name, &batch);
        let problem = case.problem().expect("valid");
        let engine = simulated();
        let program = plan(&problem, Arch::Sm90, &engine.options).expect("supported").program;
        let options = sim::Options { trace: true, ..engine.simulator };
        let data = cases::CaseData::new(&case).expect("valid");
        let report = sim::run(&program, &memory(&program, &problem, &data), &options);
        let trace = report.expect("it runs").trace.expect("a timeline");
        let mut copies = [0u32; PROCESSORS as usize];
        for slice in trace.slices.iter().filter(|slice| slice.row == Row::Copy) {
            copies[slice.cta[0] as usize] += 1;
        }
        let mean = copies.iter().sum::<u32>() as f64 / f64::from(PROCESSORS);
        let most = f64::from(copies.into_iter().max().unwrap_or(0));
        // Queries of each unit, and cuts between tiles of keys, are what is left.
        assert!(most <= 1.15 * mean + 10.0, "{name}: {copies:?}");
    }
}

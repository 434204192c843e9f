//! Work shared out by lengths on the device: right for any lengths, and in equal shares.

mod common;

use cases::{Case, Outcome};
use common::{Simulated, memory};
use sim::Row;
use sixwarp_kernels::{Arch, RowBlocks, Split, plan};

/// Processors among which work is shared out.
const PROCESSORS: u32 = 8;

/// The kernels whose work is shared out: those of Hopper, and on Blackwell those of six and of sixteen warps.
const KERNELS: [(Arch, RowBlocks); 3] =
    [(Arch::Sm90, RowBlocks::Auto), (Arch::Sm100, RowBlocks::One), (Arch::Sm100, RowBlocks::Two)];

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

fn simulated((arch, row_blocks): (Arch, RowBlocks)) -> Simulated {
    let mut engine = Simulated::on(arch);
    engine.options.processors = PROCESSORS;
    engine.options.row_blocks = row_blocks;
    engine
}

#[test]
fn any_lengths_give_the_right_numbers() {
    for kernel in KERNELS {
        let mut engine = simulated(kernel);
        for (n, (name, batch)) in batches().into_iter().enumerate() {
            // Every kernel meets both, and so does every batch.
            let never = (n + usize::from(kernel.1 == RowBlocks::One)).is_multiple_of(2);
            engine.options.split = if never { Split::Never } else { Split::Auto };
            let outcome = cases::check(&case(name, &batch), &mut engine);
            assert!(matches!(outcome, Outcome::Passed(_)), "{name} {kernel:?}: {outcome}");
        }
    }
}

/// A NaN that some rows do not see, in units that are cut: the CTA that finishes one has the whole row.
#[test]
fn rows_of_cut_units_are_computed_again() {
    for kernel in KERNELS {
        let whole = case("drafts-and-a-nan", &(vec![5; 3], vec![1500; 3]));
        let special = vec!["v[1497] = nan".to_owned()];
        let outcome = cases::check(&Case { special, ..whole }, &mut simulated(kernel));
        assert!(matches!(outcome, Outcome::Passed(_)), "{kernel:?}: {outcome}");
    }
}

/// Copies that each processor issued for a batch.
fn copies(kernel: (Arch, RowBlocks), case: &Case) -> [u32; PROCESSORS as usize] {
    let problem = case.problem().expect("valid");
    let engine = simulated(kernel);
    let plan = plan(&problem, kernel.0, &engine.options).expect("supported");
    assert!(plan.summary.ends_with("shared out by lengths on the device"), "{}", plan.summary);
    let program = plan.program;
    let options = sim::Options { trace: true, checks: false, ..engine.simulator };
    let data = cases::CaseData::new(case).expect("valid");
    let report = sim::run(&program, &memory(&program, &problem, &data), &options);
    let trace = report.expect("it runs").trace.expect("a timeline");
    let mut copies = [0; PROCESSORS as usize];
    for slice in trace.slices.iter().filter(|slice| slice.row == Row::Copy) {
        copies[slice.cta[0] as usize] += 1;
    }
    copies
}

/// Bytes are what counts: a tile of keys takes the same copies, whoever it is for.
#[test]
fn no_processor_gets_more_than_its_share() {
    for kernel in KERNELS {
        for (name, batch) in batches() {
            let copies = copies(kernel, &case(name, &batch));
            let mean = copies.iter().sum::<u32>() as f64 / f64::from(PROCESSORS);
            let most = f64::from(copies.into_iter().max().unwrap_or(0));
            // Queries of each unit, and cuts between tiles of keys, are what is left.
            assert!(most <= 1.15 * mean + 10.0, "{name} {kernel:?}: {copies:?}");
        }
    }
}

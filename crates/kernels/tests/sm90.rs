//! Hopper kernels on the simulator, against the oracle, over the table of cases.

mod common;

use common::{FEATURES, Simulated, named, run_table};
use problem::{DType, Mask, Problem, Segment, Unsupported, View};
use program::Argument;
use sixwarp_kernels::{Arch, PlanOptions, Split, plan};

/// What the kernels do not do, and say so.
const DECLINED: [&str; 2] = ["dtype f64", "attn_mask of f64"];

fn hopper() -> Simulated {
    Simulated::on(Arch::Sm90)
}

#[test]
fn the_table_on_few_processors() {
    let passed = run_table(&mut hopper(), |_| true, &DECLINED);
    assert!(passed > 200, "only {passed} cases ran");
}

#[test]
fn features_on_a_whole_device() {
    let mut engine = hopper();
    engine.options = PlanOptions::for_arch(Arch::Sm90);
    engine.simulator = sim::Options::mode("latest", 0).expect("a mode");
    assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
}

/// Large heads take both segments of a problem in one launch, with few sequences and with many, where
/// nothing is left to combine.
#[test]
fn two_segments_in_one_launch() {
    let few = cases::table().into_iter().find(|case| case.name == "two-window-and-prefix-d512");
    let few = few.expect("a case of the table");
    let many = cases::Case { batch: 200, ..few.clone() };
    for (case, combined) in [(few, true), (many, false)] {
        let problem = case.problem().expect("a valid problem");
        let options = PlanOptions::for_arch(Arch::Sm90);
        let plan = sixwarp_kernels::plan(&problem, Arch::Sm90, &options).expect("supported");
        let kernels = plan.program.launches.iter().map(|launch| launch.kernel.as_str());
        let wanted = if combined { vec!["attention0", "combine"] } else { vec!["attention0"] };
        assert_eq!(kernels.collect::<Vec<_>>(), wanted);
    }
}

/// Where a work tile is one token's, its window begins with a KV tile: 128 keys are two tiles of 64 wherever they lie.
#[test]
fn the_window_of_one_token_begins_with_a_tile() {
    let flops = |keys| {
        let rows = |n| Segment::shared(View::bhsd(DType::Bf16, [1, 1, n, 512]), 512);
        let near = Mask::Window { left: Some(127), right: Some(0) };
        let q = View::bshd(DType::Bf16, [1, 64, 1, 512]);
        let problem = Problem::builder(q).segment(rows(keys).mask(near));
        let problem = problem.segment(rows(64).indexed(64)).build().expect("valid");
        let options = PlanOptions { split: Split::Never, ..hopper().options };
        let program = plan(&problem, Arch::Sm90, &options).expect("supported").program;
        let memory: Vec<_> = program.buffers.iter().map(|b| vec![0; b.bytes as usize]).collect();
        let options = sim::Options { checks: false, ..Default::default() };
        sim::run(&program, &memory, &options).expect("runs").counters.mma_flops
    };
    assert_eq!([129, 150, 191, 1000].map(flops), [flops(128); 4]);
}

#[test]
fn keys_in_many_parts() {
    let mut engine = hopper();
    engine.options.split = Split::Every { keys: 128 };
    assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
}

/// Numbers that are not finite, where parts of the keys are combined.
#[test]
fn special_values_in_parts() {
    let mut engine = hopper();
    engine.options.split = Split::Every { keys: 128 };
    assert!(run_table(&mut engine, named(&["special-*"]), &DECLINED) > 25);
}

#[test]
fn whatever_the_order_of_events() {
    for mode in ["latest", "adversarial"] {
        let mut engine = hopper();
        engine.simulator = sim::Options::mode(mode, 0).expect("a mode");
        assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
    }
}

#[test]
fn twenty_random_orders() {
    const CASES: &[&str] =
        &["tokens-300", "mqa-d128-t128-s384", "mqa-d512-t4-s256", "mqa-d512-t1-s256"];
    for seed in 0..20 {
        let mut engine = hopper();
        engine.simulator = sim::Options::mode("random", seed).expect("a mode");
        assert_eq!(run_table(&mut engine, named(CASES), &DECLINED), CASES.len());
    }
}

/// Wide rows whose work is cut between clusters, by the strictest rules.
#[test]
fn wide_rows_of_a_mixed_batch_in_any_order() {
    const CASES: &[&str] = &["mixed-d512", "mixed-d576-pages-of-64"];
    for (mode, seed) in [("eager", 0), ("latest", 0), ("adversarial", 0), ("random", 1)] {
        let mut engine = hopper();
        let simulator = sim::Options::mode(mode, seed).expect("a mode");
        engine.simulator = sim::Options { pedantic: true, ..simulator };
        assert_eq!(run_table(&mut engine, named(CASES), &DECLINED), CASES.len());
    }
}

/// Rows that threads gather, and what those tell about them, by the strictest rules.
#[test]
fn gathered_rows_in_any_order() {
    const CASES: &[&str] = &[
        "gather-turns-page1",
        "gather-d80-page5",
        "gather-shared-d192",
        "gather-two-pages-d512",
        "gather-merged",
        "lists-holes-d*",
        "lists-entries-d*",
        "lists-second-only-d512",
        "lists-merged",
        "dsv4-*-fp8",
        "packed-lists-*",
    ];
    let random = (0..4).map(|seed| ("random", seed));
    let fixed = ["eager", "latest", "adversarial"].map(|mode| (mode, 0));
    for (mode, seed) in fixed.into_iter().chain(random) {
        let mut engine = hopper();
        let simulator = sim::Options::mode(mode, seed).expect("a mode");
        engine.simulator = sim::Options { pedantic: true, ..simulator };
        assert_eq!(run_table(&mut engine, named(CASES), &DECLINED), 19);
    }
}

/// A CTA has several work tiles of two KV tiles each. The warpgroup that computes scores then is furthest ahead of the
/// other one: it has said of two tiles that they are scored before the other has looked for the first.
#[test]
fn many_sequences_of_few_tiles_in_any_order() {
    let one = cases::table().into_iter().find(|case| case.name == "lists-heads-64-d512");
    let many = cases::Case { batch: 5, ..one.expect("a case of the table") };
    let random = (0..4).map(|seed| ("random", seed));
    for (mode, seed) in [("adversarial", 0)].into_iter().chain(random) {
        let mut engine = hopper();
        let simulator = sim::Options::mode(mode, seed).expect("a mode");
        engine.simulator = sim::Options { pedantic: true, ..simulator };
        let outcome = cases::check(&many, &mut engine);
        assert!(matches!(outcome, cases::Outcome::Passed(_)), "{mode} {seed}: {outcome}");
    }
}

/// Places of gathered rows have 32 bits: where a tensor needs more, tensor copies bring rows of pages, and lists
/// are declined.
#[test]
fn rows_of_huge_tensors_are_not_gathered() {
    let view = |shape| View::bshd(DType::Bf16, shape);
    let short = || Segment::shared(view([64, 1, 1, 512]), 512).paged(64);
    let huge = || Segment::shared(view([1, 1, 1 << 27, 512]), 512);
    let maps = |first: Segment, second: Segment| {
        let queries = Problem::builder(view([1, 64, 1, 512]));
        let problem = queries.segment(first).segment(second).build().expect("a valid problem");
        let planned = plan(&problem, Arch::Sm90, &PlanOptions::for_arch(Arch::Sm90))?;
        let args = &planned.program.launches[0].args;
        Ok(args.iter().filter(|arg| matches!(arg, Argument::TensorMap(_))).count())
    };
    assert_eq!(maps(short(), short()), Ok(1), "queries alone come by tensor copies");
    assert_eq!(maps(short(), huge()), Ok(3));
    let declined: Result<usize, Unsupported> = maps(short().indexed(32), huge());
    let message = declined.expect_err("too many bytes").to_string();
    assert!(message.contains("64 GiB"), "{message}");
}

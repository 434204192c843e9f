//! Hopper's kernel for few heads, which unpacks fp8 rows to registers: on the simulator, against the oracle, and with
//! the real `ptxas`.

mod common;

use cases::{Case, Outcome};
use common::{Simulated, named, run_table};
use ptx::toolchain;
use sixwarp_kernels::{Arch, FewHeads, Plan, PlanOptions, Split, plan};

/// How summaries name the kernel.
const NAME: &str = "unpacked to registers";

fn few_heads(options: PlanOptions) -> PlanOptions {
    PlanOptions { few_heads: FewHeads::Always, ..options }
}

fn engine() -> Simulated {
    let hopper = Simulated::on(Arch::Sm90);
    Simulated { options: few_heads(hopper.options), ..hopper }
}

/// The plan of a case, if the kernel takes it.
fn taken(case: &Case, options: &PlanOptions) -> Option<Plan> {
    let plan = plan(&case.problem().ok()?, Arch::Sm90, options).ok()?;
    plan.summary.contains(NAME).then_some(plan)
}

fn case(name: &str) -> Case {
    cases::table().into_iter().find(|case| case.name == name).expect("a case of the table")
}

#[track_caller]
fn check(case: &Case, engine: &mut Simulated) {
    assert!(taken(case, &engine.options).is_some(), "{case}");
    let outcome = cases::check(case, engine);
    assert!(matches!(outcome, Outcome::Passed(_)), "{outcome}\n{case}");
}

/// Lists with holes and entries out of range, lengths, pages, masks, several tokens, two segments, NaN.
#[test]
fn the_cases_of_fp8_rows() {
    let mut engine = engine();
    let options = engine.options;
    let wanted = |case: &Case| !case.name.contains("heads") && taken(case, &options).is_some();
    let passed = run_table(&mut engine, wanted, &[]);
    assert!(passed >= 15, "only {passed} cases ran");
}

#[test]
fn any_number_of_heads() {
    for heads in [1, 7, 16, 24] {
        check(&Case { heads, ..case("fp8-heads-66") }, &mut engine());
    }
}

/// Values above 57,344 have scales that do not fit the shortcut.
#[test]
fn large_scales() {
    let large = Case { amplitude: Some(1e5), scale: Some(1e-11), ..case("fp8-amplitude-8.0") };
    check(&large, &mut engine());
}

/// A byte that is NaN has a number's bits where only its exponent and mantissa are moved.
#[test]
fn bytes_that_are_nan() {
    let mut nan = case("special-value-nan-fp8");
    nan.special.retain(|special| special.starts_with("k[57,3]"));
    assert_eq!(nan.special.len(), 1, "one byte");
    check(&nan, &mut engine());
}

#[test]
fn keys_in_parts() {
    let mut engine = engine();
    engine.options.split = Split::Every { keys: 64 };
    const CASES: &[&str] = &["fp8-lists-holes", "dsv4-csa-decode-fp8", "special-value-nan-fp8"];
    assert_eq!(run_table(&mut engine, named(CASES), &[]), CASES.len());
}

/// By the strictest rules, whatever the order of events.
#[test]
fn in_any_order() {
    const CASES: &[&str] = &["fp8-lists-holes", "fp8-amplitude-8.0"];
    let random = (0..3).map(|seed| ("random", seed));
    let fixed = ["eager", "latest", "adversarial"].map(|mode| (mode, 0));
    for (mode, seed) in fixed.into_iter().chain(random) {
        let mut engine = engine();
        let simulator = sim::Options::mode(mode, seed).expect("a mode");
        engine.simulator = sim::Options { pedantic: true, ..simulator };
        assert_eq!(run_table(&mut engine, named(CASES), &[]), CASES.len());
    }
}

/// A window and compressed rows of DeepSeek-V4's layers, with and without parts, and rows of pages in order.
#[test]
fn it_assembles_without_spills() {
    let options = few_heads(PlanOptions::for_arch(Arch::Sm90));
    let two = case("dsv4-csa-decode-fp8");
    let many = Case { batch: 200, ..two.clone() };
    for case in [two, many, case("dsv4-hca-decode-fp8"), case("fp8-lists-mixed")] {
        let text = taken(&case, &options).expect("taken").program.module.to_string();
        let assembled = toolchain::assemble(&text, "sm_90a").expect("assembles");
        for kernel in &assembled.report {
            assert_eq!((kernel.spill_stores, kernel.stack), (0, 0), "{}: {kernel:?}", case.name);
        }
        assert!(assembled.warnings.is_empty(), "{}: {:?}", case.name, assembled.warnings);
    }
}

#[test]
fn it_is_taken_where_heads_are_few_and_it_can() {
    let usual = PlanOptions::for_arch(Arch::Sm90);
    for (heads, few) in [(1, true), (16, true), (17, false), (64, false)] {
        let case = Case { heads, ..case("fp8-heads-66") };
        assert_eq!(taken(&case, &usual).is_some(), few, "{heads} heads");
    }
    let never = PlanOptions { few_heads: FewHeads::Never, ..usual };
    assert!(taken(&Case { heads: 1, ..case("fp8-heads-66") }, &never).is_none());
    let asked = few_heads(usual);
    for name in ["fp8-value-dim-128", "dsv4-csa-decode", "packed-lists-V3.2"] {
        assert!(taken(&case(name), &asked).is_none(), "{name}");
    }
}

//! Hopper kernels on the simulator, against the oracle, over the table of cases.

mod common;

use common::{FEATURES, Simulated, named, run_table};
use sixwarp_kernels::{Arch, PlanOptions, Split};

/// What the kernels do not do, and say so.
const DECLINED: [&str; 3] = ["dtype f32", "index lists", "fp8 rows"];

fn hopper() -> Simulated {
    Simulated::on(Arch::Sm90)
}

#[test]
fn the_table_on_few_processors() {
    let passed = run_table(&mut hopper(), |_| true, &DECLINED);
    assert!(passed > 200, "only {passed} cases ran");
}

#[test]
fn the_table_on_a_whole_device() {
    let mut engine = hopper();
    engine.options = PlanOptions::for_arch(Arch::Sm90);
    engine.simulator = sim::Options::mode("latest", 0).expect("a mode");
    let passed = run_table(&mut engine, |_| true, &DECLINED);
    assert!(passed > 200, "only {passed} cases ran");
}

#[test]
fn keys_in_many_parts() {
    let mut engine = hopper();
    engine.options.split = Split::Every { keys: 128 };
    assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
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
        &["tokens-300", "seed-d128-t128-s384", "seed-d512-t4-s256", "seed-d512-t1-s256"];
    for seed in 0..20 {
        let mut engine = hopper();
        engine.simulator = sim::Options::mode("random", seed).expect("a mode");
        assert_eq!(run_table(&mut engine, named(CASES), &DECLINED), CASES.len());
    }
}

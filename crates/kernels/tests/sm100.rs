//! Blackwell kernels on the simulator, against the oracle, over the table of cases.

mod common;

use common::{FEATURES, Simulated, named, run_table};
use problem::{DType, Problem, Segment, View};
use sixwarp_kernels::{Arch, Loads, Probabilities, RowBlocks, Split, plan};

/// What the kernels do not do, and say so.
const DECLINED: [&str; 4] = ["dtype f32", "index lists", "fp8 rows", "without swizzle"];

fn blackwell() -> Simulated {
    Simulated::on(Arch::Sm100)
}

#[test]
fn the_table_on_six_warps() {
    let mut engine = blackwell();
    engine.options.row_blocks = RowBlocks::One;
    let passed = run_table(&mut engine, |_| true, &DECLINED);
    assert!(passed > 200, "only {passed} cases ran");
}

#[test]
fn the_table_on_two_blocks_of_rows() {
    let mut engine = blackwell();
    engine.options.row_blocks = RowBlocks::Two;
    let passed = run_table(&mut engine, |_| true, &DECLINED);
    assert!(passed > 200, "only {passed} cases ran");
}

#[test]
fn probabilities_through_shared_memory() {
    let mut engine = blackwell();
    engine.options.probabilities = Probabilities::SharedMemory;
    assert!(run_table(&mut engine, |_| true, &DECLINED) > 200);
}

#[test]
fn loads_without_swizzle() {
    let mut engine = blackwell();
    engine.options.loads = Loads::Plain;
    assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
    engine.options.probabilities = Probabilities::SharedMemory;
    assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
}

#[test]
fn keys_in_many_parts() {
    let mut engine = blackwell();
    engine.options.split = Split::Every { keys: 128 };
    assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
}

#[test]
fn whatever_the_order_of_events() {
    for row_blocks in [RowBlocks::One, RowBlocks::Two] {
        for mode in ["latest", "adversarial"] {
            let mut engine = blackwell();
            engine.options.row_blocks = row_blocks;
            engine.simulator = sim::Options::mode(mode, 0).expect("a mode");
            assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
        }
    }
}

#[test]
fn twenty_random_orders() {
    const CASES: &[&str] = &["tokens-300", "seed-d128-t128-s512", "dim-512"];
    for seed in 0..20 {
        for row_blocks in [RowBlocks::One, RowBlocks::Two] {
            let mut engine = blackwell();
            engine.options.row_blocks = row_blocks;
            engine.simulator = sim::Options::mode("random", seed).expect("a mode");
            assert_eq!(run_table(&mut engine, named(CASES), &DECLINED), CASES.len());
        }
    }
}

/// Bytes that copies bring for 512 keys with a row of queries, values being `dim` columns of the keys or
/// rows of their own.
fn bytes_copied(row_blocks: RowBlocks, key_dim: u64, dim: u64, same: bool) -> u64 {
    let view = |tokens, dim| View::bshd(DType::Bf16, [1, 1, tokens, dim]);
    let keys = view(512, key_dim);
    let segment =
        if same { Segment::shared(keys, dim) } else { Segment::new(keys, view(512, dim)) };
    let problem = Problem::builder(view(1, key_dim)).segment(segment).build().expect("valid");
    let mut engine = blackwell();
    engine.options.row_blocks = row_blocks;
    engine.options.split = Split::Never;
    let program = plan(&problem, engine.arch, &engine.options).expect("supported").program;
    let memory: Vec<_> = program.buffers.iter().map(|b| vec![0; b.bytes as usize]).collect();
    let options = sim::Options { checks: false, ..Default::default() };
    sim::run(&program, &memory, &options).expect("runs").counters.copied
}

#[test]
fn keys_that_are_values_are_copied_once() {
    for row_blocks in [RowBlocks::One, RowBlocks::Two] {
        for (key_dim, value_dim) in [(64, 64), (128, 128), (192, 128), (256, 256)] {
            let copied = |same| bytes_copied(row_blocks, key_dim, value_dim, same);
            assert_eq!(copied(false) - copied(true), 512 * value_dim * 2, "{key_dim}/{value_dim}");
        }
    }
}

/// By the simulator's cost model, at head dim 128 without a mask over 4096 keys.
#[test]
fn long_prefill_keeps_the_tensor_unit_busy() {
    let view = |tokens| View::bshd(DType::Bf16, [1, 1, tokens, 128]);
    let segment = Segment::new(view(4096), view(4096));
    let problem = Problem::builder(view(256)).segment(segment).build().expect("a valid problem");
    let mut engine = blackwell();
    engine.options.row_blocks = RowBlocks::Two;
    engine.options.split = Split::Never;
    let program = plan(&problem, engine.arch, &engine.options).expect("supported").program;
    let memory: Vec<_> = program.buffers.iter().map(|b| vec![0x3f; b.bytes as usize]).collect();
    let options = sim::Options { checks: false, ..Default::default() };
    let counters = sim::run(&program, &memory, &options).expect("runs").counters;
    let busy = counters.tensor_busy as f64 / counters.cycles as f64;
    assert!(busy >= 0.7, "{busy}");
}

//! A few rows of `docs/h200/h200.json` on the model, so that no change of the simulator or of the table of constants
//! moves predictions unseen. The whole table is in `docs/model-of-time.md`.

use kernels::{Arch, PlanOptions, plan};
use problem::{DType, Problem, Segment, View};
use sixwarp_time::{H200, Prediction, predict, sample};

/// 128 heads on one KV head, as the suite `mqa` has it.
fn mqa(dim: u64, queries: u64, keys: u64) -> Problem {
    let view = |heads, tokens| View::bhsd(DType::Bf16, [1, heads, tokens, dim]);
    let segment = Segment::new(view(1, keys), view(1, keys));
    Problem::builder(view(128, queries)).segment(segment).build().expect("a valid problem")
}

fn predicted(problem: &Problem) -> Prediction {
    let program =
        plan(problem, Arch::Sm90, &PlanOptions::for_arch(Arch::Sm90)).expect("planned").program;
    let small = |i: usize| (0x3c00 + (i * 37 % 0x380) as u16).to_le_bytes();
    let pattern: Vec<u8> = (0..4096).flat_map(small).collect();
    let contents = |bytes: u64| pattern.iter().copied().cycle().take(bytes as usize).collect();
    let memory: Vec<Vec<u8>> =
        program.buffers.iter().map(|buffer| contents(buffer.bytes)).collect();
    let clusters = program.launches.iter().flat_map(sample).collect();
    let options = sim::Options { checks: false, record: true, clusters, ..Default::default() };
    let report = sim::run(&program, &memory, &options).expect("runs");
    predict(&H200, &program, &report.recordings, 1.0)
}

#[test]
fn short_rows_are_near_what_was_measured() {
    for (dim, queries, keys, measured) in [
        (64, 1, 256, 3.44),
        (64, 128, 128, 4.15),
        (128, 4, 256, 4.45),
        (128, 32, 384, 5.32),
        (256, 1, 256, 6.35),
        (512, 1, 128, 6.99),
    ] {
        let us = predicted(&mqa(dim, queries, keys)).microseconds;
        let error = us / measured - 1.0;
        assert!(error.abs() < 0.15, "d{dim} T{queries} s{keys}: {us:.2} us, measured {measured}");
    }
}

#[test]
fn a_short_row_is_bounded_by_its_chain_of_steps() {
    let prediction = predicted(&mqa(64, 1, 256));
    let launch = prediction.longest().expect("a launch");
    assert_eq!(launch.bound.to_string(), "chain of steps");
    assert!(launch.tensor < 0.5 && launch.idle > 0.9, "{launch:?}");
}

//! How busy the tensor unit is, by the simulator's cost model: the schedules of one CTA, 4096 keys.
//! (Clusters are left out: the model has one clock for all their tensor units.)
//!
//! `cargo run --release -p sixwarp-kernels --example busy`

use problem::{DType, Problem, Segment, View};
use sixwarp_kernels::{Arch, PlanOptions, RowBlocks, plan};

fn dense(dim: u64, queries: u64) -> Problem {
    let view = |tokens| View::bshd(DType::Bf16, [1, 1, tokens, dim]);
    let segment = Segment::new(view(4096), view(4096));
    Problem::builder(view(queries)).segment(segment).build().expect("a valid problem")
}

/// Cycles of the special-function units: 16 results per cycle and multiprocessor.
fn mufu_cycles(report: &sim::Report) -> f64 {
    report.counters.mufu as f64 / 16.0
}

fn main() {
    println!("{:8} {:>5} {:>9} {:>7} {:>7}  schedule", "arch", "dim", "cycles", "tensor", "ex2");
    for (arch, row_blocks, queries) in [
        (Arch::Sm90, RowBlocks::Auto, 128),
        (Arch::Sm100, RowBlocks::One, 128),
        (Arch::Sm100, RowBlocks::Two, 256),
    ] {
        for dim in [64, 128, 192, 256] {
            let options = PlanOptions {
                processors: 2,
                row_blocks,
                split: sixwarp_kernels::Split::Never,
                ..PlanOptions::for_arch(arch)
            };
            let planned = plan(&dense(dim, queries), arch, &options).expect("supported");
            let memory: Vec<Vec<u8>> =
                planned.program.buffers.iter().map(|b| vec![0x3f; b.bytes as usize]).collect();
            let simulator = sim::Options { checks: false, trace: true, ..Default::default() };
            let report = sim::run(&planned.program, &memory, &simulator).expect("runs");
            let cycles = report.counters.cycles as f64;
            let percent = |part: f64| 100.0 * part / cycles;
            let tensor = percent(report.counters.tensor_busy as f64);
            let ex2 = percent(mufu_cycles(&report));
            let name = arch.to_string();
            println!("{name:8} {dim:5} {cycles:9.0} {tensor:6.1}% {ex2:6.1}%  {}", planned.summary);
        }
    }
}

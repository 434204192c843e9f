//! How busy the tensor unit is, by the simulator's cost model, and what bounds each schedule: 4096
//! keys, no mask, a single tile of queries. Prints the table of `docs/blackwell.md`.
//!
//! `cargo run --release -p sixwarp-kernels --example busy`

use problem::{DType, Problem, Segment, View};
use sim::{Row, Trace};
use sixwarp_kernels::{Arch, PlanOptions, RowBlocks, Split, plan};

const KEYS: u64 = 4096;
/// From this share of the time on, a unit is what the kernel waits for.
const BOUND: f64 = 90.0;

/// A schedule at a head dim.
struct Run {
    row_blocks: RowBlocks,
    /// Rows of one tile of queries.
    queries: u64,
    /// CTAs that work on it.
    ctas: f64,
    /// Warps of a CTA that take the softmax.
    softmax_warps: u32,
    schedule: &'static str,
}

const SIX_WARPS: Run = Run {
    row_blocks: RowBlocks::One,
    queries: 128,
    ctas: 1.0,
    softmax_warps: 4,
    schedule: "six warps",
};
const SIXTEEN_WARPS: Run = Run {
    row_blocks: RowBlocks::Two,
    queries: 256,
    softmax_warps: 8,
    schedule: "sixteen warps",
    ..SIX_WARPS
};
const PAIR: Run = Run { row_blocks: RowBlocks::Auto, ctas: 2.0, schedule: "CTA pair", ..SIX_WARPS };

fn dense(key_dim: u64, value_dim: u64, queries: u64) -> Problem {
    let view = |tokens, dim| View::bshd(DType::Bf16, [1, 1, tokens, dim]);
    let segment = Segment::new(view(KEYS, key_dim), view(KEYS, value_dim));
    Problem::builder(view(queries, key_dim)).segment(segment).build().expect("a valid problem")
}

/// Cycles in which `is_one` of the trace's rows does something.
fn busy(trace: &Trace, is_one: impl Fn(Row) -> bool) -> f64 {
    let working = |slice: &&sim::Slice| is_one(slice.row) && !slice.name.starts_with("wait");
    trace.slices.iter().filter(working).map(|slice| slice.end - slice.start).sum::<u64>() as f64
}

/// Shares of the time, in percent: tensor unit, special functions, copies, softmax warps.
fn shares(run: &Run, report: &sim::Report) -> [f64; 4] {
    let trace = report.trace.as_ref().expect("a trace");
    let is_softmax = |row| matches!(row, Row::Warp(warp) if warp < run.softmax_warps);
    let cycles = report.counters.cycles as f64;
    [
        report.counters.tensor_busy as f64,
        report.counters.mufu as f64 / 16.0 / run.ctas,
        busy(trace, |row| row == Row::Copy) / run.ctas,
        busy(trace, is_softmax) / f64::from(run.softmax_warps) / run.ctas,
    ]
    .map(|busy| 100.0 * busy / cycles)
}

/// What the kernel waits for.
fn bound([tensor, _, copies, softmax]: [f64; 4]) -> String {
    let units = [(tensor, "products"), (copies, "copies"), (softmax, "softmax warps")];
    let busy: Vec<&str> =
        units.into_iter().filter(|unit| unit.0 >= BOUND).map(|unit| unit.1).collect();
    if busy.is_empty() { "the chain scores, softmax, product".into() } else { busy.join(", ") }
}

fn print(run: &Run, key_dim: u64, value_dim: u64) {
    let options = PlanOptions {
        processors: 2,
        row_blocks: run.row_blocks,
        split: Split::Never,
        ..PlanOptions::for_arch(Arch::Sm100)
    };
    let problem = dense(key_dim, value_dim, run.queries);
    let program = plan(&problem, Arch::Sm100, &options).expect("supported").program;
    let memory: Vec<Vec<u8>> =
        program.buffers.iter().map(|buffer| vec![0x3f; buffer.bytes as usize]).collect();
    let simulator = sim::Options { checks: false, trace: true, ..Default::default() };
    let report = sim::run(&program, &memory, &simulator).expect("runs");
    let shares = shares(run, &report);
    let [tensor, mufu, copies, softmax] = shares;
    println!(
        "| {} | {key_dim}/{value_dim} | {tensor:.1} % | {mufu:.1} % | {copies:.1} % | {softmax:.1} % | {} |",
        run.schedule,
        bound(shares)
    );
}

fn main() {
    println!(
        "| schedule | key/value dim | tensor unit | exponentials | copies | softmax warps | bounded by |"
    );
    println!("|---|---|---|---|---|---|---|");
    for dim in [16, 32, 64, 96, 128] {
        print(&SIX_WARPS, dim, dim);
    }
    for (key_dim, value_dim) in [(192, 128), (192, 192), (256, 256)] {
        print(&SIX_WARPS, key_dim, value_dim);
    }
    for dim in [16, 32, 64, 96, 128] {
        print(&SIXTEEN_WARPS, dim, dim);
    }
    print(&SIXTEEN_WARPS, 192, 128);
    for key_dim in [512, 576] {
        print(&PAIR, key_dim, 512);
    }
}

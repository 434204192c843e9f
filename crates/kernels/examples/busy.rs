//! How busy the tensor unit is on a B200, by the model of time, and what bounds each schedule: 4096
//! keys, no mask, a single tile of queries. Prints the table of `docs/blackwell.md`.
//!
//! `cargo run --release -p sixwarp-kernels --example busy`

use problem::{DType, Problem, Segment, View};
use sixwarp_kernels::{Arch, PlanOptions, RowBlocks, Split, plan};
use time::{B200, Replayed, Share, replay};

const KEYS: u64 = 4096;
/// From this share of the time on, a unit is what the kernel waits for.
const BOUND: f64 = 85.0;

/// A schedule at a head dim.
struct Run {
    row_blocks: RowBlocks,
    /// Rows of one tile of queries.
    queries: u64,
    schedule: &'static str,
}

const SIX_WARPS: Run = Run { row_blocks: RowBlocks::One, queries: 128, schedule: "six warps" };
const SIXTEEN_WARPS: Run =
    Run { row_blocks: RowBlocks::Two, queries: 256, schedule: "sixteen warps", ..SIX_WARPS };
const PAIR: Run = Run { row_blocks: RowBlocks::Auto, schedule: "CTA pair", ..SIX_WARPS };

fn dense(key_dim: u64, value_dim: u64, queries: u64) -> Problem {
    let view = |tokens, dim| View::bshd(DType::Bf16, [1, 1, tokens, dim]);
    let segment = Segment::new(view(KEYS, key_dim), view(KEYS, value_dim));
    Problem::builder(view(queries, key_dim)).segment(segment).build().expect("a valid problem")
}

/// Shares of the time, in percent: tensor unit, special functions, shared memory, the busiest of the units that
/// take instructions, copies.
fn shares(replayed: &Replayed) -> [f64; 5] {
    let instructions = [0, 1, 2, 4].map(|unit| replayed.partition_share(unit));
    [
        replayed.tensor / replayed.cycles,
        replayed.partition_share(3),
        replayed.shared_share(),
        instructions.into_iter().fold(0.0, f64::max),
        replayed.copies / replayed.cycles,
    ]
    .map(|share| 100.0 * share)
}

/// What the kernel waits for.
fn bound(shares: [f64; 5]) -> String {
    let names = ["products", "exponentials", "shared memory", "instructions", "copies"];
    let busy = shares.into_iter().zip(names).filter(|(share, _)| *share >= BOUND);
    let busy: Vec<&str> = busy.map(|(_, name)| name).collect();
    if busy.is_empty() { "the chain scores, softmax, product".into() } else { busy.join(", ") }
}

/// What a multiprocessor has of L2 and memory when all are at work.
fn share() -> Share {
    let per_cycle = |bytes: f64| bytes / f64::from(B200.processors) / B200.tensor_clock_ghz / 1e9;
    Share { l2: per_cycle(B200.l2_bytes), memory: per_cycle(B200.memory_bytes), misses: 0.0 }
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
    let simulator = sim::Options { checks: false, record: true, ..Default::default() };
    let report = sim::run(&program, &memory, &simulator).expect("runs");
    let recording = report.recordings.first().expect("a recording");
    let shares = shares(&replay(&B200, recording, share(), false));
    let cells = shares.map(|share| format!("{share:.0} %")).join(" | ");
    println!("| {} | {key_dim}/{value_dim} | {cells} | {} |", run.schedule, bound(shares));
}

fn main() {
    println!(
        "| schedule | key/value dim | tensor unit | exponentials | shared memory | instructions | copies | bounded by |"
    );
    println!("|---|---|---|---|---|---|---|---|");
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

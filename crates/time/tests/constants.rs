//! Loops of one kind of instruction, run on the simulator and replayed: the model gives its own constants back. The
//! same files measure the constants on a GPU.

use program::{Access, Argument, Buffer, BufferId, Launch, Program};
use sim::record::Recording;
use sixwarp_time::{H200, Share, replay};

const SHARE: Share = Share { l2: 32.0, memory: 20.0, misses: 0.0 };

/// Runs a microbenchmark with some warps, and records it.
fn record(name: &str, warps: u32, buffers: usize) -> Recording {
    let text = sixwarp_time::microbenchmark(name).expect("a microbenchmark");
    let module = ptx::parse(text).unwrap_or_else(|error| panic!("{name}.ptx: {error}"));
    let buffer = |i: usize| Buffer::new(format!("b{i}"), 1 << 16, 256, Access::ReadWrite);
    let launch = Launch {
        kernel: name.into(),
        grid: [1; 3],
        block: [32 * warps, 1, 1],
        cluster: [1; 3],
        shared_bytes: 0,
        args: (0..buffers).map(|i| Argument::Buffer(BufferId(i), 0)).collect(),
        overlaps_previous: false,
    };
    let program = Program {
        module: module.into(),
        buffers: (0..buffers).map(buffer).collect(),
        launches: vec![launch],
    };
    let memory = vec![vec![0; 1 << 16]; buffers];
    let options = sim::Options { record: true, ..Default::default() };
    let report = sim::run(&program, &memory, &options).unwrap_or_else(|error| panic!("{error}"));
    report.recordings.into_iter().next().expect("a recording")
}

/// Cycles between the first two looks at the clock of the slowest warp, per instruction of the loop.
fn per_instruction(name: &str, warps: u32, instructions: f64) -> f64 {
    let replayed = replay(&H200, &record(name, warps, 1), SHARE, false);
    let between = |stamps: &Vec<f64>| stamps[1] - stamps[0];
    replayed.clocks.iter().map(between).fold(0.0, f64::max) / instructions
}

fn near(what: &str, found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 0.1, "{what}: {found:.2}, the table has {wanted:.2}");
}

/// Instructions of each loop, in all its rounds.
const LOOP: f64 = 1024.0;

#[test]
fn one_warp_gets_the_rate_of_its_partition() {
    near("mufu", per_instruction("mufu", 1, LOOP), H200.mufu);
    near("fma", per_instruction("fma", 1, LOOP), H200.fma);
    near("alu", per_instruction("alu", 1, LOOP), H200.alu);
}

#[test]
fn warps_of_one_partition_share_it_and_those_of_others_do_not() {
    near("four warps", per_instruction("mufu", 4, LOOP), H200.mufu);
    near("eight warps", per_instruction("mufu", 8, LOOP), 2.0 * H200.mufu);
    near("eight warps", per_instruction("fma", 8, LOOP), 2.0 * H200.fma);
}

#[test]
fn shared_memory_is_shared_by_all_warps() {
    // 512 bytes of each load at 128 bytes per cycle.
    near("one warp", per_instruction("shared", 1, LOOP), 4.0);
    near("eight warps", per_instruction("shared", 8, LOOP), 8.0 * 4.0);
}

#[test]
fn products_go_at_the_rate_of_tensor_cores_or_of_shared_memory() {
    for (name, columns, registers) in [
        ("wgmma_ss_64", 64.0, false),
        ("wgmma_ss_128", 128.0, false),
        ("wgmma_rs_256", 256.0, true),
    ] {
        let multiply = 2.0 * 64.0 * columns * 16.0 / H200.tensor_flops;
        let rows = columns + if registers { 0.0 } else { 64.0 };
        let read = rows * 32.0 / H200.shared_bytes;
        // Rounds of 16 products, each with a wait at its end.
        let wanted = multiply.max(read) + H200.product_latency / 16.0;
        near(name, per_instruction(name, 4, 128.0), wanted);
    }
}

#[test]
fn a_signal_between_warps_takes_the_latency_of_an_mbarrier() {
    let replayed = replay(&H200, &record("mbarrier", 2, 1), SHARE, false);
    let trip = (replayed.clocks[0][1] - replayed.clocks[0][0]) / 16.0;
    let least = 2.0 * H200.mbarrier_latency;
    assert!(trip >= least && trip < 1.5 * least, "{trip:.1} cycles of at least {least:.1}");
}

#[test]
fn a_copy_takes_its_latency_and_its_bytes() {
    let replayed = replay(&H200, &record("copy", 1, 2), SHARE, false);
    let stamps = &replayed.clocks[0];
    let one = stamps[1] - stamps[0];
    let bytes = 16384.0 / SHARE.l2;
    let wanted = H200.copy_latency + bytes + H200.mbarrier_latency;
    near("a copy of 16 KiB", one, wanted);
}

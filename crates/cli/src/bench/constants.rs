//! `sixwarp bench --constants`: the microbenchmarks of `time` on a GPU beside what the model of time says of
//! them, or on the model alone.

use crate::{Outcome, output};
use cuda::{Device, DeviceBuffer, Samples};
use program::{
    Access, Argument, Buffer, BufferId, ElementType, L2Promotion, Launch, OobFill, Program,
    Swizzle, TensorMap,
};
use serde::Serialize;
use sixwarp::{Arch, DeviceName};
use std::path::Path;
use time::{H200, Share, replay};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A microbenchmark and what it is about.
struct Bench {
    kernel: &'static str,
    /// Entry of the table of constants.
    constant: &'static str,
    warps: u32,
    /// What is timed, in units of the constant.
    times: f64,
    /// A number that the kernel takes, if it takes one.
    number: Option<u32>,
}

const fn bench(kernel: &'static str, constant: &'static str, warps: u32, times: f64) -> Bench {
    Bench { kernel, constant, warps, times, number: None }
}

/// Tensor copies, of which the last is timed.
const fn tensor_copies(constant: &'static str, rounds: u32) -> Bench {
    Bench { kernel: "copy_tensor", constant, warps: 1, times: 1.0, number: Some(rounds) }
}

/// Loops on one multiprocessor. `shared` with eight warps and products of four have units of their own rates.
const BENCHES: [Bench; 23] = [
    bench("mufu", "mufu, 1 warp", 1, 1024.0),
    bench("mufu", "mufu, 2 warps of a partition", 8, 1024.0),
    bench("fma", "fma, 1 warp", 1, 1024.0),
    bench("fma", "fma, 2 warps of a partition", 8, 1024.0),
    bench("alu", "alu, 1 warp", 1, 1024.0),
    bench("alu", "alu, 2 warps of a partition", 8, 1024.0),
    bench("convert", "convert, 1 warp", 1, 1024.0),
    bench("convert", "convert, 2 warps of a partition", 8, 1024.0),
    bench("shared", "shared memory, 512 bytes, 8 warps", 8, 8192.0),
    bench("mbarrier", "mbarrier, one way", 2, 32.0),
    bench("softmax", "softmax of 64 scores per lane, 1 warp", 1, 16.0),
    bench("softmax", "softmax of 64 scores per lane, 2 warps of a partition", 8, 16.0),
    bench("softmax", "softmax of 64 scores per lane, 3 warps of a partition", 12, 16.0),
    bench("copy", "copy of 16 KiB", 1, 1.0),
    bench("copy_small", "copy of 2 KiB", 1, 1.0),
    tensor_copies("first tensor copy of 16 KiB", 1),
    tensor_copies("third tensor copy of 16 KiB", 3),
    bench("wgmma_ss_64", "product of 64 columns, A from shared memory", 4, 128.0),
    bench("wgmma_ss_128", "product of 128 columns, A from shared memory", 4, 128.0),
    bench("wgmma_ss_256", "product of 256 columns, A from shared memory", 4, 128.0),
    bench("wgmma_rs_64", "product of 64 columns, A from registers", 4, 128.0),
    bench("wgmma_rs_128", "product of 128 columns, A from registers", 4, 128.0),
    bench("wgmma_rs_256", "product of 256 columns, A from registers", 4, 128.0),
];

/// Both values of a constant.
#[derive(Serialize)]
struct Constant {
    name: String,
    /// Cycles, unless the name says otherwise.
    model: f64,
    measured: Option<f64>,
}

/// Bytes of each buffer of a loop.
const BYTES: u64 = 1 << 16;

/// Runs everything, prints a table, and writes it as JSON.
pub fn run(device: DeviceName, json: &Path) -> Outcome {
    let gpu = match device {
        DeviceName::Cuda(ordinal) => Some(Device::open(ordinal)?),
        DeviceName::Simulated(Arch::Sm90) => None,
        other => return Err(format!("{other} has no such constants: cuda[:n] or sim-sm90").into()),
    };
    let mut constants = Vec::new();
    for bench in &BENCHES {
        let number: Vec<u32> = bench.number.into_iter().collect();
        let program = program(bench.kernel, bench.warps, 1, &number)?;
        let model = modelled(&program)? / bench.times;
        let measured = match &gpu {
            Some(gpu) => Some(measured(gpu, &program)? / bench.times),
            None => None,
        };
        constants.push(Constant { name: bench.constant.to_string(), model, measured });
    }
    constants.extend(whole_chip(gpu.as_ref())?);
    let mut text = format!("{:48} {:>12} {:>12}\n", "constant", "model", "measured");
    for constant in &constants {
        let measured = constant.measured.map_or("-".to_string(), |value| format!("{value:.2}"));
        text += &format!("{:48} {:12.2} {measured:>12}\n", constant.name, constant.model);
    }
    files::write(json, serde_json::to_string_pretty(&constants)? + "\n")?;
    output::print(&text)
}

/// A program of one launch whose first arguments are buffers.
fn program(kernel: &str, warps: u32, ctas: u32, numbers: &[u32]) -> Result<Program> {
    let text = time::microbenchmark(kernel).ok_or_else(|| format!("no microbenchmark {kernel}"))?;
    let module = ptx::parse(text).map_err(|error| format!("{kernel}.ptx: {error}"))?;
    let pointers = text.matches(".param .u64").count();
    let map = text.contains("_map[128]").then(|| Argument::TensorMap(tile(BufferId(pointers))));
    let parameters = pointers + usize::from(map.is_some());
    let buffer = |i: usize| Buffer::new(format!("buffer{i}"), BYTES, 256, Access::ReadWrite);
    let pointers = (0..pointers).map(|i| Argument::Buffer(BufferId(i), 0));
    let numbers = numbers.iter().map(|number| Argument::U32(*number));
    let launch = Launch {
        kernel: kernel.into(),
        grid: [ctas, 1, 1],
        block: [32 * warps, 1, 1],
        cluster: [1; 3],
        shared_bytes: 0,
        args: pointers.chain(map).chain(numbers).collect(),
        overlaps_previous: false,
    };
    let buffers = (0..parameters).map(buffer).collect();
    Ok(Program { module: module.into(), buffers, launches: vec![launch] })
}

/// A tile of 128 rows of 64 elements of 16 bits.
fn tile(buffer: BufferId) -> TensorMap {
    TensorMap {
        buffer,
        offset: 0,
        element: ElementType::Bf16,
        dims: vec![64, 128],
        strides: vec![128],
        box_dims: vec![64, 128],
        element_strides: vec![1, 1],
        im2col: None,
        swizzle: Swizzle::B128,
        oob_fill: OobFill::Zero,
        l2_promotion: L2Promotion::None,
    }
}

/// Cycles between the two looks at the clock, by the model: of the slowest warp.
fn modelled(program: &Program) -> Result<f64> {
    let memory: Vec<Vec<u8>> =
        program.buffers.iter().map(|buffer| vec![0; buffer.bytes as usize]).collect();
    let options = sim::Options { checks: false, record: true, ..sim::Options::default() };
    let report = sim::run(program, &memory, &options)?;
    let recording = report.recordings.first().ok_or("the simulator recorded nothing")?;
    let share = Share { l2: H200.link_bytes, memory: H200.link_bytes, misses: 0.0 };
    let replayed = replay(&H200, recording, share, false);
    let between = |stamps: &Vec<f64>| stamps.get(1).map_or(0.0, |end| end - stamps[0]);
    Ok(replayed.clocks.iter().map(between).fold(0.0, f64::max))
}

/// The same on a GPU, the second time.
fn measured(gpu: &Device, program: &Program) -> Result<f64> {
    let mut memory = program.buffers.iter().map(|buffer| buffer.bytes as usize);
    let memory: Vec<DeviceBuffer> =
        memory.try_fold(Vec::new(), |mut all, bytes| -> Result<Vec<DeviceBuffer>> {
            all.push(gpu.upload(&vec![0; bytes])?);
            Ok(all)
        })?;
    let pointers: Vec<_> = memory.iter().map(DeviceBuffer::pointer).collect();
    let loaded = gpu.load(program)?;
    let stream = gpu.new_stream()?;
    for _ in 0..2 {
        loaded.launch(&stream, &pointers)?;
    }
    stream.synchronize()?;
    let bytes = memory[0].read()?;
    let (stamps, _) = bytes.as_chunks::<16>();
    let first =
        |stamp: &[u8; 16]| stamp.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
    let threads = program.launches[0].block[0] as usize;
    Ok(stamps.iter().take(threads).map(first).max().unwrap_or(0) as f64)
}

/// Tiles of 16 KiB that each CTA copies.
const ROUNDS: u32 = 2048;
/// Tiles of the buffers that fit L2, and that do not.
const TILES: [(&str, u32); 2] = [("L2, TB/s", 1024), ("memory, TB/s", 1 << 18)];

/// What all multiprocessors do together: launches and bandwidth.
fn whole_chip(gpu: Option<&Device>) -> Result<Vec<Constant>> {
    let empty = program("empty", 1, H200.processors, &[])?;
    let launch = gpu.map(|gpu| graph(gpu, &empty)).transpose()?;
    let name = "launch of an empty kernel in a graph, us".to_string();
    let mut constants = vec![Constant { name, model: H200.launch_us, measured: launch }];
    for ((name, tiles), model) in TILES.into_iter().zip([H200.l2_bytes, H200.memory_bytes]) {
        let mut program = program("stream", 1, H200.processors, &[tiles, ROUNDS])?;
        program.buffers[1].bytes = u64::from(tiles) << 14;
        let bytes = f64::from(H200.processors) * f64::from(ROUNDS) * 16384.0;
        let measured = gpu.map(|gpu| graph(gpu, &program)).transpose()?;
        let measured = measured.map(|us| bytes / us / 1e6);
        constants.push(Constant { name: name.to_string(), model: model / 1e12, measured });
    }
    Ok(constants)
}

/// Microseconds of a launch in a graph of many.
fn graph(gpu: &Device, program: &Program) -> Result<f64> {
    let mut memory = Vec::new();
    for buffer in &program.buffers {
        memory.push(gpu.alloc(buffer.bytes as usize)?);
    }
    let pointers: Vec<_> = memory.iter().map(DeviceBuffer::pointer).collect();
    let bound = gpu.load(program)?.bind(&pointers)?;
    let stream = gpu.new_stream()?;
    Ok(Samples::of_graph(&stream, &bound, 20, 7)?.median())
}

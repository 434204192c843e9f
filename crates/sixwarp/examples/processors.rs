//! Whether processors finish together on a batch of single tokens and prefills: the times at which warps begin and
//! end, from the GPU's own clock. `cargo run --release -p sixwarp --example processors -- [cuda | sim-sm90] [rows of a
//! page] [KV tiles of a share from which on the last part goes to those that are done first]`; without a name it is the
//! GPU, or the simulator, with a small batch, if there is none.
//!
//! Prints how long the launch took from the first warp's begin to the last one's end, the share of that time in
//! which processors had nothing to do, and when each CTA ended.

use cases::{Case, CaseData};
use kernels::{Arch, PlanOptions};
use problem::Problem;
use program::Program;
use std::error::Error;

/// Launches on a GPU; the last one is looked at.
const LAUNCHES: usize = 20;
/// Warps of a CTA that `stamps` has room for.
const WARPS: usize = 16;
/// Processors of the simulated GPU.
const SIMULATED: u32 = 8;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next();
    let page = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let tail_from = arguments.next().map(|text| text.parse()).transpose()?;
    match device.as_deref() {
        Some("sim-sm90") => simulate(page, tail_from).map(|ends| report(&ends)),
        Some("cuda") => measure(&cuda::Device::open(0)?, page, tail_from),
        Some(other) => Err(format!("the device is cuda or sim-sm90, not {other}").into()),
        None => match cuda::Device::open(0) {
            Ok(device) => measure(&device, page, tail_from),
            Err(why) => {
                println!("on the simulator: {why}");
                simulate(page, tail_from).map(|ends| report(&ends))
            }
        },
    }
}

/// 30 decodes on 500 to 6000 keys, a prefill of 512 tokens on 4000 and one of 1536; or as much less as `less` says.
fn mixed(page: u64, less: u64) -> Result<Case, Box<dyn Error>> {
    let decodes = 30 / less.isqrt();
    let length = |n: u64| (500 + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 5500) / less;
    let mut queries = vec![1; decodes as usize];
    let mut keys: Vec<u64> = (1..=decodes).map(length).collect();
    queries.extend([512 / less, 1536 / less]);
    keys.extend([4000 / less, 1536 / less]);
    let text = format!(
        "[[case]]\nname = \"mixed\"\nheads = 32\nkv_heads = 8\ndim = 128\nqueries = {queries:?}\nkeys = {keys:?}\n\
         mask = \"causal\"\nlayout = \"paged\"\npage = {page}\n"
    );
    Ok(cases::parse(&text)?.remove(0))
}

/// A program and what its buffers hold.
type Ready = (Program, Vec<Vec<u8>>);

/// The program of a batch on so many processors.
fn planned(case: &Case, processors: u32, tail_from: Option<u32>) -> Result<Ready, Box<dyn Error>> {
    let data = CaseData::new(case)?;
    let problem = &data.problem;
    let usual = PlanOptions::for_arch(Arch::Sm90);
    let options = PlanOptions { processors, stamps: true, tail_from, ..usual };
    let program = kernels::plan(problem, Arch::Sm90, &options)?.program;
    let memory = program.buffers.iter().map(|buffer| contents(problem, &data, buffer)).collect();
    Ok((program, memory))
}

fn contents(problem: &Problem, data: &CaseData, buffer: &program::Buffer) -> Vec<u8> {
    let slots = problem.slots();
    let slot = slots.iter().find(|slot| slot.to_string() == buffer.name);
    slot.map_or_else(|| vec![0; buffer.bytes as usize], |slot| data.bytes(*slot))
}

/// Runs the batch on a GPU.
fn measure(device: &cuda::Device, page: u64, tail_from: Option<u32>) -> Result<(), Box<dyn Error>> {
    let (program, memory) = planned(&mixed(page, 1)?, device.info().sm_count, tail_from)?;
    let uploaded: Result<Vec<_>, _> = memory.iter().map(|bytes| device.upload(bytes)).collect();
    let buffers = uploaded?;
    let pointers: Vec<_> = buffers.iter().map(cuda::DeviceBuffer::pointer).collect();
    let (loaded, stream) = (device.load(&program)?, device.default_stream());
    for _ in 0..LAUNCHES {
        loaded.launch(&stream, &pointers)?;
    }
    stream.synchronize()?;
    let stamps = program.buffer("stamps").ok_or("work is not shared out by lengths")?;
    report(&ends(&buffers[stamps.0].read()?));
    Ok(())
}

/// Runs a small batch on the simulator, whose clock is its model of time; when each CTA ended.
pub fn simulate(page: u64, tail_from: Option<u32>) -> Result<Vec<f64>, Box<dyn Error>> {
    let (program, memory) = planned(&mixed(page, 16)?, SIMULATED, tail_from)?;
    let outcome = sim::run(&program, &memory, &sim::Options::default())?;
    let stamps = program.buffer("stamps").ok_or("work is not shared out by lengths")?;
    Ok(ends(&outcome.buffers[stamps.0]))
}

/// When each CTA's last warp ended, in microseconds since the first warp of all began. Warps that write no rows leave
/// no times: what was there before is 0, or all ones on the simulator.
fn ends(stamps: &[u8]) -> Vec<f64> {
    let times: Vec<u64> =
        stamps.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let left = |time: &&u64| **time > 0 && **time < u64::MAX;
    let first = times.iter().step_by(2).filter(left).min().copied().unwrap_or(0);
    let last = |cta: &[u64]| cta.iter().skip(1).step_by(2).filter(left).max().copied();
    let end = |cta| last(cta).unwrap_or(first).saturating_sub(first) as f64 / 1000.0;
    times.chunks(2 * WARPS).map(end).collect()
}

fn report(ends: &[f64]) {
    let whole = ends.iter().copied().fold(0.0, f64::max);
    let busy = ends.iter().sum::<f64>() / (whole * ends.len() as f64);
    println!("{whole:.1} us, idle {:.1} %", 100.0 * (1.0 - busy));
    for (n, row) in ends.chunks(12).enumerate() {
        let row: Vec<String> = row.iter().map(|end| format!("{end:6.1}")).collect();
        println!("{:4} {}", n * 12, row.join(" "));
    }
}

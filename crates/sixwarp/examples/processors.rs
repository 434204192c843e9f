//! Whether processors finish together on a batch of single tokens and prefills: the times at which warps begin and
//! end, from the GPU's own clock. `cargo run --release -p sixwarp --example processors -- [rows of a page]`
//!
//! Prints how long the launch took from the first warp's begin to the last one's end, the share of that time in
//! which processors had nothing to do, and when each CTA ended.

use kernels::{Arch, PlanOptions};
use std::error::Error;

/// Launches; the last one is looked at.
const LAUNCHES: usize = 20;
/// Warps of a CTA that `stamps` has room for.
const WARPS: usize = 16;
/// Sequences that decode one token.
const DECODES: u64 = 30;

/// 30 decodes on 500 to 6000 keys, a prefill of 512 tokens on 4000, and one of 1536.
fn mixed(page: u64) -> Result<cases::Case, Box<dyn Error>> {
    let length = |n: u64| 500 + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 5500;
    let mut queries = vec![1; DECODES as usize];
    let mut keys: Vec<u64> = (1..=DECODES).map(length).collect();
    queries.extend([512, 1536]);
    keys.extend([4000, 1536]);
    let text = format!(
        "[[case]]\nname = \"mixed\"\nheads = 32\nkv_heads = 8\ndim = 128\nqueries = {queries:?}\nkeys = {keys:?}\n\
         mask = \"causal\"\nlayout = \"paged\"\npage = {page}\n"
    );
    Ok(cases::parse(&text)?.remove(0))
}

fn main() -> Result<(), Box<dyn Error>> {
    let page = std::env::args().nth(1).map_or(Ok(64), |text| text.parse())?;
    let case = mixed(page)?;
    let (problem, data) = (case.problem()?, cases::CaseData::new(&case)?);
    let device = cuda::Device::open(0)?;
    let options = PlanOptions {
        processors: device.info().sm_count,
        stamps: true,
        ..PlanOptions::for_arch(Arch::Sm90)
    };
    let program = kernels::plan(&problem, Arch::Sm90, &options)?.program;
    let slots = problem.slots();
    let mut buffers = Vec::new();
    for buffer in &program.buffers {
        let slot = slots.iter().find(|slot| slot.to_string() == buffer.name);
        let zeros = || vec![0; buffer.bytes as usize];
        buffers.push(device.upload(&slot.map_or_else(zeros, |slot| data.bytes(*slot)))?);
    }
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

/// When each CTA's last warp ended, in microseconds since the first warp of all began.
fn ends(stamps: &[u8]) -> Vec<f64> {
    let times: Vec<u64> =
        stamps.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let begins = times.iter().step_by(2).filter(|time| **time > 0);
    let first = begins.min().copied().unwrap_or(0);
    let last = |cta: &[u64]| cta.iter().skip(1).step_by(2).max().copied().unwrap_or(0);
    times.chunks(2 * WARPS).map(|cta| last(cta).saturating_sub(first) as f64 / 1000.0).collect()
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

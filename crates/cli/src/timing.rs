//! How long a plan takes: replays of a CUDA graph on a GPU, the wall clock elsewhere.

use cases::{CaseData, Rng};
use cuda::{CubinCache, Device, DeviceBuffer, Samples};
use half::{bf16, f16};
use program::{Access, Program};
use sixwarp::{DType, E4m3, MaskElement, Plan, Problem, Segment, Slot, Storage};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Launches in one graph: enough that the replay's own cost is lost among them.
const LAUNCHES: usize = 20;
/// Rows between neighbouring entries of a list: a prime, so that they meet all rows.
const FAR_APART: u64 = 7919;
/// A byte that is a small number wherever it stands in an fp8 row.
const FP8_BYTE: u8 = 0x39;
/// Elements of the pattern that large tensors repeat.
const PATTERN: usize = 1 << 20;

/// The median of `repeat` timings of `work`, in microseconds, after one that is not counted.
pub fn on_host<R, E: std::error::Error + 'static>(
    repeat: usize,
    mut work: impl FnMut() -> std::result::Result<R, E>,
) -> Result<f64> {
    work()?;
    let mut times = Vec::new();
    for _ in 0..repeat.max(1) {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// The median time of one launch of the plan, in microseconds, on `data` or else on random inputs.
pub fn on_gpu(ordinal: u32, plan: &Plan, data: Option<&CaseData>, samples: usize) -> Result<f64> {
    let program = plan.program().ok_or("the device runs no program")?;
    let device = Device::open(ordinal)?;
    let memory = memory(&device, plan.problem(), program, data)?;
    let pointers: Vec<_> = memory.iter().map(DeviceBuffer::pointer).collect();
    let bound = device.load(program)?.bind(&pointers)?;
    let stream = device.new_stream()?;
    Ok(Samples::of_graph(&stream, &bound, LAUNCHES, samples)?.median())
}

/// How long a program takes to load: compiled anew, and from the cache of machine code.
pub fn load_times(ordinal: u32, program: &Program) -> Result<(Duration, Duration)> {
    let device = Device::open(ordinal)?;
    let load = |cache| device.clone().with_cache(cache).load(program);
    let cold = load(CubinCache::none())?.load_time();
    load(CubinCache::default())?;
    Ok((cold, load(CubinCache::default())?.load_time()))
}

/// Device memory for every buffer: a repeated pattern of normal numbers for tensors.
fn memory(
    device: &Device,
    problem: &Problem,
    program: &Program,
    data: Option<&CaseData>,
) -> Result<Vec<DeviceBuffer>> {
    let pattern = pattern_of(problem.dtype());
    let contents = |slot: Slot, bytes: usize| match data {
        Some(data) => Ok(data.bytes(slot)),
        None => contents(problem, slot, bytes, &pattern),
    };
    let mut memory = Vec::new();
    for buffer in &program.buffers {
        let slot = problem.slot_named(&buffer.name);
        let bytes = buffer.bytes as usize;
        memory.push(match (buffer.access, slot) {
            (Access::Read, Some(slot)) => device.upload(&contents(slot, bytes)?)?,
            _ => device.alloc(bytes)?,
        });
    }
    Ok(memory)
}

/// The same on the host, for a simulated device.
pub fn host_memory(problem: &Problem, program: &Program) -> Result<Vec<Vec<u8>>> {
    let pattern = pattern_of(problem.dtype());
    let of_buffer = |buffer: &program::Buffer| {
        let bytes = buffer.bytes as usize;
        match (buffer.access, problem.slot_named(&buffer.name)) {
            (Access::Read, Some(slot)) => contents(problem, slot, bytes, &pattern),
            _ => Ok(vec![0; bytes]),
        }
    };
    program.buffers.iter().map(of_buffer).collect()
}

fn contents(problem: &Problem, slot: Slot, bytes: usize, pattern: &[u8]) -> Result<Vec<u8>> {
    use problem::SegmentSlot::{AttnMask, Indices, K, KDescale, V, VDescale};
    let segment = |n: u8| &problem.segments[n as usize];
    match slot {
        Slot::Segment(n, Indices) => Ok(scattered_rows(segment(n), bytes / 4)),
        Slot::Segment(n, K) if segment(n).storage != Storage::Elements => Ok(vec![FP8_BYTE; bytes]),
        Slot::Segment(n, K | V) if segment(n).is_e4m3() => {
            Ok(pattern_of(DType::E4m3).into_iter().cycle().take(bytes).collect())
        }
        Slot::Segment(_, KDescale | VDescale) => {
            Ok(1f32.to_le_bytes().into_iter().cycle().take(bytes).collect())
        }
        Slot::Q | Slot::Segment(_, K | V) => {
            Ok(pattern.iter().copied().cycle().take(bytes).collect())
        }
        Slot::Sinks => Ok(vec![0; bytes]),
        Slot::Segment(n, AttnMask) => Ok(match segment(n).attn_mask.map(|mask| mask.element) {
            // Every key is seen, and nothing added.
            Some(MaskElement::Bool) => vec![1; bytes],
            _ => vec![0; bytes],
        }),
        _ => Err(format!("{slot}: problems with lengths or pages are not timed").into()),
    }
}

/// Lists of rows that lie far apart, none of them twice in a list.
fn scattered_rows(segment: &Segment, entries: usize) -> Vec<u8> {
    let rows = if segment.paging.is_some() { segment.k.batch() } else { 1 } * segment.k.tokens();
    let row = |entry: usize| (entry as u64 * FAR_APART % rows.max(1)) as i32;
    (0..entries).flat_map(|entry| row(entry).to_le_bytes()).collect()
}

fn pattern_of(dtype: DType) -> Vec<u8> {
    let mut numbers = vec![0.0; PATTERN];
    Rng::new(1).fill_normal(&mut numbers);
    let numbers = numbers.into_iter();
    match dtype {
        DType::F64 => numbers.flat_map(|x| f64::from(x).to_le_bytes()).collect(),
        DType::F32 => numbers.flat_map(f32::to_le_bytes).collect(),
        DType::F16 => numbers.flat_map(|x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::Bf16 => numbers.flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect(),
        DType::E4m3 => numbers.map(|x| E4m3::from_f32(x).to_bits()).collect(),
    }
}

use super::{Outcome, buffer, kernels, launch, program, same, words};
use program::{Access, Argument, BufferId, Pointer, Swizzle};
use sixwarp_cuda::{Device, DeviceBuffer, Error, Graph, Samples, Stream, Timer};
use std::time::{Duration, Instant};

fn address(buffer: usize) -> Argument {
    Argument::Buffer(BufferId(buffer), 0)
}

/// The most dynamic shared memory a CTA of the device can ask for.
pub fn shared_memory(device: &Device) -> Outcome {
    let bytes = device.info().shared_bytes;
    let mut launch = launch("last_word", 1, 32, vec![address(0), Argument::U32(bytes)]);
    launch.shared_bytes = bytes;
    let program = program(kernels::LAUNCH, vec![buffer("out", 4, Access::Write)], vec![launch]);
    let mut buffers = [vec![0; 4]];
    device.run_host(&program, &mut buffers)?;
    same("the last word", &words(&buffers[0]), &[bytes])?;
    Ok(format!("{bytes} bytes"))
}

/// Clusters of 1, 2, 4 and 8 CTAs, each CTA telling its rank.
pub fn clusters(device: &Device) -> Outcome {
    let mut fits = Vec::new();
    for size in [1, 2, 4, 8] {
        let mut launch = launch("ranks", 16, 32, vec![address(0)]);
        launch.cluster = [size, 1, 1];
        let out = buffer("out", 64, Access::Write);
        let program = program(kernels::LAUNCH, vec![out], vec![launch]);
        let mut buffers = [vec![0; 64]];
        device.run_host(&program, &mut buffers)?;
        let expected: Vec<u32> = (0..16).map(|cta| cta % size + 100 * size).collect();
        same(&format!("ranks in clusters of {size}"), &words(&buffers[0]), &expected)?;
        fits.extend(device.load(&program)?.kernels()?[0].clusters);
    }
    Ok(format!("2, 4, 8 CTAs; {fits:?} fit the device"))
}

/// A launch as a capture has it: a parameter of several slots with an address in it, and one in a buffer.
pub fn captured_program() -> program::Program {
    let at = |offset, buffer, addend| Pointer { offset, buffer: BufferId(buffer), addend };
    let arguments = Argument::Bytes(vec![0; 264], vec![at(256, 0, 8)]);
    let value = Argument::Bytes(7u32.to_le_bytes().to_vec(), vec![]);
    let mut table = buffer("table", 24, Access::ReadWrite);
    table.pointers = vec![at(16, 1, 4)];
    let buffers = vec![table, buffer("out", 8, Access::ReadWrite)];
    program(kernels::LAUNCH, buffers, vec![launch("follow", 1, 1, vec![arguments, value])])
}

/// Addresses arrive inside parameters and inside memory.
pub fn captured(device: &Device) -> Outcome {
    let mut buffers = [vec![0; 24], vec![0; 8]];
    device.run_host(&captured_program(), &mut buffers)?;
    same("what the addresses lead to", &words(&buffers[1]), &[0, 7])?;
    Ok("264 bytes, and an address in memory".into())
}

const WORDS: usize = 64 * 256;

/// A chain of launches that start early and wait for their predecessor.
fn chain(length: usize) -> program::Program {
    let step = |i: usize| {
        let args = vec![address(i % 2), address((i + 1) % 2)];
        let mut launch = launch("increment", 64, 256, args);
        launch.overlaps_previous = i > 0;
        launch
    };
    let buffers =
        vec![buffer("even", 4 * WORDS, Access::Write), buffer("odd", 4 * WORDS, Access::Write)];
    program(kernels::LAUNCH, buffers, (0..length).map(step).collect())
}

/// Programmatic dependent launch keeps the order of what depends.
pub fn dependent(device: &Device) -> Outcome {
    let mut buffers = [vec![0; 4 * WORDS], vec![0xFF; 4 * WORDS]];
    device.run_host(&chain(100), &mut buffers)?;
    same("after 100 launches", &words(&buffers[0]), &vec![100; WORDS])?;
    Ok("100 launches overlapping".into())
}

/// How often something is repeated that takes `usual` times for its timing: less where times mean nothing.
fn repeats(device: &Device, usual: u32) -> u32 {
    if device.info().name.contains("simulator") { usual.div_ceil(20) } else { usual }
}

/// A recorded chain gives what it gives when launched, each time it is replayed.
pub fn graph(device: &Device) -> Outcome {
    let (mut even, odd) = (device.alloc(4 * WORDS)?, device.alloc(4 * WORDS)?);
    even.fill(0)?;
    device.default_stream().synchronize()?;
    let stream = device.new_stream()?;
    let bound = device.load(&chain(10))?.bind(&[even.pointer(), odd.pointer()])?;
    let graph = Graph::record(&stream, &[&bound, &bound])?;
    let timer = Timer::new(&stream)?;
    let replays = repeats(device, 50);
    let microseconds =
        timer.microseconds(|stream| (0..replays).try_for_each(|_| graph.launch(stream)))?;
    same("after all replays", &words(&even.read()?), &vec![20 * replays; WORDS])?;
    let samples = Samples::of_graph(&stream, &bound, 10, repeats(device, 20) as usize)?;
    let (each, median) = (microseconds / f64::from(20 * replays), samples.median() / 10.0);
    Ok(format!("{each:.2} us a launch in a graph (median of samples {median:.2})"))
}

/// What a launch costs the host, with two tensor maps among its arguments.
pub fn overhead(device: &Device) -> Outcome {
    let program = super::tma::round_trip_program(Swizzle::B128, 64, (0, 0));
    let memory = program.buffers.iter().map(|buffer| device.alloc(buffer.bytes as usize));
    let memory = memory.collect::<Result<Vec<_>, _>>()?;
    let pointers: Vec<_> = memory.iter().map(DeviceBuffer::pointer).collect();
    let loaded = device.load(&program)?;
    let bound = loaded.bind(&pointers)?;
    let stream = device.new_stream()?;
    let burst = repeats(device, 200);
    let queue_bound = each_microseconds(&stream, burst, || bound.launch(&stream))?;
    let bind_and_queue = each_microseconds(&stream, burst, || loaded.launch(&stream, &pointers))?;
    Ok(format!("{queue_bound:.2} us bound, {bind_and_queue:.2} us with binding"))
}

/// Host microseconds per call of `queue`, in bursts that the stream's queue takes without waiting.
fn each_microseconds(
    stream: &Stream,
    burst: u32,
    queue: impl Fn() -> Result<(), Error>,
) -> Result<f64, Error> {
    let mut best = f64::INFINITY;
    for _ in 0..10 {
        stream.synchronize()?;
        let start = Instant::now();
        (0..burst).try_for_each(|_| queue())?;
        best = best.min(start.elapsed().as_secs_f64() * 1e6 / f64::from(burst));
    }
    stream.synchronize()?;
    Ok(best)
}

/// A kernel that outlives the wait for it is an error, and so is everything after it.
pub fn endless(device: &Device) -> Outcome {
    let program = program(kernels::LAUNCH, vec![], vec![launch("two_seconds", 1, 32, vec![])]);
    let stream = device.new_stream()?;
    // Unloading a kernel waits for it.
    let loaded = device.load(&program)?;
    loaded.launch(&stream, &[])?;
    let timeout = stream.synchronize_within(Duration::from_millis(200));
    let after = device.alloc(16).err().map(|error| error.to_string()).unwrap_or_default();
    match timeout {
        Err(error @ Error::Timeout { .. }) if after.contains("is lost") => Ok(error.to_string()),
        other => Err(format!("{other:?}, then {after}").into()),
    }
}

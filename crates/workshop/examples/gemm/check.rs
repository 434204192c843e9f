//! Runs every variant and compares its result with the host's.

use crate::{Request, variants};
use sixwarp_workshop::gemm::{self, Shape};
use sixwarp_workshop::numbers::{bf16_bytes, product, small};

/// On the simulator, with every check it has.
pub fn simulate(request: &Request) -> Result<(), String> {
    let options = sim::Options { pedantic: true, ..sim::Options::default() };
    each(request, |program, memory| {
        let report = sim::run(program, memory, &options).map_err(|error| error.to_string())?;
        memory.clone_from_slice(&report.buffers);
        Ok(String::new())
    })
}

/// On the first GPU.
pub fn run(request: &Request) -> Result<(), String> {
    let device = cuda::Device::open(0).map_err(|error| error.to_string())?;
    let flops = 2.0
        * [request.shape.m, request.shape.n, request.shape.k]
            .map(f64::from)
            .iter()
            .product::<f64>();
    each(request, |program, memory| {
        let time = measured(&device, program, memory).map_err(|error| error.to_string())?;
        Ok(format!(", {time:.1} us, {:.0} TFLOP/s", flops / time / 1e6))
    })
}

/// Runs a program, and returns the median time of a launch in microseconds.
fn measured(
    device: &cuda::Device,
    program: &program::Program,
    memory: &mut [Vec<u8>],
) -> Result<f64, cuda::Error> {
    let buffers = memory.iter().map(|bytes| device.upload(bytes)).collect::<Result<Vec<_>, _>>()?;
    let pointers: Vec<_> = buffers.iter().map(cuda::DeviceBuffer::pointer).collect();
    let bound = device.load(program)?.bind(&pointers)?;
    let times = cuda::Samples::of_graph(&device.new_stream()?, &bound, 10, 10)?;
    buffers.iter().zip(memory).try_for_each(|(buffer, host)| buffer.read_into(host))?;
    Ok(times.median())
}

fn each(
    request: &Request,
    run: impl Fn(&program::Program, &mut [Vec<u8>]) -> Result<String, String>,
) -> Result<(), String> {
    let Shape { m, n, k } = request.shape;
    let elements = |rows: u32, columns: u32| rows as usize * columns as usize;
    let (a, b) = (small(elements(m, k), 1), small(elements(n, k), 2));
    let mut failed = 0;
    for (name, config) in variants::all() {
        let program = gemm::program(request.shape, config, request.processors)?;
        let mut memory = [bf16_bytes(&a), bf16_bytes(&b), vec![0xFF; elements(m, n) * 2]];
        let outcome = run(&program, &mut memory)
            .and_then(|note| Ok((compare(&a, &b, &memory[2], request.shape)?, note)));
        match outcome {
            Ok((count, note)) => println!("ok    {name}: {count} elements are right{note}"),
            Err(why) => {
                failed += 1;
                println!("FAIL  {name}: {why}");
            }
        }
    }
    if failed == 0 { Ok(()) } else { Err(format!("{failed} variants failed")) }
}

/// Compares some elements of `c`: all of a small matrix, and every so-manieth of a large one.
fn compare(a: &[f32], b: &[f32], c: &[u8], shape: Shape) -> Result<usize, String> {
    const MOST: usize = 1 << 16;
    let [m, n, k] = [shape.m, shape.n, shape.k].map(|size| size as usize);
    let step = (m * n / MOST).max(1) | 1;
    let places = (0..m * n).step_by(step);
    for at in places.clone() {
        let place = [at / n, at % n];
        let (got, wanted) = (&c[2 * at..][..2], bf16_bytes(&[product(a, b, k, place)]));
        if got != wanted {
            return Err(format!("element {place:?} is {got:02x?}, and should be {wanted:02x?}"));
        }
    }
    Ok(places.count())
}

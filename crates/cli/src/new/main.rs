//! Runs the kernel: `cargo run` on the simulator, `cargo run -- cuda` on a GPU, `cargo run -- ptx` prints it.

use std::error::Error;

/// Elements.
const N: u32 = 1000;

#[allow(dead_code, reason = "a test takes this file as a module")]
fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        None | Some("sim") => show(&on_simulator()?),
        Some("cuda") => show(&on_gpu()?),
        Some("ptx") => println!("{}", my_kernel::program(N, 2.0).module),
        Some(other) => return Err(format!("{other}: sim, cuda and ptx are known").into()),
    }
    Ok(())
}

/// `y` after a run on the simulator, with every check that it has.
pub fn on_simulator() -> Result<Vec<u8>, Box<dyn Error>> {
    let options = sim::Options { pedantic: true, ..sim::Options::default() };
    let mut report = sim::run(&my_kernel::program(N, 2.0), &memory(), &options)?;
    Ok(report.buffers.remove(1))
}

/// `y` after a run on the first GPU.
pub fn on_gpu() -> Result<Vec<u8>, Box<dyn Error>> {
    let mut memory = memory();
    cuda::Device::open(0)?.run_host(&my_kernel::program(N, 2.0), &mut memory)?;
    Ok(memory.remove(1))
}

/// What `x` and `y` hold before.
fn memory() -> Vec<Vec<u8>> {
    let x: Vec<f32> = (0..N).map(|i| i as f32).collect();
    let bytes = |x: &[f32]| x.iter().flat_map(|x| x.to_le_bytes()).collect();
    vec![bytes(&x), bytes(&[1.0; N as usize])]
}

fn show(y: &[u8]) {
    let (numbers, _) = y.as_chunks();
    println!(
        "y[{}] = {}",
        N - 1,
        numbers.last().map_or(f32::NAN, |last| f32::from_le_bytes(*last))
    );
}

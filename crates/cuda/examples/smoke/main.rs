//! Proves the CUDA engine on a GPU: `cargo run --release --example smoke -p sixwarp-cuda`.
//!
//! Hand-written PTX is launched through the same path as every kernel of the project; results are
//! compared with what the host computes. Prints one line per check; exits with 1 when one fails.

mod checks;

use sixwarp_cuda::{Device, Error};

fn main() -> std::process::ExitCode {
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("smoke: {error}");
            return std::process::ExitCode::FAILURE;
        }
    };
    print_device(&device);
    let failed = run(&device);
    println!("{} passed, {failed} failed", checks::ALL.len() - failed);
    if failed == 0 { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}

fn print_device(device: &Device) {
    let info = device.info();
    let ((major, minor), memory) = (info.driver, info.memory_bytes >> 30);
    println!("{info}, {} SMs, {memory} GiB, driver for CUDA {major}.{minor}", info.sm_count);
}

/// Runs every check and counts those that fail.
fn run(device: &Device) -> usize {
    let mut failed = 0;
    for (name, check) in checks::ALL {
        match check(device) {
            Ok(note) => println!("PASS  {name:<34} {note}"),
            Err(error) => {
                failed += 1;
                println!("FAIL  {name:<34} {error}");
                if let Some(Error::Driver(_)) = error.downcast_ref::<Error>() {
                    println!("      (after a driver error, later checks may fail for it alone)");
                }
            }
        }
    }
    failed
}

//! The checks that prove the CUDA engine on a GPU, through cudarc, on the stand-in driver.

#![cfg(target_os = "linux")]

// The checks name the engine as its own examples do.
extern crate cuda as sixwarp_cuda;

#[path = "../../cuda/examples/smoke/checks/mod.rs"]
mod checks;
mod common;

use sixwarp_cuda::Device;
use std::path::Path;

/// Runs every check in a process of its own, on a device of an architecture.
fn run_checks(test: &str, sm: &str) {
    let scratch = files::Scratch::new().unwrap();
    let folder = common::libraries(&scratch);
    let variables = [
        ("LD_LIBRARY_PATH", folder.as_path()),
        ("SIXWARP_CHECK_EXIT_WAIT", Path::new("0")),
        ("SIXWARP_CHECK_DEVICE", Path::new(sm)),
    ];
    common::in_child(test, &variables, || {
        let device = Device::open(0).unwrap();
        assert!(device.info().name.contains("simulator"), "{}", device.info());
        for (name, check) in checks::ALL {
            check(&device).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    });
}

#[test]
fn every_check_of_the_cuda_engine_passes() {
    run_checks("every_check_of_the_cuda_engine_passes", "90");
}

#[test]
fn every_check_passes_on_blackwell() {
    run_checks("every_check_passes_on_blackwell", "100");
}

//! The library in front of a driver: programs that reach it by `dlsym` and by `cuGetProcAddress`.
//!
//! The driver is the stand-in, so no GPU is needed. What was captured runs on the simulator and gives the same findings.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

// The checks name the engine as its own examples do.
extern crate cuda as sixwarp_cuda;

#[allow(dead_code, reason = "one of the checks is used")]
#[path = "../../cuda/examples/smoke/checks/mod.rs"]
mod checks;
mod raw;

use filetest::Capture;
use program::Swizzle;
use sixwarp_cuda::Device;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Says that this is the process in which a test's program runs.
const INSIDE: &str = "SIXWARP_CAPTURE_TEST";

/// Runs a test again, in a process with the library in front of the stand-in.
fn captured(test: &str, folder: &Path, variables: &[(&str, &str)]) -> Output {
    let exe = std::env::current_exe().unwrap();
    let built = exe.parent().unwrap();
    let libraries = folder.join("lib");
    std::fs::create_dir(&libraries).unwrap();
    let link = libraries.join("libcuda.so.1");
    std::os::unix::fs::symlink(built.join("libsixwarp_standin.so"), link).unwrap();
    let mut child = Command::new(&exe);
    child.args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    child.env("LD_PRELOAD", built.join("libsixwarp_capture.so"));
    // A launch that should not have been waited for ends after a minute.
    child.env("LD_LIBRARY_PATH", &libraries).env("SIXWARP_CHECK_TIME", "60");
    child.env("SIXWARP_CHECK_EXIT_WAIT", "0");
    child.env("SIXWARP_CAPTURE", folder).envs(variables.iter().copied()).output().unwrap()
}

fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// The launches of a folder, by their numbers.
fn launches(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.join("launch.json").exists()).collect();
    found.sort();
    found
}

fn state(launch: &Path) -> String {
    let text = std::fs::read_to_string(launch.join("state.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["state"].as_str().unwrap().to_owned()
}

/// What the simulator says about a launch.
fn simulated(launch: &Path) -> sim::Outcome {
    let prepared = Capture::read(&launch.join("launch.json")).unwrap().load(false).unwrap();
    sim::outcome(&prepared.program, &prepared.contents, &sim::Options::default())
}

#[test]
fn tensor_maps_of_a_cudarc_program_are_replayed() {
    if std::env::var_os(INSIDE).is_some() {
        let device = Device::open(0).unwrap();
        checks::tma::b128(&device).unwrap();
        return;
    }
    let scratch = files::Scratch::new().unwrap();
    let variables = [("SIXWARP_CAPTURE_OUTPUTS", "1"), ("SIXWARP_CAPTURE_LIMIT", "2")];
    let test = "tensor_maps_of_a_cudarc_program_are_replayed";
    let output = captured(test, scratch.path(), &variables);
    assert!(output.status.success(), "{}", told(&output));
    let found = launches(scratch.path());
    assert_eq!(found.len(), 2, "{}", told(&output));
    for launch in &found {
        assert_eq!(state(launch), "finished");
        let outcome = simulated(launch);
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        // What the program saw afterwards is what the simulator computes again.
        let after = (0..3).filter_map(|n| std::fs::read(launch.join(format!("after{n}.bin"))).ok());
        let after: Vec<Vec<u8>> = after.collect();
        assert_eq!(after.len(), 2, "two of the three buffers are written");
        assert!(after.iter().all(|bytes| outcome.report.buffers.contains(bytes)));
    }
    // The program of the second place, with its own tensor map.
    let own = checks::tma::round_trip_program(Swizzle::B128, 64, (-8, -5));
    let prepared = Capture::read(&found[1].join("launch.json")).unwrap().load(false).unwrap();
    assert_eq!(prepared.program.launches[0].grid, own.launches[0].grid);
    assert_eq!(prepared.program.launches[0].shared_bytes, own.launches[0].shared_bytes);
}

#[test]
fn a_race_of_a_program_with_function_pointers_is_found_again() {
    if std::env::var_os(INSIDE).is_some() {
        return raw::run(raw::RACY, 1);
    }
    let scratch = files::Scratch::new().unwrap();
    let test = "a_race_of_a_program_with_function_pointers_is_found_again";
    let output = captured(test, scratch.path(), &[]);
    // The stand-in itself has found it, and the capture finds it again.
    assert!(told(&output).contains("hazard[race]"), "{}", told(&output));
    let found = launches(scratch.path());
    assert_eq!(found.len(), 1, "{}", told(&output));
    let outcome = simulated(&found[0]);
    assert!(outcome.error.is_some_and(|error| error.rule() == "race"));
}

#[test]
fn a_launch_that_does_not_end_is_on_the_disk() {
    if std::env::var_os(INSIDE).is_some() {
        // The program is ended as soon as the launch has begun, which it waits for in vain.
        let folder = PathBuf::from(std::env::var_os("SIXWARP_CAPTURE").unwrap());
        std::thread::spawn(move || {
            loop {
                if launches(&folder).iter().any(|launch| launch.join("state.json").exists()) {
                    std::process::exit(0);
                }
                std::thread::yield_now();
            }
        });
        return raw::run(raw::ENDLESS, 7);
    }
    let scratch = files::Scratch::new().unwrap();
    let output = captured("a_launch_that_does_not_end_is_on_the_disk", scratch.path(), &[]);
    assert!(output.status.success(), "{}", told(&output));
    let found = launches(scratch.path());
    assert_eq!(state(&found[0]), "started");
    let prepared = Capture::read(&found[0].join("launch.json")).unwrap().load(false).unwrap();
    assert!(prepared.contents[0].starts_with(&7u32.to_le_bytes()));
}

#[test]
fn without_a_folder_the_library_does_nothing() {
    if std::env::var_os(INSIDE).is_some() {
        return raw::run(raw::RACY, 1);
    }
    let scratch = files::Scratch::new().unwrap();
    let test = "without_a_folder_the_library_does_nothing";
    let output = captured(test, scratch.path(), &[("SIXWARP_CAPTURE", "")]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(launches(scratch.path()).is_empty());
}

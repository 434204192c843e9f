//! The hostile caller of the C interface under AddressSanitizer.

use crate::sections::run_command;
use std::process::{Command, ExitCode};

/// Runs the tests; needs `rustup toolchain install nightly`, on Linux.
pub fn run() -> ExitCode {
    let mut command = Command::new("cargo");
    // Outside the toolchain that runs this program.
    command.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC");
    // With a target named, build scripts are not instrumented.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    command.args(["+nightly", "test", "-p", "sixwarp-python", "--test", "hostile"]);
    command.args(["--target", &target, "--target-dir", "target/asan"]);
    command.env("RUSTFLAGS", "-Zsanitizer=address");
    match run_command(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("asan: {why}");
            ExitCode::FAILURE
        }
    }
}

//! The CPU engine's tests as an aarch64 program, under qemu.

use crate::sections::run_command;
use std::process::{Command, ExitCode, Stdio};

/// Linked with Rust's own C library and linker, a program needs nothing of the other machine.
const TARGET: &str = "aarch64-unknown-linux-musl";

/// qemu's user mode, as Debian's packages `qemu-user` and `qemu-user-static` name it.
const EMULATORS: [&str; 2] = ["qemu-aarch64", "qemu-aarch64-static"];

/// Runs the tests; needs `rustup target add aarch64-unknown-linux-musl` and qemu's user mode. On an aarch64 machine
/// the tests run without it, by `cargo test -p sixwarp-cpu`.
pub fn run() -> ExitCode {
    let Some(emulator) = EMULATORS.into_iter().find(|name| runs(name)) else {
        eprintln!("aarch64: {} is needed (Debian: qemu-user)", EMULATORS.join(" or "));
        return ExitCode::FAILURE;
    };
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--locked", "-p", "sixwarp-cpu", "--lib", "--tests", "--target", TARGET]);
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld");
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", emulator);
    match run_command(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("aarch64: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether a program is on `PATH` and tells its version.
fn runs(name: &str) -> bool {
    let asked = Command::new(name).arg("--version").stdout(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

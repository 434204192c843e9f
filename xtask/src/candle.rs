//! The integration with candle: a workspace of its own, whose 150 dependencies nothing else needs.

use crate::sections::{root, run_command};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Formats, lints and tests `integrations/candle`; what it builds goes to `target/candle`. On Linux its CUDA path is
/// type-checked too.
pub fn run() -> ExitCode {
    let lints = ["clippy", "--all-targets"];
    let cuda = [&lints[..], &["--features", "cuda"]].concat();
    let strict = ["--", "-D", "warnings"];
    let mut steps =
        vec![cargo(&["fmt", "--check"]), cargo(&[&lints[..], &strict].concat()), cargo(&["test"])];
    if cfg!(target_os = "linux") {
        steps.push(without_nvcc(cargo(&[&cuda[..], &strict].concat())));
    }
    for step in steps {
        if let Err(why) = run_command(step) {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn folder() -> PathBuf {
    root().join("integrations/candle")
}

fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg(arguments[0]).arg("--manifest-path").arg(folder().join("Cargo.toml"));
    cargo.args(&arguments[1..]).env("CARGO_TARGET_DIR", root().join("target/candle"));
    cargo
}

/// With a stand-in for nvcc, which candle's build script calls: nothing is linked, so its outputs may be empty.
fn without_nvcc(mut cargo: Command) -> Command {
    let stand_in = folder().join("stand-in");
    let mut path = OsString::from(stand_in.join("bin"));
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    cargo.env("PATH", path).env("CUDA_HOME", stand_in).env("CUDA_COMPUTE_CAP", "90");
    cargo.env("CARGO_TARGET_DIR", root().join("target/candle/cuda"));
    cargo
}

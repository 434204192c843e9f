//! The integration with candle: a workspace of its own, whose 150 dependencies nothing else needs.

use crate::cuda::toolkit;
use crate::sections::{root, run_command};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Libraries that a candle program for CUDA is linked with. All of them are the stand-in driver here.
const LIBRARIES: [&str; 6] = ["cuda", "cudart", "cublas", "cublasLt", "curand", "nvrtc"];

/// Formats, lints and tests `integrations/candle`; what it builds goes to `target/candle`. On Linux its CUDA path is
/// tested too, on the simulator.
pub fn run() -> ExitCode {
    let lints = ["clippy", "--all-targets"];
    let cuda = [&lints[..], &["--features", "cuda"]].concat();
    let strict = ["--", "-D", "warnings"];
    let mut steps =
        vec![cargo(&["fmt", "--check"]), cargo(&[&lints[..], &strict].concat()), cargo(&["test"])];
    if LINUX {
        match with_stand_ins(cargo(&[&cuda[..], &strict].concat())) {
            Ok(step) => steps.push(step),
            Err(why) => return failed(&why),
        }
    }
    let tested = steps.into_iter().try_for_each(run_command).and_then(|()| match LINUX {
        true => test_on_the_simulator(),
        false => Ok(()),
    });
    tested.map_or_else(|why| failed(&why), |()| ExitCode::SUCCESS)
}

fn failed(why: &str) -> ExitCode {
    eprintln!("candle: {why}");
    ExitCode::FAILURE
}

const LINUX: bool = cfg!(target_os = "linux");

/// The tests for a GPU, under `sixwarp check`: what they launch is checked, too.
fn test_on_the_simulator() -> Result<(), String> {
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--release", "--locked", "-p", "sixwarp-cli", "--target-dir"]);
    build.arg(target());
    run_command(build)?;
    let folder = linked_libraries().map_err(|why| format!("target/candle/libraries: {why}"))?;
    let test = with_stand_ins(cargo(&["test", "--features", "cuda", "--test", "gpu"]))?;
    let mut check = Command::new(target().join("release/sixwarp"));
    check.args(["check", "--"]).arg(test.get_program()).args(test.get_args());
    check.envs(test.get_envs().filter_map(|(name, value)| Some((name, value?))));
    check.env("LIBRARY_PATH", folder);
    run_command(check)
}

fn target() -> PathBuf {
    root().join("target")
}

/// A folder in which the linker finds the stand-in under every name.
fn linked_libraries() -> std::io::Result<PathBuf> {
    let folder = target().join("candle/libraries");
    std::fs::create_dir_all(&folder)?;
    for name in LIBRARIES {
        let link = folder.join(format!("lib{name}.so"));
        if link.exists() {
            std::fs::remove_file(&link)?;
        }
        std::fs::hard_link(target().join("release/deps/libsixwarp_standin.so"), link)?;
    }
    Ok(folder)
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

/// With a stand-in for nvcc, which candle's build script calls. It has NVIDIA's compile what the tests launch.
fn with_stand_ins(mut cargo: Command) -> Result<Command, String> {
    let stand_in = folder().join("stand-in");
    let mut path = OsString::from(stand_in.join("bin"));
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    cargo.env("SIXWARP_NVCC", toolkit()?.join("bin/nvcc"));
    cargo.env("PATH", path).env("CUDA_HOME", stand_in).env("CUDA_COMPUTE_CAP", "90");
    cargo.env("CARGO_TARGET_DIR", root().join("target/candle/simulated"));
    Ok(cargo)
}

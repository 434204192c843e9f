//! `cargo xtask cuda`: a program that NVIDIA's compiler has built, under `sixwarp check`.

use crate::sections::{root, run_command};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Ways in which nvcc leaves PTX in a program: compressed for size, for speed, and as it is.
const COMPRESSIONS: [&str; 3] = ["--compress-mode=size", "--compress-mode=speed", "--no-compress"];

/// Fetches nvcc, builds `tests/cuda/check.cu` and checks it, with and without its race.
pub fn run() -> ExitCode {
    match built_and_checked() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cuda: {why}");
            ExitCode::FAILURE
        }
    }
}

fn built_and_checked() -> Result<(), String> {
    let nvcc = toolkit()?.join("bin/nvcc");
    let folder = root().join("target/cuda-programs");
    std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    for compression in COMPRESSIONS {
        let program = folder.join("check");
        run_command(build(&nvcc, compression, &program))?;
        let told = check(&program, &[], 0)?;
        expect(&told, "3 launches checked, 0 findings")?;
        expect(&told, "launch 7 of total, 12512.00 first\n")?;
        let told = check(&program, &["racy"], 1)?;
        expect(&told, "hazard[race] in kernel `_Z6reducePKiPfb` at ")?;
        expect(&told, "tests/cuda/check.cu:")?;
        println!("cuda: right, {compression}");
    }
    Ok(())
}

/// Where nvcc is, fetched if need be.
pub fn toolkit() -> Result<PathBuf, String> {
    let mut python = Command::new(std::env::var_os("SIXWARP_PYTHON").unwrap_or("python3".into()));
    let output = python.arg(root().join("tests/cuda/toolkit.py")).output();
    let output = output.map_err(|why| format!("python3: {why}"))?;
    let told = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(told(&output.stdout).into()),
        false => Err(told(&output.stderr)),
    }
}

fn build(nvcc: &Path, compression: &str, program: &Path) -> Command {
    let mut command = Command::new(nvcc);
    command.args(["-std=c++17", "-cudart", "shared", "-lineinfo", compression]);
    command.args(["-gencode", "arch=compute_90a,code=compute_90a", "-o"]).arg(program);
    command.arg(root().join("tests/cuda/check.cu"));
    command
}

/// What `sixwarp check` says of the program, which must end with this status.
fn check(program: &Path, arguments: &[&str], status: i32) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(["run", "--quiet", "-p", "sixwarp-cli", "--", "check", "--"]);
    let output = command.arg(program).args(arguments).output().map_err(|why| why.to_string())?;
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    match output.status.code() == Some(status) {
        true => Ok(told),
        false => Err(format!("{}, not {status}:\n{told}", output.status)),
    }
}

fn expect(told: &str, text: &str) -> Result<(), String> {
    match told.contains(text) {
        true => Ok(()),
        false => Err(format!("`{text}` is not in\n{told}")),
    }
}

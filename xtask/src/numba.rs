//! `cargo xtask numba`: kernels of numba-cuda and of NVRTC, under `sixwarp check`.

use crate::sections::{root, run_command};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What the kernels are compiled with: NVVM, NVRTC and the linker come with it.
const PACKAGES: [&str; 4] =
    ["numba-cuda[cu13]==0.30.4", "numba==0.68.1", "cuda-core==1.2.2", "cuda-bindings==13.5.0"];

/// Fetches numba-cuda, and checks `tests/numba/check_kernels.py`, with and without its race.
pub fn run() -> ExitCode {
    match checked() {
        Ok(()) => {
            println!("numba: right");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("numba: {why}");
            ExitCode::FAILURE
        }
    }
}

fn checked() -> Result<(), String> {
    let python = environment()?;
    let told = check(&python, &[], 0)?;
    expect(&told, "4 launches checked, 0 findings")?;
    let told = check(&python, &["--racy"], 1)?;
    expect(&told, "hazard[race]")?;
    expect(&told, "out[t] = tile[127 - t]")
}

/// The interpreter of an environment with the packages.
fn environment() -> Result<PathBuf, String> {
    let folder = root().join("target/numba");
    let python = folder.join("bin/python");
    if !python.exists() {
        let base = std::env::var_os("SIXWARP_PYTHON").unwrap_or("python3".into());
        let mut make = Command::new(base);
        make.args(["-m", "venv"]).arg(&folder);
        run_command(make)?;
    }
    let mut install = Command::new(&python);
    install.args(["-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args(PACKAGES).arg("numpy");
    run_command(install)?;
    Ok(python)
}

/// What `sixwarp check` says of the script, which must end with this status.
fn check(python: &Path, arguments: &[&str], status: i32) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(["run", "--quiet", "-p", "sixwarp-cli", "--", "check", "--"]);
    command.arg(python).arg(root().join("tests/numba/check_kernels.py")).args(arguments);
    let output = command.output().map_err(|why| why.to_string())?;
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

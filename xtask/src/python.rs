//! The Python package's tests, in an environment of their own under `target/`.

use crate::sections::{root, run_command};
use std::path::PathBuf;
use std::process::Command;

/// Builds the package into a fresh environment and runs its tests.
pub fn tests() -> Result<(), String> {
    let package = root().join("python");
    if !package.join("pyproject.toml").is_file() {
        println!("there is no Python package yet: nothing to test");
        return Ok(());
    }
    let python = environment()?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.arg(format!("{}[test]", package.display()));
    run_command(install)?;
    let mut test = Command::new(&python);
    test.args(["-m", "pytest", "-q"]).arg(package.join("tests"));
    run_command(test)
}

/// The interpreter of `target/venv`, made when missing.
fn environment() -> Result<PathBuf, String> {
    let directory = root().join("target/venv");
    let python = directory.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !python.is_file() {
        let base = std::env::var_os("SIXWARP_PYTHON").unwrap_or_else(|| "python3".into());
        let mut venv = Command::new(base);
        venv.args(["-m", "venv"]).arg(&directory);
        run_command(venv)?;
    }
    Ok(python)
}

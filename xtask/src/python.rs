//! What is tested in Python, in an environment of its own under `target/`.

use crate::sections::{root, run_command};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs every script of `tests/oracles`; each fetches the packages it compares with.
pub fn oracles() -> Result<(), String> {
    let directory = root().join("tests/oracles");
    let entries =
        std::fs::read_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut scripts: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "py"));
    scripts.sort();
    for script in scripts {
        let mut command = Command::new(base_python());
        command.arg(script);
        run_command(command)?;
    }
    Ok(())
}

/// Installs the package into its environment, with torch for the CPU, transformers and JAX beside it,
/// checks types, and runs its tests (`-rs` names what did not run).
pub fn tests() -> Result<(), String> {
    let package = root().join("python");
    let python = environment()?;
    let mut install = Command::new(&python);
    install.args(PIP).args(["pytest", "numpy"]).args(TYPE_CHECKERS);
    run_command(install)?;
    let mut install = Command::new(&python);
    install.arg(package.join("tests/install_torch.py"));
    run_command(install)?;
    install_package(&python)?;
    check_types(&python)?;
    let mut test = Command::new(&python);
    test.args(["-m", "pytest", "-q", "-rs"]).arg(package.join("tests"));
    run_command(test)
}

/// Builds the package and installs it, alone.
pub fn install_package(python: &Path) -> Result<(), String> {
    let mut install = Command::new(python);
    install.args(PIP).args(["--force-reinstall", "--no-deps"]).arg(root().join("python"));
    run_command(install)
}

/// Isolated: modules of the current folder and of PYTHONPATH are not run in pip's stead.
const PIP: [&str; 6] = ["-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"];

const TYPE_CHECKERS: [&str; 2] = ["mypy==2.4.1", "pyright[nodejs]==1.1.414"];

/// Checks the types of the examples, and of a file that says what they must be, as the package's users do.
fn check_types(python: &Path) -> Result<(), String> {
    let files = ["examples", "python/tests/typed.py"];
    let mut mypy = Command::new(python);
    mypy.args(["-m", "mypy", "--strict", "--cache-dir", "target/mypy"]).args(files);
    run_command(mypy)?;
    let mut pyright = Command::new(python);
    pyright.args(["-m", "pyright", "--pythonpath"]).arg(python).args(files);
    run_command(pyright)
}

/// The interpreter of `target/venv`, made when missing; it sees what the base interpreter has.
fn environment() -> Result<PathBuf, String> {
    environment_at("target/venv", &["--system-site-packages"])
}

/// The interpreter of the environment in a folder of the workspace, made with `options` when missing.
pub fn environment_at(folder: &str, options: &[&str]) -> Result<PathBuf, String> {
    let directory = root().join(folder);
    let python = directory.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !python.is_file() {
        let mut venv = Command::new(base_python());
        venv.args(["-I", "-m", "venv"]).args(options).arg(&directory);
        run_command(venv)?;
    }
    Ok(python)
}

fn base_python() -> OsString {
    let usual = if cfg!(windows) { "python" } else { "python3" };
    std::env::var_os("SIXWARP_PYTHON").unwrap_or_else(|| usual.into())
}

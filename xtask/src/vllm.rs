//! The plug-ins for serving engines, checked beside the engines: vLLM on the CPU, and SGLang's files.

use crate::python::{environment_at, install_package};
use crate::sections::{root, run_command};
use std::process::{Command, ExitCode};

/// What is run when no file is named: `check_NAME.py` in `python/tests/serving`.
const CHECKS: [&str; 4] = ["signatures", "hooks", "dsv4", "models"];

/// Installs pinned versions into `target/vllm`, and runs the checks, or those that are named.
pub fn run(names: &[&str]) -> ExitCode {
    match check(if names.is_empty() { &CHECKS } else { names }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn check(names: &[&str]) -> Result<(), String> {
    let tests = root().join("python/tests/serving");
    let python = environment_at("target/vllm", &[])?;
    let mut install = Command::new(&python);
    install.arg(tests.join("install.py"));
    run_command(install)?;
    install_package(&python)?;
    let mut test = Command::new(&python);
    test.args(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]);
    test.args(names.iter().map(|name| tests.join(format!("check_{name}.py"))));
    run_command(test)
}

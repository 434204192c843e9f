//! `sixwarp capture -- COMMAND` as a user runs it, with the stand-in driver as the GPU.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn python() -> Command {
    Command::new(std::env::var_os("SIXWARP_PYTHON").unwrap_or_else(|| "python3".into()))
}

fn sixwarp() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sixwarp"))
}

fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Where the pinned Triton is, fetched if need be.
fn triton() -> PathBuf {
    let output =
        python().arg(root().join("tests/triton/compile.py")).arg("--home").output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// Triton's launcher is linked with the driver, the script itself looks functions up.
#[test]
fn a_race_of_a_triton_program_is_captured_and_found_again() {
    let scratch = files::Scratch::new().unwrap();
    let (folder, python) = (scratch.file("captured"), python());
    let mut command = sixwarp();
    command.args(["check", "--"]).arg(env!("CARGO_BIN_EXE_sixwarp"));
    command.args(["capture", "--name", "s", "--limit", "2", "--output"]).arg(&folder).arg("--");
    command.arg(python.get_program()).arg(root().join("tests/triton/check_kernels.py"));
    command.arg("--racy").env("PYTHONPATH", triton()).env("TRITON_DEFAULT_FP_FUSION", "1");
    let text = told(&command.output().unwrap());
    assert!(text.contains("all right") && text.contains("5 launches checked"), "{text}");
    // Of five kernels, `softmax` and `racy_sum` have the letter in their names.
    assert!(text.contains("2 launches captured"), "{text}");
    let checked = sixwarp().arg("check").arg(&folder).output().unwrap();
    let text = told(&checked);
    assert_eq!(checked.status.code(), Some(1), "{text}");
    assert!(
        text.contains("hazard[race]") && text.contains("kernel `racy_sum`: 1 finding"),
        "{text}"
    );
    assert!(text.contains("tl.store(out, tl.load(out) + part)"), "{text}");
    assert!(text.contains("2 checked: 1 clean, 1 with findings"), "{text}");
}

#[test]
fn a_command_without_launches_is_told_of() {
    let scratch = files::Scratch::new().unwrap();
    let capture = |name: &str, command: &[&str]| {
        let folder = scratch.file(name);
        let output =
            sixwarp().args(["capture", "--output"]).arg(folder).arg("--").args(command).output();
        let output = output.unwrap();
        (output.status.code(), told(&output))
    };
    let (code, text) = capture("one", &["sh", "-c", "exit 7"]);
    assert_eq!(code, Some(7));
    assert!(text.contains("never called the CUDA driver"), "{text}");
    let (code, _) = capture("two", &["true"]);
    assert_eq!(code, Some(3));
    let (code, text) = capture(".", &["true"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("there are files in it"), "{text}");
    let (_, text) = capture("three", &["no-such-program-here"]);
    assert!(text.contains("no-such-program-here"), "{text}");
}

#[test]
fn a_command_that_does_not_end_is_ended() {
    let scratch = files::Scratch::new().unwrap();
    let mut command = sixwarp();
    command.args(["capture", "--timeout", "0", "--output"]).arg(scratch.file("captured"));
    let output = command.args(["--", "sleep", "1000"]).output().unwrap();
    assert_eq!(output.status.code(), Some(124));
    assert!(told(&output).contains("was ended after 0 s"), "{}", told(&output));
}

//! The script for a GPU that nobody has tried yet, rehearsed on the driver that stands in.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Output};

/// Runs the script with these arguments and the program of these tests.
fn rehearse(out: &Path, arguments: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_sixwarp"));
    let binaries = program.parent().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/first_hour.py");
    let library = binaries.join("deps/libsixwarp_standin.so");
    assert!(library.is_file(), "{} is built with this program", library.display());
    let mut command = Command::new("python3");
    command.arg("-I").arg(script).arg("--bin").arg(binaries).arg("--out").arg(out);
    command.arg("--stand-in").arg(library).args(arguments).output().unwrap()
}

#[test]
fn a_rehearsal_packs_what_each_step_said() {
    let scratch = files::Scratch::new().unwrap();
    let out = scratch.path().join("first-hour");
    let done = rehearse(&out, &["--steps", "doctor,table,random"]);
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{printed}{}", String::from_utf8_lossy(&done.stderr));
    assert!(printed.contains("send back"), "{printed}");
    let summary = std::fs::read_to_string(out.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let steps = summary["steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(names, ["doctor", "table", "random"]);
    assert_eq!(summary["rehearsal"], true);
    let doctor = std::fs::read_to_string(out.join("doctor.txt")).unwrap();
    assert!(doctor.contains("\"kernels\": \"sm_100a\""), "{doctor}");
    let table = std::fs::read_to_string(out.join("table.txt")).unwrap();
    assert!(table.contains("\"passed\": 1"), "{table}");
    assert!(std::fs::metadata(out.with_extension("tar.gz")).unwrap().len() > 500);
}

#[test]
fn what_fails_is_said_and_packed_too() {
    let scratch = files::Scratch::new().unwrap();
    let out = scratch.path().join("first-hour");
    // There is no program of this name beside the others.
    let missing = scratch.path().to_str().unwrap();
    let done = rehearse(&out, &["--steps", "doctor", "--bin", missing]);
    assert_eq!(done.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(printed.starts_with("doctor        FAILED      0 of 1"), "{printed}");
    let log = std::fs::read_to_string(out.join("doctor.txt")).unwrap();
    assert!(log.contains("cannot run: "), "{log}");
    assert!(out.with_extension("tar.gz").is_file());
    let unknown = rehearse(&out, &["--steps", "nothing"]);
    assert_eq!(unknown.status.code(), Some(1));
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(said.contains("no step 'nothing': there are doctor, smoke"), "{said}");
}

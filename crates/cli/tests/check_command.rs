//! `sixwarp check -- COMMAND` as a user runs it: Triton kernels without a GPU.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn python() -> Command {
    Command::new(std::env::var_os("SIXWARP_PYTHON").unwrap_or_else(|| "python3".into()))
}

fn check(arguments: &[&str], command: &Command) -> Output {
    let mut check = Command::new(env!("CARGO_BIN_EXE_sixwarp"));
    check
        .arg("check")
        .args(arguments)
        .arg("--")
        .arg(command.get_program())
        .args(command.get_args());
    check
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .output()
        .unwrap()
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

#[test]
fn triton_kernels_run_and_a_race_is_found_at_its_line() {
    let mut command = python();
    let script = root().join("tests/triton/check_kernels.py");
    command.arg(&script).arg("--racy").env("PYTHONPATH", triton());
    command.env("TRITON_DEFAULT_FP_FUSION", "1");
    let scratch = files::Scratch::new().unwrap();
    let folder = scratch.file("found");
    let file = |name: &str| scratch.file(name).to_str().unwrap().to_owned();
    let (sarif, json, html) = (file("check.sarif"), file("check.json"), file("pages"));
    let reports = ["--report", folder.to_str().unwrap(), "--sarif", &sarif, "--json", &json];
    let output = check(&[&reports[..], &["--html", &html]].concat(), &command);
    let text = told(&output);
    // The four others are right, or the script would not have come to its end.
    assert!(text.contains("all right"), "{text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("hazard[race]") && text.contains("5 launches checked"), "{text}");
    let source = std::fs::read_to_string(&script).unwrap();
    let wrong = "tl.store(out, tl.load(out) + part)";
    let line = source.lines().position(|line| line.contains(wrong)).unwrap() + 1;
    assert!(text.contains(&format!("check_kernels.py:{line}\n    {wrong}")), "{text}");
    reports_name_the_race(Path::new(&sarif), Path::new(&json), Path::new(&html), line as u64);
    // The launch that was saved fails in the same way.
    let again = text.lines().find_map(|line| line.trim().strip_prefix("again: sixwarp ")).unwrap();
    let replayed =
        Command::new(env!("CARGO_BIN_EXE_sixwarp")).args(again.split(' ')).output().unwrap();
    assert!(told(&replayed).contains("hazard[race]"), "{}", told(&replayed));
}

/// SARIF has the race at its line of Python, JSON also the kernels that are right, and a page has a timeline.
fn reports_name_the_race(sarif: &Path, json: &Path, html: &Path, line: u64) {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let value = |path: &Path| serde_json::from_str::<serde_json::Value>(&read(path)).unwrap();
    let sarif = value(sarif);
    let first = &sarif["runs"][0]["results"][0];
    assert_eq!(first["ruleId"], "race", "{sarif:#}");
    let place = &first["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], line, "{place:#}");
    assert!(
        place["region"]["snippet"]["text"].as_str().unwrap().contains("tl.store(out"),
        "{place:#}"
    );
    let json = value(json);
    let checked = json["checked"].as_array().unwrap();
    let clean = |kernel: &str| {
        let found = checked.iter().find(|entry| entry["kernel"] == kernel).unwrap();
        found["findings"].as_array().unwrap().is_empty()
    };
    assert!(!clean("racy_sum") && clean("matmul") && clean("softmax"), "{json:#}");
    let pages: Vec<_> = std::fs::read_dir(html).unwrap().map(|page| page.unwrap().path()).collect();
    assert!(pages.iter().any(|page| read(page).contains("<svg class=\"timeline\"")), "{pages:?}");
}

#[test]
fn the_status_of_the_command_is_kept() {
    let status = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let output = check(&[], &command);
        (output.status.code(), told(&output))
    };
    let (code, text) = status("exit 7");
    assert_eq!(code, Some(7));
    assert!(text.contains("launched nothing"), "{text}");
    let (code, text) = status("kill -SEGV $$");
    assert_eq!(code, Some(128 + 11), "{text}");
    assert!(text.contains("signal 11 ended the command"), "{text}");
    let output = check(&["--json", "-"], &Command::new("true"));
    assert_eq!(output.status.code(), Some(2));
    assert!(told(&output).contains("name a file for --json"), "{}", told(&output));
    let (code, text) = status("test -e $TRITON_LIBCUDA_PATH/libcuda.so.1");
    assert_eq!(code, Some(0), "{text}");
    let missing = check(&[], &Command::new("no-such-program-here"));
    assert!(!missing.status.success());
    assert!(told(&missing).contains("no-such-program-here"), "{}", told(&missing));
}

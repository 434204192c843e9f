//! `sixwarp new kernel` writes a project that cargo takes, and overwrites nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of this test alone, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sixwarp-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Scratch(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn new_kernel(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sixwarp"));
    command.current_dir(folder).args(["new", "kernel"]).args(words);
    command.output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_project_is_one_for_cargo() {
    let scratch = Scratch::new("new");
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let written = new_kernel(&scratch.0, &["my-kernel", "--path", checkout]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]);
    let metadata = cargo.current_dir(scratch.0.join("my-kernel")).output().expect("cargo runs");
    assert!(metadata.status.success(), "{}", text(&metadata.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let package = &metadata["packages"][0];
    assert_eq!(package["name"], "my-kernel");
    let names = |field: &str| {
        let entries = package[field].as_array().expect("a list").iter();
        entries
            .map(|entry| entry["name"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("targets"), ["my_kernel", "my-kernel", "simulated"]);
    let sixwarp = ["cuda", "program", "ptx", "sim"].map(|part| format!("sixwarp-{part}"));
    assert_eq!(names("dependencies"), sixwarp);
}

#[test]
fn what_cannot_be_written_is_refused() {
    let scratch = Scratch::new("refused");
    std::fs::create_dir(scratch.0.join("there")).expect("a folder");
    for (words, wanted) in [
        (&["there"][..], "there is there already"),
        (&["2d"], "`2d` is no name of a package"),
        (&["mine", "--path", "/"], "no checkout of sixwarp"),
        (&["mine", "--path", "nowhere"], "nowhere: "),
    ] {
        let refused = new_kernel(&scratch.0, words);
        assert!(!refused.status.success());
        assert!(text(&refused.stderr).contains(wanted), "{}", text(&refused.stderr));
    }
    assert!(!scratch.0.join("mine").exists());
}

//! What several tests of this crate share.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// PTX that Triton compiled from the kernels in `tests/triton`, as (name, text).
pub fn triton_kernels() -> Vec<(String, String)> {
    let out = sixwarp_ptx::toolchain::cache_directory().join("triton/ptx");
    let python = std::env::var_os("SIXWARP_PYTHON").unwrap_or_else(|| "python3".into());
    let script = workspace().join("tests/triton/compile.py");
    let run = Command::new(python).arg(&script).arg("--out").arg(&out).status();
    assert!(run.is_ok_and(|status| status.success()), "{} failed", script.display());
    let list = Command::new("python3").arg(&script).arg("--list").output().expect("python3 runs");
    let names = String::from_utf8(list.stdout).expect("names are ASCII");
    names.lines().map(|name| (name.to_owned(), read(out.join(format!("{name}.ptx"))))).collect()
}

/// The PTX files that the simulator's tests run, as (name, text).
pub fn corpus() -> Vec<(String, String)> {
    let folder = workspace().join("tests/ptx");
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let ptx = paths.filter(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    ptx.map(|path| (path.display().to_string(), read(path))).collect()
}

/// The text of a file.
pub fn read(path: PathBuf) -> String {
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

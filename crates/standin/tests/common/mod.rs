//! Tests that run in a process of their own, with settings of their own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Says that this is the process in which a test really runs.
const INSIDE: &str = "SIXWARP_STANDIN_TEST";

/// The library, which cargo builds beside the tests.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libsixwarp_standin.so");
    assert!(library.is_file(), "{} is built with this test", library.display());
    library
}

/// A folder in which the library is `libcuda.so.1`.
#[allow(dead_code, reason = "not every test loads the library")]
pub fn libraries(scratch: &files::Scratch) -> PathBuf {
    let link = scratch.file("libcuda.so.1");
    std::os::unix::fs::symlink(library(), link).unwrap();
    scratch.path().to_owned()
}

/// Runs `body` in a child process that has these variables; what the child printed, which must succeed. In the child
/// there is nothing to return to.
pub fn in_child(test: &str, variables: &[(&str, &Path)], body: impl FnOnce()) -> Option<Output> {
    if std::env::var_os(INSIDE).is_some() {
        body();
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    let output = child.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stdout));
    Some(output)
}

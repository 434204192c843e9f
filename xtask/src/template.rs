//! `cargo xtask template`: the project that `sixwarp new kernel` writes, built and tested outside this workspace.

use std::path::Path;
use std::process::{Command, ExitCode};

/// Writes the project, builds it against this checkout and runs its tests.
pub fn run() -> ExitCode {
    match written_and_tested() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("template: {why}");
            ExitCode::FAILURE
        }
    }
}

fn written_and_tested() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = root.canonicalize().map_err(|why| why.to_string())?;
    let folder = std::env::temp_dir().join(format!("sixwarp-template-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let outcome = in_folder(&root, &folder);
    let removed = std::fs::remove_dir_all(&folder);
    outcome.and(removed.map_err(|why| format!("{}: {why}", folder.display())))
}

fn in_folder(root: &Path, folder: &Path) -> Result<(), String> {
    let project = folder.join("my-kernel");
    let mut new = Command::new(env!("CARGO"));
    new.current_dir(root).args(["run", "--quiet", "-p", "sixwarp-cli", "--", "new", "kernel"]);
    succeed(new.arg(&project).arg("--path").arg(root))?;
    // The same versions of everything, so that nothing need be fetched.
    let lock = std::fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock"));
    lock.map_err(|why| format!("Cargo.lock: {why}"))?;
    let mut test = Command::new(env!("CARGO"));
    test.current_dir(&project).env("CARGO_TARGET_DIR", root.join("target/template"));
    succeed(test.args(["test", "--offline"]))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(why) => Err(format!("{command:?}: {why}")),
    }
}

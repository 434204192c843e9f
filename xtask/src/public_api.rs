//! The public items of every published library, held against `xtask/api/NAME.txt`.
//!
//! rustdoc writes a crate as JSON, which stable Rust does where `RUSTC_BOOTSTRAP` is set, and the tool in `xtask/api`
//! lists what is public in it. A change of the list is a change of what others may rely on, so it is made knowingly:
//! by `cargo xtask public-api --update`, and by the review of what that changes.

use crate::sections::{root, run_command};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Compares the lists, or writes them anew.
pub fn run(update: bool) -> ExitCode {
    match lists(update) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(changed) if update => {
            println!("{changed} lists in xtask/api changed");
            ExitCode::SUCCESS
        }
        Ok(changed) => {
            eprintln!(
                "{changed} public APIs changed. If that is meant: cargo xtask public-api --update"
            );
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("public-api: {why}");
            ExitCode::FAILURE
        }
    }
}

/// How many lists differ from what is in `xtask/api`.
fn lists(update: bool) -> Result<usize, String> {
    let tool = tool()?;
    let mut changed = 0;
    for (name, library) in published()? {
        let found = items(&tool, &name, &library)?;
        let path = root().join("xtask/api").join(format!("{name}.txt"));
        let kept = fs::read_to_string(&path).unwrap_or_default();
        if kept == found {
            continue;
        }
        changed += 1;
        report(&name, &kept, &found);
        if update {
            fs::write(&path, &found).map_err(|why| format!("{}: {why}", path.display()))?;
        }
    }
    Ok(changed)
}

/// Prints lines that came and went.
fn report(name: &str, kept: &str, found: &str) {
    let lacks = |text: &str, line: &str| !text.lines().any(|other| other == line);
    println!("{name}:");
    kept.lines().filter(|line| lacks(found, line)).for_each(|line| println!("  - {line}"));
    found.lines().filter(|line| lacks(kept, line)).for_each(|line| println!("  + {line}"));
}

/// Published packages that have a library: the names of both.
fn published() -> Result<Vec<(String, String)>, String> {
    let crates = root().join("crates");
    let entries = fs::read_dir(&crates).map_err(|why| format!("{}: {why}", crates.display()))?;
    let mut names = Vec::new();
    for folder in entries.flatten().map(|entry| entry.path()) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        let internal = manifest.lines().any(|line| line == "publish = false");
        if let (Some(name), true, false) = (name, folder.join("src/lib.rs").exists(), internal) {
            let name = name.trim_matches('"');
            names.push((name.to_string(), library(&manifest, name)));
        }
    }
    names.sort();
    Ok(names)
}

/// The name of a library, unless its manifest gives it one the package's.
fn library(manifest: &str, package: &str) -> String {
    let section = manifest.split_once("\n[lib]\n").map(|(_, after)| after);
    let own = section.and_then(|lines| lines.lines().next()?.strip_prefix("name = "));
    own.map_or_else(|| package.replace('-', "_"), |name| name.trim_matches('"').to_string())
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.env("CARGO_TARGET_DIR", target());
    command
}

fn target() -> PathBuf {
    root().join("target/api")
}

/// Builds what lists items.
fn tool() -> Result<PathBuf, String> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--locked", "--manifest-path"]);
    command.arg(root().join("xtask/api/Cargo.toml"));
    run_command(command)?;
    Ok(target().join("debug/public-items"))
}

fn items(tool: &Path, name: &str, library: &str) -> Result<String, String> {
    let mut document = cargo();
    document.args(["rustdoc", "--quiet", "--locked", "--lib", "-p", name]);
    document.args(["--", "-Zunstable-options", "--output-format", "json"]);
    document.env("RUSTC_BOOTSTRAP", "1");
    run_command(document)?;
    let json = target().join("doc").join(library).with_extension("json");
    let output = Command::new(tool).arg(json).output().map_err(|why| why.to_string())?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|why| why.to_string()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

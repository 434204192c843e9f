//! The sections of `cargo xtask test`, in the order in which a failure is cheapest to find.

use crate::python;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// One part of the test run.
pub struct Section {
    /// Name, as on the command line.
    pub name: &'static str,
    /// What it shows.
    pub what: &'static str,
    run: fn() -> Result<(), String>,
}

/// All sections.
pub const ALL: [Section; 7] = [
    Section { name: "fmt", what: "the code is formatted", run: format },
    Section { name: "clippy", what: "no lint fires in any target", run: clippy },
    Section { name: "test", what: "all Rust tests and documented examples", run: test },
    Section { name: "docs", what: "the documentation builds without warnings", run: docs },
    Section {
        name: "package",
        what: "every public crate can be packed for crates.io",
        run: package,
    },
    Section {
        name: "oracles",
        what: "agreement with others' implementations",
        run: python::oracles,
    },
    Section { name: "python", what: "the Python package's tests", run: python::tests },
];

/// Runs the named sections, or all, and prints what failed and how long each took.
pub fn run(names: &[&str]) -> ExitCode {
    if let Some(unknown) = names.iter().find(|name| ALL.iter().all(|s| s.name != **name)) {
        eprintln!("there is no section `{unknown}`: see `cargo xtask list`");
        return ExitCode::FAILURE;
    }
    let chosen = ALL.iter().filter(|s| names.is_empty() || names.contains(&s.name));
    let start = Instant::now();
    let outcomes: Vec<_> = chosen.map(run_section).collect();
    summary(&outcomes, start.elapsed());
    match outcomes.iter().all(|(_, outcome, _)| outcome.is_ok()) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

type Outcome = (&'static Section, Result<(), String>, Duration);

fn run_section(section: &'static Section) -> Outcome {
    println!("\n── {}: {} ──", section.name, section.what);
    let start = Instant::now();
    let outcome = (section.run)();
    if let Err(why) = &outcome {
        println!("{}: {why}", section.name);
    }
    (section, outcome, start.elapsed())
}

fn summary(outcomes: &[Outcome], total: Duration) {
    println!("\n── summary ──");
    for (section, outcome, took) in outcomes {
        let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("{:8} {verdict:6} {:7.1} s", section.name, took.as_secs_f64());
    }
    println!("{:8} {:6} {:7.1} s", "total", "", total.as_secs_f64());
}

fn format() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"], &[])
}

fn clippy() -> Result<(), String> {
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])
}

fn test() -> Result<(), String> {
    cargo(&["test", "--workspace", "--locked", "--no-fail-fast"], &[])
}

fn docs() -> Result<(), String> {
    let strict = [("RUSTDOCFLAGS", "-D warnings")];
    cargo(&["doc", "--workspace", "--no-deps", "--locked"], &strict)
}

/// Packs what is published, without compiling it again; the index is asked only where it was not before.
fn package() -> Result<(), String> {
    let internal = ["--exclude", "xtask", "--exclude", "sixwarp-python"];
    let how = ["--no-verify", "--locked", "--allow-dirty", "--quiet"];
    let arguments = [&["package", "--workspace"][..], &internal, &how].concat();
    let offline = [&arguments[..], &["--offline"]].concat();
    cargo(&offline, &[]).or_else(|_| cargo(&arguments, &[]))
}

fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<(), String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).envs(environment.iter().copied());
    run_command(command)
}

/// Runs a command in the root of the workspace; its output goes where ours does.
pub fn run_command(mut command: Command) -> Result<(), String> {
    let status = command.current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("cannot run {command:?}: {error}")),
    }
}

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

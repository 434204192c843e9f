//! `--against ENGINE`: file tests on the simulator and on another engine, side by side.

use crate::{Outcome, output};
use filetest::{Engine, Report, SimEngine, compare, engine, files, load};
use std::path::Path;

/// Compares the simulator with `against` (`cuda`, or a folder of recorded outputs) on every file
/// test under `path`.
pub fn run(path: &Path, simulator: &SimEngine, against: &str, json: bool) -> Outcome {
    let other = engine(against)?;
    let engines = vec![simulator.name(), other.name()];
    let mut report = Report { engines, outcomes: Vec::new(), skipped: Vec::new() };
    for file in files(path).map_err(|error| format!("{}: {error}", path.display()))? {
        let test = load(&file)?;
        match other.runs(test.target()) {
            true => report.outcomes.extend(compare(&test, simulator, other.as_ref())),
            false => report.skipped.push(test.name),
        }
    }
    match json {
        true => output::print(&(report.json() + "\n"))?,
        false => output::print(&report.to_string())?,
    }
    match report.failures() {
        0 => Ok(()),
        n => Err(format!("{n} outputs differ").into()),
    }
}

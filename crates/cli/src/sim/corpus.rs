//! `--against ENGINE`: file tests on the simulator and on another engine, side by side.

use crate::{Outcome, output};
use filetest::{CudaEngine, Engine, FileTest, Recorded, Report, SimEngine, compare, files};
use std::path::Path;

/// Compares the simulator with `against` (`cuda`, or a folder of recorded outputs) on every file
/// test under `path`.
pub fn run(path: &Path, mode: &str, seed: u64, against: &str) -> Outcome {
    let simulator = SimEngine::mode(mode, seed);
    let other: Box<dyn Engine> = match against {
        "cuda" => Box::new(CudaEngine::open()?),
        folder if Path::new(folder).is_dir() => Box::new(Recorded(folder.into())),
        _ => return Err(format!("{against} is neither `cuda` nor a folder of recordings").into()),
    };
    let engines = vec![simulator.name(), other.name()];
    let mut report = Report { engines, outcomes: Vec::new(), skipped: Vec::new() };
    for path in files(path)? {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let test = FileTest::parse(&name, &std::fs::read_to_string(&path)?)?;
        match other.runs(test.target()) {
            true => report.outcomes.extend(compare(&test, &simulator, other.as_ref())),
            false => report.skipped.push(test.name),
        }
    }
    output::print(&report.to_string())?;
    match report.failures() {
        0 => Ok(()),
        n => Err(format!("{n} outputs differ").into()),
    }
}

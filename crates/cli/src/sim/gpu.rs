//! `--device cuda`: the same launch on a GPU instead of the simulator.

use super::Source;
use crate::{Outcome, output};
use filetest::{CudaEngine, Engine, Machine};
use serde_json::json;
use sim::Limits;

/// Runs the launch once on the first GPU and saves what it says to save.
pub fn run(source: &Source, limits: &Limits, as_json: bool) -> Outcome {
    let prepared = source.prepare(limits)??;
    let gpu = CudaEngine::open()?;
    let contents = gpu.run_prepared(&prepared)?;
    prepared.save(&contents)?;
    let name = gpu.name();
    match as_json {
        true => output::print(&format!("{}\n", json!({"outcome": "ok", "device": name}))),
        false => output::print(&format!("{name}: ok\n")),
    }
}

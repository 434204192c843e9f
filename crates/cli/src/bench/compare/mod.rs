//! `sixwarp bench --compare`: what the model of time predicts beside what was measured.

mod measured;
mod plot;
mod statistics;

use super::suites::Row;
use super::{Args, predicted};
use crate::{Outcome, output};
use measured::{Measurement, read};
use serde::Serialize;
use sixwarp::{Device, DeviceName};
use std::path::PathBuf;

/// Both times of one row.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    suite: String,
    name: String,
    /// Whether constants of the model were chosen with it.
    fitted: bool,
    measured_us: f64,
    predicted_us: f64,
    /// What bounds it.
    bound: String,
    /// Share of the time that tensor cores are busy, and the clock.
    tensor: f64,
    clock_ghz: f64,
}

impl Pair {
    /// Predicted over measured, less one.
    pub fn error(&self) -> f64 {
        self.predicted_us / self.measured_us - 1.0
    }
}

/// Predicts every row of the files and prints a table.
pub fn run(args: &Args, paths: &[PathBuf], device: &Device) -> Outcome {
    let DeviceName::Simulated(_) = args.device else {
        return Err(format!("{}: --compare predicts, with sim-sm90", args.device).into());
    };
    let glob = args.only.as_deref().unwrap_or("*");
    let mut pairs = Vec::new();
    for path in paths {
        for measurement in read(path)? {
            if cases::matches_glob(glob, &measurement.name) {
                pairs.extend(pair(args, device, &measurement)?);
            }
        }
    }
    if pairs.is_empty() {
        return Err(format!("no row of the files matches `{glob}`").into());
    }
    if let Some(path) = &args.plot {
        files::write(path, plot::svg(&pairs))?;
    }
    if let Some(path) = &args.json {
        files::write(path, serde_json::to_string_pretty(&pairs)? + "\n")?;
    }
    output::print(&page(&pairs))
}

fn pair(
    args: &Args,
    device: &Device,
    measurement: &Measurement,
) -> Result<Option<Pair>, Box<dyn std::error::Error>> {
    let DeviceName::Simulated(arch) = args.device else { return Ok(None) };
    let Some(row) = measurement.row() else { return Ok(None) };
    let plan = sixwarp::plan(&row.case.problem()?, device)?;
    let prediction = predicted::predict(predicted::machine(arch)?, device, &plan, &row)?;
    let Some(launch) = prediction.longest() else { return Ok(None) };
    Ok(Some(Pair {
        suite: measurement.suite.clone(),
        name: measurement.name.clone(),
        fitted: is_fitted(&measurement.suite, &row),
        measured_us: measurement.microseconds,
        predicted_us: prediction.microseconds,
        bound: launch.bound.to_string(),
        tensor: launch.tensor,
        clock_ghz: launch.clock_ghz,
    }))
}

/// Rows that were looked at when constants of the table were chosen.
fn is_fitted(suite: &str, row: &Row) -> bool {
    match suite {
        "dense" => matches!(row.column.as_str(), "512" | "2048"),
        "mqa" => matches!(row.column.as_str(), "128" | "512"),
        "decode" => row.column.starts_with("b1 ") || row.column.starts_with("b16 "),
        _ => false,
    }
}

fn page(pairs: &[Pair]) -> String {
    let mut text = statistics::table(pairs);
    text += "\n| suite | shape | measured µs | predicted µs | error | fitted | bound by | tensor cores | GHz |\n";
    text += "|---|---|---|---|---|---|---|---|---|\n";
    for pair in pairs {
        text += &format!(
            "| {} | {} | {:.1} | {:.1} | {:+.1} % | {} | {} | {:.0} % | {:.2} |\n",
            pair.suite,
            pair.name,
            pair.measured_us,
            pair.predicted_us,
            100.0 * pair.error(),
            if pair.fitted { "yes" } else { "" },
            pair.bound,
            100.0 * pair.tensor,
            pair.clock_ghz,
        );
    }
    text
}

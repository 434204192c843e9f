//! `sixwarp bench --compare`: what the model of time predicts beside what was measured.

mod measured;
mod plot;
mod statistics;

use super::suites::Row;
use super::{Args, predicted};
use crate::{Outcome, output};
use measured::{Measurement, read};
use serde::Serialize;
use sixwarp::{Arch, Device};
use std::path::PathBuf;
use time::Machine;

/// Both times of one row.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(serde::Deserialize))]
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
    /// Share of the time that shared memory is busy.
    #[serde(default)]
    shared: f64,
}

impl Pair {
    /// Predicted over measured, less one.
    pub fn error(&self) -> f64 {
        self.predicted_us / self.measured_us - 1.0
    }
}

/// Predicts every row of the files and prints a table.
pub fn run(args: &Args, paths: &[PathBuf], device: &Device) -> Outcome {
    let Some(machine) = args.machine()? else {
        return Err(format!("{}: --compare predicts, with sim-sm90", args.device).into());
    };
    let glob = args.only.as_deref().unwrap_or("*");
    let mut pairs = Vec::new();
    for path in paths {
        for measurement in read(path)? {
            if cases::matches_glob(glob, &measurement.name) {
                pairs.extend(pair(&machine, device, &measurement)?);
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
    machine: &Machine,
    device: &Device,
    measurement: &Measurement,
) -> Result<Option<Pair>, Box<dyn std::error::Error>> {
    let Some(row) = measurement.row() else { return Ok(None) };
    let plan = predicted::plan(machine, device, &row.case.problem()?)?;
    let prediction = predicted::predict(machine, device, &plan, &row)?;
    let Some(launch) = prediction.longest() else { return Ok(None) };
    Ok(Some(Pair {
        suite: measurement.suite.clone(),
        name: measurement.name.clone(),
        fitted: device.arch() == Some(Arch::Sm90) && is_fitted(&measurement.suite, &row),
        measured_us: measurement.microseconds,
        predicted_us: prediction.microseconds,
        bound: launch.bound.to_string(),
        tensor: launch.tensor,
        clock_ghz: launch.clock_ghz,
        shared: launch.slowest.shared_share(),
    }))
}

/// Median and 90th percentile of the errors of rows that were not fitted, and how many there are, from the JSON that
/// `--compare` writes.
#[cfg(test)]
pub fn errors_of(json: &str) -> Result<([f64; 2], usize), Box<dyn std::error::Error>> {
    let pairs: Vec<Pair> = serde_json::from_str(json)?;
    let blind = || pairs.iter().filter(|pair| !pair.fitted);
    let [median, ninth, _] = statistics::errors(blind()).ok_or("no rows")?;
    Ok(([median, ninth], blind().count()))
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

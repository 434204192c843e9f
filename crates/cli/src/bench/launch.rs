//! What the model of time says of a launch of any kernel.

use super::Args;
use crate::{Outcome, output};
use filetest::{Capture, Prepared};
use program::Launch;
use serde::Serialize;
use std::path::Path;
use time::{Cause, Launched, Machine, Replayed};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What is predicted of a launch.
#[derive(Serialize)]
struct Predicted {
    machine: &'static str,
    kernel: String,
    grid: [u32; 3],
    cluster: [u32; 3],
    block: [u32; 3],
    /// Linear numbers of the clusters that the simulator ran.
    clusters: Vec<u32>,
    microseconds: f64,
    clock_ghz: f64,
    bound: String,
    /// Matrix products, masked or not, in FLOP per second.
    tflops: f64,
    /// Units, and the percentage of the time they are busy in the cluster that takes longest.
    busy: Vec<(&'static str, f64)>,
    /// Causes, and the percentage of all warps' time.
    waits: Vec<(&'static str, f64)>,
}

/// Predicts the launch that `path` describes.
pub(super) fn run(args: &Args, path: &Path) -> Outcome {
    let Some(machine) = args.machine()? else {
        let text = "--launch is predicted by the model of time: --device sim-sm80 to sim-sm120";
        return Err(text.into());
    };
    let prepared = Capture::read(path)?.load(false)?;
    let predicted = predict(&machine, &prepared, args.clusters, args.registers)?;
    match args.json.as_deref() {
        Some(path) if path.as_os_str() == "-" => output::print_json(&predicted),
        Some(path) => {
            files::write(path, serde_json::to_string_pretty(&predicted)? + "\n")?;
            output::print(&predicted.to_string())
        }
        None => output::print(&predicted.to_string()),
    }
}

fn predict(
    machine: &Machine,
    prepared: &Prepared,
    samples: u32,
    registers: Option<u32>,
) -> Result<Predicted> {
    let program = &prepared.program;
    let launch = program.launches.first().ok_or("no launch")?;
    let clusters = time::spread(launch, samples);
    let options = sim::Options {
        checks: false,
        record: true,
        clusters: clusters.clone(),
        ..sim::Options::default()
    };
    let recordings = sim::run(program, &prepared.contents, &options)?.recordings;
    let prediction = match registers {
        Some(registers) => time::predict_with_registers(machine, program, &recordings, registers),
        None => time::predict(machine, program, &recordings, 1.0),
    };
    let launched = prediction.launches.first().ok_or("no launch")?;
    Ok(Predicted::new(machine, launch, launched, (clusters, prediction.microseconds)))
}

impl Predicted {
    fn new(
        machine: &Machine,
        launch: &Launch,
        launched: &Launched,
        (clusters, microseconds): (Vec<u32>, f64),
    ) -> Predicted {
        Predicted {
            machine: machine.name,
            kernel: launched.kernel.clone(),
            grid: launch.grid,
            cluster: launch.cluster,
            block: launch.block,
            clusters,
            microseconds,
            clock_ghz: launched.clock_ghz,
            bound: launched.bound.to_string(),
            tflops: launched.flops / microseconds / 1e6,
            busy: busy(&launched.slowest),
            waits: waits(launch, &launched.slowest),
        }
    }
}

/// Percentages of the time that units are busy.
fn busy(run: &Replayed) -> Vec<(&'static str, f64)> {
    let share = |name, cycles: f64| (name, 100.0 * cycles / run.cycles.max(1.0));
    let unit = |name, unit| (name, 100.0 * run.partition_share(unit));
    vec![
        share("tensor cores", run.tensor),
        unit("special functions", 3),
        unit("multiply-add", 1),
        unit("integers", 2),
        unit("issue slots", 0),
        ("shared memory", 100.0 * run.shared_share()),
        share("copies", run.copies),
    ]
}

/// Percentages of the warps' time, by what they wait for.
fn waits(launch: &Launch, run: &Replayed) -> Vec<(&'static str, f64)> {
    let product = |extent: [u32; 3]| f64::from(extent.iter().product::<u32>());
    let warps = (product(launch.block) / 32.0).ceil() * product(launch.cluster);
    let all = (run.cycles * warps).max(1.0);
    Cause::ALL.map(|cause| (cause.name(), 100.0 * run.waits[cause as usize] / all)).to_vec()
}

impl std::fmt::Display for Predicted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |shares: &[(&str, f64)]| {
            let shares = shares.iter().map(|(name, share)| format!("{name} {share:.0} %"));
            shares.collect::<Vec<_>>().join(", ")
        };
        let extent = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
        let (grid, block) = (extent(self.grid), extent(self.block));
        writeln!(f, "{} of {grid} CTAs of {block} threads, by the model of time", self.kernel)?;
        let (us, ghz, tflops) = (self.microseconds, self.clock_ghz, self.tflops);
        writeln!(f, "{}: {us:.1} us at {ghz:.2} GHz, {tflops:.0} TFLOP/s", self.machine)?;
        writeln!(f, "bound by: {}", self.bound)?;
        writeln!(f, "busy: {}", list(&self.busy))?;
        writeln!(f, "warps wait for: {}", list(&self.waits))
    }
}

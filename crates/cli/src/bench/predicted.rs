//! What the model of time says of a row: a few clusters run on the simulator, and are replayed on a machine.

use super::suites::Row;
use crate::timing;
use cases::Case;
use program::Program;
use sixwarp::{Arch, Device, Plan};
use time::{B200, H200, Machine, Prediction};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Bytes of buffers above which fewer sequences are simulated.
const MOST_BYTES: u64 = 1 << 30;

/// FLOP of a CTA above which one cluster stands for all.
const HEAVY: f64 = 1e9;

/// The machine of an architecture.
pub fn machine(arch: Arch) -> Result<&'static Machine> {
    match arch {
        Arch::Sm90 => Ok(&H200),
        Arch::Sm100 | Arch::Sm103 => Ok(&B200),
        other => Err(format!("there is no model of time for {other}: sim-sm90, sim-sm100").into()),
    }
}

/// The machine of an architecture with constants that the command line changes, each as `NAME=VALUE`.
pub fn machine_with(arch: Arch, changes: &[String]) -> Result<Machine> {
    let change = |machine: Machine, change: &String| {
        let (name, value) =
            change.split_once('=').ok_or_else(|| format!("--constant {change}: NAME=VALUE"))?;
        let value = value.parse().map_err(|_| format!("--constant {change}: no number"))?;
        machine.with(name, value)
    };
    Ok(changes.iter().try_fold(*machine(arch)?, change)?)
}

/// Predicts a row whose plan for the device is `plan`.
pub fn predict(machine: &Machine, device: &Device, plan: &Plan, row: &Row) -> Result<Prediction> {
    let program = plan.program().ok_or("a plan without kernels")?;
    let small = smaller(device, plan, &row.case)?;
    let recorded = small.as_ref().map_or(plan, |(plan, _)| plan);
    let recordings = record(recorded)?;
    Ok(time::predict(machine, program, &recordings, small.as_ref().map_or(1.0, |(_, more)| *more)))
}

/// Runs sampled clusters of a plan and records what they do.
fn record(plan: &Plan) -> Result<Vec<sim::record::Recording>> {
    let program = plan.program().ok_or("a plan without kernels")?;
    let memory = timing::host_memory(plan.problem(), program)?;
    let mut clusters: Vec<u32> = program.launches.iter().flat_map(time::sample).collect();
    clusters.sort_unstable();
    clusters.dedup();
    if plan.problem().flops() / self::clusters(program) > HEAVY {
        // The first one has as much to do as any.
        clusters.truncate(1);
    }
    let options = sim::Options { checks: false, record: true, clusters, ..sim::Options::default() };
    Ok(sim::run(program, &memory, &options)?.recordings)
}

fn bytes(program: &Program) -> u64 {
    program.buffers.iter().map(|buffer| buffer.bytes).sum()
}

fn clusters(program: &Program) -> f64 {
    let grid = program.launches.first().map_or([1; 3], |launch| launch.grid);
    grid.iter().map(|extent| f64::from(*extent)).product()
}

/// The same kernel for fewer sequences, where buffers are large, and how much more each cluster of the plan does.
fn smaller(device: &Device, plan: &Plan, case: &Case) -> Result<Option<(Plan, f64)>> {
    let Some(program) = plan.program().filter(|program| bytes(program) > MOST_BYTES) else {
        return Ok(None);
    };
    let mut case = case.clone();
    let all = case.batch;
    let mut found = None;
    while case.batch > 1 {
        case.batch /= 2;
        let fewer = sixwarp::plan(&case.problem()?, device)?;
        let Some(of_fewer) = fewer.program().filter(|_| fewer.summary() == plan.summary()) else {
            break;
        };
        let more = all as f64 / case.batch as f64 * clusters(of_fewer) / clusters(program);
        let enough = bytes(of_fewer) <= MOST_BYTES;
        found = Some((fewer, more));
        if enough {
            break;
        }
    }
    Ok(found)
}

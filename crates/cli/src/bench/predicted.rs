//! What the model of time says of a row: a few clusters run on the simulator, and are replayed on a machine.

use super::suites::Row;
use crate::timing;
use cases::Case;
use program::Program;
use sixwarp::{Arch, Device, Error, Plan, PlanOptions, Problem};
use time::{A40, A100, B200, H200, L40S, Machine, Prediction, RTX_4090, RTX_5090};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Bytes of buffers above which fewer sequences are simulated.
const MOST_BYTES: u64 = 1 << 30;

/// FLOP of a CTA above which one cluster stands for all.
const HEAVY: f64 = 1e9;

/// The machines that an architecture may be, the usual one first.
fn machines(arch: Arch) -> &'static [&'static Machine] {
    match arch {
        Arch::Sm80 => &[&A100],
        Arch::Sm86 => &[&A40],
        Arch::Sm89 => &[&RTX_4090, &L40S],
        Arch::Sm90 => &[&H200],
        Arch::Sm100 | Arch::Sm103 => &[&B200],
        Arch::Sm120 => &[&RTX_5090],
    }
}

/// The usual machine of an architecture, or the one called `name`.
pub fn machine(arch: Arch, name: Option<&str>) -> Result<&'static Machine> {
    let machines = machines(arch);
    let plain = |name: &str| name.to_lowercase().replace([' ', '-', '_'], "");
    let called = |machine: &&&Machine| name.is_none_or(|name| plain(name) == plain(machine.name));
    machines.iter().find(called).copied().ok_or_else(|| {
        let names: Vec<_> = machines.iter().map(|machine| machine.name).collect();
        format!("no {arch} chip is called `{}`: {}", name.unwrap_or_default(), names.join(", "))
            .into()
    })
}

/// Median and 90th percentile of the errors in per cent, and how many rows were measured, on an H200: of its own
/// kernels (docs/model-of-time/h200.json, rows that were not fitted), and of the `mma.sync` family
/// (docs/model-of-time/ampere.json).
const ERRORS: [(f64, f64, usize); 2] = [(6.1, 15.5, 96), (13.6, 21.5, 50)];

/// How far predictions of kernels of `kernels` on `machine` are off, as far as it is known.
pub fn accuracy(machine: &Machine, kernels: Arch) -> String {
    let (median, ninth, rows) = ERRORS[usize::from(kernels.is_mma_sync())];
    let off = format!("off by {median} % (median) and {ninth} % (90th percentile) in {rows} rows");
    match (machine.name == H200.name, kernels.is_mma_sync()) {
        (true, _) => format!("predictions are {off}"),
        (false, true) => {
            format!("nothing was measured on it; predictions of such kernels on an H200 are {off}")
        }
        (false, false) => "nothing was measured on it".to_owned(),
    }
}

/// Plans for a device as for one with the multiprocessors of `machine`.
pub fn plan(
    machine: &Machine,
    device: &Device,
    problem: &Problem,
) -> std::result::Result<Plan, Error> {
    let processors = machine.processors;
    let options = device.plan_options().map(|usual| PlanOptions { processors, ..usual });
    sixwarp::plan_with(problem, device, options)
}

/// A machine with constants that the command line changes, each as `NAME=VALUE`.
pub fn changed(machine: &Machine, changes: &[String]) -> Result<Machine> {
    let change = |machine: Machine, change: &String| {
        let (name, value) =
            change.split_once('=').ok_or_else(|| format!("--constant {change}: NAME=VALUE"))?;
        let value = value.parse().map_err(|_| format!("--constant {change}: no number"))?;
        machine.with(name, value)
    };
    Ok(changes.iter().try_fold(*machine, change)?)
}

/// Predicts a row whose plan for the device is `plan`.
pub fn predict(machine: &Machine, device: &Device, plan: &Plan, row: &Row) -> Result<Prediction> {
    let program = plan.program().ok_or("a plan without kernels")?;
    let small = smaller(machine, device, plan, &row.case)?;
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
fn smaller(
    machine: &Machine,
    device: &Device,
    plan: &Plan,
    case: &Case,
) -> Result<Option<(Plan, f64)>> {
    let Some(program) = plan.program().filter(|program| bytes(program) > MOST_BYTES) else {
        return Ok(None);
    };
    let mut case = case.clone();
    let all = case.batch;
    let mut found = None;
    while case.batch > 1 {
        case.batch /= 2;
        let fewer = self::plan(machine, device, &case.problem()?)?;
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

#[cfg(test)]
mod tests {
    use super::super::compare::errors_of;
    use super::*;

    #[test]
    fn chips_are_called_by_their_names() {
        assert_eq!(machine(Arch::Sm89, None).unwrap().name, "RTX 4090");
        assert_eq!(machine(Arch::Sm89, Some("l40s")).unwrap().name, "L40S");
        assert_eq!(machine(Arch::Sm120, Some("rtx-5090")).unwrap().name, "RTX 5090");
        let error = machine(Arch::Sm89, Some("A100")).unwrap_err().to_string();
        assert_eq!(error, "no sm_89 chip is called `A100`: RTX 4090, L40S");
    }

    #[test]
    fn accuracy_is_that_of_the_documentation() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/model-of-time");
        for ((median, ninth, rows), file) in ERRORS.into_iter().zip(["h200", "ampere"]) {
            let text = std::fs::read_to_string(format!("{docs}/{file}.json")).unwrap();
            let (found, number) = errors_of(&text).unwrap();
            assert_eq!(
                found.map(|error| format!("{error:.1}")),
                [median, ninth].map(|e| format!("{e:.1}"))
            );
            assert_eq!(number, rows, "{file}");
        }
    }
}

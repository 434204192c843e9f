//! `sixwarp bench`: times of a suite on a device, beside the least they could be.

mod chart;
mod compare;
mod constants;
mod floor;
mod launch;
mod predicted;
mod suites;

pub use predicted::machine;

use crate::problem_args::describe;
use crate::{Outcome, output, timing};
use cases::CaseData;
use floor::Rates;
use serde::Serialize;
use sixwarp::{Arch, Device, DeviceName, Error, Plan};
use std::path::PathBuf;
use suites::{Row, Suite};
use time::Machine;

const EXAMPLES: &str = "\
The floor of a problem is its FLOPs at the rate of large matrix products (on the CPU: of multiply-adds
alone), or its bytes at the rate of a copy (on the CPU: of reading), whichever is longer. On a GPU times
are medians of CUDA graph replays.

  sixwarp bench --device cuda --suite dense --json dense.json --plot dense.svg
  sixwarp bench --device cpu --suite cpu --only 'bf16 d128*'
  sixwarp bench --device sim-sm90 --suite mqa
  sixwarp bench --device sim-sm89 --chip L40S --only 'd128*'
  sixwarp bench --device cuda --constants constants.json
  sixwarp bench --device sim-sm90 --compare docs/h200/h200.json --plot model.svg
  sixwarp bench --device sim-sm100 --launch captured/launch.json

On simulated devices nothing is measured: the model of time predicts what a chip takes, and says what bounds it.
The chips are A100 (sim-sm80), A40 (sim-sm86), RTX 4090 and L40S (sim-sm89), H200 (sim-sm90), B200 (sim-sm100) and
RTX 5090 (sim-sm120). How far predictions are off is in docs/model-of-time.md.";

/// Times a suite of shapes and shows how near each comes to the floor
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// cpu, cuda[:n], or sim-sm80 to sim-sm120 for what the model of time predicts
    #[arg(long, default_value = "cpu")]
    device: DeviceName,
    /// Takes the kernels of another generation that the device runs, as sm80 on a newer GPU
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,
    /// The chip that is predicted, where several have a simulated device's architecture, as L40S for sim-sm89
    #[arg(long, value_name = "NAME")]
    chip: Option<String>,
    /// The shapes [default: cpu on the CPU, dense on a GPU]
    #[arg(long)]
    suite: Option<Suite>,
    /// Only rows whose line of the table, or whose name, matches (`*` stands for anything): `d128*`, or `* 4096`
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// Timings per row, of which the median is shown
    #[arg(long, value_name = "N", default_value_t = 7)]
    samples: usize,
    /// What the device's large matrix products reach
    #[arg(long, value_name = "TFLOP/S")]
    matmul_tflops: Option<f64>,
    /// What the device's copies reach, bytes read and written
    #[arg(long, value_name = "GB/S")]
    copy_gbs: Option<f64>,
    /// Writes JSON; - is standard output, and then nothing else is printed there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Predicts the rows of a file of measured times and prints both as a table of Markdown: what `benches/h200.py`
    /// wrote, or what `sixwarp bench` printed
    #[arg(long, value_name = "FILE")]
    compare: Vec<PathBuf>,
    /// Runs the microbenchmarks of the model of time instead, and writes its constants beside what was measured
    #[arg(long, value_name = "FILE")]
    constants: Option<PathBuf>,
    /// Predicts a launch of any kernel instead: a folder's `launch.json`, which `sixwarp capture` writes and
    /// `sixwarp sim --help` describes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["suite", "only", "compare", "constants", "plot", "arch"])]
    launch: Option<PathBuf>,
    /// Clusters of the launch that the simulator runs and that stand for all, spread over its grid
    #[arg(long, value_name = "N", default_value_t = 3, requires = "launch")]
    clusters: u32,
    /// Registers of a thread, as `ptxas -v` tells them: then CTAs that fit a multiprocessor share it
    #[arg(long, value_name = "N", requires = "launch")]
    registers: Option<u32>,
    /// Gives a constant of the model of time another value, to see what depends on it
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "constants")]
    constant: Vec<String>,
    /// Draws a chart, .svg or .png
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

impl Args {
    /// The machine that is predicted; none where times are measured.
    fn machine(&self) -> Result<Option<Machine>, Box<dyn std::error::Error>> {
        match (self.device, &self.chip) {
            (DeviceName::Simulated(arch), chip) => {
                let machine = machine(arch, chip.as_deref())?;
                predicted::changed(machine, &self.constant).map(Some)
            }
            (_, None) => Ok(None),
            (device, Some(_)) => {
                Err(format!("{device} is measured: --chip goes with sim-sm80 to sim-sm120").into())
            }
        }
    }
}

/// What was measured of one shape.
#[derive(Clone, Debug, Default, Serialize)]
struct Measured {
    line: String,
    column: String,
    problem: String,
    kernel: Option<String>,
    microseconds: Option<f64>,
    tflops: Option<f64>,
    gbs: Option<f64>,
    floor_microseconds: Option<f64>,
    /// The floor as a percentage of the time.
    percent: Option<f64>,
    /// What bounds it, where that is predicted.
    bound: Option<String>,
    /// Why there is no time.
    why: Option<String>,
}

#[derive(Serialize)]
struct Report {
    device: String,
    suite: String,
    rates: Rates,
    /// Milliseconds to load the first row's kernel: compiled anew, and from the cache.
    load_milliseconds: Option<[f64; 2]>,
    rows: Vec<Measured>,
}

/// Measures and prints.
pub fn run(args: Args) -> Outcome {
    if let Some(path) = &args.constants {
        return constants::run(args.device, path);
    }
    if let Some(path) = &args.launch {
        return launch::run(&args, path);
    }
    let machine = args.machine()?;
    let device = crate::engine::open(args.device, args.arch)?;
    if !args.compare.is_empty() {
        return compare::run(&args, &args.compare, &device);
    }
    let gpu = matches!(args.device, DeviceName::Cuda(_) | DeviceName::Simulated(_));
    let suite = args.suite.unwrap_or(if gpu { Suite::Dense } else { Suite::Cpu });
    let rates = Rates::of(args.device, &device.describe(), args.matmul_tflops, args.copy_gbs);
    let quiet = args.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
    let show = |text: String| if quiet { Ok(()) } else { output::print(&text) };
    show(heading(&device, suite, &rates))?;
    if let (Some(machine), Some(arch)) = (&machine, device.arch()) {
        let accuracy = predicted::accuracy(machine, arch);
        show(format!("model of time: {}, {arch} kernels; {accuracy}\n", machine.name))?;
    }
    let glob = args.only.as_deref().unwrap_or("*");
    let rows: Vec<Row> = suite.rows().into_iter().filter(|row| row.matches(glob)).collect();
    let load_milliseconds = rows.first().and_then(|row| load_times(&args, &device, row));
    if let Some([cold, warm]) = load_milliseconds {
        show(format!("first kernel: compiled in {cold:.0} ms, from the cache in {warm:.1} ms\n"))?;
    }
    show(Measured::HEADING.to_string())?;
    let mut measured = Vec::new();
    for row in &rows {
        let result = measure(&args, &device, &rates, row)?;
        show(result.to_string())?;
        measured.push(result);
    }
    if measured.is_empty() {
        return Err(format!("no row of the suite matches `{glob}`").into());
    }
    if let Some(path) = &args.plot {
        let title = format!("{suite:?} on {}", device.describe());
        let notes = vec!["green is the floor; a cell shows TFLOP/s or microseconds".to_string()];
        chart::write(path, &title, notes, &measured)?;
    }
    let (device, suite) = (device.describe(), format!("{suite:?}").to_lowercase());
    write_json(&args, &Report { device, suite, rates, load_milliseconds, rows: measured })
}

fn heading(device: &Device, suite: Suite, rates: &Rates) -> String {
    let rate = |rate: Option<f64>, unit: f64| {
        rate.map_or("?".to_string(), |rate| format!("{:.1}", rate / unit))
    };
    let f32 = rates.matmul_f32.map_or(String::new(), |f32| format!(" (f32 {:.2})", f32 / 1e12));
    format!(
        "{suite:?} on {}\nfloor: {}{f32} TFLOP/s, {} GB/s ({})\n",
        device.describe(),
        rate(rates.matmul, 1e12),
        rate(rates.copy, 1e9),
        rates.source
    )
}

fn write_json(args: &Args, report: &Report) -> Outcome {
    let Some(path) = &args.json else { return Ok(()) };
    if path.as_os_str() == "-" {
        return output::print_json(report);
    }
    let text = serde_json::to_string_pretty(report)? + "\n";
    Ok(files::write(path, text)?)
}

fn load_times(args: &Args, device: &Device, row: &Row) -> Option<[f64; 2]> {
    let DeviceName::Cuda(ordinal) = args.device else { return None };
    let plan = sixwarp::plan(&row.case.problem().ok()?, device).ok()?;
    let (cold, warm) = timing::load_times(ordinal, plan.program()?).ok()?;
    Some([cold, warm].map(|time| time.as_secs_f64() * 1e3))
}

/// Times one row; a device that declines it leaves the reason.
fn measure(
    args: &Args,
    device: &Device,
    rates: &Rates,
    row: &Row,
) -> Result<Measured, Box<dyn std::error::Error>> {
    let problem = row.case.problem()?;
    let mut result = Measured {
        line: row.line.clone(),
        column: row.column.clone(),
        problem: describe(&row.case),
        floor_microseconds: rates.floor(&problem),
        ..Measured::default()
    };
    let machine = args.machine()?;
    let planned = match &machine {
        Some(machine) => predicted::plan(machine, device, &problem),
        None => sixwarp::plan(&problem, device),
    };
    let plan = match planned {
        Ok(plan) => plan,
        Err(error @ (Error::Unsupported(_) | Error::TooLarge { .. })) => {
            result.why = Some(error.to_string());
            return Ok(result);
        }
        Err(error) => return Err(error.into()),
    };
    let time = match &machine {
        Some(machine) => {
            let prediction = predicted::predict(machine, device, &plan, row)?;
            result.bound = prediction.longest().map(|launch| launch.bound.to_string());
            prediction.microseconds
        }
        None => time(args, &plan, row)?,
    };
    result.kernel = Some(plan.summary());
    result.microseconds = Some(time);
    result.tflops = Some(problem.flops() / time / 1e6);
    result.gbs = Some(floor::bytes(&problem) / time / 1e3);
    result.percent = result.floor_microseconds.map(|floor| 100.0 * floor / time);
    Ok(result)
}

fn time(args: &Args, plan: &Plan, row: &Row) -> Result<f64, Box<dyn std::error::Error>> {
    match args.device {
        DeviceName::Cuda(ordinal) => timing::on_gpu(ordinal, plan, None, args.samples),
        DeviceName::Cpu | DeviceName::Oracle => {
            let data = CaseData::new(&row.case)?;
            let (result, ..) = data.with_outputs(|mut buffers| {
                timing::on_host(args.samples, || plan.run(&mut buffers))
            });
            result
        }
        simulated => Err(format!("{simulated} has no clock: time cpu or cuda[:n]").into()),
    }
}

impl Measured {
    const HEADING: &str = "\
shape                                 us    TFLOP/s       GB/s   floor us   % of floor\n";
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shape = format!("{} {}", self.line, self.column);
        let (Some(time), Some(tflops), Some(gbs)) = (self.microseconds, self.tflops, self.gbs)
        else {
            return writeln!(f, "{shape:28} {}", self.why.as_deref().unwrap_or("not measured"));
        };
        write!(f, "{shape:28} {time:11.1} {tflops:10.3} {gbs:10.1}")?;
        match (self.floor_microseconds, self.percent) {
            (Some(floor), Some(percent)) => write!(f, " {floor:10.1} {percent:12.1}"),
            _ => write!(f, " {:>10} {:>12}", "-", "-"),
        }?;
        writeln!(f, "{}", self.bound.as_ref().map_or(String::new(), |bound| format!("   {bound}")))
    }
}

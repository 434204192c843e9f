//! `sixwarp run`: one problem on one device.

use crate::inputs::FileArgs;
use crate::problem_args::{ProblemArgs, describe};
use crate::{Outcome, engine, output, timing};
use cases::{CaseData, Expected, Outputs};
use serde::Serialize;
use sixwarp::{Arch, DeviceName, Problem};
use std::path::PathBuf;
use std::time::Instant;

const EXAMPLES: &str = "\
  sixwarp run --heads 32/8 --dim 128 --queries 1 --keys 4096 --batch 4 --check
  sixwarp run --device cuda --heads 64/1 --dim 512 --shared --keys 640 --sinks --check
  sixwarp run --q q.npy --k k.npy --v v.npy --mask causal --out out.npy
  sixwarp run --tensors layer.safetensors --order bshd --out result.safetensors
  sixwarp run --case window-varlen --device oracle

Without files, inputs are random (--input-seed). Tensors in files are [batch, heads, tokens, dim], or
[batch, tokens, heads, dim] with --order bshd; a safetensors file may also hold sinks.";

/// Computes one problem and says which kernel ran, how long it took and how far off it is
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// cpu, cuda[:n], sim-sm80, -sm86, -sm89, -sm90, -sm100, -sm103, -sm120 or oracle
    #[arg(long, default_value = "cpu")]
    device: DeviceName,
    /// Takes the kernels of another generation that the device runs, as sm80 on a newer GPU
    #[arg(long, value_name = "ARCH")]
    arch: Option<Arch>,
    #[command(flatten)]
    problem: ProblemArgs,
    #[command(flatten)]
    files: FileArgs,
    /// Compares with the f64 oracle
    #[arg(long)]
    check: bool,
    /// Writes out (and, to safetensors, lse)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Times it this often
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeat: usize,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Runs and prints.
pub fn run(args: Args) -> Outcome {
    let case = args.files.shape(args.problem.case()?)?;
    let problem = case.problem()?;
    let needed: u64 = problem.slots().iter().map(|slot| problem.slot_bytes(*slot)).sum();
    sixwarp::ensure_memory("this problem", needed)?;
    let data = args.files.fill(CaseData::of(&case, problem.clone())?)?;
    let device = engine::open(args.device, args.arch)?;
    let plan = sixwarp::plan(&problem, &device)?;
    let start = Instant::now();
    let outputs = engine::run(&plan, &data)?;
    let microseconds = match args.device {
        DeviceName::Cuda(ordinal) => timing::on_gpu(ordinal, &plan, Some(&data), args.repeat)?,
        DeviceName::Cpu => timing::on_host(args.repeat, || engine::run(&plan, &data))?,
        _ => start.elapsed().as_secs_f64() * 1e6,
    };
    let error = args.check.then(|| compare(&data, &outputs)).transpose()?;
    let report = Report {
        problem: describe(&case),
        device: format!("{}: {}", args.device, device.describe()),
        kernel: plan.summary(),
        workspace_bytes: plan.workspace_bytes(),
        microseconds,
        tflops: problem.flops() / microseconds / 1e6,
        passes: error.as_ref().map(|(passes, _)| *passes),
        error: error.map(|(_, text)| text),
    };
    if let Some(path) = &args.out {
        crate::inputs::write(path, &case, &problem, &outputs)?;
    }
    if args.json {
        output::print_json(&report)?
    } else {
        output::print(&report.to_string())?
    }
    match report.passes {
        Some(false) => Err("the result is wrong".into()),
        _ => Ok(()),
    }
}

/// Whether the outputs are accepted, and how far off they are.
fn compare(data: &CaseData, outputs: &Outputs) -> Result<(bool, String), sixwarp::Error> {
    let expected = Expected::new(data)?;
    let problem: &Problem = &data.problem;
    let outcome = cases::judge(problem, outputs, &expected);
    Ok((outcome.passed(), outcome.to_string()))
}

#[derive(Serialize)]
struct Report {
    problem: String,
    device: String,
    kernel: String,
    workspace_bytes: u64,
    /// Median.
    microseconds: f64,
    tflops: f64,
    passes: Option<bool>,
    error: Option<String>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "problem  {}", self.problem)?;
        writeln!(f, "device   {}", self.device)?;
        writeln!(f, "kernel   {}", self.kernel)?;
        if self.workspace_bytes > 0 {
            writeln!(f, "scratch  {} bytes", self.workspace_bytes)?;
        }
        writeln!(f, "time     {:.1} us, {:.3} TFLOP/s", self.microseconds, self.tflops)?;
        match &self.error {
            Some(error) => writeln!(f, "oracle   {error}"),
            None => Ok(()),
        }
    }
}

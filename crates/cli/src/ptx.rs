//! `sixwarp ptx`: what is emitted for a problem, and what it costs.

use crate::problem_args::{ProblemArgs, describe};
use crate::{AnyError, Outcome, output};
use ::ptx::toolchain::{self, Assembled};
use kernels::{Arch, PlanOptions};
use serde::Serialize;
use sixwarp::{Device, DeviceName};
use std::path::PathBuf;

const EXAMPLES: &str = "\
  sixwarp ptx --device sim-sm90 --heads 32/8 --dim 128 --queries 4096 --keys 4096 --mask causal
  sixwarp ptx --device cuda --case mqa-d512-t1-s512 --report
  sixwarp ptx --dim 512 --heads 64/1 --shared --keys 640 --sass > decode.sass

PTX needs nothing installed; --report and --sass use NVIDIA's ptxas and nvdisasm, which are fetched
once (see `sixwarp doctor`).";

/// Prints the PTX of the kernels for a problem, their resources, or their machine code
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    problem: ProblemArgs,
    /// Whose kernels: sim-sm80 to sim-sm120 without a GPU, or cuda[:n] as it runs them
    #[arg(long, default_value = "sim-sm100")]
    device: DeviceName,
    /// Prints registers, spills, shared memory and warnings instead
    #[arg(long, conflicts_with = "sass")]
    report: bool,
    /// Prints the machine code instead
    #[arg(long)]
    sass: bool,
    /// Prints JSON: the plan, launches and resources, with the PTX
    #[arg(long, conflicts_with = "sass")]
    json: bool,
    /// Writes to a file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Plans the problem and prints what was asked for.
pub fn run(args: Args) -> Outcome {
    let case = args.problem.case()?;
    let (arch, options) = planner(args.device)?;
    let plan = kernels::plan(&case.problem()?, arch, &options)?;
    let text = plan.program.module.to_string();
    let assemble = || toolchain::assemble(&text, &arch.to_string());
    let shown = if args.sass {
        toolchain::disassemble(&assemble()?.cubin)?
    } else if args.report || args.json {
        let report = Report::new(describe(&case), arch, &plan, &assemble()?);
        match args.json {
            true => serde_json::to_string_pretty(&WithPtx { report, ptx: &text })? + "\n",
            false => report.to_string(),
        }
    } else {
        text
    };
    match &args.output {
        Some(path) => Ok(files::write(path, shown)?),
        None => output::print(&shown),
    }
}

/// What kernels are planned with for a device.
fn planner(name: DeviceName) -> Result<(Arch, PlanOptions), AnyError> {
    let device = Device::open(name)?;
    device.arch().zip(device.plan_options()).ok_or_else(|| {
        format!("{name} runs no kernels: cuda[:n] and sim-sm80 to sim-sm120 do").into()
    })
}

#[derive(Serialize)]
struct WithPtx<'a> {
    #[serde(flatten)]
    report: Report,
    ptx: &'a str,
}

#[derive(Serialize)]
struct Report {
    problem: String,
    target: String,
    plan: String,
    workspace_bytes: u64,
    kernels: Vec<Kernel>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Kernel {
    name: String,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: [u32; 3],
    shared_bytes: u32,
    registers: u32,
    spill_bytes: u32,
    barriers: u32,
}

impl Report {
    fn new(problem: String, arch: Arch, plan: &kernels::Plan, assembled: &Assembled) -> Self {
        let kernel = |launch: &program::Launch| {
            let resources = assembled.kernel(&launch.kernel).cloned().unwrap_or_default();
            Kernel {
                name: launch.kernel.clone(),
                grid: launch.grid,
                block: launch.block,
                cluster: launch.cluster,
                shared_bytes: launch.shared_bytes + resources.smem,
                registers: resources.registers,
                spill_bytes: resources.spill_stores + resources.spill_loads,
                barriers: resources.barriers,
            }
        };
        Self {
            problem,
            target: arch.to_string(),
            plan: plan.summary.clone(),
            workspace_bytes: plan.program.workspace_bytes(),
            kernels: plan.program.launches.iter().map(kernel).collect(),
            warnings: assembled.warnings.clone(),
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "problem    {}", self.problem)?;
        writeln!(f, "target     {}", self.target)?;
        writeln!(f, "plan       {}", self.plan)?;
        writeln!(f, "workspace  {} bytes", self.workspace_bytes)?;
        for k in &self.kernels {
            let (grid, block, cluster) = (extent(k.grid), extent(k.block), extent(k.cluster));
            writeln!(
                f,
                "{:10} grid {grid}, {block} threads, cluster {cluster}, {} registers, {} bytes \
                 spilled, {} bytes shared, {} barriers",
                k.name, k.registers, k.spill_bytes, k.shared_bytes, k.barriers
            )?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning    {warning}"))
    }
}

/// `4` or `4x2` or `4x2x3`.
fn extent([x, y, z]: [u32; 3]) -> String {
    match (y, z) {
        (1, 1) => x.to_string(),
        (_, 1) => format!("{x}x{y}"),
        _ => format!("{x}x{y}x{z}"),
    }
}

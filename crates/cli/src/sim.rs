//! `sixwarp sim`: any PTX file on the simulator.

mod corpus;
mod launch;
mod outcome;
mod parameters;

use crate::Outcome;
use filetest::FileTest;
use outcome::Finished;
use parameters::Parameters;
use sim::{Options, Report};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::Arc;

/// Runs a PTX kernel on the simulator and says what is wrong with it
///
/// The exit status tells the outcome: 0 ok, 2 the launch does not fit the kernel, 3 fault,
/// 4 hazard, 5 deadlock, 6 unsupported.
#[derive(clap::Args)]
pub struct Args {
    /// PTX file (with --against also a folder)
    #[arg(required_unless_present = "launch")]
    file: Option<PathBuf>,
    /// Captured launch as JSON instead of the options below
    #[arg(long, conflicts_with = "file")]
    launch: Option<PathBuf>,
    /// Kernel, where the file has several
    #[arg(long)]
    kernel: Option<String>,
    /// CTAs, as x,y,z
    #[arg(long, default_value = "1")]
    grid: String,
    /// Threads of a CTA, as x,y,z
    #[arg(long, default_value = "1")]
    block: String,
    /// CTAs of a cluster, as x,y,z
    #[arg(long, default_value = "1")]
    cluster: String,
    /// Dynamic shared memory in bytes
    #[arg(long, default_value_t = 0)]
    smem: u32,
    #[command(flatten)]
    parameters: Parameters,
    /// When asynchronous work completes and who runs: eager, latest, adversarial, random, all
    #[arg(long, default_value = "eager")]
    mode: String,
    /// Seed of the random mode
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Also apply rules of the manual that shipped kernels break without harm
    #[arg(long)]
    pedantic: bool,
    /// Only run: no races, fences or uninitialised reads
    #[arg(long)]
    no_checks: bool,
    /// Host threads, 0 for one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Writes a timeline for chrome://tracing or Perfetto
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Runs the file tests under FILE here and on another engine (cuda, or a folder of recorded
    /// outputs) and compares
    #[arg(long, value_name = "ENGINE", conflicts_with = "launch")]
    against: Option<String>,
    /// Prints counters
    #[arg(long)]
    counters: bool,
    /// Prints the outcome as JSON
    #[arg(long)]
    json: bool,
}

const MODES: [&str; 4] = ["eager", "latest", "adversarial", "random"];

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let modes: Vec<&str> = match args.mode.as_str() {
        "all" => MODES.to_vec(),
        one => vec![one],
    };
    if let (Some(against), Some(path)) = (&args.against, &args.file) {
        return { modes }.into_iter().try_for_each(|m| corpus::run(path, m, args.seed, against));
    }
    for mode in modes {
        let Some(options) = Options::mode(mode, args.seed) else {
            return Err(format!(
                "no mode `{mode}`: there are {}, pedantic and all",
                MODES.join(", ")
            )
            .into());
        };
        let options = Options {
            checks: !args.no_checks,
            pedantic: args.pedantic || options.pedantic,
            trace: args.trace.is_some(),
            threads: args.threads,
            ..options
        };
        let finished = Finished::new(mode, args.seed, execute(&args, &options)?);
        finished.print(args.json, args.counters)?;
        if let (Some(path), Some(trace)) = (&args.trace, finished.trace()) {
            std::fs::write(path, trace)?;
        }
        if finished.status() != 0 {
            exit(finished.status());
        }
    }
    Ok(())
}

fn execute(
    args: &Args,
    options: &Options,
) -> Result<Result<Report, sim::Error>, Box<dyn std::error::Error>> {
    if let Some(path) = &args.launch {
        return launch::execute(path, options);
    }
    let path = args.file.as_deref().ok_or("a PTX file or --launch")?;
    let test = file_test(args, path)?;
    let run = test.runs.first().ok_or("no launch")?;
    let program = test.program(run)?;
    Ok(sim::run(&program, &run.contents(), options))
}

/// The file as a test whose only run is the one asked for.
fn file_test(args: &Args, path: &Path) -> Result<FileTest, Box<dyn std::error::Error>> {
    let source = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let module = ptx::parse(&source).map_err(|e| format!("{}: {e}", path.display()))?;
    let kernel = args.kernel.as_ref().map_or(String::new(), |k| format!(" --kernel {k}"));
    let run = format!(
        "// run: --grid {} --block {} --cluster {} --smem {}{kernel}{}\n",
        args.grid, args.block, args.cluster, args.smem, args.parameters
    );
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let body: String =
        source.lines().filter(|l| !l.starts_with("// run:")).map(|l| format!("{l}\n")).collect();
    let mut test = FileTest::parse(&name, &format!("{run}{body}"))?;
    // Reported lines are those of the file itself.
    test.module = Arc::new(module);
    Ok(test)
}

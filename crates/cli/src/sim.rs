//! `sixwarp sim`: any PTX file on the simulator.

mod corpus;
mod geometry;
mod gpu;
pub mod limits;
mod outcome;
mod parameters;
pub mod rules;

pub use geometry::LaunchArgs;

use crate::Outcome;
use filetest::{Capture, FileTest, Prepared, SimEngine};
use outcome::Finished;
use sim::Options;
use std::path::{Path, PathBuf};
use std::process::exit;

/// Runs a PTX kernel on the simulator (or a GPU) and says what is wrong with it
///
/// The exit status tells the outcome: 0 ok, 2 the launch does not fit the kernel, 3 fault,
/// 4 hazard, 5 deadlock, 6 unsupported, 7 stopped by a limit.
#[derive(clap::Args)]
#[command(group(
    clap::ArgGroup::new("what").args(["file", "launch", "allow"]).multiple(true).required(true)
))]
pub struct Args {
    /// When asynchronous work completes and who runs: eager, latest, adversarial, random, all
    #[arg(long, default_value = "eager")]
    mode: String,
    /// Seed of the random mode
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Also apply rules of the manual that shipped kernels break without harm
    #[arg(long)]
    pedantic: bool,
    /// Lets findings of this rule pass: they are listed and counted in the report, whatever else it says, and
    /// the run goes on as if all were in order, or as the list of rules says. Can be given several times; `help`
    /// lists the rules, which are all that a kernel can survive
    #[arg(long, value_name = "RULE", value_parser = rules::parser(), hide_possible_values = true)]
    allow: Vec<String>,
    /// Only run: no races, fences or uninitialised reads
    #[arg(long)]
    no_checks: bool,
    /// Host threads, 0 for one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Writes a timeline for chrome://tracing or Perfetto
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Runs the file tests under FILE (or a folder) here and on another engine (cuda, or a folder of recorded
    /// outputs) and compares; files for other targets are left out. A fault on a GPU ends what follows
    /// it, so give one file per call where one is possible
    #[arg(long, value_name = "ENGINE", conflicts_with = "launch")]
    against: Option<String>,
    /// What runs the launch: sim, or cuda for a GPU, where only a fault is found
    #[arg(long, default_value = "sim", value_parser = ["sim", "cuda"], conflicts_with_all = SIMULATED)]
    device: String,
    /// Prints counters
    #[arg(long)]
    counters: bool,
    /// Prints the outcome as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: limits::LimitArgs,
    #[command(flatten)]
    source: Source,
}

/// A kernel and its launch: a PTX file with options, or a launch captured elsewhere.
#[derive(clap::Args)]
#[command(next_help_heading = "Kernel")]
pub struct Source {
    /// PTX file; one that says how to run it (`// run:`, see tests/README.md) needs no options of its
    /// launch
    file: Option<PathBuf>,
    /// Captured launch as JSON instead of the options below
    #[arg(long, conflicts_with = "file", long_help = filetest::CAPTURE_HELP)]
    launch: Option<PathBuf>,
    /// Lets a captured launch read and write outside its folder: only for files one has written oneself
    #[arg(long, conflicts_with = "file")]
    any_path: bool,
    #[command(flatten)]
    pub options: LaunchArgs,
}

/// Options that a GPU cannot follow.
const SIMULATED: [&str; 8] =
    ["mode", "seed", "pedantic", "allow", "no_checks", "trace", "against", "counters"];

const MODES: [&str; 4] = ["eager", "latest", "adversarial", "random"];

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    let Some(allow) = rules::allowed(&args.allow)? else { return rules::print() };
    if args.device == "cuda" {
        return gpu::run(&args.source, &args.limits.limits(), args.json);
    }
    let modes: Vec<&str> = match args.mode.as_str() {
        "all" => MODES.to_vec(),
        one => vec![one],
    };
    for mode in modes {
        let Some(options) = Options::mode(mode, args.seed) else {
            let known = MODES.join(", ");
            return Err(format!("no mode `{mode}`: there are {known}, pedantic and all").into());
        };
        if let (Some(against), Some(path)) = (&args.against, &args.source.file) {
            corpus::run(path, &SimEngine::mode(mode, args.seed), against, args.json)?;
            continue;
        }
        let options = Options {
            checks: !args.no_checks,
            pedantic: args.pedantic || options.pedantic,
            allow: allow.clone(),
            trace: args.trace.is_some(),
            threads: args.threads,
            limits: args.limits.limits(),
            ..options
        };
        let finished = Finished::new(mode, args.seed, args.source.execute(&options)?);
        finished.print(args.json, args.counters)?;
        if let (Some(path), Some(trace)) = (&args.trace, finished.trace()) {
            files::write(path, trace)?;
        }
        if finished.status() != 0 {
            exit(finished.status());
        }
    }
    Ok(())
}

type AnyError = Box<dyn std::error::Error>;

impl Source {
    /// Whether the command line names one.
    pub fn is_given(&self) -> bool {
        self.file.is_some() || self.launch.is_some()
    }

    /// The file's name.
    pub fn name(&self) -> String {
        let path = self.file.as_deref().or(self.launch.as_deref());
        path.map_or(String::new(), |path| path.display().to_string())
    }

    /// Runs it on the simulator.
    pub fn execute(&self, options: &Options) -> Result<sim::Outcome, AnyError> {
        let prepared = match self.prepare(&options.limits)? {
            Ok(prepared) => prepared,
            Err(error) => {
                return Ok(sim::Outcome { error: Some(error), ..sim::Outcome::default() });
            }
        };
        let outcome = sim::outcome(&prepared.program, &prepared.contents, options);
        prepared.save(&outcome.report.buffers)?;
        Ok(outcome)
    }

    /// The program and its memory, or what takes more memory than the limits allow.
    fn prepare(&self, limits: &sim::Limits) -> Result<Result<Prepared, sim::Error>, AnyError> {
        if let Some(path) = &self.launch {
            let capture = Capture::read(path)?;
            return Ok(match capture.check_memory(limits) {
                Ok(()) => Ok(capture.load(self.any_path)?),
                Err(error) => Err(error),
            });
        }
        let path = self.file.as_deref().ok_or("a PTX file or --launch")?;
        let test = self.file_test(path)?;
        let run = test.runs.first().ok_or("no launch")?;
        Ok(match run.check_memory(limits) {
            Ok(()) => Ok(test.prepare(run)?),
            Err(error) => Err(error),
        })
    }

    /// The file as a test whose only run is the one asked for.
    fn file_test(&self, path: &Path) -> Result<FileTest, AnyError> {
        let source =
            std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let test = self.options.file_test(&name, &source);
        Ok(test.map_err(|error| format!("{}: {error}", path.display()))?)
    }
}

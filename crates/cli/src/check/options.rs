//! The command line of `sixwarp check`.

use super::command::CommandArgs;
use super::output::Outputs;
use super::subject::Subject;
use crate::AnyError;
use crate::sim::{LaunchArgs, limits::LimitArgs, rules};
use report::{Mode, Schedule, schedules};
use std::ops::Range;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  Every kernel that a program launches, Triton or Rust or C, without a GPU:
    sixwarp check -- python my_kernel.py
  A PTX file: is it PTX that the assembler takes? With a launch it also runs, on the simulator.
    sixwarp check kernel.ptx
    sixwarp check kernel.ptx --block 128 --arg in:f32[1024]=random --arg out:f32[1024]=poison
  The launch may stand at the head of the file, as in tests/ptx:
    // run: --block 128 --arg in:f32[1024]=random --arg out:f32[1024]=poison
  Every PTX file and every launch.json under a folder:
    sixwarp check kernels/
  A launch that was captured elsewhere (`sixwarp sim --help` describes the file):
    sixwarp check --launch captured/launch.json
  More schedules, on all cores; the first that fails is reported, whatever the number of cores:
    sixwarp check kernel.ptx --modes all --seeds 0..64
  That one again, as the report says:
    sixwarp check kernel.ptx --replay random:5
  Every kernel that a program launches, on Linux: Triton, cudarc, C with the driver API.
    sixwarp check -- python my_triton.py
  For machines, and a page per finding for a browser, of files or of a command:
    sixwarp check kernels/ --sarif check.sarif --json check.json --html findings/

Exit status: 0 clean; 1 something was found; 2 the command line is wrong or something cannot be read;
3 nothing was found, but not all was checked (an instruction that the simulator does not know, or a limit).";

/// Checks kernels by anyone: PTX files, captured launches, and programs that launch kernels
///
/// A PTX file is verified: what the assembler would refuse is found without it. With a launch, from the head of the
/// file or from options, the launch is held against the rules of the driver. Then it runs on the simulator under
/// several schedules, which looks for races, missing fences, deadlocks, and memory that was never written.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group(
    clap::ArgGroup::new("subjects").args(["paths", "launch", "allow", "command"]).multiple(true).required(true)
))]
pub struct Args {
    /// PTX files, captured launches (.json), and folders of both
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// A captured launch
    #[arg(long, value_name = "FILE")]
    launch: Vec<PathBuf>,
    /// Lets captured launches read outside their folders: only for files one has written oneself
    #[arg(long)]
    any_path: bool,
    /// Schedules: eager, latest, adversarial, random, or several with commas between, or all
    #[arg(id = "schedule-modes", long = "modes", value_name = "MODES", default_value = "all", value_parser = modes)]
    modes: Modes,
    /// Seeds of the random schedules: 0..64, or one number
    #[arg(long, default_value = "0..8", value_parser = seeds)]
    seeds: Range<u64>,
    /// Runs one schedule only, as a report names it: latest, random:5
    #[arg(long, value_name = "MODE[:SEED]", conflicts_with_all = ["schedule-modes", "seeds"])]
    replay: Option<Schedule>,
    /// Also applies rules of the manual that shipped kernels break without harm
    #[arg(long)]
    pedantic: bool,
    /// Lets findings of this rule pass: they are listed and counted, and the run goes on. `help` lists the rules
    #[arg(long, value_name = "RULE", value_parser = rules::parser(), hide_possible_values = true)]
    allow: Vec<String>,
    /// Runs PTX that the verifier objects to
    #[arg(long)]
    no_verify: bool,
    /// Schedules that run at a time, 0 for one per core
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Where source files are that `.loc` names, if not beside the PTX
    #[arg(long, value_name = "FOLDER")]
    source: Vec<PathBuf>,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    kernel: LaunchArgs,
    #[command(flatten)]
    command: CommandArgs,
}

/// Modes in the order given.
#[derive(Clone)]
struct Modes(Vec<Mode>);

fn modes(text: &str) -> Result<Modes, String> {
    if text == "all" {
        return Ok(Modes(Mode::ALL.to_vec()));
    }
    let parsed: Result<Vec<Mode>, _> = text.split(',').map(str::parse).collect();
    parsed.map(Modes).map_err(|error| error.to_string())
}

/// `0..64`, or `5`, which is `5..6`.
fn seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| text.parse::<u64>().ok();
    let range = match text.split_once("..") {
        Some((first, end)) => number(first).zip(number(end)).map(|(first, end)| first..end),
        None => number(text).and_then(|seed| Some(seed..seed.checked_add(1)?)),
    };
    let range = range.filter(|range| !range.is_empty());
    range.ok_or_else(|| "expected seeds such as 0..64, the last one left out, or one number".into())
}

/// How things are checked.
pub struct Options {
    paths: Vec<PathBuf>,
    /// Whether captured launches may read outside their folders.
    pub any_path: bool,
    /// Schedules in the order in which they count.
    pub schedules: Vec<Schedule>,
    /// Schedules at a time.
    pub threads: usize,
    /// Options of the simulator that all schedules share.
    pub simulator: sim::Options,
    /// Whether PTX is verified first.
    pub verifies: bool,
    /// Whether timelines are recorded.
    pub timelines: bool,
    /// The launch by options.
    pub kernel: LaunchArgs,
    /// Folders of source files.
    pub roots: Vec<PathBuf>,
    /// What of all this a replay must be told again, as words of a command line.
    pub again: String,
}

impl Args {
    /// Whether the kernels that a command launches are to be checked.
    pub fn has_command(&self) -> bool {
        !self.command.command.is_empty()
    }

    /// The command and how its launches are checked, where reports go, and where source files are.
    pub fn into_command(self) -> (CommandArgs, Outputs, Vec<PathBuf>) {
        (self.command, self.outputs, self.source)
    }

    /// Whether a list of rules is wanted.
    pub fn asks_for_rules(&self) -> bool {
        rules::allowed(&self.allow).is_ok_and(|rules| rules.is_none())
    }

    /// Options that change what a schedule finds.
    fn again(&self) -> String {
        let mut words = self.kernel.words();
        let flags = [
            ("--pedantic", self.pedantic),
            ("--no-verify", self.no_verify),
            ("--any-path", self.any_path),
        ];
        words.extend(flags.iter().filter(|(_, set)| *set).map(|(flag, _)| (*flag).to_owned()));
        for rule in &self.allow {
            words.extend(["--allow".to_owned(), rule.clone()]);
        }
        words.iter().map(|word| report::quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// How to check, and where reports go.
    pub fn split(self) -> Result<(Options, Outputs), AnyError> {
        let again = self.again();
        let allow = rules::allowed(&self.allow)?.unwrap_or_default();
        let simulator = sim::Options {
            pedantic: self.pedantic,
            allow,
            threads: self.threads,
            limits: self.limits.limits(),
            ..sim::Options::default()
        };
        let threads = match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let schedules = match self.replay {
            Some(schedule) => vec![schedule],
            None => schedules(&self.modes.0, self.seeds),
        };
        let options = Options {
            paths: self.paths.into_iter().chain(self.launch).collect(),
            any_path: self.any_path,
            schedules,
            threads,
            simulator,
            verifies: !self.no_verify,
            timelines: self.outputs.wants_timelines(),
            kernel: self.kernel,
            roots: self.source,
            again,
        };
        Ok((options, self.outputs))
    }
}

impl Options {
    /// Every file that is to be checked, in order.
    pub fn subjects(&self) -> Result<Vec<Subject>, AnyError> {
        let mut subjects = Vec::new();
        for path in &self.paths {
            let found = Subject::under(path)?;
            if found.is_empty() {
                let path = path.display();
                return Err(format!("{path}: no PTX file and no launch.json in it").into());
            }
            subjects.extend(found);
        }
        Ok(subjects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_a_range_or_one() {
        assert_eq!(seeds("0..64"), Ok(0..64));
        assert_eq!(seeds("5"), Ok(5..6));
        for wrong in ["4..4", "5..4", "..4", "a", "-1", "18446744073709551615"] {
            seeds(wrong).unwrap_err();
        }
    }

    #[test]
    fn modes_are_a_list() {
        assert_eq!(modes("all").ok().map(|modes| modes.0), Some(Mode::ALL.to_vec()));
        let two = modes("random,eager").ok().map(|modes| modes.0);
        assert_eq!(two, Some(vec![Mode::Random, Mode::Eager]));
        assert!(modes("slow").is_err_and(|error| error.starts_with("no mode `slow`")));
    }
}

//! `sixwarp check -- COMMAND`: a program on the stand-in driver.
//!
//! The command finds a `libcuda.so.1` and a `libcudart.so` of this project, a `ptxas` that keeps PTX, and a
//! `sitecustomize` that prepares Triton and torch. What the stand-in writes to the folder of reports is summed up when
//! the command has ended.

mod environment;
mod findings;
mod library;
mod named_library;
mod reports;

use super::output::Outputs;
use crate::AnyError;
use environment::Environment;
use findings::Findings;
use reports::Reports;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

/// The device, the schedules and the folder for what is found.
#[derive(clap::Args)]
#[command(next_help_heading = "Commands")]
pub struct CommandArgs {
    /// Architecture of the device that the command sees: sm_90a or sm_100a
    #[arg(long, default_value = "sm_90a", value_parser = ["sm_90a", "sm_100a"])]
    device: String,
    /// Schedules that each launch of the command is run in, with commas between, or all: eager, latest, adversarial,
    /// random
    #[arg(long, value_name = "MODES", default_value = "eager")]
    launch_modes: String,
    /// Seed of the random schedule of launches
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    launch_seed: u64,
    /// Folder for findings as JSON and for the launches that they were found in
    #[arg(long, value_name = "FOLDER")]
    report: Option<PathBuf>,
    /// Folder for the libraries that the command loads, which stays: with it in LD_LIBRARY_PATH a program runs on the
    /// simulator without this command
    #[arg(long, value_name = "FOLDER")]
    libraries: Option<PathBuf>,
    /// Also save launches in which nothing is found, for `sixwarp sim --launch`: all, every so many (a number), or
    /// those of kernels whose names contain a word
    #[arg(long, value_name = "WHICH", requires = "report")]
    save_launches: Option<String>,
    /// Also report reads of device memory that nothing has written
    #[arg(long)]
    uninitialised: bool,
    /// Also run benchmarks of Triton programs, whose times mean nothing here
    #[arg(long)]
    benchmarks: bool,
    /// Run every configuration of an autotuner, not only the first that fits
    #[arg(long)]
    all_configurations: bool,
    /// Tell of every launch
    #[arg(long)]
    verbose: bool,
    /// The command and its arguments, behind `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Runs the command; the exit status: 1 where something was found, the command's own where it failed, 3 where launches
/// could not be checked.
pub fn run(args: CommandArgs, outputs: &Outputs, sources: Vec<PathBuf>) -> Result<i32, AnyError> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err("name a command behind `--`: sixwarp check -- python kernel.py".into());
    };
    if outputs.uses_standard_output() {
        let text =
            "the command writes to standard output itself: name a file for --json and --sarif";
        return Err(text.into());
    }
    let environment = Environment::new(&args)?;
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.variables());
    let status = command.status().map_err(|error| format!("{}: {error}", program.display()))?;
    let findings = Findings::read(environment.report())?;
    eprint!("{}", findings.summary(args.report.as_deref()));
    if let Some(signal) = signal_of(status) {
        eprintln!(
            "sixwarp: signal {signal} ended the command: what it had not launched is not checked"
        );
    }
    if outputs.is_asked_for() {
        let reports = Reports { args: &args, folder: environment.report(), outputs };
        reports.write(&findings, sources)?;
    }
    Ok(exit_code(&findings, status))
}

fn exit_code(findings: &Findings, status: ExitStatus) -> i32 {
    // As shells say it: 128 and the signal's number.
    let of_command = status.code().or_else(|| Some(128 + signal_of(status)?)).unwrap_or(1);
    match (findings.wrong() > 0, of_command, findings.unchecked() > 0) {
        (true, ..) => 1,
        (false, 0, true) => 3,
        (false, code, _) => code,
    }
}

/// The signal that ended a command, where systems have signals.
#[cfg(unix)]
fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal_of(_: ExitStatus) -> Option<i32> {
    None
}

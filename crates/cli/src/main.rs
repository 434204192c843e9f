//! The `sixwarp` program.

mod bench;
mod capture;
mod check;
mod demo;
mod doctor;
mod engine;
mod inputs;
mod layout;
mod new;
mod output;
mod problem_args;
mod ptx;
mod run;
mod sim;
mod stalls;
mod support;
mod timeline;
mod timing;
mod trace;
mod verify;
mod warm;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Fused attention for Hopper and Blackwell: kernels, a simulator, and tools around them.
#[derive(Parser)]
#[command(name = "sixwarp", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Each command is a module with `Args` and `run`.
#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Run(Box<run::Args>),
    Verify(verify::Args),
    Bench(bench::Args),
    Ptx(Box<ptx::Args>),
    Check(Box<check::Args>),
    Capture(Box<capture::Args>),
    Sim(Box<sim::Args>),
    Trace(Box<trace::Args>),
    Layout(Box<layout::Args>),
    New(new::Args),
    Doctor(doctor::Args),
    Warm(warm::Args),
    /// Prints a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What a command comes to; an error is printed after the program's name.
type Outcome = Result<(), AnyError>;

/// Any error, to be printed.
type AnyError = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sixwarp: {}", output::readable(&error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Demo(args) => demo::run(args),
        Command::Run(args) => run::run(*args),
        Command::Verify(args) => verify::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Ptx(args) => ptx::run(*args),
        Command::Check(args) => check::run(*args),
        Command::Capture(args) => capture::run(*args),
        Command::Sim(args) => sim::run(*args),
        Command::Trace(args) => trace::run(*args),
        Command::Layout(args) => layout::run(*args),
        Command::New(args) => new::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Warm(args) => warm::run(args),
        Command::Completions { shell } => completions(shell),
    }
}

fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sixwarp", &mut script);
    output::print(&String::from_utf8(script)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}

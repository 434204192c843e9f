//! `sixwarp check`: what is wrong with anyone's kernel.

#[cfg(target_os = "linux")]
mod command;
#[cfg(not(target_os = "linux"))]
#[path = "command_elsewhere.rs"]
mod command;

use crate::Outcome;

/// Checks every kernel that a command launches, on the simulator, without a GPU
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    command: command::CommandArgs,
}

/// Runs the command.
pub fn run(args: Args) -> Outcome {
    command::run(args.command)
}

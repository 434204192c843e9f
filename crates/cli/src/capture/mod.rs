//! `sixwarp capture -- COMMAND`: launches of a program on a GPU, written for the simulator.
//!
//! A library of this project is preloaded into the command. It stands in front of the driver, and writes each launch
//! with its memory before it runs. What it has written is summed up when the command has ended.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod command;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod library;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod preload;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod written;

use crate::Outcome;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  Every launch of a program, then all of them on the simulator:
    sixwarp capture --output captured -- python my_triton.py
    sixwarp check captured
  The third launch of kernels whose names contain a word:
    sixwarp capture --name attention --nth 3 -- ./program
  A launch that does not end: the program is ended after a minute, and the launch is on the disk.
    sixwarp capture --timeout 60 --limit 50 -- python hangs.py
  What the GPU computed beside what the simulator computes:
    sixwarp capture --outputs --limit 1 -- ./program
    sixwarp sim --launch captured/*/launch.json    # writes simulated0.bin, to be compared with after0.bin

Exit status: that of the command; 3 where the command succeeded and nothing was captured; 124 where it was ended.";

/// Writes kernel launches of a program on a GPU, with their memory, for `sixwarp check`
///
/// A launch is on the disk before it runs, so that one which hangs can be looked at without the GPU. Modules must carry
/// PTX, or their PTX must be at hand: Triton's is found in its cache.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folder for the launches
    #[arg(long, value_name = "FOLDER", default_value = "captured")]
    output: PathBuf,
    /// Only kernels whose names contain this word
    #[arg(long, value_name = "WORD")]
    name: Option<String>,
    /// Only the n-th of these launches in each process, counted from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    nth: Option<u64>,
    /// Launches of each process that are written at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Launches that can reach more memory than this are not written
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    most_mib: u64,
    /// Folder with the PTX of kernels whose modules are machine code
    #[arg(long, value_name = "FOLDER")]
    ptx: Vec<PathBuf>,
    /// Also write the memory that a launch has changed, when it has ended
    #[arg(long)]
    outputs: bool,
    /// Do not wait for launches: for kernels that wait for the program
    #[arg(long, conflicts_with = "outputs")]
    no_wait: bool,
    /// End the command after so many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// The command and its arguments, behind `--`
    #[arg(last = true, value_name = "COMMAND", required = true)]
    command: Vec<OsString>,
}

/// Runs the command, and ends the program with its status.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn run(args: Args) -> Outcome {
    match command::run(&args)? {
        0 => Ok(()),
        status => std::process::exit(status),
    }
}

/// Says that this needs Linux.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn run(_: Args) -> Outcome {
    Err("launches can be captured on Linux with glibc only: a library is preloaded".into())
}

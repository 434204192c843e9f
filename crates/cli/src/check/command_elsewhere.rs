//! `sixwarp check -- COMMAND` on systems whose programs do not load a `libcuda.so.1`.

use super::output::Outputs;
use crate::AnyError;
use std::ffi::OsString;
use std::path::PathBuf;

/// A command to be checked.
#[derive(clap::Args)]
pub struct CommandArgs {
    /// The command and its arguments, behind `--`
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Says that this needs Linux.
pub fn run(_: CommandArgs, _: &Outputs, _: Vec<PathBuf>) -> Result<i32, AnyError> {
    Err("commands can be checked on Linux only: the driver that stands in is a libcuda.so.1".into())
}

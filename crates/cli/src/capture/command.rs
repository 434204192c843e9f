//! The command, with the library in front of the driver.

use super::written::Written;
use super::{Args, library, preload};
use crate::AnyError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// The status of a command that was ended, as `timeout` gives it.
const ENDED: i32 = 124;
/// Nothing was captured.
const NOTHING: i32 = 3;

/// Runs the command; the exit status.
pub fn run(args: &Args) -> Result<i32, AnyError> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err("name a command behind `--`: sixwarp capture -- ./program".into());
    };
    preload::check(program)?;
    let folder = empty_folder(&args.output)?;
    let mut command = Command::new(program);
    command.args(arguments).envs(variables(args, &folder)?);
    let child = command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
    let status = wait(child, args.timeout.map(Duration::from_secs))?;
    let written = Written::read(&folder)?;
    eprint!("{}", written.summary(&args.output));
    let code = status.map_or(ENDED, |status| status.code().unwrap_or(1));
    Ok(if code == 0 && written.captured == 0 { NOTHING } else { code })
}

/// Waits for the command, but no longer than this: then it is ended, and has no status.
fn wait(mut child: Child, limit: Option<Duration>) -> Result<Option<ExitStatus>, AnyError> {
    let Some(limit) = limit else { return Ok(Some(child.wait()?)) };
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    eprintln!("sixwarp: the command was ended after {} s", limit.as_secs());
    Ok(None)
}

/// Variables that the command gets.
fn variables(args: &Args, folder: &Path) -> Result<Vec<(&'static str, OsString)>, AnyError> {
    let library = library::find()?;
    let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default().into();
    let flag = |set: bool| if set { "1".into() } else { OsString::new() };
    let others = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty());
    let mut preloaded = library.into_os_string();
    if let Some(others) = others {
        preloaded.push(":");
        preloaded.push(others);
    }
    let ptx: Vec<PathBuf> =
        args.ptx.iter().map(|folder| folder.canonicalize()).collect::<Result<_, _>>()?;
    Ok(vec![
        ("LD_PRELOAD", preloaded),
        ("SIXWARP_CAPTURE", folder.into()),
        ("SIXWARP_CAPTURE_NAME", args.name.clone().unwrap_or_default().into()),
        ("SIXWARP_CAPTURE_NTH", number(args.nth)),
        ("SIXWARP_CAPTURE_LIMIT", number(args.limit)),
        ("SIXWARP_CAPTURE_MIB", number(Some(args.most_mib))),
        ("SIXWARP_CAPTURE_PTX", std::env::join_paths(ptx)?),
        ("SIXWARP_CAPTURE_OUTPUTS", flag(args.outputs)),
        ("SIXWARP_CAPTURE_NO_WAIT", flag(args.no_wait)),
    ])
}

/// The folder, made if need be; what is in it from another run is not mixed with this one's.
fn empty_folder(path: &Path) -> Result<PathBuf, AnyError> {
    std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if std::fs::read_dir(path)?.next().is_some() {
        let text = "there are files in it: name a new folder with --output, or remove them";
        return Err(format!("{}: {text}", path.display()).into());
    }
    Ok(path.canonicalize()?)
}

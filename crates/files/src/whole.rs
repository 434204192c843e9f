//! Files that are written whole or not at all.

use crate::{Error, unique};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a file is called until it is whole.
const PREFIX: &str = ".sixwarp-";
const SUFFIX: &str = ".part";
/// After this long, nobody is still writing a part.
const ABANDONED: Duration = Duration::from_secs(3600);
/// Links that are followed, as on Linux.
const MOST_LINKS: usize = 40;

/// Writes a file: if that fails, what was there before is still there.
///
/// The bytes go to a new file beside it, which then takes its place and its permissions. Links are
/// followed. Pipes and devices cannot be replaced, so they are written directly.
///
/// # Errors
/// If the file cannot be written.
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
    let path = path.as_ref();
    write_or_replace(path, bytes.as_ref()).map_err(|error| Error::new(path, error))
}

fn write_or_replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => fs::write(path, bytes),
        Ok(found) => {
            // A file that must not be written is not replaced either.
            OpenOptions::new().write(true).open(path)?;
            replace(&destination(path), bytes, Some(found.permissions()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            replace(&destination(path), bytes, None)
        }
        Err(error) => Err(error),
    }
}

/// Where a path leads, whether or not there is a file.
fn destination(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    path
}

fn replace(path: &Path, bytes: &[u8], permissions: Option<fs::Permissions>) -> io::Result<()> {
    let mut part = Part::beside(path)?;
    part.file.write_all(bytes)?;
    if let Some(permissions) = permissions {
        part.file.set_permissions(permissions)?;
    }
    fs::rename(&part.path, path)
}

/// A file that is not whole yet; removed when dropped, unless it was renamed.
struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    fn beside(path: &Path) -> io::Result<Part> {
        let path = path.with_file_name(format!("{PREFIX}{}{SUFFIX}", unique()));
        Ok(Part { file: File::create_new(&path)?, path })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the parts of files that killed processes left in `directory`.
pub fn remove_abandoned(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        let name = entry.file_name();
        let is_part = name.to_str().is_some_and(|n| n.starts_with(PREFIX) && n.ends_with(SUFFIX));
        if is_part && is_old(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether nobody can still be at work on what `path` names.
pub(crate) fn is_old(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > ABANDONED))
}

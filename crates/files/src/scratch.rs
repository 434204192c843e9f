//! Directories for one piece of work.

use crate::owner::check_above;
use crate::private::{is_our_directory, make_private};
use crate::whole::is_old;
use crate::{Error, unique};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

const PREFIX: &str = "sixwarp-scratch-";
/// Held by the process whose directory it is.
const LOCK: &str = "lock";

/// A new directory that only this user can look into, removed when dropped.
///
/// A process that is killed leaves its directory behind, but not the lock on the file in it. By
/// that the next process that makes one in the same place knows it, and removes it.
pub struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// One in the system's temporary directory.
    ///
    /// # Errors
    /// If none can be made there, or others could replace it.
    pub fn new() -> Result<Self, Error> {
        static SWEPT: Once = Once::new();
        let directory = temporary_directory();
        check_above(&directory)?;
        SWEPT.call_once(|| sweep(&directory));
        Self::make(&directory)
    }

    /// One in `directory`, which must be this user's.
    ///
    /// # Errors
    /// If none can be made there.
    pub fn within(directory: &Path) -> Result<Self, Error> {
        sweep(directory);
        Self::make(directory)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn make(directory: &Path) -> Result<Self, Error> {
        loop {
            let path = directory.join(format!("{PREFIX}{}", unique()));
            make_private(&path).map_err(|error| Error::new(directory, error))?;
            match claim(&path) {
                Ok(lock) => return Ok(Scratch { path, _lock: lock }),
                // Another process found it before it was locked, and took it for abandoned.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::new(path, error)),
            }
        }
    }
}

fn claim(path: &Path) -> io::Result<File> {
    let lock = File::create_new(path.join(LOCK))?;
    lock.lock()?;
    fs::metadata(path.join(LOCK))?;
    Ok(lock)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now is abandoned, and removed later.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes directories that killed processes of this user left.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        let is_scratch = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_scratch && is_our_directory(&entry.path()) {
            remove_if_abandoned(&entry.path());
        }
    }
}

fn remove_if_abandoned(path: &Path) {
    let lock = File::open(path.join(LOCK));
    let abandoned = match &lock {
        Ok(lock) => lock.try_lock().is_ok(),
        // Made a moment ago, or by a process that was killed at that moment.
        Err(_) => is_old(path),
    };
    if abandoned {
        let _ = fs::remove_dir_all(path);
    }
}

/// Where temporary files go: `TMPDIR`, or what the system has instead.
pub fn temporary_directory() -> PathBuf {
    let named = std::env::temp_dir();
    if named.as_os_str().is_empty() {
        return PathBuf::from("/tmp");
    }
    std::path::absolute(&named).unwrap_or(named)
}

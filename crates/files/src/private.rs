//! Directories whose files are ours.

use crate::owner::{Trust, check_above};
use crate::{Error, owner};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A directory whose files are only used if no other user can have put them there.
///
/// It need not exist: [`PrivateDirectory::make`] makes it, for this user alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateDirectory {
    /// The outermost directory that must be ours.
    root: PathBuf,
    /// Names of the directories below it, down to this one.
    below: Vec<String>,
    trust: Trust,
}

impl PrivateDirectory {
    /// The directory `root`. Under [`Trust::Workspace`] only those below it must be ours.
    pub fn new(root: impl Into<PathBuf>, trust: Trust) -> Self {
        PrivateDirectory { root: root.into(), below: Vec::new(), trust }
    }

    /// A directory in this one.
    pub fn below(&self, name: &str) -> Self {
        let mut directory = self.clone();
        directory.below.push(name.to_string());
        directory
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.below.iter().fold(self.root.clone(), |path, name| path.join(name))
    }

    /// Makes it where it is missing, and ensures that it is ours.
    ///
    /// # Errors
    /// If it cannot be made, or others can write to it.
    pub fn make(&self) -> Result<PathBuf, Error> {
        if let Some(above) = self.root.parent() {
            fs::create_dir_all(above).map_err(|error| Error::new(above, error))?;
        }
        for directory in self.levels() {
            match make_private(&directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::new(directory, error));
                }
                _ => {}
            }
        }
        self.check()?;
        Ok(self.path())
    }

    /// The path of the file `name` in it, if there is one and it is ours.
    ///
    /// # Errors
    /// If others can write to it, or to the directory.
    pub fn file(&self, name: &str) -> Result<Option<PathBuf>, Error> {
        let path = self.path().join(name);
        let metadata = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(|error| Error::new(&path, error))?,
        };
        self.check()?;
        if !metadata.is_file() {
            return Err(Error::new(path, "is not a regular file: it is not used"));
        }
        self.trust.check(&path, &metadata)?;
        Ok(Some(path))
    }

    /// Every directory from the root to this one.
    fn levels(&self) -> Vec<PathBuf> {
        let mut levels = vec![self.root.clone()];
        for name in &self.below {
            levels.extend(levels.last().map(|above| above.join(name)));
        }
        levels
    }

    fn check(&self) -> Result<(), Error> {
        if self.trust == Trust::User {
            check_above(&self.path())?;
        }
        let workspace = matches!(self.trust, Trust::Workspace(_));
        for level in self.levels().into_iter().skip(usize::from(workspace)) {
            let metadata = fs::metadata(&level).map_err(|error| Error::new(&level, error))?;
            if !metadata.is_dir() {
                return Err(Error::new(level, "is not a directory"));
            }
            self.trust.check(&level, &metadata)?;
        }
        Ok(())
    }
}

/// Makes a directory that only this user can look into; one that exists is an error.
#[cfg(unix)]
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Elsewhere a user's directories are private by default.
#[cfg(not(unix))]
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir(path)
}

/// Whether `path` is a directory, not a link to one, of this user.
pub(crate) fn is_our_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && owner::is_ours(&found))
}

//! Files that a description from somewhere else may name.

use crate::Error;
use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The folder that the paths in a description are relative to, and must stay in.
///
/// Descriptions are sent from one person to another: what they name is checked as what strangers say.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    /// Paths may lead out of it.
    open: bool,
}

impl Folder {
    /// The folder of a description's file.
    ///
    /// # Errors
    /// If there is no such folder.
    pub fn of(file: &Path) -> Result<Folder, Error> {
        let named = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let named = named.unwrap_or(Path::new("."));
        let path = fs::canonicalize(named).map_err(|error| Error::new(named, error))?;
        Ok(Folder { path, open: false })
    }

    /// The same folder, of a description whose paths may lead anywhere.
    pub fn open(self) -> Folder {
        Folder { open: true, ..self }
    }

    /// The path of an existing file, which is a regular one: pipes and devices may never end.
    ///
    /// # Errors
    /// If there is none, or it lies outside.
    pub fn existing(&self, name: &str) -> Result<PathBuf, Error> {
        self.check_name(name)?;
        let path = self.path.join(name);
        let whole = fs::canonicalize(&path).map_err(|error| Error::new(name, error))?;
        self.check_inside(name, &whole)?;
        match whole.is_file() {
            true => Ok(whole),
            false => Err(Error::new(name, "is not a regular file")),
        }
    }

    /// The path of a file to be written, which replaces a regular one only.
    ///
    /// # Errors
    /// If its folder does not exist, it lies outside, or its name is hidden: such files configure programs.
    pub fn writable(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        if self.open {
            return Ok(path);
        }
        self.check_name(name)?;
        if Path::new(name).iter().any(is_hidden) {
            return Err(Error::new(name, "hidden files are not written"));
        }
        let (Some(above), Some(file)) = (path.parent(), path.file_name()) else {
            return Err(Error::new(name, "does not name a file"));
        };
        let above = fs::canonicalize(above).map_err(|error| Error::new(name, error))?;
        self.check_inside(name, &above)?;
        let path = above.join(file);
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.is_file() => {
                Err(Error::new(name, "is there and is not a regular file"))
            }
            _ => Ok(path),
        }
    }

    fn check_name(&self, name: &str) -> Result<(), Error> {
        let stays = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
        if name.is_empty() {
            return Err(Error::new("\"\"", "does not name a file"));
        }
        match self.open || Path::new(name).components().all(stays) {
            true => Ok(()),
            false => Err(self.outside(name)),
        }
    }

    fn check_inside(&self, name: &str, whole: &Path) -> Result<(), Error> {
        match self.open || whole.starts_with(&self.path) {
            true => Ok(()),
            false => Err(self.outside(name)),
        }
    }

    fn outside(&self, name: &str) -> Error {
        Error::new(name, format!("leads out of {}", self.path.display()))
    }
}

fn is_hidden(part: &OsStr) -> bool {
    part.as_encoded_bytes().starts_with(b".") && part != "."
}

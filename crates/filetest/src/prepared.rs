use crate::Contents;
use program::Program;
use std::path::PathBuf;

/// A program and what its buffers hold at the start: all that a machine needs.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The program.
    pub program: Program,
    /// One entry per buffer of the program.
    pub contents: Contents,
    /// Where each buffer is kept afterwards; empty if none is.
    pub saves: Vec<Option<PathBuf>>,
}

impl Prepared {
    /// Writes the buffers that are to be kept.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, contents: &Contents) -> Result<(), files::Error> {
        for (save, bytes) in self.saves.iter().zip(contents) {
            if let Some(path) = save {
                files::write(path, bytes)?;
            }
        }
        Ok(())
    }
}

//! The lines that users wrote: PTX names files and lines in `.loc`.

use crate::finding::Finding;
use crate::place::SourceLine;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Endings of files whose lines are shown. PTX may come from elsewhere and name any file of this machine, and reports
/// are passed on: nothing but source text is read.
const ENDINGS: [&str; 16] = [
    "py", "pyi", "cu", "cuh", "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "inl", "rs", "jl", "mojo",
    "ptx",
];

/// Larger files are not read.
const MOST_BYTES: u64 = 16 << 20;

/// Files that PTX names, read when they are first asked for.
#[derive(Debug, Default)]
pub struct Sources {
    roots: Vec<PathBuf>,
    files: HashMap<String, Option<Vec<String>>>,
}

impl Sources {
    /// Files are looked for under the paths that the PTX gives, and then in `roots`.
    pub fn new(roots: Vec<PathBuf>) -> Sources {
        Sources { roots, files: HashMap::new() }
    }

    /// Writes the user's lines into all places of a finding.
    pub fn fill(&mut self, finding: &mut Finding) {
        for SourceLine { file, line, text } in
            finding.all_places_mut().filter_map(|place| place.source.as_mut())
        {
            if text.is_none() {
                *text = self.line(file, *line);
            }
        }
    }

    /// A line of a file, if it is at hand.
    pub fn line(&mut self, file: &str, line: u32) -> Option<String> {
        let Sources { roots, files } = self;
        let lines = files.entry(file.to_owned()).or_insert_with(|| read(file, roots));
        lines.as_ref()?.get(line.checked_sub(1)? as usize).cloned()
    }
}

/// The lines of a file: where its name says, or in one of the roots, by its whole name or its last part.
fn read(file: &str, roots: &[PathBuf]) -> Option<Vec<String>> {
    let path = Path::new(file);
    let ending = path.extension()?.to_str()?;
    if !ENDINGS.contains(&ending) {
        return None;
    }
    let name = path.file_name()?;
    let near = roots.iter().flat_map(|root| [root.join(path), root.join(name)]);
    let is_readable = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() <= MOST_BYTES)
    };
    let found = std::iter::once(path.to_owned()).chain(near).find(is_readable)?;
    let bytes = std::fs::read(found).ok()?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_in_roots_and_secrets_are_not() {
        let folder = std::env::temp_dir().join(format!("sixwarp-sources-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("k.py"), "one\ntwo\n").unwrap();
        std::fs::write(folder.join("secret"), "hidden\n").unwrap();
        let mut sources = Sources::new(vec![folder.clone()]);
        assert_eq!(sources.line("/elsewhere/k.py", 2).as_deref(), Some("two"));
        assert_eq!(sources.line("k.py", 3), None);
        assert_eq!(sources.line("k.py", 0), None);
        let secret = folder.join("secret");
        assert_eq!(sources.line(secret.to_str().unwrap(), 1), None);
        std::fs::remove_dir_all(folder).unwrap();
    }
}

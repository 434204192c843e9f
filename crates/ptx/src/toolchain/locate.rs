//! Where the tools are.

use super::limited::output_within;
use super::{ToolchainError, install};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

/// One of NVIDIA's binary tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tool {
    /// The assembler.
    Ptxas,
    /// The disassembler.
    Nvdisasm,
    /// The reader of cubins.
    Cuobjdump,
}

impl Tool {
    /// All tools.
    pub const ALL: [Tool; 3] = [Tool::Ptxas, Tool::Nvdisasm, Tool::Cuobjdump];

    /// The program's name.
    pub const fn name(self) -> &'static str {
        match self {
            Tool::Ptxas => "ptxas",
            Tool::Nvdisasm => "nvdisasm",
            Tool::Cuobjdump => "cuobjdump",
        }
    }

    /// The program's file.
    pub(super) fn file(self) -> String {
        format!("{}{}", self.name(), std::env::consts::EXE_SUFFIX)
    }

    /// The environment variable that names its path.
    pub const fn variable(self) -> &'static str {
        match self {
            Tool::Ptxas => "SIXWARP_PTXAS",
            Tool::Nvdisasm => "SIXWARP_NVDISASM",
            Tool::Cuobjdump => "SIXWARP_CUOBJDUMP",
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The oldest release that knows every target emitted here (`sm_100a` came with 12.8).
const OLDEST_RELEASE: (u32, u32) = (12, 8);
/// How long a tool may take to say its release.
const PATIENCE: Duration = Duration::from_secs(10);

/// The path of a tool: its environment variable, else `PATH`, else the cache, filled when empty.
///
/// The cache is under `target/` of the workspace that cargo runs, and in the user's cache directory
/// for an installed program.
pub fn find(tool: Tool) -> Result<PathBuf, ToolchainError> {
    remembered(tool, || look(tool))
}

/// The path of a tool that is there already, without fetching anything.
pub fn installed(tool: Tool) -> Option<PathBuf> {
    let there = || match named(tool) {
        Some(path) => Some(path).filter(|path| path.is_file()),
        None => on_path(tool).or_else(|| install::usable(tool)),
    };
    remembered(tool, || there().ok_or(())).ok()
}

/// What was found once is where it was: asking a tool for its release takes a process.
fn remembered<E>(tool: Tool, look: impl FnOnce() -> Result<PathBuf, E>) -> Result<PathBuf, E> {
    static FOUND: LazyLock<Mutex<HashMap<Tool, PathBuf>>> = LazyLock::new(Mutex::default);
    let mut found = FOUND.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(path) = found.get(&tool) {
        return Ok(path.clone());
    }
    let path = look()?;
    found.insert(tool, path.clone());
    Ok(path)
}

fn look(tool: Tool) -> Result<PathBuf, ToolchainError> {
    if let Some(path) = named(tool) {
        return ensure_file(tool, path);
    }
    if let Some(path) = on_path(tool) {
        return Ok(path);
    }
    install::cached(tool).map_err(|reason| ToolchainError::Missing { tool, reason })
}

/// The path that the tool's environment variable names.
fn named(tool: Tool) -> Option<PathBuf> {
    std::env::var_os(tool.variable()).filter(|name| !name.is_empty()).map(PathBuf::from)
}

fn ensure_file(tool: Tool, path: PathBuf) -> Result<PathBuf, ToolchainError> {
    if path.is_file() {
        return Ok(path);
    }
    let reason = format!("{} is set to {}, which is not a file", tool.variable(), path.display());
    Err(ToolchainError::Missing { tool, reason })
}

fn on_path(tool: Tool) -> Option<PathBuf> {
    on_search_path(tool.name()).find(|path| release(path) >= Some(OLDEST_RELEASE))
}

/// The programs of this name on `PATH`. Entries that are relative lead to wherever one happens to
/// be, where anybody may have put a program: they are passed over.
pub(super) fn on_search_path(program: &str) -> impl Iterator<Item = PathBuf> {
    let file = format!("{program}{}", std::env::consts::EXE_SUFFIX);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let absolute = directories.into_iter().filter(|directory| directory.is_absolute());
    absolute.map(move |directory| directory.join(&file)).filter(|path| path.is_file())
}

/// The CUDA release a tool says it is of: `… release 13.4, V13.4.92`.
pub fn release(path: &Path) -> Option<(u32, u32)> {
    let mut command = Command::new(path);
    command.arg("--version");
    let output = output_within(command, PATIENCE).ok()?;
    let text = String::from_utf8_lossy(&output);
    let (_, rest) = text.split_once("release ")?;
    let (major, minor) = rest.split_once(',')?.0.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

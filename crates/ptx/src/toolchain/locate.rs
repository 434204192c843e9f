//! Where the tools are.

use super::{ToolchainError, install};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

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

/// The path of a tool: its environment variable, else `PATH`, else the cache, filled when empty.
///
/// The cache is under `target/` of the workspace that cargo runs, and in the user's cache directory
/// for an installed program.
pub fn find(tool: Tool) -> Result<PathBuf, ToolchainError> {
    remembered(tool, || look(tool))
}

/// The path of a tool that is there already, without fetching anything.
pub fn installed(tool: Tool) -> Option<PathBuf> {
    let there = || match std::env::var_os(tool.variable()) {
        Some(named) => Some(PathBuf::from(named)).filter(|path| path.is_file()),
        None => on_path(tool).or_else(|| Some(install::path(tool)).filter(|path| path.is_file())),
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
    if let Some(named) = std::env::var_os(tool.variable()) {
        return named_by_variable(tool, PathBuf::from(named));
    }
    if let Some(path) = on_path(tool) {
        return Ok(path);
    }
    install::cached(tool).map_err(|reason| ToolchainError::Missing { tool, reason })
}

fn named_by_variable(tool: Tool, path: PathBuf) -> Result<PathBuf, ToolchainError> {
    if path.is_file() {
        return Ok(path);
    }
    let reason = format!("{} is set to {}, which is not a file", tool.variable(), path.display());
    Err(ToolchainError::Missing { tool, reason })
}

fn on_path(tool: Tool) -> Option<PathBuf> {
    let file = format!("{}{}", tool.name(), std::env::consts::EXE_SUFFIX);
    let directories = std::env::var_os("PATH")?;
    let mut candidates = std::env::split_paths(&directories).map(|d| d.join(&file));
    candidates.find(|path| path.is_file() && release(path) >= Some(OLDEST_RELEASE))
}

/// The CUDA release a tool says it is of: `… release 13.4, V13.4.92`.
pub fn release(path: &Path) -> Option<(u32, u32)> {
    let output = Command::new(path).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = text.split_once("release ")?;
    let (major, minor) = rest.split_once(',')?.0.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

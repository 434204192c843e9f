//! NVIDIA's own tools around PTX: `ptxas`, `nvdisasm` and `cuobjdump`.
//!
//! Nothing here is needed to run a kernel (the driver assembles PTX itself). The tools tell what a
//! kernel costs before it runs, and are the judge of whether our PTX is PTX:
//!
//! - [`assemble`] gives machine code, resources per kernel and every warning, or the errors with
//!   the PTX line and, through `.loc`, the Rust line that emitted it;
//! - [`disassemble`] gives SASS.
//!
//! A tool is looked for in its environment variable ([`Tool::variable`]), on `PATH` (recent enough
//! ones only), and in a cache that is filled from PyPI on first use; see [`find`].

mod cache;
mod diagnostic;
mod install;
mod limited;
mod locate;
mod report;
mod wheel;

pub use cache::{cache, cache_directory};
pub use diagnostic::{Diagnostic, SourceLine};
pub use locate::{Tool, find, installed, release};
pub use report::KernelResources;

use files::Scratch;
use std::fmt;
use std::path::Path;
use std::process::{Command, Output};

/// What `ptxas` made of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct Assembled {
    /// The machine code: an ELF file.
    pub cubin: Vec<u8>,
    /// Resources of each kernel.
    pub report: Vec<KernelResources>,
    /// Warnings and advisories, among them `wgmma` serialisation (`C7508`, `C7510`, …) and injected
    /// waits (`C7517`).
    pub warnings: Vec<String>,
}

impl Assembled {
    /// Resources of the kernel called `name`.
    pub fn kernel(&self, name: &str) -> Option<&KernelResources> {
        self.report.iter().find(|kernel| kernel.name == name)
    }
}

/// Why a tool gave no result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolchainError {
    /// The tool is neither installed nor could it be fetched.
    Missing {
        /// The tool.
        tool: Tool,
        /// What was tried, and what to do.
        reason: String,
    },
    /// `ptxas` refused the text.
    Rejected {
        /// Architecture it was to be assembled for.
        arch: String,
        /// Its errors, in source order.
        errors: Vec<Diagnostic>,
    },
    /// The tool could not be run or ended badly.
    Failed {
        /// The tool.
        tool: Tool,
        /// What happened.
        reason: String,
    },
}

impl fmt::Display for ToolchainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolchainError::Missing { tool, reason } => write!(f, "{tool} not found: {reason}"),
            ToolchainError::Failed { tool, reason } => write!(f, "{tool} failed: {reason}"),
            ToolchainError::Rejected { arch, errors } => {
                write!(f, "ptxas refused the module for {arch}:")?;
                errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for ToolchainError {}

/// Assembles `ptx` for `arch` (`sm_90a`) with `ptxas`.
pub fn assemble(ptx: &str, arch: &str) -> Result<Assembled, ToolchainError> {
    let failed = |reason: String| ToolchainError::Failed { tool: Tool::Ptxas, reason };
    let scratch = Scratch::new().map_err(|e| failed(no_scratch(&e)))?;
    let (input, output) = (scratch.file("kernel.ptx"), scratch.file("kernel.cubin"));
    std::fs::write(&input, ptx).map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(find(Tool::Ptxas)?);
    command.arg("-v").arg(format!("-arch={arch}")).arg("-o").arg(&output).arg(&input);
    let result = command.output().map_err(|e| failed(e.to_string()))?;
    let log = String::from_utf8_lossy(&result.stderr);
    if !result.status.success() {
        let errors = Diagnostic::errors(&log, ptx);
        if errors.is_empty() {
            return Err(failed(outcome(&result)));
        }
        return Err(ToolchainError::Rejected { arch: arch.into(), errors });
    }
    let cubin = std::fs::read(&output).map_err(|e| failed(e.to_string()))?;
    Ok(Assembled { cubin, report: report::kernels(&log), warnings: report::warnings(&log) })
}

/// The SASS of a cubin, as `nvdisasm` prints its code sections.
pub fn disassemble(cubin: &[u8]) -> Result<String, ToolchainError> {
    on_cubin(Tool::Nvdisasm, &["--print-code"], cubin)
}

/// Resource usage and ELF facts of a cubin, as `cuobjdump --dump-resource-usage` prints them.
pub fn resource_usage(cubin: &[u8]) -> Result<String, ToolchainError> {
    on_cubin(Tool::Cuobjdump, &["--dump-resource-usage"], cubin)
}

fn on_cubin(tool: Tool, arguments: &[&str], cubin: &[u8]) -> Result<String, ToolchainError> {
    let failed = |reason: String| ToolchainError::Failed { tool, reason };
    let scratch = Scratch::new().map_err(|e| failed(no_scratch(&e)))?;
    let input = scratch.file("kernel.cubin");
    std::fs::write(&input, cubin).map_err(|e| failed(e.to_string()))?;
    let result = run(&find(tool)?, arguments, &input).map_err(|e| failed(e.to_string()))?;
    if !result.status.success() {
        return Err(failed(outcome(&result)));
    }
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

fn no_scratch(error: &files::Error) -> String {
    format!("there is no room for its files ({error}): set TMPDIR to a directory of your own")
}

fn run(program: &Path, arguments: &[&str], input: &Path) -> std::io::Result<Output> {
    Command::new(program).args(arguments).arg(input).output()
}

fn outcome(result: &Output) -> String {
    let stderr = String::from_utf8_lossy(&result.stderr);
    format!("{}: {}", result.status, stderr.trim())
}

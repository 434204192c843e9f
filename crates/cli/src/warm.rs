//! `sixwarp warm`: does now what would otherwise be waited for at first use.

use crate::{AnyError, Outcome, output};
use cuda::{CubinCache, Device, Origin};
use kernels::{Arch, PlanOptions, plan};
use program::Program;
use ptx::toolchain::{self, Tool};
use sixwarp::DeviceName;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

const NOTE: &str = "\
The cache is for the user who makes it. Where an image is built by root and run by another user, let that
user read it (`chmod -R go+rX \"$SIXWARP_CACHE\"`): what root has made is used by everyone who can read it.";

/// Fetches NVIDIA's tools, and compiles kernels into the cache of machine code
#[derive(clap::Args)]
#[command(after_help = NOTE)]
pub struct Args {
    /// PTX files to compile
    files: Vec<PathBuf>,
    /// Compiles the kernels of these cases of the project's table (`*` and `?` match)
    #[arg(long, value_name = "GLOB")]
    cases: Option<String>,
    /// What to compile for: cuda[:n], or sim-sm80 to sim-sm120 for GPUs of that generation
    /// that are not here, as when an image is built
    #[arg(long, default_value = "cuda")]
    device: DeviceName,
    /// Fetches no tools
    #[arg(long)]
    no_tools: bool,
}

/// Fetches, compiles, and says where things are.
pub fn run(args: Args) -> Outcome {
    let tools = if args.no_tools { &[][..] } else { &Tool::ALL };
    for &tool in tools {
        let path = toolchain::find(tool)?;
        output::print(&format!("{tool}: {}\n", path.display()))?;
    }
    if args.files.is_empty() && args.cases.is_none() {
        return Ok(());
    }
    let compiler = Compiler::new(args.device)?;
    for file in &args.files {
        compiler.compile(&file.display().to_string(), read(file)?)?;
    }
    match &args.cases {
        Some(glob) => compiler.compile_cases(glob),
        None => Ok(()),
    }
}

fn read(file: &Path) -> Result<Program, AnyError> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let module = ptx::parse(&text).map_err(|error| format!("{name}:{error}"))?;
    Ok(Program { module: Arc::new(module), buffers: vec![], launches: vec![] })
}

/// What compiles: a GPU's driver, or `ptxas` alone.
struct Compiler {
    device: Option<Device>,
    arch: Arch,
    options: PlanOptions,
}

impl Compiler {
    fn new(name: DeviceName) -> Result<Compiler, AnyError> {
        match name {
            DeviceName::Cuda(ordinal) => Self::for_gpu(ordinal),
            DeviceName::Simulated(arch) => {
                Ok(Compiler { device: None, arch, options: PlanOptions::for_arch(arch) })
            }
            DeviceName::Cpu | DeviceName::Oracle => {
                Err(format!("{name} runs no kernels: cuda[:n], sim-sm80 to sim-sm120 do").into())
            }
        }
    }

    fn for_gpu(ordinal: u32) -> Result<Compiler, AnyError> {
        let device = Device::open(ordinal)?;
        let arch = Arch::of_capability(device.info().compute_capability);
        let arch = arch.ok_or_else(|| format!("there are no kernels for {}", device.info()))?;
        let processors = device.info().sm_count;
        let options = PlanOptions { processors, ..PlanOptions::for_arch(arch) };
        Ok(Compiler { device: Some(device), arch, options })
    }

    /// Compiles what is planned for each case; a case without a kernel is passed over by name.
    fn compile_cases(&self, glob: &str) -> Outcome {
        let mut cases = cases::table();
        cases.retain(|case| cases::matches_glob(glob, &case.name));
        if cases.is_empty() {
            return Err(format!("no case is called `{glob}`").into());
        }
        for case in cases {
            match plan(&case.problem()?, self.arch, &self.options) {
                Ok(plan) => self.compile(&case.name, plan.program)?,
                Err(unsupported) => output::print(&format!("{}: {unsupported}\n", case.name))?,
            }
        }
        Ok(())
    }

    fn compile(&self, name: &str, program: Program) -> Outcome {
        let start = Instant::now();
        let origin = match &self.device {
            Some(device) => {
                device.load(&program).map(|loaded| loaded.origin()).map_err(|e| e.to_string())
            }
            None => CubinCache::default().compile(&program.module).map_err(|e| e.to_string()),
        };
        let what = match origin.map_err(|error| format!("{name}: {error}"))? {
            Origin::Loaded => "is the same as one before",
            Origin::Cache => "is in the cache",
            Origin::Compiled => "compiled",
            Origin::CompiledInDriver => "compiled by the driver, which keeps it",
        };
        output::print(&format!("{name}: {what} ({:.1?})\n", start.elapsed()))
    }
}

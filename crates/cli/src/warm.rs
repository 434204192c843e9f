//! `sixwarp warm`: does now what would otherwise be waited for at first use.

use crate::{Outcome, output};
use cuda::{CubinCache, Device, Origin};
use kernels::{Arch, PlanOptions, plan};
use program::Program;
use ptx::toolchain::{self, Tool};
use sixwarp::DeviceName;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Fetches NVIDIA's tools, and compiles kernels into the cache of machine code
#[derive(clap::Args)]
pub struct Args {
    /// PTX files to compile
    files: Vec<PathBuf>,
    /// Compiles the kernels of these cases of the project's table (`*` and `?` match)
    #[arg(long, value_name = "GLOB")]
    cases: Option<String>,
    /// The GPU to compile for: cuda[:n]
    #[arg(long, default_value = "cuda")]
    device: DeviceName,
    /// Compiles for an architecture (sm_90a) without a GPU, as when an image is built
    #[arg(long, value_parser = parse_arch, conflicts_with = "device")]
    arch: Option<Arch>,
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
    let compiler = match args.arch {
        Some(arch) => Compiler::for_arch(arch),
        None => Compiler::for_device(args.device)?,
    };
    for file in &args.files {
        compiler.compile(&file.display().to_string(), read(file)?)?;
    }
    match &args.cases {
        Some(glob) => compiler.compile_cases(glob),
        None => Ok(()),
    }
}

fn parse_arch(name: &str) -> Result<Arch, String> {
    let arch = Arch::ALL.into_iter().find(|arch| arch.to_string() == name);
    arch.ok_or_else(|| {
        let known = Arch::ALL.map(|arch| arch.to_string()).join(", ");
        format!("no kernels are emitted for `{name}`: {known}")
    })
}

fn read(file: &Path) -> Result<Program, Box<dyn std::error::Error>> {
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
    fn for_arch(arch: Arch) -> Compiler {
        Compiler { device: None, arch, options: PlanOptions::for_arch(arch) }
    }

    fn for_device(name: DeviceName) -> Result<Compiler, Box<dyn std::error::Error>> {
        let DeviceName::Cuda(ordinal) = name else {
            return Err(format!("{name} compiles nothing: only cuda[:n] does").into());
        };
        let device = Device::open(ordinal)?;
        let arch = Arch::ALL.into_iter().find(|arch| device.info().runs(&arch.to_string()));
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

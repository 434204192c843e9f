//! `sixwarp warm`: does now what would otherwise be waited for at first use.

use crate::device_name::DeviceName;
use crate::{Outcome, output};
use cuda::{Device, Origin};
use kernels::{Arch, PlanOptions, plan};
use program::Program;
use ptx::toolchain::{self, Tool};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    let DeviceName::Cuda(ordinal) = args.device else {
        return Err(format!("{} compiles nothing: only cuda[:n] does", args.device).into());
    };
    let device = Device::open(ordinal)?;
    for file in &args.files {
        compile(&device, &file.display().to_string(), read(file)?)?;
    }
    match &args.cases {
        Some(glob) => compile_cases(&device, glob),
        None => Ok(()),
    }
}

fn read(file: &Path) -> Result<Program, Box<dyn std::error::Error>> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let module = ptx::parse(&text).map_err(|error| format!("{name}:{error}"))?;
    Ok(Program { module: Arc::new(module), buffers: vec![], launches: vec![] })
}

/// Compiles what is planned for each case; a case without a kernel is passed over by name.
fn compile_cases(device: &Device, glob: &str) -> Outcome {
    let cases = cases::table().into_iter().filter(|case| cases::matches_glob(glob, &case.name));
    let arch = arch_of(device)?;
    let processors = device.info().sm_count;
    let options = PlanOptions { processors, ..PlanOptions::for_arch(arch) };
    let mut count = 0;
    for case in cases {
        count += 1;
        match plan(&case.problem()?, arch, &options) {
            Ok(plan) => compile(device, &case.name, plan.program)?,
            Err(unsupported) => output::print(&format!("{}: {unsupported}\n", case.name))?,
        }
    }
    if count == 0 { Err(format!("no case is called `{glob}`").into()) } else { Ok(()) }
}

fn arch_of(device: &Device) -> Result<Arch, Box<dyn std::error::Error>> {
    let archs = [Arch::Sm90, Arch::Sm100];
    let arch = archs.into_iter().find(|arch| device.info().runs(&arch.to_string()));
    arch.ok_or_else(|| format!("there are no kernels for {}", device.info()).into())
}

fn compile(device: &Device, name: &str, program: Program) -> Outcome {
    let loaded = device.load(&program).map_err(|error| format!("{name}: {error}"))?;
    let what = match loaded.origin() {
        Origin::Cache => "is in the cache",
        Origin::Compiled => "compiled",
        Origin::CompiledInDriver => "compiled by the driver, which keeps it",
    };
    output::print(&format!("{name}: {what} ({:.1?})\n", loaded.load_time()))
}

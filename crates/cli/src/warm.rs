//! `sixwarp warm`: does now what would otherwise be waited for at first use.

use crate::device_name::DeviceName;
use crate::{Outcome, output};
use cuda::{Device, Origin};
use program::Program;
use ptx::toolchain::{self, Tool};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Fetches NVIDIA's tools, and compiles PTX into the cache of machine code
#[derive(clap::Args)]
pub struct Args {
    /// PTX files to compile
    files: Vec<PathBuf>,
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
    if args.files.is_empty() {
        return Ok(());
    }
    let DeviceName::Cuda(ordinal) = args.device else {
        return Err(format!("{} compiles nothing: only cuda[:n] does", args.device).into());
    };
    let device = Device::open(ordinal)?;
    args.files.iter().try_for_each(|file| compile(&device, file))
}

fn compile(device: &Device, file: &Path) -> Outcome {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let module = ptx::parse(&text).map_err(|error| format!("{name}:{error}"))?;
    let program = Program { module: Arc::new(module), buffers: vec![], launches: vec![] };
    let loaded = device.load(&program).map_err(|error| format!("{name}: {error}"))?;
    let what = match loaded.origin() {
        Origin::Cache => "is in the cache",
        Origin::Compiled => "compiled",
        Origin::CompiledInDriver => "compiled, but this driver gives no machine code to keep",
    };
    output::print(&format!("{name}: {what} ({:.1?})\n", loaded.load_time()))
}

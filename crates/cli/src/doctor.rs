//! `sixwarp doctor`: what this machine has, and what runs on it.

use crate::support::{self, Support};
use crate::{Outcome, output};
use cuda::{Device, DeviceInfo};
use kernels::Arch;
use program::Program;
use ptx::toolchain::{self, Tool};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

/// Shows what this machine has (GPUs, driver, tools, caches) and what runs on it
#[derive(clap::Args)]
pub struct Args {
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Prints only which problems have kernels, as a page of the documentation
    #[arg(long, conflicts_with = "json")]
    support: bool,
}

/// Looks and prints.
pub fn run(args: Args) -> Outcome {
    if args.support {
        return output::print(&support::Page(&support::matrix()).to_string());
    }
    let report = Report::new();
    if args.json { output::print_json(&report) } else { output::print(&report.to_string()) }
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    host: Host,
    driver: Driver,
    gpus: Vec<Gpu>,
    tools: Vec<ToolReport>,
    cache: Cache,
    kernels: Vec<Support>,
}

#[derive(Serialize)]
struct Host {
    arch: &'static str,
    os: &'static str,
    threads: usize,
    features: Vec<&'static str>,
}

#[derive(Serialize)]
struct Driver {
    /// CUDA version it supports.
    cuda: Option<(u32, u32)>,
    /// Why it cannot be used.
    problem: Option<String>,
}

#[derive(Serialize)]
struct Gpu {
    device: String,
    name: String,
    compute_capability: (u32, u32),
    sm_count: u32,
    memory_bytes: u64,
    /// How long the driver took to compile and load a small kernel, or why it could not.
    compiles: Result<f64, String>,
    targets: Vec<Target>,
    /// Whose kernels it takes unless others are asked for; none before Ampere.
    kernels: Option<String>,
}

#[derive(Serialize)]
struct Target {
    name: String,
    runs: bool,
}

impl Target {
    fn new(arch: Arch, info: &DeviceInfo) -> Target {
        let name = arch.to_string();
        Target { runs: info.runs(&name), name }
    }
}

#[derive(Serialize)]
struct ToolReport {
    name: &'static str,
    path: Option<String>,
    release: Option<(u32, u32)>,
}

#[derive(Serialize)]
struct Cache {
    directory: String,
    writable: bool,
    /// Why it cannot be used.
    problem: Option<String>,
    kernels: usize,
    kernel_bytes: u64,
}

impl Report {
    fn new() -> Report {
        let (driver, gpus) = gpus();
        Report {
            version: env!("CARGO_PKG_VERSION"),
            host: Host::new(),
            driver,
            gpus,
            tools: Tool::ALL.into_iter().map(ToolReport::new).collect(),
            cache: Cache::new(),
            kernels: support::matrix(),
        }
    }
}

impl Host {
    fn new() -> Host {
        Host {
            arch: std::env::consts::ARCH,
            os: std::env::consts::OS,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            features: features(),
        }
    }
}

/// The vector extensions that matter to the CPU backend.
#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    let all = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
    ];
    all.into_iter().filter_map(|(name, has)| has.then_some(name)).collect()
}

/// The vector extensions that matter to the CPU backend.
#[cfg(not(target_arch = "x86_64"))]
fn features() -> Vec<&'static str> {
    if cfg!(target_feature = "neon") { vec!["neon"] } else { vec![] }
}

fn gpus() -> (Driver, Vec<Gpu>) {
    let cuda = cuda::driver_version();
    let (cuda, mut problem) = match cuda {
        Ok(version) => (Some(version), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let count = Device::count().unwrap_or_else(|error| {
        problem.get_or_insert(error.to_string());
        0
    });
    let mut gpus = Vec::new();
    for ordinal in 0..count {
        match Device::open(ordinal) {
            Ok(device) => gpus.push(Gpu::new(&device)),
            Err(error) => problem = Some(error.to_string()),
        }
    }
    (Driver { cuda, problem }, gpus)
}

impl Gpu {
    fn new(device: &Device) -> Gpu {
        Gpu::of(device.info(), compile_small_kernel(device))
    }

    fn of(info: &DeviceInfo, compiles: Result<f64, String>) -> Gpu {
        Gpu {
            device: format!("cuda:{}", info.ordinal),
            name: info.name.clone(),
            compute_capability: info.compute_capability,
            sm_count: info.sm_count,
            memory_bytes: info.memory_bytes,
            compiles,
            targets: Arch::ALL.map(|arch| Target::new(arch, info)).into(),
            kernels: Arch::of_capability(info.compute_capability).map(|arch| arch.to_string()),
        }
    }
}

/// Compiles without the cache, so that the compiler itself is tried; milliseconds.
fn compile_small_kernel(device: &Device) -> Result<f64, String> {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry probe() { ret; }\n";
    let module = ptx::parse(text).map_err(|error| error.to_string())?;
    let program = Program { module: Arc::new(module), buffers: vec![], launches: vec![] };
    let device = device.clone().with_cache(cuda::CubinCache::none());
    let loaded = device.load(&program).map_err(|error| error.to_string())?;
    Ok(loaded.load_time().as_secs_f64() * 1e3)
}

impl ToolReport {
    fn new(tool: Tool) -> ToolReport {
        let path = toolchain::installed(tool);
        ToolReport {
            name: tool.name(),
            release: path.as_deref().and_then(toolchain::release),
            path: path.map(|path| path.display().to_string()),
        }
    }
}

impl Cache {
    fn new() -> Cache {
        let (kernels, kernel_bytes) = cuda::CubinCache::default().usage();
        let problem = try_cache().err().map(|error| error.to_string());
        Cache {
            directory: toolchain::cache_directory().display().to_string(),
            writable: problem.is_none(),
            problem,
            kernels,
            kernel_bytes,
        }
    }
}

/// Makes the directories that others must not be able to write to, and a directory in one of them.
fn try_cache() -> Result<(), files::Error> {
    let cache = toolchain::cache();
    cache.below("toolchain").make()?;
    files::Scratch::within(&cache.below("cubin").make()?)?;
    Ok(())
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Host { arch, os, threads, features } = &self.host;
        let features = features.join(" ");
        writeln!(f, "sixwarp {}, {os} on {arch}, {threads} threads {features}", self.version)?;
        write!(f, "driver  ")?;
        match (self.driver.cuda, &self.driver.problem) {
            (Some((major, minor)), None) => writeln!(f, "supports CUDA {major}.{minor}")?,
            (_, Some(problem)) => writeln!(f, "{problem}")?,
            (None, None) => writeln!(f, "unknown")?,
        }
        self.gpus.iter().try_for_each(|gpu| write!(f, "{gpu}"))?;
        for (i, tool) in self.tools.iter().enumerate() {
            writeln!(f, "{:8}{tool}", if i == 0 { "tools" } else { "" })?;
        }
        write!(f, "{}", self.cache)?;
        write!(f, "{}", support::Table(&self.kernels))
    }
}

impl Display for Gpu {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ((major, minor), gib) = (self.compute_capability, self.memory_bytes >> 30);
        writeln!(
            f,
            "{:8}{}, compute capability {major}.{minor}, {} SMs, {gib} GiB",
            self.device, self.name, self.sm_count
        )?;
        match &self.compiles {
            Ok(milliseconds) => writeln!(f, "        compiles a kernel in {milliseconds:.1} ms")?,
            Err(why) => writeln!(f, "        cannot compile: {why}")?,
        }
        match &self.kernels {
            Some(name) => writeln!(f, "        takes the {name} kernels")?,
            None => writeln!(
                f,
                "        has no kernels: they need compute capability 8.0 (Ampere) or later; the device `cpu` \
                 computes the same"
            )?,
        }
        for target in &self.targets {
            let verdict = if target.runs { "run" } else { "do not run" };
            writeln!(f, "        {} kernels {verdict}", target.name)?;
        }
        Ok(())
    }
}

impl Display for ToolReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:10} ", self.name)?;
        match (&self.path, self.release) {
            (Some(path), Some((major, minor))) => write!(f, "{major}.{minor}  {path}"),
            (Some(path), None) => write!(f, "does not say its release  {path}"),
            (None, _) => f.write_str("fetched from PyPI when first needed (or `sixwarp warm`)"),
        }
    }
}

impl Display for Cache {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = if self.writable { "writable" } else { "NOT writable" };
        let kib = self.kernel_bytes.div_ceil(1024);
        writeln!(f, "cache   {}, {state}, {} kernels ({kib} KiB)", self.directory, self.kernels)?;
        match &self.problem {
            Some(problem) => writeln!(
                f,
                "        nothing is kept ({problem}): set SIXWARP_CACHE to a directory of your own"
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a GPU of this compute capability.
    fn said_of(compute_capability: (u32, u32)) -> String {
        let info = DeviceInfo {
            ordinal: 0,
            name: "a GPU".into(),
            compute_capability,
            sm_count: 1,
            memory_bytes: 1 << 30,
            shared_bytes: 1,
            l2_bytes: 1,
            driver: (13, 0),
        };
        Gpu::of(&info, Ok(1.0)).to_string()
    }

    #[test]
    fn any_gpu_since_ampere_is_told_its_kernels() {
        let gpus = [
            ((8, 0), "sm_80"),
            ((8, 6), "sm_86"),
            ((8, 7), "sm_80"),
            ((8, 9), "sm_89"),
            ((9, 0), "sm_90a"),
            ((10, 0), "sm_100a"),
            ((11, 0), "sm_80"),
            ((12, 0), "sm_120"),
            ((12, 1), "sm_120"),
        ];
        for (capability, kernels) in gpus {
            let said = said_of(capability);
            assert!(said.contains(&format!("takes the {kernels} kernels\n")), "{said}");
            assert!(said.contains(&format!("{kernels} kernels run\n")), "{said}");
        }
    }

    #[test]
    fn older_gpus_are_told_of_the_cpu() {
        for capability in [(7, 5), (7, 0), (6, 1)] {
            let said = said_of(capability);
            assert!(said.contains("has no kernels: they need compute capability 8.0 (Ampere)"));
            assert!(said.contains("the device `cpu` computes the same"), "{said}");
            assert!(!said.contains("takes the") && !said.contains("kernels run\n"), "{said}");
        }
    }
}

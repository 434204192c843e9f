//! From a module to machine code on a device.

use crate::cache::Key;
use crate::driver::{JitLog, Module};
use crate::{CubinCache, Device, Error};
use ptx::toolchain::{self, Diagnostic, Tool, ToolchainError};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

/// Where a loaded program's machine code came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The device has it loaded.
    Loaded,
    /// The cache.
    Cache,
    /// Compiled now by an installed `ptxas`, and kept in the cache.
    Compiled,
    /// Compiled now by the driver, which keeps it in its own cache.
    CompiledInDriver,
}

pub(crate) struct Built {
    pub(crate) module: Arc<Module>,
    pub(crate) origin: Origin,
    /// What the compiler printed, empty for cached code.
    pub(crate) log: String,
}

/// The modules of a device. They stay loaded: a graph that was captured runs kernels without holding on
/// to the program they came from, and what was used once is used again.
#[derive(Default)]
pub(crate) struct Modules(Mutex<BTreeMap<Key, Arc<Module>>>);

impl Modules {
    fn get(&self, key: Key) -> Option<Built> {
        let modules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let module = modules.get(&key)?.clone();
        Some(Built { module, origin: Origin::Loaded, log: String::new() })
    }

    fn keep(&self, key: Key, built: &Built) {
        let mut modules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        modules.insert(key, built.module.clone());
    }
}

/// Compiles and loads `module`, from the cache where it has it, unless it is loaded.
///
/// Else an installed `ptxas` compiles, because its machine code can be kept; else, or where this
/// driver is too old for that machine code, the driver compiles, and keeps what it compiled in a
/// cache of its own. The driver's linker would give machine code out too, but it compiles for
/// linking, and such code ignores `setmaxnreg` and spills.
pub(crate) fn build(device: &Device, module: &ptx::Module) -> Result<Built, Error> {
    let target = module.target.first().map_or("", |t| t.as_str());
    if !device.info().runs(target) {
        let (target, device) = (target.to_string(), device.info().to_string());
        return Err(Error::WrongTarget { target, device });
    }
    let text = text_for_driver(module, device.info().driver);
    let arch = machine_arch(target, device.info().compute_capability);
    let key = Key::new(&text, &arch);
    if let Some(built) = device.modules().get(key) {
        return Ok(built);
    }
    let built = match device.cache().get(key) {
        Some(cubin) => load_machine_code(device, &cubin, Origin::Cache, String::new()),
        None => assemble(device, &text, &arch),
    };
    let built = built.map_or_else(|| compile_in_driver(device, &text), Ok)?;
    device.modules().keep(key, &built);
    Ok(built)
}

/// `None` where the driver is too old for the machine code.
fn load_machine_code(device: &Device, cubin: &[u8], origin: Origin, log: String) -> Option<Built> {
    let (module, _) = Module::load(device.context(), cubin).ok()?;
    Some(Built { module: module.into(), origin, log })
}

/// Machine code by an installed `ptxas`; `None` where there is none or it refuses this PTX (the
/// driver is then the one to say why).
fn assemble(device: &Device, text: &str, arch: &str) -> Option<Built> {
    toolchain::installed(Tool::Ptxas)?;
    let assembled = toolchain::assemble(text, arch).ok()?;
    // A cache that cannot be written only costs the next process a compilation.
    let _ = device.cache().put(Key::new(text, arch), &assembled.cubin);
    load_machine_code(device, &assembled.cubin, Origin::Compiled, assembled.warnings.join("\n"))
}

fn compile_in_driver(device: &Device, text: &str) -> Result<Built, Error> {
    let refused =
        |log: JitLog| Error::Jit { errors: Diagnostic::errors(&log.errors, text), log: log.errors };
    let image = CString::new(text).map_err(|_| {
        refused(JitLog { errors: "the PTX holds a zero byte".into(), ..JitLog::default() })
    })?;
    match Module::load(device.context(), image.as_bytes_with_nul()) {
        Ok((module, log)) => {
            let (module, origin) = (module.into(), Origin::CompiledInDriver);
            Ok(Built { module, origin, log: log.info })
        }
        Err((error, log)) if log.errors.is_empty() => Err(error.into()),
        Err((_, log)) => Err(refused(log)),
    }
}

impl CubinCache {
    /// Compiles `module` for its target with `ptxas` (fetched if need be) and keeps the machine
    /// code, without a GPU or a driver; says where it came from.
    ///
    /// For `a` and `f` targets: machine code of a plain target is for a device, which is not here.
    pub fn compile(&self, module: &ptx::Module) -> Result<Origin, ToolchainError> {
        let target = module.target.first().map_or("", |t| t.as_str());
        let text = module.to_string();
        let key = Key::new(&text, target);
        if self.get(key).is_some() {
            return Ok(Origin::Cache);
        }
        let assembled = toolchain::assemble(&text, target)?;
        let reason = |error: files::Error| {
            format!(
                "its machine code cannot be kept ({error}): set SIXWARP_CACHE to a directory of \
                 your own"
            )
        };
        self.put(key, &assembled.cubin)
            .map_err(|error| ToolchainError::Failed { tool: Tool::Ptxas, reason: reason(error) })?;
        Ok(Origin::Compiled)
    }
}

/// The module's text, its `.version` lowered to what the driver reads.
///
/// PTX versions only add: a module that needs what a newer version has is then refused by name, and
/// one that was merely stamped with a newer version runs.
fn text_for_driver(module: &ptx::Module, driver: (u32, u32)) -> String {
    let newest = ptx_version(driver);
    if module.version <= newest {
        return module.to_string();
    }
    ptx::Module { version: newest, ..module.clone() }.to_string()
}

/// The newest PTX version that the driver of a CUDA version reads.
fn ptx_version(cuda: (u32, u32)) -> (u32, u32) {
    match cuda {
        (12, minor @ 0..=5) => (8, minor),
        (12, 6) => (8, 5),
        (12, 7) => (8, 6),
        (12, 8) => (8, 7),
        (12, _) => (8, 8),
        // From 13.0 on, PTX 9.x goes with CUDA 13.x.
        (major, minor) => (major.saturating_sub(4), minor),
    }
}

/// The architecture to make machine code for: an `a` or `f` target's own; the device's where the
/// target is plain, because machine code, unlike PTX, does not run on later architectures.
fn machine_arch(target: &str, (major, minor): (u32, u32)) -> String {
    match target.chars().last() {
        Some('a' | 'f') => target.to_string(),
        _ => format!("sm_{major}{minor}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_the_driver_does_not_read_is_lowered() {
        let module = ptx::parse(".version 9.1 .target sm_90 .address_size 64").unwrap();
        assert!(text_for_driver(&module, (13, 0)).starts_with(".version 9.0\n"));
        assert!(text_for_driver(&module, (12, 8)).starts_with(".version 8.7\n"));
        assert!(text_for_driver(&module, (13, 4)).starts_with(".version 9.1\n"));
    }

    #[test]
    fn versions_follow_the_drivers_releases() {
        assert_eq!(ptx_version((12, 0)), (8, 0));
        assert_eq!(ptx_version((12, 6)), (8, 5));
        assert_eq!(ptx_version((12, 9)), (8, 8));
        assert_eq!(ptx_version((13, 0)), (9, 0));
    }

    #[test]
    fn machine_code_is_made_and_kept_without_a_gpu() {
        let scratch = files::Scratch::new().unwrap();
        let cache = CubinCache::at(scratch.file("cubin"));
        let text = ".version 8.0 .target sm_90a .address_size 64 .entry f() { ret; }";
        let module = ptx::parse(text).unwrap();
        assert_eq!(cache.compile(&module), Ok(Origin::Compiled));
        assert_eq!(cache.compile(&module), Ok(Origin::Cache));
        // What a device of this architecture looks for.
        let key = Key::new(&text_for_driver(&module, (13, 0)), &machine_arch("sm_90a", (9, 0)));
        assert!(cache.get(key).is_some_and(|cubin| cubin.starts_with(b"\x7fELF")));
    }

    #[test]
    fn plain_targets_are_compiled_for_the_device() {
        assert_eq!(machine_arch("sm_90a", (9, 0)), "sm_90a");
        assert_eq!(machine_arch("sm_100f", (10, 3)), "sm_100f");
        assert_eq!(machine_arch("sm_80", (9, 0)), "sm_90");
    }
}

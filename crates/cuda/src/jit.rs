//! From a module to machine code on a device.

use crate::cache::Key;
use crate::driver::{JitLog, Module};
use crate::{Device, Error};
use ptx::toolchain::{self, Diagnostic, Tool};
use std::ffi::CString;

/// Where a loaded program's machine code came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The cache.
    Cache,
    /// Compiled now by an installed `ptxas`, and kept in the cache.
    Compiled,
    /// Compiled now by the driver, which keeps it in its own cache.
    CompiledInDriver,
}

pub(crate) struct Built {
    pub(crate) module: Module,
    pub(crate) origin: Origin,
    /// What the compiler printed, empty for cached code.
    pub(crate) log: String,
}

/// Compiles and loads `module`, from the cache where it has it.
pub(crate) fn build(device: &Device, module: &ptx::Module) -> Result<Built, Error> {
    let target = module.target.first().map_or("", |t| t.as_str());
    if !device.info().runs(target) {
        let (target, device) = (target.to_string(), device.info().to_string());
        return Err(Error::WrongTarget { target, device });
    }
    let text = text_for_driver(module, device.info().driver);
    let arch = machine_arch(target, device.info().compute_capability);
    let key = Key::new(&text, &arch, device.info().driver);
    if let Some(cubin) = device.cache().get(key) {
        if let Ok((module, _)) = Module::load(device.context(), &cubin) {
            return Ok(Built { module, origin: Origin::Cache, log: String::new() });
        }
        device.cache().remove(key);
    }
    compile(device, text, &arch, key)
}

/// Compiles with `ptxas` where one is installed, because its machine code can be kept; else the
/// driver compiles, and keeps what it compiled in a cache of its own. The driver's linker would give
/// machine code out too, but it compiles for linking, and such code ignores `setmaxnreg` and spills.
fn compile(device: &Device, text: String, arch: &str, key: Key) -> Result<Built, Error> {
    if let Some(built) = assemble(device, &text, arch, key) {
        return Ok(built);
    }
    let refused = |log: JitLog| Error::Jit {
        errors: Diagnostic::errors(&log.errors, &text),
        log: log.errors,
    };
    let image = CString::new(text.as_str()).map_err(|_| {
        refused(JitLog { errors: "the PTX holds a zero byte".into(), ..JitLog::default() })
    })?;
    match Module::load(device.context(), image.as_bytes_with_nul()) {
        Ok((module, log)) => Ok(Built { module, origin: Origin::CompiledInDriver, log: log.info }),
        Err((error, log)) if log.errors.is_empty() => Err(error.into()),
        Err((_, log)) => Err(refused(log)),
    }
}

/// Machine code by an installed `ptxas`, `None` where there is none or it refuses this PTX.
fn assemble(device: &Device, text: &str, arch: &str, key: Key) -> Option<Built> {
    toolchain::installed(Tool::Ptxas)?;
    let assembled = toolchain::assemble(text, arch).ok()?;
    let (module, _) = Module::load(device.context(), &assembled.cubin).ok()?;
    // A cache that cannot be written only costs the next process a compilation.
    let _ = device.cache().put(key, &assembled.cubin);
    Some(Built { module, origin: Origin::Compiled, log: assembled.warnings.join("\n") })
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
    fn plain_targets_are_compiled_for_the_device() {
        assert_eq!(machine_arch("sm_90a", (9, 0)), "sm_90a");
        assert_eq!(machine_arch("sm_100f", (10, 3)), "sm_100f");
        assert_eq!(machine_arch("sm_80", (9, 0)), "sm_90");
    }
}

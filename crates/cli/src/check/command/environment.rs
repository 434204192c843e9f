//! The files and variables that a checked command sees.

use super::{CommandArgs, library};
use crate::AnyError;
use files::Scratch;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const SITECUSTOMIZE: &str = include_str!("../shim/sitecustomize.py");
const SIXWARP_CHECK: &str = include_str!("../shim/sixwarp_check.py");
const PTXAS: &str = include_str!("../shim/ptxas.sh");

/// Folders for one command, removed afterwards; the folder for reports stays if it was named.
pub struct Environment {
    scratch: Scratch,
    report: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

impl Environment {
    /// Writes everything that the command needs.
    pub fn new(args: &CommandArgs) -> Result<Environment, AnyError> {
        let library = library::find()?;
        let scratch = Scratch::new()?;
        let folder = |name: &str| {
            let path = scratch.file(name);
            fs::create_dir(&path).map(|()| path)
        };
        let libraries = match &args.libraries {
            Some(path) => empty_folder(path)?,
            None => folder("lib")?,
        };
        library::place(&library, &libraries)?;
        let (python, tools) = (folder("python")?, folder("bin")?);
        fs::write(python.join("sitecustomize.py"), SITECUSTOMIZE)?;
        fs::write(python.join("sixwarp_check.py"), SIXWARP_CHECK)?;
        let ptxas = tools.join("ptxas");
        fs::write(&ptxas, PTXAS)?;
        fs::set_permissions(&ptxas, fs::Permissions::from_mode(0o700))?;
        let report = match &args.report {
            Some(path) => empty_folder(path)?,
            None => folder("report")?,
        };
        let mut environment = Environment { scratch, report, variables: Vec::new() };
        environment.set_paths(&libraries, &python, &ptxas)?;
        environment.set_options(args);
        Ok(environment)
    }

    fn set_paths(&mut self, libraries: &Path, python: &Path, ptxas: &Path) -> Result<(), AnyError> {
        // Kernels compiled for a GPU must not come back from the usual cache, nor these from there.
        let cache = ptx::toolchain::cache_directory().join("check-triton");
        fs::create_dir_all(&cache)?;
        self.set("LD_LIBRARY_PATH", in_front(libraries, "LD_LIBRARY_PATH")?);
        self.set("PYTHONPATH", in_front(python, "PYTHONPATH")?);
        self.set("TRITON_LIBCUDA_PATH", libraries);
        self.set("TRITON_PTXAS_PATH", ptxas);
        self.set("TRITON_PTXAS_BLACKWELL_PATH", ptxas);
        self.set("TRITON_CACHE_DIR", cache);
        Ok(())
    }

    fn set_options(&mut self, args: &CommandArgs) {
        let flag = |set: bool| if set { "1" } else { "" };
        let report = self.report.clone();
        self.set("SIXWARP_CHECK_REPORT", report);
        self.set("SIXWARP_CHECK_DEVICE", &args.device);
        self.set("SIXWARP_CHECK_MODES", &args.launch_modes);
        self.set("SIXWARP_CHECK_SEED", args.launch_seed.to_string());
        self.set("SIXWARP_CHECK_LAUNCHES", args.save_launches.as_deref().unwrap_or_default());
        self.set("SIXWARP_CHECK_UNINITIALISED", flag(args.uninitialised));
        self.set("SIXWARP_CHECK_BENCHMARKS", flag(args.benchmarks));
        self.set("SIXWARP_CHECK_ALL_CONFIGURATIONS", flag(args.all_configurations));
        self.set("SIXWARP_CHECK_VERBOSE", flag(args.verbose));
    }

    fn set(&mut self, name: &'static str, value: impl AsRef<OsStr>) {
        self.variables.push((name, value.as_ref().to_owned()));
    }

    /// Variables that the command gets beside those of this process.
    pub fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (OsStr::new(name), value.as_os_str()))
    }

    /// Where the stand-in writes what it finds.
    pub fn report(&self) -> &Path {
        debug_assert!(self.scratch.path().is_dir());
        &self.report
    }
}

/// A folder of the user's, made if need be; what is in it from another run is not mixed with this one's.
fn empty_folder(path: &Path) -> Result<PathBuf, AnyError> {
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if fs::read_dir(path)?.next().is_some() {
        let text = "there are files in it: name a new folder, or remove them";
        return Err(format!("{}: {text}", path.display()).into());
    }
    Ok(path.canonicalize()?)
}

/// A folder in front of those that a variable names.
fn in_front(folder: &Path, variable: &str) -> Result<OsString, AnyError> {
    let others = std::env::var_os(variable).unwrap_or_default();
    let others = std::env::split_paths(&others).filter(|path| !path.as_os_str().is_empty());
    Ok(std::env::join_paths(std::iter::once(folder.to_owned()).chain(others))?)
}

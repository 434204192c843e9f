//! The cache of tools, filled from NVIDIA's wheels on PyPI.
//!
//! Processes that find it empty at the same time take turns on a lock file; a tool appears in the
//! cache by a rename, so a file that is there is whole.

use super::Tool;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release fetched. Its `ptxas` takes PTX up to 9.4 and targets from `sm_75` to `sm_121a`.
const RELEASE: &str = "13.4.92";

/// Where `tool` is in the cache, once fetched.
pub(super) fn path(tool: Tool) -> PathBuf {
    let file = format!("{}{}", tool.name(), std::env::consts::EXE_SUFFIX);
    cache_directory().join("toolchain").join(RELEASE).join(file)
}

/// The path of `tool` in the cache, after fetching it if need be. The error says what to do.
pub(super) fn cached(tool: Tool) -> Result<PathBuf, String> {
    let path = path(tool);
    let directory = path.parent().unwrap_or(Path::new("."));
    if path.is_file() {
        return Ok(path);
    }
    let unusable = |e: io::Error| format!("cannot write to {}: {e}", directory.display());
    std::fs::create_dir_all(directory).map_err(unusable)?;
    let lock = File::create(directory.join(format!("{tool}.lock"))).map_err(unusable)?;
    lock.lock().map_err(unusable)?;
    if !path.is_file() {
        fetch(tool, directory, &path)?;
    }
    Ok(path)
}

fn fetch(tool: Tool, directory: &Path, path: &Path) -> Result<(), String> {
    let work = directory.join(format!("{tool}.part"));
    // An earlier fetch that was killed leaves its work behind; the lock is ours now.
    let _ = std::fs::remove_dir_all(&work);
    let result = download(tool, &work).and_then(|()| {
        let program = find_program(&work, tool)
            .ok_or_else(|| format!("package {}=={RELEASE} holds no {tool}", package(tool)))?;
        make_executable(&program)
            .and_then(|()| std::fs::rename(&program, path))
            .map_err(|e| format!("cannot place {}: {e}", path.display()))
    });
    let _ = std::fs::remove_dir_all(&work);
    result
}

const fn package(tool: Tool) -> &'static str {
    match tool {
        Tool::Ptxas => "nvidia-cuda-nvcc",
        Tool::Nvdisasm => "nvidia-cuda-nvdisasm",
        Tool::Cuobjdump => "nvidia-cuda-cuobjdump",
    }
}

/// Downloads the tool's wheel into `work` and unpacks it there.
fn download(tool: Tool, work: &Path) -> Result<(), String> {
    let requirement = format!("{}=={RELEASE}", package(tool));
    let mut pip = python();
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]);
    pip.args(["--disable-pip-version-check", "--dest"]).arg(work).arg(&requirement);
    run(pip).map_err(|why| {
        format!(
            "not on PATH, and `pip download {requirement}` failed ({why}); without network, put it \
             on PATH or set {}",
            tool.variable()
        )
    })?;
    let entries = std::fs::read_dir(work).map_err(|e| e.to_string())?;
    for entry in entries.filter_map(Result::ok) {
        let mut unzip = python();
        unzip.args(["-m", "zipfile", "-e"]).arg(entry.path()).arg(work);
        run(unzip)?;
    }
    Ok(())
}

fn python() -> Command {
    let named = std::env::var_os("SIXWARP_PYTHON");
    Command::new(named.unwrap_or_else(|| if cfg!(windows) { "python" } else { "python3" }.into()))
}

fn run(mut command: Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("cannot run {program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(stderr.lines().last().unwrap_or("no message").trim().to_string())
}

fn find_program(directory: &Path, tool: Tool) -> Option<PathBuf> {
    let name = format!("{}{}", tool.name(), std::env::consts::EXE_SUFFIX);
    let entries: Vec<PathBuf> =
        std::fs::read_dir(directory).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    let here = entries.iter().find(|p| p.is_file() && p.file_name() == Some(name.as_ref()));
    let below = || entries.iter().filter(|p| p.is_dir()).find_map(|d| find_program(d, tool));
    here.cloned().or_else(below)
}

#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}

/// `target/` of the workspace cargo runs, else the user's cache directory.
///
/// Cargo sets `CARGO_MANIFEST_DIR` for what it runs (tests, `cargo run`), so every crate of a
/// workspace arrives at the same place.
pub fn cache_directory() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(path) = set("SIXWARP_CACHE") {
        return path;
    }
    if let Some(manifest) = set("CARGO_MANIFEST_DIR") {
        return set("CARGO_TARGET_DIR").unwrap_or_else(|| workspace(&manifest).join("target"));
    }
    let user = set("XDG_CACHE_HOME").or_else(|| set("LOCALAPPDATA"));
    let home = || set("HOME").map(|home| home.join(".cache"));
    user.or_else(home).unwrap_or_else(std::env::temp_dir).join("sixwarp")
}

/// The outermost directory above `manifest` that holds a `Cargo.lock`, else `manifest` itself.
fn workspace(manifest: &Path) -> PathBuf {
    let locked = |directory: &&Path| directory.join("Cargo.lock").is_file();
    manifest.ancestors().filter(locked).last().unwrap_or(manifest).to_path_buf()
}

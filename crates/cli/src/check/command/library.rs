//! Where the stand-in library is, and the names under which programs find it.

use super::named_library;
use crate::AnyError;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// What cargo calls it.
const NAME: &str = "libsixwarp_standin.so";

/// The library: what `SIXWARP_STANDIN` names, the one that was built beside this program, or the one in the clone that
/// it was installed from.
///
/// # Errors
/// If there is none.
pub fn find() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("SIXWARP_STANDIN").map(PathBuf::from) {
        let missing = || format!("SIXWARP_STANDIN: {}: there is no such file", path.display());
        return path.canonicalize().map_err(|_| missing());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.parent().unwrap_or(&program);
    // Beside the program after `cargo build -p sixwarp-standin`, among its dependencies after `cargo build`.
    let places = [folder.to_owned(), folder.join("deps"), folder.join("../lib")];
    newest(&places).or_else(in_clone).ok_or_else(|| {
        format!(
            "{NAME} is not beside {}, and `cargo install` installs no libraries: build it in a clone with `cargo \
             build --release -p sixwarp-standin`, and name it by SIXWARP_STANDIN",
            program.display()
        )
    })
}

/// The library in the clone that `cargo install --path` has built this program in, if the clone is this user's.
fn in_clone() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").canonicalize().ok()?;
    let owner = target.metadata().ok()?.uid();
    let places = [target.join("release/deps"), target.join("debug/deps")];
    newest(&places).filter(|_| [files::user(), 0].contains(&owner))
}

/// The library that was written last, of those in some folders.
fn newest(folders: &[PathBuf]) -> Option<PathBuf> {
    let found = folders.iter().filter_map(|folder| folder.join(NAME).canonicalize().ok());
    found.max_by_key(|path| path.metadata().and_then(|file| file.modified()).ok())
}

/// Puts the libraries that a CUDA program loads into an empty folder.
pub fn place(library: &Path, folder: &Path) -> Result<(), AnyError> {
    symlink(library, folder.join("libcuda.so.1"))?;
    // The linker looks for this name when Triton compiles its launcher.
    symlink(library, folder.join("libcuda.so"))?;
    for name in named_library::NAMES {
        files::write(folder.join(name), named_library::file(name))?;
    }
    Ok(())
}

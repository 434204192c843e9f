//! Where the library is that is preloaded.

use std::path::PathBuf;

/// What cargo calls it.
const NAME: &str = "libsixwarp_capture.so";

/// The library: what `SIXWARP_CAPTURE_LIBRARY` names, or the one that was built beside this program.
///
/// # Errors
/// If there is none.
pub fn find() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("SIXWARP_CAPTURE_LIBRARY").map(PathBuf::from) {
        let missing =
            || format!("SIXWARP_CAPTURE_LIBRARY: {}: there is no such file", path.display());
        return path.canonicalize().map_err(|_| missing());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.parent().unwrap_or(&program);
    // Beside the program after `cargo build -p sixwarp-capture`, among its dependencies after `cargo build`.
    let places = [folder.to_owned(), folder.join("deps"), folder.join("../lib")];
    let found = places.iter().filter_map(|folder| folder.join(NAME).canonicalize().ok());
    let newest = found.max_by_key(|path| path.metadata().and_then(|file| file.modified()).ok());
    newest.ok_or_else(|| {
        format!(
            "{NAME} is not beside {}, and `cargo install` installs no libraries: build it in a clone with `cargo \
             build --release -p sixwarp-capture`, and name it by SIXWARP_CAPTURE_LIBRARY",
            program.display()
        )
    })
}

//! Where tools and compiled kernels are kept.

use files::{PrivateDirectory, Trust};
use std::path::{Path, PathBuf};

/// What to do about a cache that cannot be used.
pub(super) const REMEDY: &str = "set SIXWARP_CACHE to a directory of your own";

/// The cache: `SIXWARP_CACHE`, else `target/` of the workspace cargo runs, else `sixwarp` in the user's
/// cache directory.
///
/// Programs are run from it, so others must not be able to write there. Cargo sets
/// `CARGO_MANIFEST_DIR` for what it runs (tests, `cargo run`), so every crate of a workspace arrives
/// at the same place.
pub fn cache() -> PrivateDirectory {
    locate(|name| std::env::var_os(name).map(PathBuf::from))
}

/// Where the [`cache`] is.
pub fn cache_directory() -> PathBuf {
    cache().path()
}

fn locate(variable: impl Fn(&str) -> Option<PathBuf>) -> PrivateDirectory {
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    if let Some(path) = set("SIXWARP_CACHE") {
        return PrivateDirectory::new(std::path::absolute(&path).unwrap_or(path), Trust::User);
    }
    if let Some(manifest) = set("CARGO_MANIFEST_DIR") {
        let workspace = workspace(&manifest);
        let target = set("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        return PrivateDirectory::new(workspace.join(target), Trust::workspace(&workspace));
    }
    PrivateDirectory::new(in_user_directories(set), Trust::User)
}

/// A relative path would lead to wherever the program is started: the XDG specification has it ignored.
fn in_user_directories(set: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let absolute = |name: &str| set(name).filter(|path| path.is_absolute());
    let user = absolute("XDG_CACHE_HOME").or_else(|| absolute("LOCALAPPDATA"));
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    match user.or_else(home) {
        Some(directory) => directory.join("sixwarp"),
        None => files::temporary_directory().join(format!("sixwarp-{}", files::user())),
    }
}

/// The outermost directory above `manifest` that holds a `Cargo.lock`, else `manifest` itself.
fn workspace(manifest: &Path) -> PathBuf {
    let locked = |directory: &&Path| directory.join("Cargo.lock").is_file();
    manifest.ancestors().filter(locked).last().unwrap_or(manifest).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(environment: &[(&str, &str)]) -> PathBuf {
        let value = |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, v)| v);
        locate(|name| value(name).map(PathBuf::from)).path()
    }

    #[test]
    fn a_users_cache_is_absolute_and_never_a_name_that_all_users_share() {
        let home = ("HOME", "/home/a");
        assert_eq!(located(&[home]), Path::new("/home/a/.cache/sixwarp"));
        assert_eq!(located(&[home, ("XDG_CACHE_HOME", "/c")]), Path::new("/c/sixwarp"));
        for ignored in ["", "c", "./c", "../c"] {
            let environment = [home, ("XDG_CACHE_HOME", ignored)];
            assert_eq!(located(&environment), Path::new("/home/a/.cache/sixwarp"), "{ignored}");
        }
        let own = files::temporary_directory().join(format!("sixwarp-{}", files::user()));
        for environment in [&[][..], &[("HOME", "")], &[("HOME", "a")]] {
            assert_eq!(located(environment), own, "{environment:?}");
        }
    }

    #[test]
    fn a_cache_that_is_named_is_where_the_name_leads() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(located(&[("SIXWARP_CACHE", "c"), ("HOME", "/h")]), here.join("c"));
        assert_eq!(located(&[("SIXWARP_CACHE", "/c"), ("HOME", "/h")]), Path::new("/c"));
        let manifest = ("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));
        let root = workspace(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert_eq!(located(&[manifest]), root.join("target"));
        assert_eq!(located(&[manifest, ("CARGO_TARGET_DIR", "build")]), root.join("build"));
        assert_eq!(located(&[manifest, ("CARGO_TARGET_DIR", "/t")]), Path::new("/t"));
    }
}

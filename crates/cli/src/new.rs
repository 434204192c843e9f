//! `sixwarp new`: a project to start from.

use crate::{Outcome, output};
use clap::Subcommand;
use std::path::{Path, PathBuf};

/// Starts a project
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Kernel(Kernel),
}

/// Writes a cargo project with a kernel, a test on the simulator and a main that also runs on a GPU
#[derive(clap::Args)]
struct Kernel {
    /// Name of the project, and of its folder
    name: String,
    /// A checkout of sixwarp to depend on, instead of the published crates
    #[arg(long, value_name = "CHECKOUT")]
    path: Option<PathBuf>,
}

/// Files of the project, and their text. Tests of the workshop compile those in Rust.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("new/manifest.toml")),
    ("README.md", include_str!("new/readme.md")),
    ("src/lib.rs", include_str!("new/lib.rs")),
    ("src/main.rs", include_str!("new/main.rs")),
    ("tests/simulated.rs", include_str!("new/simulated.rs")),
];

/// Writes the project.
pub fn run(args: Args) -> Outcome {
    let What::Kernel(kernel) = args.what;
    let name = project_name(&kernel.name)?;
    let folder = Path::new(&kernel.name);
    if folder.exists() {
        return Err(format!("{} is there already", folder.display()).into());
    }
    let checkout = kernel.path.map(|path| checkout(&path)).transpose()?;
    for (file, text) in FILES {
        let path = folder.join(file);
        let parent = path.parent().expect("a file of the project is in its folder");
        std::fs::create_dir_all(parent).map_err(|why| format!("{}: {why}", parent.display()))?;
        files::write(&path, filled(text, name, checkout.as_deref()))?;
    }
    output::print(&format!("{name}: `cd {}` and `cargo test`\n", folder.display()))
}

/// The last part of a path, if cargo takes it for a package.
fn project_name(path: &str) -> Result<&str, String> {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(legal) {
        return Ok(name);
    }
    Err(format!("`{name}` is no name of a package: a letter, then letters, digits, `-` and `_`"))
}

/// The absolute path of a checkout.
fn checkout(path: &Path) -> Result<PathBuf, String> {
    let wrong = |why: &str| format!("{}: {why}", path.display());
    let whole = path.canonicalize().map_err(|why| wrong(&why.to_string()))?;
    match whole.join("crates/ptx/Cargo.toml").exists() {
        true => Ok(whole),
        false => Err(wrong("no checkout of sixwarp: it has no crates/ptx")),
    }
}

/// A file's text for this project, which is called `my-kernel` in the files here.
fn filled(text: &str, name: &str, checkout: Option<&Path>) -> String {
    let mut text = text.replace("my-kernel", name).replace("my_kernel", &name.replace('-', "_"));
    for part in ["cuda", "program", "ptx", "sim"] {
        text = text.replace(&format!("{{source:{part}}}"), &source(part, checkout));
    }
    text
}

/// Where a crate comes from, as in a manifest.
fn source(part: &str, checkout: Option<&Path>) -> String {
    match checkout {
        Some(checkout) => format!("path = {:?}", checkout.join("crates").join(part)),
        None => format!("version = {:?}", env!("CARGO_PKG_VERSION")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_depends_on_a_checkout_or_on_what_is_published() {
        let manifest = FILES[0].1;
        let published = filled(manifest, "mine", None);
        let version = format!(
            "ptx = {{ package = \"sixwarp-ptx\", version = \"{}\" }}",
            env!("CARGO_PKG_VERSION")
        );
        assert!(published.contains(&version), "{published}");
        let local = filled(manifest, "mine", Some(Path::new("/somewhere")));
        assert!(local.contains("path = \"/somewhere/crates/sim\""), "{local}");
        assert!(!local.contains("{source") && !local.contains("my-kernel"), "{local}");
    }

    #[test]
    fn names_are_those_of_packages() {
        assert_eq!(project_name("a/b/my-kernel_2"), Ok("my-kernel_2"));
        for wrong in ["", "2d", "a b", "..", "ä"] {
            assert!(project_name(wrong).is_err(), "{wrong}");
        }
    }

    /// The kernel of the template is that of the tutorial's first chapter.
    #[test]
    fn the_kernel_is_the_first_of_the_workshop() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workshop/src/saxpy.rs");
        let chapter = std::fs::read_to_string(path).expect("the chapter");
        let template = filled(FILES[2].1, "saxpy", None);
        let code = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(code(&template), code(&chapter));
    }
}

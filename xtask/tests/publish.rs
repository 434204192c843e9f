//! What crates.io and PyPI are told: every public crate says what it is, and nothing it needs is left behind.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// A crate of the workspace: its folder and its manifest.
struct Crate {
    folder: PathBuf,
    manifest: String,
}

impl Crate {
    /// The value of a field of `[package]`, as written there.
    fn field(&self, name: &str) -> Option<&str> {
        let package = self.manifest.split("\n[").next()?;
        package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "))
    }

    fn is_public(&self) -> bool {
        self.field("publish") != Some("false")
    }

    fn name(&self) -> String {
        self.field("name").expect("a name").trim_matches('"').to_owned()
    }
}

fn crates() -> Vec<Crate> {
    let folders = std::fs::read_dir(root().join("crates")).expect("crates");
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.expect("readable").path()).collect();
    folders.sort();
    let read = |folder: PathBuf| Crate { manifest: read(&folder.join("Cargo.toml")), folder };
    folders.into_iter().filter(|folder| folder.join("Cargo.toml").exists()).map(read).collect()
}

fn workspace() -> String {
    read(&root().join("Cargo.toml"))
}

fn version() -> String {
    let manifest = workspace();
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    line.expect("a version of the workspace").trim_matches('"').to_owned()
}

fn list(value: &str) -> Vec<&str> {
    let inner = value.trim_start_matches('[').trim_end_matches(']');
    inner.split(", ").map(|word| word.trim_matches('"')).collect()
}

#[test]
fn public_crates_say_what_they_are() {
    let public: Vec<Crate> = crates().into_iter().filter(Crate::is_public).collect();
    assert!(public.len() >= 13);
    for package in public {
        let name = package.name();
        let description = package.field("description").unwrap_or_default();
        assert!(
            description.len() > 40 && !description.starts_with("\"sixwarp"),
            "{name}: {description}"
        );
        for field in ["keywords", "categories"] {
            let words = package.field(field).map(list);
            let shared = package.manifest.contains(&format!("{field}.workspace = true"));
            let few =
                words.is_some_and(|words| words.len() <= 5 && words.iter().all(|w| w.len() <= 40));
            assert!(few || shared, "{name}: {field}: one to five words");
        }
        let readme = package.field("readme").expect("a README").trim_matches('"');
        assert!(package.folder.join(readme).exists(), "{name}: {readme} is not there");
        assert!(package.manifest.contains("[package.metadata.docs.rs]"), "{name}: docs.rs");
    }
}

#[test]
fn what_is_not_published_says_so() {
    let internal: Vec<String> =
        crates().iter().filter(|package| !package.is_public()).map(Crate::name).collect();
    assert_eq!(internal, ["sixwarp-python"]);
    for manifest in ["xtask/Cargo.toml", "fuzz/Cargo.toml"] {
        assert!(read(&root().join(manifest)).contains("publish = false"), "{manifest}");
    }
}

#[test]
fn crates_of_the_workspace_are_named_with_their_version() {
    let wanted = format!("version = \"{}\"", version());
    let manifest = workspace();
    let paths: Vec<&str> = manifest.lines().filter(|line| line.contains("path = ")).collect();
    assert!(paths.len() >= 12);
    for line in paths {
        assert!(line.contains(&wanted), "{line}: {wanted} is needed");
    }
    for package in crates() {
        assert!(
            !package.manifest.contains("path = \"../"),
            "{}: use the workspace's",
            package.name()
        );
    }
}

#[test]
fn all_packages_have_one_version() {
    let version = version();
    let backend = read(&root().join("python/backend/sixwarp_build.py"));
    assert!(backend.contains(&format!("\"sixwarp\", \"{version}\"")), "python/backend");
    assert!(
        read(&root().join("python/pyproject.toml")).contains(&format!("version = \"{version}\""))
    );
    let changes = read(&root().join("CHANGELOG.md"));
    assert!(changes.contains(&format!("\n## {version}")), "CHANGELOG.md has no section {version}");
}

#[test]
fn sources_include_only_files_of_their_crate() {
    for package in crates().iter().filter(|package| package.is_public()) {
        for path in sources(&package.folder.join("src")) {
            let text = read(&path);
            for (before, file) in
                text.split("include_str!(\"").collect::<Vec<_>>().windows(2).map(|w| (w[0], w[1]))
            {
                let for_tests = before.trim_end().ends_with("#[cfg(doctest)]\n#[doc =");
                let file = file.split('"').next().unwrap_or_default();
                let included = path.parent().expect("a folder").join(file);
                let included =
                    included.canonicalize().unwrap_or_else(|why| panic!("{file}: {why}"));
                let inside = included.starts_with(package.folder.canonicalize().expect("a folder"));
                assert!(inside || for_tests, "{}: {file} is not in the package", path.display());
            }
        }
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    let paths = entries.map(|entry| entry.expect("readable").path());
    paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

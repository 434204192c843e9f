//! The corpus itself: every file parses, and a real assembler accepts it for its target.

use filetest::{FileTest, files};
use std::path::Path;

fn corpus(folder: &str) -> Vec<FileTest> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(folder);
    let load = |path: &std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy();
        let source = std::fs::read_to_string(path).unwrap();
        FileTest::parse(&name, &source).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    files(&root).unwrap().iter().map(load).collect()
}

#[test]
fn files_parse_and_have_runs() {
    let tests = corpus("ptx");
    assert!(tests.len() > 60, "only {} files", tests.len());
    for test in tests {
        assert!(!test.runs.is_empty(), "{} has no run", test.name);
        for run in &test.runs {
            test.program(run).unwrap_or_else(|error| panic!("{}: {error}", test.name));
        }
    }
}

#[test]
fn the_assembler_accepts_every_file() {
    for test in corpus("ptx") {
        if let Err(error) = ptx::toolchain::assemble(&test.source, test.target()) {
            panic!("{}: {error}", test.name);
        }
    }
}

//! The corpus itself: every file parses, and a real assembler accepts it for its target.

use filetest::{FileTest, SimEngine, check, files};
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

/// The files give what they say in every mode in which work may complete.
#[test]
fn the_simulator_gives_what_files_expect() {
    let mut failures = Vec::new();
    for test in corpus("ptx") {
        for mode in SimEngine::MODES {
            for outcome in check(&test, &SimEngine::mode(mode, 1)) {
                if let Some(failure) = outcome.failure {
                    failures
                        .push(format!("{} line {} ({mode}): {failure}", test.name, outcome.line));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

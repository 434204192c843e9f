//! Kernels with one mistake each, and the exact report each must give.
//!
//! Every file of `tests/fail` is run in all modes, the pedantic one last; the first mode that objects is recorded with its
//! report in the `.stderr` file beside it. `FILETEST_BLESS=1` writes these files anew.

use filetest::{FileTest, SimEngine, files};
use std::path::Path;

/// The first objection, with the mode that raised it.
fn objection(test: &FileTest) -> Option<String> {
    let run = test.runs.first().expect("a run");
    let program = test.program(run).unwrap_or_else(|error| panic!("{}: {error}", test.name));
    SimEngine::MODES.iter().chain(&["pedantic"]).find_map(|mode| {
        let engine = SimEngine::mode(mode, 1).limited(1 << 20).on_one_thread();
        let result = engine.run(&program, &run.contents());
        result.err().map(|error| format!("mode: {mode}\n{error}\n"))
    })
}

#[test]
fn every_mistake_is_reported_in_these_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fail");
    let bless = std::env::var_os("FILETEST_BLESS").is_some();
    let mut wrong = Vec::new();
    for path in files(&root).expect("the folder of failing kernels") {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let source = std::fs::read_to_string(&path).expect("a PTX file");
        let test = FileTest::parse(&name, &source).unwrap_or_else(|e| panic!("{name}: {e}"));
        let Some(report) = objection(&test) else {
            wrong.push(format!("{name}: nothing was found"));
            continue;
        };
        let golden = path.with_extension("stderr");
        if bless {
            std::fs::write(&golden, &report).expect("a writable folder");
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        if report != expected {
            wrong.push(format!("{name}: expected\n{expected}got\n{report}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

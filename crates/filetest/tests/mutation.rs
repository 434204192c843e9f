//! Working kernels, broken on purpose: each fence, wait, barrier and arrive removed, each parity
//! flipped, one at a time. Every such mutant must be found out in some mode.
//!
//! The mutants nobody can find out are listed in `tests/mutation/survivors.txt`, with the reason
//! each is harmless. `FILETEST_BLESS=1` prints the list anew (the reasons are for people to write).

use filetest::{FileTest, SimEngine, mutants, survey};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

fn load(name: &str) -> FileTest {
    let source = std::fs::read_to_string(tests_folder().join(format!("ptx/{name}.ptx")));
    FileTest::parse(name, &source.unwrap_or_else(|e| panic!("{name}: {e}"))).expect("a file test")
}

/// Survivors by file, as `line: change instruction`, with their reasons.
fn known_survivors() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(tests_folder().join("mutation/survivors.txt"));
    let text = text.expect("the list of survivors");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (mutant, reason) = line.split_once(" # ").expect("a reason behind every survivor");
            (mutant.trim().to_owned(), reason.to_owned())
        })
        .collect()
}

/// Files whose kernels synchronise, one for each way to do it.
const FILES: [&str; 11] = [
    "bulk_copy",
    "cluster_exchange",
    "cp_async",
    "cta_barriers",
    "mbarrier_threads",
    "tcgen05_mma_a_tmem",
    "tcgen05_mma_pair",
    "tma_load_2d",
    "tma_multicast",
    "tma_store_2d",
    "wgmma_n8_bf16",
];

#[test]
fn every_broken_kernel_is_found_out() {
    let known = known_survivors();
    // Last the mode that asks for every fence of the manual.
    let modes = SimEngine::MODES.into_iter().chain(["pedantic"]);
    let engines: Vec<SimEngine> =
        modes.map(|mode| SimEngine::mode(mode, 1).limited(1 << 22).on_one_thread()).collect();
    let mut survivors = Vec::new();
    let mut all = 0;
    for name in FILES {
        let test = load(name);
        let run = &test.runs[0];
        let program = test.program(run).expect("a program");
        let inputs = run.contents();
        let right = engines[0].run(&program, &inputs).unwrap_or_else(|e| panic!("{name}: {e}"));
        for engine in &engines[1..] {
            let again = engine.run(&program, &inputs);
            let again = again.unwrap_or_else(|e| panic!("{name} ({}): {e}", engine.mode));
            assert!(again == right, "{name}: another result in mode {}", engine.mode);
        }
        let verdicts =
            survey(mutants(&program.module), |_| &program, &inputs, &engines, |got| *got == right);
        assert!(!verdicts.is_empty(), "{name} has nothing to break");
        all += verdicts.len();
        let alive = verdicts.iter().filter(|verdict| verdict.survives());
        survivors.extend(alive.map(|v| format!("{name} {v}")));
    }
    let unexplained: Vec<&String> =
        survivors.iter().filter(|survivor| !known.contains_key(*survivor)).collect();
    let stale: Vec<&String> = known.keys().filter(|k| !survivors.contains(k)).collect();
    println!("{} of {all} mutants are found out", all - survivors.len());
    assert!(
        unexplained.is_empty() && stale.is_empty(),
        "survivors without a reason:\n{unexplained:#?}\nlisted, but found out:\n{stale:#?}"
    );
}

//! Hostile PTX: thousands of mutations of the kernels of `tests/`, the same ones in every run, each loaded and
//! run under limits. Nothing may panic.
//!
//! `fuzz/` does the same with coverage feedback and without end. `HOSTILE_ROUNDS` and `HOSTILE_SEED` ask for
//! more, or for other ones.

#[path = "../../../../fuzz/checks/sim.rs"]
mod check;
mod mutate;

use filetest::files;
use mutate::{Corpus, Random};
use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;

const ROUNDS: u64 = 800;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// The files of `tests/ptx` and `tests/fail`.
fn corpus() -> Corpus {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let paths =
        ["ptx", "fail"].map(|folder| files(&root.join(folder)).expect("a folder of kernels"));
    let read = |path| std::fs::read_to_string(path).expect("a PTX file");
    Corpus::new(paths.iter().flatten().map(read).collect())
}

#[test]
fn no_kernel_is_too_hostile() {
    let corpus = corpus();
    let (rounds, seed) = (number("HOSTILE_ROUNDS", ROUNDS), number("HOSTILE_SEED", 1));
    let mut panics: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..rounds {
        let text = corpus.mutant(&mut Random::new(seed << 32 | round));
        if let Err(panic) = catch_unwind(|| check::check(text.as_bytes())) {
            let message = panic.downcast_ref::<String>().cloned();
            let message = message.or(panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            panics.entry(message.unwrap_or_default()).or_insert(text);
        }
    }
    let list: Vec<String> =
        panics.iter().map(|(panic, text)| format!("{panic}:\n{text}")).collect();
    assert!(list.is_empty(), "{} kinds of panic:\n{}", list.len(), list.join("\n"));
}

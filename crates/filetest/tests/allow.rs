//! Broken rules that a run is told to let pass.

use filetest::{FileTest, files};
use sim::{Error, Limits, Options, Report, Rule};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The failing kernels with their golden reports.
fn mistakes() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fail");
    let paths = files(&root).expect("the folder of failing kernels");
    let golden = |path: PathBuf| {
        let report = std::fs::read_to_string(path.with_extension("stderr")).expect("a report");
        (path, report)
    };
    paths.into_iter().map(golden).collect()
}

/// The name behind `hazard[` or `fault[`.
fn rule_name<'r>(report: &'r str, kind: &str) -> Option<&'r str> {
    let (_, rest) = report.split_once(&format!("\n{kind}["))?;
    rest.split_once(']').map(|(rule, _)| rule)
}

/// A kernel whose mistake can be allowed: its rule, and the options under which it shows.
fn allowable((path, report): &(PathBuf, String)) -> Option<(FileTest, Rule, Options)> {
    let (mode, report) = report.strip_prefix("mode: ")?.split_once('\n')?;
    let (_, note) = report.split_once("= note: `--allow ")?;
    let rule = note.split_once('`')?.0.parse().expect("a rule");
    let mode = Options::mode(mode, 1).expect("a mode");
    let limits = Limits { instructions: 1 << 20, ..Limits::default() };
    let options = Options { threads: 1, limits, ..mode };
    Some((filetest::load(path).expect("a PTX file"), rule, options))
}

fn run(test: &FileTest, options: &Options) -> Result<Report, Error> {
    let first = test.runs.first().expect("a run");
    sim::run(&test.program(first).expect("a program"), &first.contents(), options)
}

#[test]
fn an_allowed_rule_is_counted_and_stops_nothing() {
    let mut passed = Vec::new();
    for (test, rule, options) in mistakes().iter().filter_map(allowable) {
        let allow = |rules: &[Rule]| Options { allow: rules.to_vec(), ..options.clone() };
        match run(&test, &allow(&[rule])) {
            Ok(report) => {
                let listed = report.allowed.iter().any(|a| a.finding.rule() == rule.name());
                assert!(listed, "{}", test.name);
                passed.push(rule);
            }
            Err(error) => assert_ne!(error.rule(), rule.name(), "{}", test.name),
        }
        let others: Vec<Rule> = Rule::ALL.into_iter().filter(|other| *other != rule).collect();
        match run(&test, &allow(&others)) {
            Err(error) => assert_eq!(error.rule(), rule.name(), "{}", test.name),
            Ok(_) => panic!("{}: what is not allowed passed", test.name),
        }
    }
    let untested: Vec<&Rule> = Rule::ALL.iter().filter(|rule| !passed.contains(rule)).collect();
    // Launches of one file do not overlap.
    assert_eq!(untested, [&Rule::MissingGridWait]);
}

/// Every hazard can be allowed, and of faults all but those from which no machine goes on.
#[test]
fn faults_without_a_next_step_cannot_be_allowed() {
    let fatal: BTreeSet<&str> = [
        "barrier-before-init", // whatever the memory holds would be its state
        "copy-start",          // an illegal instruction on the hardware
        "matrix-operand",      // descriptors that mean nothing, operands outside shared memory
        "misaligned",          // an error on the hardware
        "out-of-bounds",       // of shared memory: an error on the hardware
        "shared-space",        // there is no such mbarrier
        "store-corner",        // an illegal instruction on the hardware
        "tmem-columns",        // a size that does not exist
    ]
    .into();
    let mistakes = mistakes();
    let barred = mistakes.iter().filter(|(_, report)| !report.contains("= note: `--allow "));
    let found: BTreeSet<&str> = barred.clone().filter_map(|(_, r)| rule_name(r, "fault")).collect();
    assert_eq!(found, fatal);
    assert!(barred.filter_map(|(_, report)| rule_name(report, "hazard")).next().is_none());
}

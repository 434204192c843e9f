//! Hazards that a run is told to let pass.

use filetest::{FileTest, files};
use sim::{Error, Options, Report, Rule};
use std::path::Path;

/// The kernels whose mistake is a hazard: its rule, and the options under which it shows.
fn hazards() -> Vec<(FileTest, Rule, Options)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fail");
    let paths = files(&root).expect("the folder of failing kernels");
    paths.iter().filter_map(|path| hazard(path)).collect()
}

/// The golden report says `mode: MODE`, and `hazard[RULE]: …` where it is one.
fn hazard(path: &Path) -> Option<(FileTest, Rule, Options)> {
    let golden = std::fs::read_to_string(path.with_extension("stderr")).expect("a report");
    let (mode, report) = golden.strip_prefix("mode: ")?.split_once('\n')?;
    let (rule, _) = report.strip_prefix("hazard[")?.split_once(']')?;
    let options = Options { threads: 1, ..Options::mode(mode, 1).expect("a mode") };
    Some((filetest::load(path).expect("a PTX file"), rule.parse().expect("a rule"), options))
}

fn run(test: &FileTest, options: &Options) -> Result<Report, Error> {
    let first = test.runs.first().expect("a run");
    sim::run(&test.program(first).expect("a program"), &first.contents(), options)
}

#[test]
fn an_allowed_rule_is_counted_and_stops_nothing() {
    let mut passed = Vec::new();
    for (test, rule, options) in hazards() {
        let allow = |rules: &[Rule]| Options { allow: rules.to_vec(), ..options.clone() };
        match run(&test, &allow(&[rule])) {
            Ok(report) => {
                assert!(report.allowed.iter().any(|a| a.hazard.rule == rule), "{}", test.name);
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

//! What needs which target and PTX version: verifier and `ptxas` must draw the same line.

use crate::{rejected_by_ptxas, rules_broken};

const ARCHITECTURES: &[(&str, &str)] = &[
    ("sm_75", "6.3"),
    ("sm_80", "7.0"),
    ("sm_86", "7.1"),
    ("sm_89", "7.8"),
    ("sm_90", "7.8"),
    ("sm_90a", "8.0"),
    ("sm_100", "8.6"),
    ("sm_100a", "8.6"),
    ("sm_103a", "8.8"),
    ("sm_110a", "9.0"),
    ("sm_120", "8.7"),
    ("sm_120a", "8.7"),
];

const VERSIONS: &[&str] =
    &["6.3", "6.5", "7.0", "7.1", "7.4", "7.8", "8.0", "8.1", "8.3", "8.4", "8.6", "8.7", "8.8"];

/// An instruction per feature.
const EXAMPLES: &str = include_str!("features.ptx");

pub fn examples() -> impl Iterator<Item = &'static str> {
    EXAMPLES.lines().filter(|line| !line.is_empty() && !line.starts_with("//"))
}

/// Examples on which verifier and `ptxas` differ.
fn disagreements(arch: &str, version: &str) -> Vec<String> {
    let examples: Vec<&str> = examples().collect();
    let rejected = rejected_by_ptxas(arch, version, &examples);
    let broken = rules_broken(arch, version, &examples);
    let differ = broken.iter().enumerate().filter(|(i, rules)| {
        rules.is_empty() == rejected.contains(i) || rules.iter().any(|rule| *rule != 10)
    });
    let show = |(i, rules): (usize, &_)| {
        format!("{arch} {version}: {} (verifier: rules {rules:?})", examples[i])
    };
    differ.map(show).collect()
}

#[test]
fn the_same_architectures_as_ptxas() {
    let found: Vec<_> = ARCHITECTURES.iter().flat_map(|(a, _)| disagreements(a, "9.0")).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_same_versions_as_ptxas() {
    let mut found = Vec::new();
    // One architecture for each generation of PTX.
    let generations = ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a"];
    for (arch, since) in ARCHITECTURES.iter().filter(|(arch, _)| generations.contains(arch)) {
        let versions = VERSIONS.iter().skip_while(|version| *version != since);
        found.extend(versions.flat_map(|version| disagreements(arch, version)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

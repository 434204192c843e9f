//! Kernels that are right have no findings.

#[path = "../support/mod.rs"]
mod support;

use crate::violations;

fn expect_nothing_wrong(kernels: Vec<(String, String)>) {
    assert!(kernels.len() >= 30, "{} kernels", kernels.len());
    for (name, text) in kernels {
        let found = violations(&text);
        assert!(found.is_empty(), "{name}: {} findings, first: {}", found.len(), found[0]);
    }
}

#[test]
fn nothing_is_wrong_with_what_triton_compiles() {
    expect_nothing_wrong(support::triton_kernels());
}

#[test]
fn nothing_is_wrong_with_the_corpus() {
    expect_nothing_wrong(support::corpus());
}

//! Kernels that are right have no findings.

#[path = "../support/mod.rs"]
mod support;

use crate::violations;

#[test]
fn nothing_is_wrong_with_what_triton_compiles() {
    for (name, text) in support::triton_kernels() {
        let found = violations(&text);
        assert!(found.is_empty(), "{name}: {} findings, first: {}", found.len(), found[0]);
    }
}

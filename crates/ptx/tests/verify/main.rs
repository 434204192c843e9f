//! The verifier: each rule has a module that breaks it and one that obeys it, and `ptxas` agrees.

mod differential;
mod features;
mod kernels;
mod rules;

use sixwarp_ptx::toolchain::{Diagnostic, ToolchainError, assemble};
use sixwarp_ptx::{Violation, parse, verify};
use std::collections::BTreeSet;

/// A kernel with registers of every kind around `body`.
fn kernel(arch: &str, version: &str, body: &str) -> String {
    format!(
        ".version {version}\n.target {arch}\n.address_size 64
.extern .shared .align 16 .b8 smem[];
.global .align 4 .b8 global_bytes[64];
.const .align 4 .b8 constant_bytes[64];
.visible .entry k(.param .u64 pointer, .param .align 64 .b8 map[128])
{{
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<72>; .reg .b64 %rd<8>;
.reg .f32 %f<72>; .reg .f64 %fd<4>; .reg .u32 %u<8>; .reg .u16 %us<4>; .reg .f16 %hf<4>;
{body}
ret;
}}\n"
    )
}

fn violations(text: &str) -> Vec<Violation> {
    verify(&parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")))
}

/// Whether `ptxas` takes the text; a missing tool is no answer.
fn ptxas_accepts(text: &str, arch: &str) -> bool {
    ptxas_errors(text, arch).is_empty()
}

fn ptxas_errors(text: &str, arch: &str) -> Vec<Diagnostic> {
    match assemble(text, arch) {
        Ok(_) => Vec::new(),
        Err(ToolchainError::Rejected { errors, .. }) => errors,
        Err(missing @ ToolchainError::Missing { .. }) => panic!("{missing}"),
        // Some mistakes crash it.
        Err(failed) => {
            let message = failed.to_string();
            vec![Diagnostic { message, line: None, text: None, source: None }]
        }
    }
}

/// A kernel with one snippet per line, each in a block of its own, and the line of the first.
fn batch(arch: &str, version: &str, snippets: &[&str]) -> (String, u32) {
    let blocks: Vec<String> = snippets.iter().map(|snippet| format!("{{ {snippet} }}")).collect();
    let text = kernel(arch, version, &blocks.join("\n"));
    let first = text.lines().position(|line| *line == blocks[0]).expect("the first snippet");
    (text, first as u32 + 1)
}

/// The snippets that `ptxas` rejects, by index. Some errors hide those behind them, so what is
/// rejected is taken out until the rest assembles.
fn rejected_by_ptxas(arch: &str, version: &str, snippets: &[&str]) -> BTreeSet<usize> {
    let mut left = snippets.to_vec();
    let mut rejected = BTreeSet::new();
    loop {
        let (text, first) = batch(arch, version, &left);
        let errors = ptxas_errors(&text, arch);
        if errors.is_empty() {
            return rejected;
        }
        // Without a line, the culprit is found by trying each alone.
        let Some(lines) = errors.iter().map(|e| e.line).collect::<Option<Vec<u32>>>() else {
            let alone = |i: &usize| !ptxas_accepts(&batch(arch, version, &[snippets[*i]]).0, arch);
            rejected.extend((0..left.len()).filter(|i| !left[*i].is_empty()).filter(alone));
            return rejected;
        };
        for index in lines.iter().map(|line| (line - first) as usize) {
            rejected.insert(index);
            left[index] = "";
        }
    }
}

/// The rules that each snippet breaks.
fn rules_broken(arch: &str, version: &str, snippets: &[&str]) -> Vec<BTreeSet<u8>> {
    let rules = |snippet: &&str| {
        violations(&kernel(arch, version, &format!("{{ {snippet} }}")))
            .iter()
            .map(|v| v.rule.0)
            .collect()
    };
    snippets.iter().map(rules).collect()
}

//! Findings as JSON.

use super::finding::Finding;
use super::source::line_of;
use serde_json::{Value, json};
use sim::Site;
use std::collections::BTreeMap;

/// The form of the files; a higher number means that a reader of this one may not understand.
const FORM: u32 = 1;

/// A finding.
pub fn finding(finding: &Finding) -> Value {
    let sites: Vec<Value> = finding.sites.iter().map(|(what, at)| site(what, at)).collect();
    json!({
        "form": FORM,
        "kind": finding.kind,
        "rule": finding.rule,
        "message": finding.message,
        "kernel": finding.kernel,
        "mode": finding.mode.0,
        "seed": finding.mode.1,
        "first_launch": finding.first_launch,
        "times": finding.times,
        "sites": sites,
        "launch": finding.launch,
        "checked": finding.checked,
    })
}

fn site(what: &str, site: &Site) -> Value {
    let (file, line) =
        site.loc.clone().map_or((None, None), |(file, line)| (Some(file), Some(line)));
    let source = site.loc.as_ref().and_then(|(file, line)| line_of(file, *line));
    json!({
        "what": what,
        "file": file,
        "line": line,
        "source": source,
        "ptx_line": site.line,
        "instruction": site.instruction,
        "cta": site.cta,
        "warp": site.warp,
        "lane": site.lane,
    })
}

/// What a process did in all.
pub fn summary(
    kernels: &BTreeMap<String, u64>,
    findings: usize,
    instructions: u64,
    unfinished: u64,
) -> Value {
    json!({
        "form": FORM,
        "launches": kernels.values().sum::<u64>(),
        "kernels": kernels,
        "findings": findings,
        "warp_instructions": instructions,
        "unfinished": unfinished,
    })
}

//! What kernels differ by, and few programs in which every two of these meet.

use problem::{Mask, Problem, QueryLengths, Segment, Values};
use std::collections::BTreeSet;

/// What the program of a problem differs from others by: the kernel that the planner chose, and what is asked of it.
pub fn features(problem: &Problem, summary: &str) -> BTreeSet<String> {
    let dims = format!("{}/{}", problem.key_dim(), problem.value_dim());
    // In how many parts keys are split is an argument; that there are several is not.
    let kernel = summary.split(", ").filter(|part| !part.contains("split(s)"));
    let kernel = kernel.collect::<Vec<_>>().join(", ");
    let whole = summary.contains(", 1 split(s)") || !summary.contains("split(s)");
    let of_call = [
        format!("kernel {kernel}, dims {dims}"),
        format!("keys in one part: {whole}"),
        format!("{}", problem.dtype()),
        format!("soft cap: {}", problem.softcap.is_some()),
        format!("sinks: {}", problem.sinks),
        format!("log-sum-exp: {}", problem.return_lse),
        format!("packed queries: {}", problem.query_lengths != QueryLengths::Full),
        format!("one token: {}", problem.longest_query() == 1),
        format!("heads of a KV head: {}", problem.group() > 1),
        format!("positive scale: {}", problem.scale > 0.0),
    ];
    let segments = problem.segments.iter().enumerate();
    let of_segments = segments.flat_map(|(n, segment)| {
        of_segment(segment).into_iter().map(move |feature| format!("segment {n}: {feature}"))
    });
    of_call.into_iter().chain(of_segments).collect()
}

fn of_segment(segment: &Segment) -> [String; 8] {
    let mask = match segment.mask {
        Mask::Full => "full".to_owned(),
        Mask::Causal => "causal".to_owned(),
        Mask::Window { left, right } => format!("window {} {}", left.is_some(), right.is_some()),
        Mask::Compressed { .. } => "compressed".to_owned(),
    };
    let page = segment.paging.map(|_| segment.k.tokens());
    [
        format!("mask {mask}"),
        format!("pages of {page:?}"),
        format!("table: {}", segment.reads_page_table()),
        format!("lists: {}", segment.indices.is_some()),
        format!("stored as {}", segment.storage),
        format!("values apart: {}", matches!(segment.values, Values::Separate(_))),
        format!("lengths: {} {}", segment.lengths.used, segment.lengths.packed.is_some()),
        format!("mask tensor: {:?}", segment.attn_mask.map(|m| (m.element, m.strides[3] == 1))),
    ]
}

/// Programs, each with its features, so many of them that every two features that some program has together are in
/// one that is kept. What assembles is decided by what a kernel does at once, hardly by three things where no two do it.
pub fn covering<T>(mut programs: Vec<(BTreeSet<String>, T)>) -> Vec<T> {
    // Those that have most come first: fewer are kept.
    programs.sort_by_key(|(features, _)| std::cmp::Reverse(features.len()));
    let mut met = BTreeSet::new();
    let mut meets = |features: &BTreeSet<String>| {
        let all: Vec<&String> = features.iter().collect();
        let pairs = (0..all.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        pairs.fold(false, |new, (i, j)| met.insert((all[i].clone(), all[j].clone())) || new)
    };
    programs.retain(|(features, _)| meets(features));
    programs.into_iter().map(|(_, program)| program).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_two_features_that_meet_are_kept_together() {
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
        let programs = vec![
            (set(&["a", "x"]), 0),
            (set(&["a", "x", "1"]), 1),
            (set(&["b", "x", "1"]), 2),
            (set(&["a", "1"]), 3),
        ];
        assert_eq!(covering(programs), [1, 2]);
    }
}

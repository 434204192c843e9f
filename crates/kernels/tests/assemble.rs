//! Hopper kernels of the case table, and of the measured shapes, assemble with the real `ptxas`:
//! no spills, no stack, no serialised wgmma, no ignored `setmaxnreg`.
//!
//! Of programs that differ little those are assembled in which every two features meet that meet in any
//! (`common/features.rs`): of every kernel and head dim each thing that can be asked of it, and each two of them.
//!
//! One exception is stated: clusters that unpack rows and merge parts spill a few words once, where they merge.

mod common;

use cases::Case;
use common::features::{covering, features};
use common::{BIAS, MASK_KINDS, capped, usual, with_mask};
use problem::{DType, Mask, Problem, Segment, View};
use sixwarp_kernels::{Arch, PlanOptions, plan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

fn dense(
    heads: [u64; 2],
    dims: [u64; 2],
    queries: u64,
    keys: u64,
    batch: u64,
    mask: Mask,
) -> Problem {
    let [query_heads, kv_heads] = heads;
    let view = |heads, tokens, dim| View::bshd(DType::Bf16, [batch, heads, tokens, dim]);
    let segment = Segment::new(view(kv_heads, keys, dims[0]), view(kv_heads, keys, dims[1]));
    Problem::builder(view(query_heads, queries, dims[0]))
        .segment(segment.mask(mask))
        .build()
        .expect("a valid problem")
}

/// The shapes that are measured on a GPU.
fn measured() -> Vec<Problem> {
    let mut problems = Vec::new();
    for (dim, heads) in [(64, 32), (128, 16), (256, 8), (512, 4)] {
        for mask in [Mask::Full, Mask::Causal, Mask::Window { left: Some(127), right: Some(0) }] {
            problems.push(dense([heads, heads], [dim, dim], 512, 512, 32, mask));
            problems.push(dense([heads, heads], [dim, dim], 4096, 4096, 4, mask));
        }
        problems.push(dense([128, 1], [dim, dim], 1, 512, 1, Mask::Full));
        problems.push(dense([32, 8], [dim, dim], 1, 8192, 16, Mask::Full));
    }
    for dims in [[192, 128], [576, 512], [64, 512], [320, 320]] {
        problems.push(dense([8, 8], dims, 512, 512, 8, Mask::Causal));
    }
    for (dim, heads) in [(64, 32), (128, 16), (256, 8), (512, 4)] {
        let problem = dense([heads, heads], [dim, dim], 4096, 4096, 4, Mask::Causal);
        problems.push(capped(problem));
    }
    problems
}

/// Rows that threads gather, with as many warpgroups as there are.
fn gathered() -> Vec<Problem> {
    let view = |shape| View::bshd(DType::Bf16, shape);
    let problem = |heads, queries, segment: Segment| {
        let q = view([4, heads, queries, segment.k.dim()]);
        Problem::builder(q).segment(segment).build().expect("a valid problem")
    };
    let pages = |heads, dim| view([4 * 4096, heads, 1, dim]);
    let mut problems = Vec::new();
    for (dim, heads) in [(64, 32), (128, 16), (256, 8), (512, 4)] {
        let apart = Segment::new(pages(heads, dim), pages(heads, dim)).paged(4096);
        problems.push(problem(heads, 4096, apart.mask(Mask::Causal)));
    }
    let same = Segment::shared(pages(1, 512), 512).paged(4096).mask(Mask::Causal);
    problems.push(problem(128, 512, same));
    for dim in [512, 576] {
        let listed = Segment::shared(view([64, 1, 64, dim]), 512).paged(0).indexed(2048);
        problems.push(problem(128, 1, listed.clone()));
        problems.push(problem(128, 64, listed));
    }
    problems
}

/// Batches of a server with wide heads, so large that their work is shared out.
fn shared_out() -> Vec<Problem> {
    let batch = |dims: [u64; 2], page: u64, kv_heads: u64, more: &str| {
        let text = format!(
            "[[case]]\nname = \"x\"\nheads = 64\nkv_heads = {kv_heads}\ndim = {}\nvalue_dim = {}\nshared = {}\n\
             queries = [200, 1, 1, 1]\nkeys = [2000, 4000, 3000, 0]\nlayout = \"paged\"\npage = {page}\n{more}\n",
            dims[0],
            dims[1],
            kv_heads == 1
        );
        cases::parse(&text).expect("a case").remove(0).problem().expect("a valid problem")
    };
    vec![
        batch([512, 512], 64, 1, "mask = \"causal\"\nsinks = \"random\""),
        batch([512, 512], 16, 1, "mask = \"window(500,0)\"\nsoftcap = 30.0"),
        batch([576, 512], 64, 1, "mask = \"causal\"\ndtype = \"f16\""),
        batch([576, 512], 1, 1, "mask = \"causal\""),
        batch([512, 512], 64, 4, "mask = \"window(500,0)\"\nsinks = \"random\""),
        batch([512, 512], 16, 4, "mask = \"causal\""),
        batch([320, 320], 64, 4, "mask = \"causal\""),
    ]
}

/// Batches whose last part goes to the CTAs that are done first, as text and summary.
fn with_tail() -> Vec<(String, String)> {
    let options = PlanOptions { tail_from: Some(64), ..PlanOptions::for_arch(Arch::Sm90) };
    let wanted = |case: &Case| ["mixed-d128", "mixed-d256"].contains(&case.name.as_str());
    let planned = cases::table().into_iter().filter(wanted).map(|case| {
        let problem = case.problem().expect("a valid problem");
        plan(&problem, Arch::Sm90, &options).expect("supported")
    });
    planned.map(|planned| (planned.program.module.to_string(), planned.summary)).collect()
}

/// Mask tensors, on kernels of every width.
fn masked() -> Vec<Problem> {
    let mut problems = Vec::new();
    for (dim, heads) in [(64, 32), (128, 16), (256, 8), (512, 4)] {
        let window = Mask::Window { left: Some(127), right: Some(0) };
        let prefill = dense([heads, heads], [dim, dim], 4096, 4096, 4, window);
        problems.extend(MASK_KINDS.map(|kind| with_mask(&prefill, kind)));
        let decode = dense([64, 1], [dim, dim], 1, 4096, 1, Mask::Full);
        problems.push(with_mask(&capped(decode), BIAS));
    }
    for dims in [[192, 128], [192, 192], [576, 512], [320, 320]] {
        problems.push(with_mask(&dense([8, 8], dims, 512, 512, 8, Mask::Causal), BIAS));
    }
    problems
}

/// Programs in which every two features meet that meet in any, as text and summary.
fn programs() -> Vec<(String, String)> {
    // Special values come to kernels that are here already; mask tensors are below, on kernels of every width.
    let table = cases::table().into_iter().filter(usual).filter(assembled);
    let table = table.filter_map(|case| case.problem().ok());
    let mut texts: BTreeMap<String, (BTreeSet<String>, String)> = BTreeMap::new();
    for problem in table.chain(measured()).chain(gathered()).chain(shared_out()).chain(masked()) {
        if let Ok(planned) = plan(&problem, Arch::Sm90, &PlanOptions::for_arch(Arch::Sm90)) {
            let text = planned.program.module.to_string();
            let features = features(&problem, &planned.summary);
            let entry = texts.entry(text).or_insert_with(|| (BTreeSet::new(), planned.summary));
            entry.0.extend(features);
        }
    }
    let programs = texts.into_iter().map(|(text, (features, summary))| (features, (text, summary)));
    let programs: Vec<_> = programs.collect();
    let all = programs.len();
    let mut kept = covering(programs);
    kept.extend(with_tail());
    println!("{} of {all} different programs", kept.len());
    assert!(kept.len() >= 40, "only {} of {all} different programs", kept.len());
    kept
}

#[test]
fn hopper_kernels_assemble_without_spills() {
    let texts = programs();
    // Some programs take ten times as long as others: each worker takes the next one.
    let next = AtomicUsize::new(0);
    let work = || {
        let numbers = std::iter::from_fn(|| texts.get(next.fetch_add(1, Ordering::Relaxed)));
        numbers.filter_map(|(text, summary)| problem_of(text, summary)).collect::<Vec<String>>()
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers = [0, 1].map(|_| scope.spawn(work));
        let results = workers.map(|w| w.join().unwrap_or_else(|_| vec!["a panic".into()]));
        results.into_iter().flatten().collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Whether a case is assembled: of packed rows beside MODEL1 one for each format. Kernels for e4m3 keys are those of
/// another family (`mma_sync.rs`).
fn assembled(case: &Case) -> bool {
    if case.name.starts_with("e4m3-") {
        return false;
    }
    let kept = ["packed-lists-", "packed-pages-V3.2", "packed-two-V4.1-fp4"];
    !case.name.starts_with("packed-") || kept.iter().any(|kept| case.name.starts_with(kept))
}

/// Bytes of a thread that clusters may spill where they merge what they unpacked, behind the loop over keys.
const MERGED_SPILL: u32 = 256;

/// Bytes of a thread that a program may spill.
fn allowed_spill(text: &str, summary: &str) -> u32 {
    let merges = summary.contains("merge parts") && !summary.contains(" 1 merge parts");
    if merges && text.contains("cvt.rn.f16x2.e4m3x2") { MERGED_SPILL } else { 0 }
}

/// What is wrong with a program's machine code, if anything.
fn problem_of(text: &str, summary: &str) -> Option<String> {
    let assembled = match ptx::toolchain::assemble(text, "sm_90a") {
        Ok(assembled) => assembled,
        Err(error) => return Some(format!("{summary}: {error}")),
    };
    let allowed = allowed_spill(text, summary);
    let spilled = assembled.report.iter().find(|k| k.spill_stores.max(k.stack) > allowed);
    match (spilled, assembled.warnings.first()) {
        (Some(k), _) => Some(format!(
            "{summary}: {} spills {} bytes, stack {}",
            k.name, k.spill_stores, k.stack
        )),
        (_, Some(warning)) => Some(format!("{summary}: {warning}")),
        _ => None,
    }
}

//! Programs of the `mma.sync` family: those of the case table and of measured shapes, and the part of them that has
//! every kernel.

use cases::Case;
use problem::{DType, Descale, Mask, Problem, QueryLengths, Segment, Storage, Values, View};
use sixwarp_kernels::{Arch, PlanOptions, plan};
use std::collections::{BTreeMap, BTreeSet};

/// A program that differs from all others.
pub struct Candidate {
    /// A case that it is the program of.
    pub name: String,
    /// Its PTX.
    pub text: String,
    /// Which kernel it is, and something that is asked of it: all such pairs.
    asked: BTreeSet<(String, String)>,
    /// Columns of its widest problem, keys' and values' together.
    columns: u64,
}

impl Candidate {
    /// What it adds to what was asked of kernels before, for the time that it takes to assemble.
    fn worth(&self, asked: &BTreeSet<(String, String)>) -> usize {
        (self.asked.difference(asked).count() + 1) * 10_000_000 / self.text.len()
    }

    fn kernels(&self) -> BTreeSet<&str> {
        self.asked.iter().map(|(kernel, _)| kernel.as_str()).collect()
    }
}

/// Every different program for an architecture; one with kernels of its own takes these for e4m3 keys.
pub fn candidates(arch: Arch) -> Vec<Candidate> {
    different(arch, cases::table())
}

/// Names of cases whose kernels others have, too.
const ALIKE: [&str; 8] =
    ["special-", "scores-", "tokens-", "heads-", "keys-", "batch-", "strides-", "sinks-"];

/// The different programs of these cases and of measured shapes.
fn different(arch: Arch, cases: Vec<Case>) -> Vec<Candidate> {
    let table = cases.into_iter().filter_map(|c| Some((c.name.clone(), c.problem().ok()?)));
    let mut found: BTreeMap<String, Candidate> = BTreeMap::new();
    let all = measured().into_iter().chain(table);
    for (name, problem) in all.filter(|(_, p)| arch.is_mma_sync() || p.has_e4m3()) {
        let Ok(planned) = plan(&problem, arch, &PlanOptions::for_arch(arch)) else { continue };
        let text = planned.program.module.to_string();
        let entry = found.entry(text.clone()).or_insert_with(|| Candidate {
            name,
            text,
            asked: BTreeSet::new(),
            columns: 0,
        });
        let kernel = kernel(&problem, &planned.summary);
        let asked = asked(&problem, &planned.summary).into_iter();
        entry.asked.extend(asked.map(|feature| (kernel.clone(), feature)));
        entry.columns = entry.columns.max(problem.key_dim() + problem.value_dim());
    }
    found.into_values().collect()
}

/// What registers and shared memory of a kernel follow from: warps, tiles and buffers, the type of rows, and how many
/// columns they have, rounded up to what has a shape of its own.
fn kernel(problem: &Problem, summary: &str) -> String {
    let shape = summary.split([',', ';']).take_while(|part| !part.contains("split(s)"));
    let shape = shape.collect::<Vec<_>>().join(",");
    let columns = match problem.key_dim().max(problem.value_dim()) {
        columns @ 0..=256 => columns.next_power_of_two().max(64),
        _ => 512,
    };
    let single = problem.dtype() == DType::F32;
    let segment = &problem.segments[0];
    let rows = match (&segment.storage, segment.is_e4m3()) {
        (Storage::Elements, false) => "elements",
        (Storage::Elements, true) => "e4m3",
        _ => "packed",
    };
    format!("{shape}, {columns} columns, f32: {single}, {rows}")
}

/// What is asked of a kernel that takes registers in its loop over keys, or where it writes rows.
fn asked(problem: &Problem, summary: &str) -> [String; 11] {
    let any = |asks: fn(&Segment) -> bool| problem.segments.iter().any(asks);
    let limited = |segment: &Segment| !matches!(segment.mask, Mask::Full | Mask::Causal);
    let on_device = any(|s| s.lengths.used || s.lengths.packed.is_some());
    [
        format!("stored as {}", problem.segments[0].storage),
        format!("rows see keys from one on: {}", any(limited)),
        format!("table: {}", any(Segment::reads_page_table)),
        format!("lists: {}", any(|s| s.indices.is_some())),
        format!("values are keys: {}", any(|s| matches!(s.values, Values::SameAsKeys { .. }))),
        format!("mask tensor: {}", any(|s| s.attn_mask.is_some())),
        format!("lengths: {}", on_device || problem.query_lengths != QueryLengths::Full),
        format!("soft cap: {}", problem.softcap.is_some()),
        format!("one token: {}", problem.longest_query() == 1),
        format!("segments: {}", problem.segments.len() > 1),
        format!("keys in one part: {}", summary.contains(", 1 split(s)")),
    ]
}

/// A part of all programs for these chips: each kernel for each chip, with the most columns that it has. Chips share out
/// what is asked of a kernel, because most have the same ones: programs that add most to what was asked before are taken.
pub fn part(archs: &[Arch]) -> Vec<(Arch, Candidate)> {
    let mut asked = BTreeSet::new();
    let mut kept = Vec::new();
    for arch in archs {
        let mut cases = cases::table();
        cases.retain(|case| ALIKE.iter().all(|prefix| !case.name.starts_with(prefix)));
        let mut programs = different(*arch, cases);
        let mut kernels = BTreeSet::new();
        loop {
            programs.retain(|c| c.kernels().iter().any(|kernel| !kernels.contains(*kernel)));
            let worth = |n: &usize| (programs[*n].columns, programs[*n].worth(&asked));
            let Some(most) = (0..programs.len()).max_by_key(worth) else { break };
            let program = programs.swap_remove(most);
            kernels.extend(program.kernels().into_iter().map(String::from));
            asked.extend(program.asked.iter().cloned());
            kept.push((*arch, program));
        }
    }
    kept
}

/// Bytes of a thread that kernels of sm_80 may spill on Hopper, where they run only if they are asked for.
const FORCED_SPILL: u32 = 64;

/// What a program is assembled for, and how many bytes it may spill there: its own chip, and those that run it as it is.
/// Kernels of sm_80 run on Hopper, if that is asked for; those of f32 are the ones that Hopper and Blackwell have.
pub fn targets(arch: Arch, text: &str) -> Vec<(String, u32)> {
    let mut targets = vec![(arch.to_string(), 0)];
    match arch {
        Arch::Sm80 if text.contains("tf32") => {
            targets.extend(["sm_90", "sm_100", "sm_103"].map(|name| (name.to_owned(), 0)));
        }
        Arch::Sm80 => targets.push(("sm_90".to_owned(), FORCED_SPILL)),
        _ => (),
    }
    targets
}

/// The shapes that are measured on a GPU.
fn measured() -> Vec<(String, Problem)> {
    [DType::Bf16, DType::F32].into_iter().flat_map(measured_in).chain(e4m3()).collect()
}

fn measured_in(dtype: DType) -> Vec<(String, Problem)> {
    let view = |batch, heads, tokens, dim| View::bshd(dtype, [batch, heads, tokens, dim]);
    let mut problems = Vec::new();
    for (dim, heads) in [(64, 32), (128, 16), (256, 8), (512, 4)] {
        for mask in [Mask::Full, Mask::Causal, Mask::Window { left: Some(127), right: Some(0) }] {
            let k = view(4, heads, 4096, dim);
            let problem = Problem::builder(k).segment(Segment::new(k, k).mask(mask));
            problems.push((format!("{dtype} d{dim} {mask:?}"), problem.build().expect("valid")));
        }
        let k = view(64, 8, 4096, dim);
        let decode = Problem::builder(view(64, 32, 1, dim)).segment(Segment::new(k, k));
        problems.push((format!("{dtype} d{dim} decode"), decode.build().expect("valid")));
    }
    problems
}

/// e4m3 keys and values in pages, as engines that serve models keep them.
fn e4m3() -> Vec<(String, Problem)> {
    let mut problems = Vec::new();
    for (dim, heads, dtype) in [(64, 8, DType::F16), (128, 8, DType::Bf16), (256, 4, DType::Bf16)] {
        let pages = View::bshd(DType::E4m3, [4096, heads, 16, dim]);
        let segment = Segment::new(pages, pages).paged(256).used().mask(Mask::Causal);
        let segment = segment.descaled(Descale::PER_TENSOR, Descale::PER_HEAD);
        for (what, tokens) in [("decode", 64), ("prefill", 8192)] {
            let longest = if what == "decode" { 1 } else { 4096 };
            let q = Problem::builder(View::bshd(dtype, [1, 4 * heads, tokens, dim]));
            let q = q.query_lengths(QueryLengths::Packed { batch: 64, longest });
            let problem = q.segment(segment.clone()).build().expect("valid");
            problems.push((format!("e4m3 d{dim} {what}"), problem));
        }
    }
    problems
}

//! Assembles the `mma.sync` kernels of the case table and of measured shapes, for every chip they are for:
//! `assembles [ARCH…] [GLOB…]`, the globs being of names of cases. Prints registers and spills of every program, and
//! fails if one spills. Chips with kernels of their own take these for e4m3 keys.
//!
//! Tests assemble a few of these; all of them take minutes.

use cases::matches_glob;
use problem::{DType, Descale, Mask, Problem, QueryLengths, Segment, View};
use sixwarp_kernels::{Arch, PlanOptions, plan};
use std::collections::BTreeMap;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (archs, globs): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|name| name.parse::<Arch>().is_ok());
    let asked = |arch: &Arch| archs.is_empty() || archs.iter().any(|n| n.parse() == Ok(*arch));
    let named = |name: &str| globs.is_empty() || globs.iter().any(|g| matches_glob(g, name));
    let mut failures = 0;
    for arch in Arch::ALL.into_iter().filter(asked) {
        for (text, name) in programs(arch).into_iter().filter(|(_, name)| named(name)) {
            for target in targets(arch, &text) {
                failures += usize::from(!assembles(&target, &name, &text));
            }
        }
    }
    println!("{failures} programs spill or do not assemble");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a program is assembled for: its own chip, and those that run it as it is. Kernels of sm_80 run on Hopper, if
/// that is asked for; those of f32 are the ones that Hopper and Blackwell have.
fn targets(arch: Arch, text: &str) -> Vec<String> {
    let own = arch.to_string();
    match arch {
        Arch::Sm80 if text.contains("tf32") => {
            [own.as_str(), "sm_90", "sm_100", "sm_103"].map(String::from).into()
        }
        Arch::Sm80 => vec![own, "sm_90".into()],
        _ => vec![own],
    }
}

/// Every different program, with the name of a case.
fn programs(arch: Arch) -> BTreeMap<String, String> {
    let table =
        cases::table().into_iter().filter_map(|c| Some((c.name.clone(), c.problem().ok()?)));
    let mut programs = BTreeMap::new();
    let all = measured().into_iter().chain(table);
    for (name, problem) in all.filter(|(_, p)| arch.is_mma_sync() || p.has_e4m3()) {
        if let Ok(planned) = plan(&problem, arch, &PlanOptions::for_arch(arch)) {
            programs.entry(planned.program.module.to_string()).or_insert(name);
        }
    }
    programs
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

/// Whether a program has machine code without spills; says what it takes.
fn assembles(target: &str, name: &str, text: &str) -> bool {
    let assembled = match ptx::toolchain::assemble(text, target) {
        Ok(assembled) => assembled,
        Err(error) => {
            println!("{target} {name}: {error}");
            return false;
        }
    };
    for k in &assembled.report {
        println!(
            "{target} {name} {}: {} registers, {} bytes spilled",
            k.name, k.registers, k.spill_stores
        );
    }
    assembled.report.iter().all(|k| k.spill_stores == 0)
}

//! Assembles the `mma.sync` kernels of the case table and of measured shapes, for every chip they are for:
//! `assembles [ARCH…] [GLOB…]`, the globs being of names of cases. Prints registers and spills of every program, and fails if one spills.
//!
//! Tests assemble a few of these; all of them take minutes.

use cases::matches_glob;
use problem::{DType, Mask, Problem, Segment, View};
use sixwarp_kernels::{Arch, PlanOptions, plan};
use std::collections::BTreeMap;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (archs, globs): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|name| name.parse::<Arch>().is_ok());
    let asked = |arch: &Arch| archs.is_empty() || archs.iter().any(|n| n.parse() == Ok(*arch));
    let named = |name: &str| globs.is_empty() || globs.iter().any(|g| matches_glob(g, name));
    let mut failures = 0;
    for arch in Arch::ALL.into_iter().filter(|arch| arch.is_mma_sync()).filter(asked) {
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
    for (name, problem) in measured().into_iter().chain(table) {
        if let Ok(planned) = plan(&problem, arch, &PlanOptions::for_arch(arch)) {
            programs.entry(planned.program.module.to_string()).or_insert(name);
        }
    }
    programs
}

/// The shapes that are measured on a GPU.
fn measured() -> Vec<(String, Problem)> {
    [DType::Bf16, DType::F32].into_iter().flat_map(measured_in).collect()
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

//! Kernels of the `mma.sync` family assemble with the real `ptxas` without spills: each of them for each chip that takes
//! it (`common/mma_sync.rs`). The example `assembles` goes through all programs of the table.

mod common;

use common::mma_sync::{Candidate, part};
use problem::{DType, Descale, Mask, Problem, QueryLengths, Segment, View};
use sixwarp_kernels::{Arch, PlanOptions, plan};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Chips that have no other kernels.
const CHIPS: [Arch; 4] = [Arch::Sm80, Arch::Sm86, Arch::Sm89, Arch::Sm120];

#[test]
fn each_kernel_assembles_for_each_chip() {
    let part = part(&CHIPS);
    let mut numbers = BTreeMap::new();
    part.iter().for_each(|(arch, _)| *numbers.entry(arch.to_string()).or_insert(0) += 1);
    assert!(CHIPS.iter().all(|arch| numbers[&arch.to_string()] >= 25), "programs: {numbers:?}");
    // Some programs take ten times as long as others: each worker takes the next one.
    let next = AtomicUsize::new(0);
    let work = || {
        let programs = std::iter::from_fn(|| part.get(next.fetch_add(1, Ordering::Relaxed)));
        programs.filter_map(|(arch, candidate)| spills(*arch, candidate)).collect::<Vec<String>>()
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers = [0, 1].map(|_| scope.spawn(work));
        let results = workers.map(|w| w.join().unwrap_or_else(|_| vec!["a panic".into()]));
        results.into_iter().flatten().collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What is wrong with a program's machine code, if anything.
fn spills(arch: Arch, candidate: &Candidate) -> Option<String> {
    let wrong = spills_for(&arch.to_string(), &candidate.text)?;
    Some(format!("{} on {arch}: {wrong}", candidate.name))
}

fn spills_for(target: &str, text: &str) -> Option<String> {
    let assembled = match ptx::toolchain::assemble(text, target) {
        Ok(assembled) => assembled,
        Err(error) => return Some(error.to_string()),
    };
    let spilled = assembled.report.iter().find(|kernel| kernel.spill_stores > 0)?;
    Some(format!("{} spills {} bytes", spilled.name, spilled.spill_stores))
}

#[track_caller]
fn assert_no_spills(problem: &Problem, arch: Arch, target: &str) {
    let planned = plan(problem, arch, &PlanOptions::for_arch(arch)).expect("supported");
    let wrong = spills_for(target, &planned.program.module.to_string());
    let (dtype, dim) = (problem.dtype(), problem.key_dim());
    assert_eq!(wrong, None, "{dtype} on {target}, {dim} columns");
}

/// Kernels of sm_80 run on Hopper where that is asked for. Registers are shortest beside wide heads of which a block has
/// few rows.
#[test]
fn wide_heads_of_few_rows_assemble_for_hopper() {
    let view = |heads, tokens| View::bshd(DType::Bf16, [64, heads, tokens, 512]);
    for (queries, heads) in [(1, 32), (40, 8)] {
        let segment = Segment::new(view(8, 4096), view(8, 4096));
        let decode = Problem::builder(view(heads, queries)).segment(segment).return_lse();
        let decode = decode.build().expect("a valid problem");
        assert_no_spills(&decode, Arch::Sm80, "sm_90");
    }
}

/// GPUs with kernels of their own take these for f32.
#[test]
fn single_precision_assembles_for_newer_gpus() {
    for (arch, dim) in [(Arch::Sm90, 128), (Arch::Sm100, 64), (Arch::Sm103, 256)] {
        let view = View::bshd(DType::F32, [4, 16, 4096, dim]);
        let segment = Segment::new(view, view).mask(Mask::Causal);
        let problem = Problem::builder(view).segment(segment).build().expect("a valid problem");
        assert_no_spills(&problem, arch, &arch.to_string());
    }
}

/// And for e4m3 keys and values, here in pages, as engines that serve models keep them.
#[test]
fn e4m3_keys_assemble_for_newer_gpus() {
    for (arch, dtype, dim, queries) in [
        (Arch::Sm90, DType::F16, 128, 512),
        (Arch::Sm90, DType::Bf16, 256, 1),
        (Arch::Sm100, DType::Bf16, 128, 1),
    ] {
        let pages = View::bshd(DType::E4m3, [4096, 8, 16, dim]);
        let segment = Segment::new(pages, pages).paged(256).used().mask(Mask::Causal);
        let segment = segment.descaled(Descale::PER_TENSOR, Descale::PER_HEAD);
        let q = Problem::builder(View::bshd(dtype, [1, 32, 64 * queries, dim]));
        let q = q.query_lengths(QueryLengths::Packed { batch: 64, longest: queries });
        let problem = q.segment(segment).sinks().build().expect("a valid problem");
        assert_no_spills(&problem, arch, &arch.to_string());
    }
}

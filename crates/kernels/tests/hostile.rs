//! Lengths, tables and lists on the device may hold anything: nothing outside the tensors is touched.

mod common;

use cases::{Case, CaseData, Problem, matches_glob};
use common::{Simulated, memory};
use problem::Element;
use sixwarp_kernels::{Arch, FewHeads, plan};

/// One case for each way in which a kernel reads such numbers.
const CASES: [&str; 21] = [
    "varlen-causal",
    "varlen-window",
    "varlen-packed-queries-batched-keys",
    "varlen-used",
    "mixed-d128",
    "mixed-d512",
    "mixed-pages-of-1",
    "paged-varlen-queries",
    "gather-varlen-queries-d128",
    "two-paged-varlen-d*",
    "lists-varlen-queries-d*",
    "fp8-varlen-queries",
    "dsv4-csa-decode*",
    "attn-mask-lengths-d*",
    "attn-mask-paged-16",
    "e4m3-decode-paged-d64",
    "e4m3-varlen",
    "special-value-nan-packed",
    "special-value-nan-paged-*",
    "special-value-nan-lists-d*",
    "special-value-nan-fp8",
];

/// Numbers that nobody meant: by name, the number at a place.
type Garbage = (&'static str, fn(u32) -> i32);

const GARBAGE: [Garbage; 5] = [
    ("minus one", |_| -1),
    ("the largest", |_| i32::MAX),
    ("the smallest", |_| i32::MIN),
    ("anything", |at| at.wrapping_mul(0x9e37_79b9).wrapping_add(0x7f4a_7c15) as i32),
    ("up and down", |at| (at.wrapping_mul(0x9e37_79b9) >> 20) as i32 - 64),
];

/// The memory of `case` with garbage for lengths, positions, tables and lists.
fn spoilt(
    program: &program::Program,
    problem: &Problem,
    case: &Case,
    number: fn(u32) -> i32,
) -> Vec<Vec<u8>> {
    let data = CaseData::new(case).expect("valid");
    let mut memory = memory(program, problem, &data);
    for (buffer, bytes) in program.buffers.iter().zip(&mut memory) {
        let slots = problem.slots();
        let slot = slots.iter().find(|slot| slot.to_string() == buffer.name);
        if slot.is_some_and(|slot| problem.slot_element(*slot) == Element::I32) {
            let numbers = (0..bytes.len() as u32 / 4).flat_map(|at| number(at).to_le_bytes());
            *bytes = numbers.collect();
        }
    }
    memory
}

/// Garbage lets sequences overlap, and two CTAs write one row then: only what leaves memory is looked for.
fn check(mut engine: Simulated, names: &[&str], least: u32) {
    engine.simulator.checks = false;
    let mut ran = 0;
    for case in cases::table() {
        if !names.iter().any(|glob| matches_glob(glob, &case.name)) {
            continue;
        }
        let problem = case.problem().expect("valid");
        let Ok(plan) = plan(&problem, engine.arch, &engine.options) else { continue };
        for (garbage, number) in GARBAGE {
            let memory = spoilt(&plan.program, &problem, &case, number);
            let report = sim::run(&plan.program, &memory, &engine.simulator);
            assert!(report.is_ok(), "{}, {garbage}: {}", case.name, report.expect_err("an error"));
        }
        ran += 1;
    }
    assert!(ran >= least, "{ran} cases ran");
}

#[test]
fn mma_sync_stays_within_its_tensors() {
    check(Simulated::on(Arch::Sm86), &CASES, 8);
}

#[test]
fn hopper_stays_within_its_tensors() {
    check(Simulated::on(Arch::Sm90), &CASES, 8);
}

#[test]
fn hopper_with_few_heads_stays_within_its_tensors() {
    let mut engine = Simulated::on(Arch::Sm90);
    engine.options.few_heads = FewHeads::Always;
    check(engine, &["fp8-varlen-queries", "dsv4-csa-decode-fp8", "special-value-nan-fp8"], 3);
}

#[test]
fn blackwell_stays_within_its_tensors() {
    check(Simulated::on(Arch::Sm100), &CASES, 8);
}

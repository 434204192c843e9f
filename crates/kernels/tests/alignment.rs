//! What kernels read element by element may lie at any address that its elements may: a view of a part of a
//! tensor of lengths, for one.

mod common;

use cases::{CaseData, Engine, EngineError, Outcome, Outputs, Problem, check, table};
use common::{Simulated, memory, named};
use problem::Slot;
use program::{Argument, Program};
use sixwarp_kernels::{Arch, Split, plan};
use std::collections::BTreeSet;

/// Small cases that together have every table there is, and read each in every way.
const CASES: &[&str] = &[
    "varlen-used-causal",
    "mixed-d64",
    "paged-16",
    "gather-varlen-queries-d128",
    "sinks-random-d64",
    "indices-paged",
    "two-paged-varlen-d128",
    "mask-compressed-*",
    "attn-mask-bool-bhqk",
    "dsv4-csa-decode-fp8",
    "special-value-nan-packed",
    "special-value-nan-paged-16",
    "special-value-nan-lists-d64",
];

/// The simulator, with buffers no further aligned than the program asks.
struct Shifted {
    simulated: Simulated,
    /// The names of the buffers that were.
    shifted: BTreeSet<String>,
}

/// Bytes in front of a buffer, whose allocation has every alignment.
fn shift(align: u64) -> u64 {
    if align < 16 { align } else { 0 }
}

/// Moves what the program reads behind [`shift`] bytes that are not its own.
fn move_arguments(program: &mut Program) {
    for argument in program.launches.iter_mut().flat_map(|launch| &mut launch.args) {
        if let Argument::Buffer(id, offset) = argument {
            *offset += shift(program.buffers[id.0].align);
        }
    }
    program.buffers.iter_mut().for_each(|buffer| buffer.bytes += shift(buffer.align));
}

impl Engine for Shifted {
    fn run(&mut self, problem: &Problem, data: &CaseData) -> Result<Outputs, EngineError> {
        let Simulated { arch, options, simulator } = &self.simulated;
        let mut program = plan(problem, *arch, options)?.program;
        let mut contents = memory(&program, problem, data);
        for (buffer, bytes) in program.buffers.iter().zip(&mut contents) {
            let front = vec![0xFF; shift(buffer.align) as usize];
            if !front.is_empty() {
                self.shifted.insert(buffer.name.clone());
            }
            bytes.splice(..0, front);
        }
        move_arguments(&mut program);
        let report = sim::run(&program, &contents, simulator)
            .map_err(|error| EngineError::Failed(error.to_string()))?;
        let buffer = |slot: Slot| {
            let id = program.buffer(&slot.to_string()).expect("every slot is a buffer");
            &report.buffers[id.0][shift(program.buffers[id.0].align) as usize..]
        };
        let lse = problem.return_lse.then(|| buffer(Slot::Lse));
        Ok(Outputs::from_bytes(problem, buffer(Slot::Out), lse))
    }
}

/// Runs the cases on `arch`; how many passed, and which buffers were shifted.
fn run(
    arch: Arch,
    split: Split,
    any_address: bool,
    globs: &'static [&'static str],
) -> (usize, BTreeSet<String>) {
    let mut engine = Shifted { simulated: Simulated::on(arch), shifted: BTreeSet::new() };
    engine.simulated.options.split = split;
    engine.simulated.options.any_address = any_address;
    let wanted = named(globs);
    let mut passed = 0;
    for case in table().iter().filter(|case| wanted(case)) {
        match check(case, &mut engine) {
            Outcome::Passed(_) => passed += 1,
            Outcome::Unsupported(_) => {}
            outcome => panic!("{outcome}\n{case}"),
        }
    }
    (passed, engine.shifted)
}

#[test]
fn tables_need_the_alignment_of_their_elements() {
    let (passed, shifted) = run(Arch::Sm90, Split::Auto, false, CASES);
    assert!(passed >= CASES.len(), "{passed} cases passed");
    let names = [
        "attn_mask",
        "cu_seqlens_k",
        "cu_seqlens_q",
        "indices",
        "lse",
        "page_table",
        "positions",
        "segment 1 indices",
        "segment 1 page_table",
        "segment 1 seqused_k",
        "seqused_k",
        "sinks",
    ];
    assert_eq!(shifted.iter().map(String::as_str).collect::<Vec<_>>(), names);
    let (passed, shifted) = run(Arch::Sm100, Split::Auto, false, CASES);
    assert!(passed >= 5 && shifted.len() >= 7, "{passed} cases passed: {shifted:?}");
}

/// The launch that combines parts reads offsets and sinks itself.
#[test]
fn so_does_what_combines_parts() {
    for arch in [Arch::Sm90, Arch::Sm100] {
        let globs = &["sinks-random-d64", "two-paged-varlen-d128"];
        let (passed, shifted) = run(arch, Split::Every { keys: 64 }, false, globs);
        assert_eq!(passed, 2, "{arch}");
        assert!(shifted.contains("sinks") && shifted.contains("cu_seqlens_q"), "{shifted:?}");
    }
}

/// Small cases whose rows are brought in every way: by tensor maps, from pages, one by one, packed.
const ROWS: &[&str] = &["sinks-random-d64", "paged-16", "indices-paged", "dsv4-csa-decode-fp8"];

/// Copies take rows from where no vector of 16 bytes could.
#[test]
fn rows_lie_anywhere_where_a_plan_is_made_for_it() {
    for arch in [Arch::Sm90, Arch::Sm100] {
        let (passed, shifted) = run(arch, Split::Auto, true, ROWS);
        assert_eq!(passed, ROWS.len(), "{arch}");
        for rows in ["q", "k", "v", "segment 1 k"] {
            assert!(shifted.contains(rows), "{arch}: {rows} is not among {shifted:?}");
        }
    }
}

/// Rows move in vectors; a workspace is the engine's own.
#[test]
fn buffers_ask_for_what_their_kernels_need() {
    for arch in Arch::ALL {
        let options = Simulated::on(arch).options;
        for case in table().into_iter().filter(named(CASES)) {
            let Ok(problem) = case.problem() else { continue };
            let Ok(planned) = plan(&problem, arch, &options) else { continue };
            for slot in problem.slots() {
                let id = planned.program.buffer(&slot.to_string()).expect("a buffer");
                let align = planned.program.buffers[id.0].align;
                let name = slot.to_string();
                let rows = ["q", "out", "k", "v", "segment 1 k", "segment 1 v"];
                let needs = match rows.contains(&name.as_str()) {
                    true => 16,
                    false => problem.slot_element(slot).bytes(),
                };
                assert_eq!(align, needs, "{} on {arch}: `{name}`", case.name);
            }
        }
    }
}

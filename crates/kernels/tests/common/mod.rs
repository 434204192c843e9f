//! The simulator as an engine for the table of cases.

// Each test uses its own part of this.
#![allow(dead_code)]

pub mod features;
pub mod mma_sync;

use cases::{Case, CaseData, Engine, EngineError, Outcome, Outputs, Problem, matches_glob};
use problem::{AttnMask, DType, MaskElement, Slot};
use program::Program;
use sixwarp_kernels::{Arch, FewHeads, PlanOptions, plan};

/// Multiprocessors in tests: few, so that a CTA works on several tiles.
const PROCESSORS: u32 = 6;

/// A kind of mask tensor: its element type, and whether queries, not keys, are neighbours in memory.
pub type MaskKind = (MaskElement, bool);

pub const BIAS: MaskKind = (MaskElement::Float(DType::F32), false);

/// Every kind that kernels differ for.
pub const MASK_KINDS: [MaskKind; 5] = [
    BIAS,
    (MaskElement::Float(DType::F16), false),
    (MaskElement::Float(DType::Bf16), false),
    (MaskElement::Bool, false),
    (MaskElement::Float(DType::F32), true),
];

/// `problem` with a mask tensor on its first segment.
pub fn with_mask(problem: &Problem, (element, turned): MaskKind) -> Problem {
    let (queries, keys) = (problem.longest_query(), problem.segments[0].longest());
    let shape = [problem.batch(), problem.query_heads(), queries, keys];
    let mask = AttnMask::new(element, shape);
    let [batch, head, ..] = mask.strides;
    let columns = mask.with_strides([batch, head, 1, queries]);
    let mask = Some(if turned { columns } else { mask });
    problem.clone().with(|parts| parts.segments[0].attn_mask = mask).expect("a valid mask")
}

/// `problem` with a soft cap on scores.
pub fn capped(problem: Problem) -> Problem {
    problem.with(|parts| parts.softcap = Some(50.0)).expect("a valid cap")
}

/// Kernels of one architecture on the simulator.
pub struct Simulated {
    pub arch: Arch,
    pub options: PlanOptions,
    pub simulator: sim::Options,
}

impl Simulated {
    /// The usual kernels, work completing soon after it was issued. Heads are few in most cases of the table: so that both
    /// kernels for fp8 rows are tested, the one for few heads is taken only by tests of its own (`few_heads.rs`).
    pub fn on(arch: Arch) -> Self {
        let usual = PlanOptions::for_arch(arch);
        let options = PlanOptions { processors: PROCESSORS, few_heads: FewHeads::Never, ..usual };
        Simulated { arch, options, simulator: sim::Options::default() }
    }
}

impl Simulated {
    /// Runs `program` on the memory of `data`.
    pub fn run_program(
        &self,
        program: &Program,
        problem: &Problem,
        data: &CaseData,
    ) -> Result<Outputs, EngineError> {
        let report = sim::run(program, &memory(program, problem, data), &self.simulator)
            .map_err(|error| EngineError::Failed(error.to_string()))?;
        // A GPU does not forgive waits that looked too late.
        let late = |note: &&String| note.starts_with("a waiter missed its phase");
        if let Some(note) = report.notes.iter().find(late) {
            return Err(EngineError::Failed(note.clone()));
        }
        let buffer = |slot: Slot| {
            let at = program.buffer(&slot.to_string()).expect("every slot is a buffer");
            report.buffers[at.0].as_slice()
        };
        let lse = problem.return_lse.then(|| buffer(Slot::Lse));
        Ok(Outputs::from_bytes(problem, buffer(Slot::Out), lse))
    }
}

/// The contents of a program's buffers, as `data` has them.
pub fn memory(program: &Program, problem: &Problem, data: &CaseData) -> Vec<Vec<u8>> {
    let slots = problem.slots();
    let contents = program.buffers.iter().map(|buffer| {
        let slot = slots.iter().find(|slot| slot.to_string() == buffer.name);
        slot.map_or_else(|| vec![0; buffer.bytes as usize], |slot| data.bytes(*slot))
    });
    contents.collect()
}

impl Engine for Simulated {
    fn run(&mut self, problem: &Problem, data: &CaseData) -> Result<Outputs, EngineError> {
        let program = plan(problem, self.arch, &self.options)?.program;
        self.run_program(&program, problem, data)
    }
}

/// Runs the cases of the table that `wanted` picks; every one must pass, or be declined for a reason
/// that `declined` knows. Returns how many passed.
#[track_caller]
pub fn run_table(
    engine: &mut Simulated,
    wanted: impl Fn(&Case) -> bool,
    declined: &[&str],
) -> usize {
    let mut passed = 0;
    for case in cases::table().iter().filter(|case| wanted(case)) {
        match cases::check(case, engine) {
            Outcome::Passed(_) => passed += 1,
            Outcome::Unsupported(why) => {
                let why = why.to_string();
                assert!(declined.iter().any(|d| why.contains(d)), "{}: {why}", case.name);
            }
            outcome => panic!("{outcome}\n{case}"),
        }
    }
    passed
}

/// The cases whose names match one of `globs`.
pub fn named(globs: &'static [&'static str]) -> impl Fn(&Case) -> bool {
    move |case| globs.iter().any(|glob| matches_glob(glob, &case.name))
}

/// The cases but those of special values and mask tensors, where another test has run these.
pub fn usual(case: &Case) -> bool {
    ["special-", "attn-mask-"].iter().all(|prefix| !case.name.starts_with(prefix))
}

/// One case per feature, where running the whole table would say nothing new.
pub const FEATURES: &[&str] = &[
    "dim-64",
    "dim-96",
    "dim-512",
    "mqa-d128-t128-s384",
    "tokens-300",
    "keys-causal-200",
    "window-*",
    "paged-16",
    "mixed-d64",
    "mixed-pages-of-16",
    "attn-mask-causal-d64",
    "attn-mask-tokens-300",
    "attn-mask-decode-*",
    "attn-mask-two-*",
    "two-*",
    "real-*",
];

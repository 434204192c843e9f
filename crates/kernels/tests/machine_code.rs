//! What the assembler makes of the loop over keys on Hopper.
//!
//! A special function takes the place of eight additions. Where exponentials stand among the multiplications and additions
//! of the softmax, those cost nothing. The assembler has sunk the additions behind the next branch before, because of code
//! elsewhere in the kernel: head dim 64 lost a seventh of its rate, 128 a twentieth.

use problem::{DType, Mask, Problem, Segment, View};
use sixwarp_kernels::{Arch, PlanOptions, plan};

/// Exponentials that may follow each other.
const MOST: usize = 8;

fn prefill(dim: u64, mask: Mask) -> Problem {
    let view = View::bshd(DType::Bf16, [4, 2048 / dim, 4096, dim]);
    let segment = Segment::new(view, view).mask(mask);
    Problem::builder(view).segment(segment).build().expect("a valid problem")
}

/// The most instructions of one kind in a row.
fn longest_run(sass: &str, of: &str) -> usize {
    let instructions = sass.lines().filter(|line| line.trim_start().starts_with("/*"));
    let mut runs = (0, 0);
    for line in instructions {
        runs.0 = if line.contains(of) { runs.0 + 1 } else { 0 };
        runs.1 = runs.1.max(runs.0);
    }
    runs.1
}

#[test]
fn exponentials_stand_among_additions() {
    for (dim, mask) in
        [(64, Mask::Causal), (64, Mask::Full), (128, Mask::Causal), (128, Mask::Full)]
    {
        let options = PlanOptions::for_arch(Arch::Sm90);
        let planned = plan(&prefill(dim, mask), Arch::Sm90, &options).expect("a kernel");
        let text = planned.program.module.to_string();
        let assembled = ptx::toolchain::assemble(&text, "sm_90a").expect("assembles");
        let sass = ptx::toolchain::disassemble(&assembled.cubin).expect("disassembles");
        assert!(sass.contains("MUFU.EX2"), "no exponentials in {}", planned.summary);
        let run = longest_run(&sass, "MUFU.EX2");
        assert!(run <= MOST, "head dim {dim}, {mask:?}: {run} exponentials in a row");
    }
}

//! Every Blackwell configuration is assembled by the real assembler: no spills, registers as planned.

mod common;

use common::{BIAS, MASK_KINDS, capped, with_mask};
use problem::{DType, Mask, Problem, QueryLengths, Segment, Storage, View};
use ptx::toolchain::assemble;
use sixwarp_kernels::{Arch, Loads, PlanOptions, Probabilities, RowBlocks, Split, plan};

/// One CTA of six warps may have 255 registers per thread; more than this would mean that a row does
/// not live in registers as planned (128 scores, 64 pairs of probabilities, addresses). Where scores are
/// capped the assembler takes whatever is free for the many polynomials it works on at a time, and for the elements
/// of a mask tensor likewise.
const MOST_REGISTERS: u32 = 248;

const DIMS: [(u64, u64); 9] = [
    (16, 16),
    (32, 32),
    (64, 64),
    (96, 96),
    (128, 128),
    (192, 128),
    (256, 256),
    (512, 512),
    (576, 512),
];

fn problem(key_dim: u64, value_dim: u64, mask: Mask) -> Problem {
    let q = View::bshd(DType::Bf16, [2, 8, 300, key_dim]);
    let k = View::bshd(DType::Bf16, [2, 2, 700, key_dim]);
    let v = View::bshd(DType::Bf16, [2, 2, 700, value_dim]);
    let segment = Segment::new(k, v).mask(mask);
    Problem::builder(q).segment(segment).sinks().return_lse().build().expect("a valid problem")
}

#[track_caller]
fn assembles(problem: &Problem, arch: Arch, options: &PlanOptions) {
    let plan = plan(problem, arch, options).expect("supported");
    let text = plan.program.module.to_string();
    let assembled = assemble(&text, arch.target().name()).expect("the assembler accepts it");
    for kernel in &assembled.report {
        assert_eq!((kernel.spill_stores, kernel.spill_loads), (0, 0), "{kernel:?}");
        let takes_all = problem.softcap.is_some() || problem.has_attn_mask();
        assert!(kernel.registers <= MOST_REGISTERS || takes_all, "{kernel:?}");
    }
    assert_eq!(assembled.warnings, Vec::<String>::new());
    for launch in &plan.program.launches {
        assert!(launch.shared_bytes <= 227 * 1024, "{} bytes", launch.shared_bytes);
    }
}

fn options(probabilities: Probabilities, loads: Loads) -> PlanOptions {
    PlanOptions { split: Split::Never, probabilities, loads, ..PlanOptions::for_arch(Arch::Sm100) }
}

#[test]
fn every_head_dim() {
    for (key_dim, value_dim) in DIMS {
        let options = PlanOptions::for_arch(Arch::Sm100);
        let problem = problem(key_dim, value_dim, Mask::Causal);
        assembles(&problem, Arch::Sm100, &options);
        assembles(&capped(problem), Arch::Sm100, &options);
    }
}

/// Sequences of any lengths, in pages, the work of which is shared out on the device.
fn ragged(key_dim: u64, value_dim: u64, mask: Mask) -> Problem {
    let view = |shape| View::bshd(DType::Bf16, shape);
    let segment = Segment::new(view([64, 2, 16, key_dim]), view([64, 2, 16, value_dim]));
    let q = view([1, 8, 2000, key_dim]);
    let problem = Problem::builder(q).segment(segment.paged(32).mask(mask));
    let lengths = QueryLengths::Packed { batch: 80, longest: 300 };
    problem.query_lengths(lengths).sinks().return_lse().build().expect("a valid problem")
}

#[test]
fn every_head_dim_on_blackwell_ultra() {
    for (key_dim, value_dim) in DIMS {
        let options =
            PlanOptions { row_blocks: RowBlocks::One, ..PlanOptions::for_arch(Arch::Sm103) };
        let problem = ragged(key_dim, value_dim, Mask::Causal);
        assembles(&problem, Arch::Sm103, &options);
    }
}

#[test]
fn mask_tensors() {
    let usual = PlanOptions::for_arch(Arch::Sm100);
    let two = PlanOptions { row_blocks: RowBlocks::Two, ..usual };
    for (key_dim, value_dim) in [(64, 64), (192, 128), (256, 256), (512, 512)] {
        let masked = with_mask(&problem(key_dim, value_dim, Mask::Causal), BIAS);
        assembles(&masked, Arch::Sm100, &two);
        assembles(&capped(masked), Arch::Sm100, &usual);
    }
    for kind in MASK_KINDS {
        assembles(&with_mask(&problem(128, 128, Mask::Causal), kind), Arch::Sm103, &usual);
        assembles(&with_mask(&problem(576, 512, Mask::Full), kind), Arch::Sm100, &usual);
    }
}

#[test]
fn every_placement_of_probabilities_and_every_layout() {
    let window = Mask::Window { left: Some(128), right: Some(0) };
    for (key_dim, value_dim) in [(64, 64), (128, 128), (576, 512)] {
        for loads in [Loads::Swizzled, Loads::Plain] {
            let options = options(Probabilities::SharedMemory, loads);
            assembles(&problem(key_dim, value_dim, window), Arch::Sm100, &options);
        }
        let options = options(Probabilities::TensorMemory, Loads::Plain);
        assembles(&problem(key_dim, value_dim, window), Arch::Sm100, &options);
    }
}

#[test]
fn two_blocks_of_rows() {
    let options = PlanOptions { row_blocks: RowBlocks::Two, ..PlanOptions::for_arch(Arch::Sm100) };
    for (key_dim, value_dim) in [(64, 64), (96, 96), (128, 128), (192, 128), (320, 320)] {
        let window = Mask::Window { left: Some(128), right: Some(0) };
        assembles(&ragged(key_dim, value_dim, window), Arch::Sm100, &options);
        let capped = capped(ragged(key_dim, value_dim, Mask::Causal));
        assembles(&capped, Arch::Sm100, &options);
    }
    // Blackwell Ultra's softmax threads are other ones.
    assembles(&ragged(128, 128, Mask::Causal), Arch::Sm103, &options);
}

#[test]
fn keys_that_are_values() {
    let choices = [RowBlocks::One, RowBlocks::Two]
        .into_iter()
        .flat_map(|blocks| [Split::Never, Split::Every { keys: 256 }].map(|split| (blocks, split)));
    for (row_blocks, split) in choices {
        for (key_dim, value_dim) in [(128, 128), (192, 128), (576, 512)] {
            let q = View::bshd(DType::Bf16, [2, 8, 300, key_dim]);
            let k = View::bshd(DType::Bf16, [2, 1, 700, key_dim]);
            let segment = Segment::shared(k, value_dim);
            let problem = Problem::builder(q).segment(segment).build().expect("a valid problem");
            let options = PlanOptions { row_blocks, split, ..PlanOptions::for_arch(Arch::Sm100) };
            assembles(&problem, Arch::Sm100, &options);
        }
    }
}

/// Rows that lists name, apart and as keys that are values.
#[test]
fn listed_rows() {
    let view = |shape| View::bshd(DType::Bf16, shape);
    let problem = |heads, queries, segment: Segment| {
        let q = view([2, heads, queries, segment.k.dim()]);
        Problem::builder(q).segment(segment.indexed(700)).sinks().build().expect("a valid problem")
    };
    let pages = |heads, dim| view([64, heads, 64, dim]);
    for (key_dim, value_dim) in [(64, 64), (192, 128), (256, 256), (576, 512)] {
        let apart = Segment::new(pages(2, key_dim), pages(2, value_dim)).paged(0);
        let same = Segment::shared(pages(1, key_dim), value_dim).paged(0);
        let options = PlanOptions::for_arch(Arch::Sm100);
        assembles(&problem(8, 1, apart), Arch::Sm100, &options);
        assembles(&problem(128, 2, same.clone()), Arch::Sm103, &options);
        let capped = capped(problem(128, 2, same));
        assembles(&capped, Arch::Sm100, &options);
    }
}

/// Packed rows of a format.
fn packed(storage: Storage, value_dim: u64) -> (Segment, impl Fn(Segment) -> Problem) {
    let dim = storage.packed().expect("a packed format").dim;
    let rows = View::bshd(DType::Bf16, [64, 1, 64, dim]);
    let problem = move |segment: Segment| {
        let q = View::bshd(DType::Bf16, [2, 128, 2, dim]);
        Problem::builder(q).segment(segment).sinks().build().expect("a valid problem")
    };
    (Segment::shared(rows, value_dim).stored(storage), problem)
}

/// Packed rows: in pages and by lists, on a pair of CTAs and, for other value dims, on one.
#[test]
fn packed_rows() {
    for (value_dim, arch) in [(512, Arch::Sm100), (512, Arch::Sm103), (128, Arch::Sm100)] {
        let (rows, problem) = packed(Storage::Model1, value_dim);
        let options = PlanOptions::for_arch(arch);
        let paged = problem(rows.clone().paged(32).mask(Mask::Causal));
        assembles(&paged, arch, &options);
        assembles(&with_mask(&paged, BIAS), arch, &options);
        let listed = problem(rows.paged(0).indexed(700));
        assembles(&capped(listed.clone()), arch, &options);
        assembles(&listed, arch, &options);
    }
}

/// Packed rows whose bytes tensor copies bring, in pages and by lists.
#[test]
fn packed_rows_by_copies() {
    for arch in [Arch::Sm100, Arch::Sm103] {
        let (rows, problem) = packed(Storage::Model1, 512);
        let options = PlanOptions { packed_copies: true, ..PlanOptions::for_arch(arch) };
        assembles(&problem(rows.clone().paged(32).mask(Mask::Causal)), arch, &options);
        assembles(&problem(rows.paged(0).indexed(700)), arch, &options);
    }
}

/// Of every other format the largest kernels: lists, and two warps that unpack.
#[test]
fn packed_rows_of_other_formats() {
    let archs = [Arch::Sm100, Arch::Sm103].into_iter().cycle();
    for (storage, arch) in Storage::ALL[2..].iter().zip(archs) {
        let (rows, problem) = packed(*storage, 512);
        assembles(&problem(rows.paged(0).indexed(700)), arch, &PlanOptions::for_arch(arch));
    }
    let (rows, problem) = packed(Storage::V32, 128);
    let paged = problem(rows.paged(32).mask(Mask::Causal));
    assembles(&paged, Arch::Sm100, &PlanOptions::for_arch(Arch::Sm100));
}

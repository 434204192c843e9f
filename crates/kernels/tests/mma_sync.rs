//! Kernels of the `mma.sync` family on the simulator, against the oracle. The whole table is run by
//! `sixwarp verify --device sim-sm80`; here are the features, on the chip with the least shared memory, in every order
//! of events. What is assembled of them is in `assembles_mma_sync.rs`.

mod common;

use common::{Simulated, named, run_table};
use problem::{DType, E4m3, HostVec, Problem, Segment, View};
use sixwarp_kernels::{Arch, PlanOptions, Split, plan};

/// What the kernels do not do, and say so.
const DECLINED: [&str; 2] = ["dtype f64", "attn_mask of f64"];

/// One case per feature.
const FEATURES: &[&str] = &[
    "dim-64",
    "dim-96",
    "dim-256",
    "mqa-d512-t4-s256",
    "tokens-300",
    "keys-causal-200",
    "window-varlen",
    "paged-16",
    "mixed-d64",
    "attn-mask-causal-d64",
    "two-window-and-prefix-d512",
    "gather-d80-page5",
    "gather-shared-d192",
    "lists-holes-d*",
    "special-*-d64",
    "e4m3-*",
];

/// Cases that take every path of the copies: one ring and two, one buffer and several, rows in order and looked up.
const COPIES: &[&str] = &[
    "tokens-300",
    "paged-16",
    "gather-shared-d192",
    "mqa-d512-t4-s256",
    "e4m3-prefill-d80",
    "e4m3-decode-paged-d128",
    "e4m3-shared-576",
];

fn on(arch: Arch, mode: &str, seed: u64) -> Simulated {
    let mut engine = Simulated::on(arch);
    let simulator = sim::Options::mode(mode, seed).expect("a mode");
    engine.simulator = sim::Options { pedantic: true, ..simulator };
    engine
}

#[test]
fn features_on_the_smallest_chip() {
    let passed = run_table(&mut on(Arch::Sm86, "eager", 0), named(FEATURES), &DECLINED);
    assert!(passed > 15, "only {passed} cases ran");
}

#[test]
fn whatever_the_order_of_events() {
    for (mode, seed) in [("latest", 0), ("adversarial", 0), ("random", 0), ("random", 1)] {
        let mut engine = on(Arch::Sm80, mode, seed);
        assert_eq!(run_table(&mut engine, named(COPIES), &DECLINED), COPIES.len());
    }
}

/// Wide heads, whose queries pass through the ring to registers: rows of whole panels and others, keys that end within a
/// tile, work tiles without keys, two warps on the same rows.
#[test]
fn queries_that_pass_through_the_ring() {
    let case = |name: &str, dims: [u32; 2], more: &str| {
        let [dim, value_dim] = dims;
        format!(
            "[[case]]\nname = \"{name}\"\nheads = 4\nkv_heads = 2\nbatch = 2\ndim = {dim}\n\
             value_dim = {value_dim}\nqueries = 130\nkeys = 300\n{more}\n"
        )
    };
    let text = [
        case("wide", [256, 256], "mask = \"causal\""),
        case("narrower-values", [192, 128], "mask = \"window(40,0)\"\nsinks = \"random\""),
        case("odd-steps", [136, 200], "mask = \"window(100,30)\""),
        case("two-warps", [512, 512], "mask = \"causal\""),
        case("uneven-halves", [320, 448], "dtype = \"f16\""),
    ];
    let cases = cases::parse(&text.concat()).expect("cases");
    for (arch, mode, seed) in [
        (Arch::Sm80, "latest", 0),
        (Arch::Sm86, "adversarial", 0),
        (Arch::Sm80, "random", 1),
        (Arch::Sm86, "random", 2),
    ] {
        let mut engine = on(arch, mode, seed);
        for case in &cases {
            let planned = plan(&case.problem().expect("valid"), arch, &engine.options);
            let summary = planned.expect("supported").summary;
            // Queries with tiles of their own leave room for one buffer.
            assert!(!summary.contains("1 buffers"), "{} on {arch}: {summary}", case.name);
            let outcome = cases::check(case, &mut engine);
            assert!(matches!(outcome, cases::Outcome::Passed(_)), "{outcome}\n{case}");
        }
    }
}

#[test]
fn keys_in_many_parts() {
    let mut engine = on(Arch::Sm89, "latest", 0);
    engine.options.split = Split::Every { keys: 128 };
    assert_eq!(run_table(&mut engine, named(&["tokens-300", "paged-16"]), &DECLINED), 2);
}

/// What kernels do with f32: every feature, keys in one part and in several.
#[test]
fn single_precision() {
    const CASES: &[&str] = &["f32-*", "dtype-f32-*", "softcap-far-f32", "special-*-f32"];
    let mut engine = on(Arch::Sm86, "eager", 0);
    let passed = run_table(&mut engine, named(CASES), &DECLINED);
    assert_eq!(passed, 21);
    engine = on(Arch::Sm80, "latest", 0);
    engine.options.split = Split::Every { keys: 64 };
    let split = &["f32-paged-decode", "f32-window-sinks", "special-huge-values-f32"];
    assert_eq!(run_table(&mut engine, named(split), &DECLINED), split.len());
}

/// Each way of its copies and products: one ring and two, rows that two warps share, queries that are read from memory.
#[test]
fn single_precision_whatever_the_order_of_events() {
    const CASES: &[&str] = &["f32-varlen", "f32-paged-decode", "f32-shared-mla", "dtype-f32-d256"];
    for (mode, seed) in [("latest", 0), ("adversarial", 0), ("random", 0)] {
        let mut engine = on(Arch::Sm86, mode, seed);
        assert_eq!(run_table(&mut engine, named(CASES), &DECLINED), CASES.len());
    }
}

/// GPUs with kernels of their own take these for f32, and copy rows that no kernel can read as they lie.
#[test]
fn single_precision_and_odd_rows_on_newer_gpus() {
    const CASES: &[&str] = &["f32-varlen", "odd-rows-*", "strides-odd-gap3"];
    for (arch, any_address) in [(Arch::Sm90, false), (Arch::Sm90, true), (Arch::Sm100, false)] {
        let mut engine = on(arch, "latest", 0);
        engine.options.any_address = any_address;
        assert_eq!(run_table(&mut engine, named(CASES), &DECLINED), 5, "{arch}");
    }
}

/// Rows of every packed format: with the instruction that unpacks fp8 numbers, and without.
#[test]
fn packed_rows_with_and_without_an_instruction() {
    const CASES: &[&str] = &["dsv4-csa-decode-fp8", "packed-pages-*"];
    for arch in [Arch::Sm86, Arch::Sm120] {
        let passed = run_table(&mut on(arch, "latest", 0), named(CASES), &DECLINED);
        assert!(passed > 5, "{arch}: {passed}");
    }
}

/// e4m3 keys on GPUs with kernels of their own, and on one that unpacks with an instruction.
#[test]
fn e4m3_keys_on_newer_gpus() {
    const CASES: &[&str] = &["e4m3-prefill-d64", "e4m3-two-segments", "e4m3-varlen"];
    for arch in [Arch::Sm90, Arch::Sm100, Arch::Sm120] {
        let passed = run_table(&mut on(arch, "adversarial", 0), named(CASES), &DECLINED);
        assert_eq!(passed, CASES.len(), "{arch}");
    }
}

/// Every e4m3 number is unpacked exactly: keys of one number each, one per bit pattern, seen one by one.
#[test]
fn every_e4m3_number_is_unpacked_exactly() {
    let numbers: Vec<E4m3> = (0..=255).map(E4m3::from_bits).collect();
    let view = |dtype| View::bhsd(dtype, [256, 1, 1, 8]);
    for (arch, dtype) in [
        (Arch::Sm86, DType::Bf16),
        (Arch::Sm86, DType::F16),
        (Arch::Sm90, DType::Bf16),
        (Arch::Sm90, DType::F16),
    ] {
        // A sequence has one key, whose value is its output.
        let keys = view(DType::E4m3);
        let problem = Problem::builder(view(dtype)).segment(Segment::new(keys, keys));
        let problem = problem.build().expect("a valid problem");
        let program =
            plan(&problem, arch, &PlanOptions::for_arch(arch)).expect("supported").program;
        let memory = program.buffers.iter().map(|buffer| match buffer.name.as_str() {
            "v" => numbers.iter().flat_map(|number| [number.to_bits(); 8]).collect(),
            _ => vec![0; buffer.bytes as usize],
        });
        let memory: Vec<Vec<u8>> = memory.collect();
        let report = sim::run(&program, &memory, &sim::Options::default()).expect("it runs");
        let out = program.buffer("out").expect("an output");
        let out = HostVec::from_bytes(dtype, &report.buffers[out.0]);
        for (n, number) in numbers.iter().enumerate() {
            let (found, wanted) = (out.as_ref().get(8 * n), f64::from(number.to_f32()));
            let same = found == wanted || (found.is_nan() && wanted.is_nan());
            assert!(same, "{arch}, {dtype}: {:#04x} is {wanted}, not {found}", number.to_bits());
        }
    }
}

/// What is planned fits both budgets of shared memory, and no launch is to overlap another.
#[test]
fn launches_keep_the_rules_of_their_chips() {
    for arch in [Arch::Sm80, Arch::Sm86] {
        let mut checked = 0;
        for case in cases::table() {
            let Ok(problem) = case.problem() else { continue };
            let Ok(planned) = plan(&problem, arch, &PlanOptions::for_arch(arch)) else { continue };
            let broken = planned.program.check().err().unwrap_or_default();
            assert!(broken.is_empty(), "{} on {arch}: {}", case.name, broken[0]);
            checked += 1;
        }
        assert!(checked > 200, "{arch}: {checked} programs");
    }
}

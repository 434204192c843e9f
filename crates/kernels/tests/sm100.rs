//! Blackwell kernels on the simulator, against the oracle, over the table of cases.

mod common;

use cases::{Case, CaseData};
use common::{FEATURES, Simulated, named, run_table};
use problem::{DType, Problem, Segment, SegmentSlot, Slot, Storage, View};
use sixwarp_kernels::{Arch, Loads, PlanOptions, Probabilities, RowBlocks, Split, plan};

/// What the kernels do not do, and say so.
const DECLINED: [&str; 3] = ["dtype f64", "attn_mask of f64", "without swizzle"];

/// Cases of wide rows that warps gather which also run on one CTA per 256 columns.
const SLICED: &[&str] = &[
    "lists-width-129-d512",
    "lists-width-65-mla",
    "lists-value-dim-*",
    "dsv4-hca-decode-fp8",
    "fp8-lists-holes",
    "fp8-value-dim-*",
];

/// Blackwell's kernels by the simulator's strictest rules.
fn blackwell() -> Simulated {
    pedantic(Simulated::on(Arch::Sm100))
}

fn pedantic(mut engine: Simulated) -> Simulated {
    engine.simulator.pedantic = true;
    engine
}

/// The same in a mode.
fn blackwell_in(mode: &str, seed: u64) -> Simulated {
    let simulator = sim::Options::mode(mode, seed).expect("a mode");
    pedantic(Simulated { simulator, ..blackwell() })
}

/// Whether warps gather the rows of a case.
fn gathers(case: &Case) -> bool {
    let problem = case.problem().expect("a valid case");
    let gathered = |s: &Segment| s.indices.is_some() || s.storage != Storage::Elements;
    problem.segments.iter().any(gathered)
}

#[test]
fn the_table_on_six_warps() {
    let mut engine = blackwell();
    engine.options.row_blocks = RowBlocks::One;
    let sliced = named(SLICED);
    let wanted = |case: &Case| case.dim <= 256 || !gathers(case) || sliced(case);
    let passed = run_table(&mut engine, wanted, &DECLINED);
    assert!(passed > 200, "only {passed} cases ran");
}

#[test]
fn the_table_on_two_blocks_of_rows() {
    let mut engine = blackwell();
    engine.options.row_blocks = RowBlocks::Two;
    let two = engine.options;
    let one = PlanOptions { row_blocks: RowBlocks::One, ..two };
    // Where two blocks do not fit, or there are none, six warps have run the same program.
    let differs = |case: &Case| {
        let problem = case.problem().expect("a valid case");
        let program = |options| plan(&problem, Arch::Sm100, options).map(|plan| plan.program);
        program(&one) != program(&two)
    };
    let passed = run_table(&mut engine, differs, &DECLINED);
    assert!(passed > 150, "only {passed} cases ran");
}

/// Blackwell Ultra computes no exponential on the FMA pipe: numbers, masks, and what is not finite.
#[test]
fn two_blocks_of_rows_on_blackwell_ultra() {
    const CASES: &[&str] =
        &["tokens-300", "keys-causal-200", "special-value-nan-d64", "special-key-full-128"];
    let mut engine = pedantic(Simulated::on(Arch::Sm103));
    engine.options.row_blocks = RowBlocks::Two;
    assert_eq!(run_table(&mut engine, named(CASES), &DECLINED), CASES.len());
}

#[test]
fn probabilities_through_shared_memory() {
    let mut engine = blackwell();
    engine.options.probabilities = Probabilities::SharedMemory;
    assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
}

#[test]
fn loads_without_swizzle() {
    let mut engine = blackwell();
    engine.options.loads = Loads::Plain;
    assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
    engine.options.probabilities = Probabilities::SharedMemory;
    assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
}

#[test]
fn keys_in_many_parts() {
    let mut engine = blackwell();
    engine.options.split = Split::Every { keys: 128 };
    assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
}

/// Numbers that are not finite, where parts of the keys are combined.
#[test]
fn special_values_in_parts() {
    let mut engine = blackwell();
    engine.options.split = Split::Every { keys: 128 };
    assert!(run_table(&mut engine, named(&["special-*"]), &DECLINED) > 25);
}

#[test]
fn whatever_the_order_of_events() {
    for row_blocks in [RowBlocks::One, RowBlocks::Two] {
        for mode in ["latest", "adversarial"] {
            let mut engine = blackwell_in(mode, 0);
            engine.options.row_blocks = row_blocks;
            assert!(run_table(&mut engine, named(FEATURES), &DECLINED) > 12);
        }
    }
}

#[test]
fn twenty_random_orders() {
    // With 512 columns there is one program for both.
    const ONE: &[&str] = &["tokens-300", "mqa-d128-t128-s512", "dim-512"];
    const TWO: &[&str] = &["tokens-300", "mqa-d128-t128-s512"];
    for seed in 0..20 {
        for (row_blocks, cases) in [(RowBlocks::One, ONE), (RowBlocks::Two, TWO)] {
            let mut engine = blackwell_in("random", seed);
            engine.options.row_blocks = row_blocks;
            assert_eq!(run_table(&mut engine, named(cases), &DECLINED), cases.len());
        }
    }
}

/// Rows that warps gather, and what those tell about them.
#[test]
fn gathered_rows_in_any_order() {
    const CASES: &[&str] = &[
        "lists-holes-separate-d128",
        "lists-width-129-d512",
        "lists-second-only-d512",
        "dsv4-csa-decode-fp8",
        "fp8-value-dim-128",
        "packed-lists-V3.2",
        "packed-lists-V4.1-fp8",
        "packed-lists-V4.1-fp4-inline",
        "packed-value-dim-128",
    ];
    let random = (0..2).map(|seed| ("random", seed));
    let fixed = ["eager", "latest", "adversarial"].map(|mode| (mode, 0));
    for (mode, seed) in fixed.into_iter().chain(random) {
        let mut engine = blackwell_in(mode, seed);
        assert_eq!(run_table(&mut engine, named(CASES), &DECLINED), CASES.len());
    }
}

/// Packed rows whose bytes tensor copies bring: in pages and lists, one segment and two, and by threads where pages do
/// not lie whole rows apart.
#[test]
fn packed_rows_by_copies_in_any_order() {
    const CASES: &[&str] = &["fp8-lists-holes", "fp8-entries", "dsv4-hca-decode-fp8"];
    let fixed = ["eager", "latest", "adversarial"].map(|mode| (mode, 0));
    for (mode, seed) in fixed.into_iter().chain([("random", 0)]) {
        let mut engine = blackwell_in(mode, seed);
        engine.options.packed_copies = true;
        assert_eq!(run_table(&mut engine, named(CASES), &DECLINED), CASES.len());
    }
}

/// A tensor map is there for rows that one reaches, if it is asked for.
#[test]
fn copies_bring_packed_rows_where_pages_lie_whole_rows_apart() {
    let copies = |packed_copies, page_bytes| {
        let rows = View::bshd(DType::Bf16, [4, 1, 64, 512]);
        let rows = Segment::shared(rows, 512).stored(Storage::Model1).page_bytes(page_bytes);
        let q = View::bshd(DType::Bf16, [1, 64, 1, 512]);
        let problem =
            Problem::builder(q).segment(rows.paged(0).indexed(70)).build().expect("valid");
        let options = PlanOptions { packed_copies, ..PlanOptions::for_arch(Arch::Sm100) };
        let plan = plan(&problem, Arch::Sm100, &options).expect("supported");
        plan.program.module.to_string().contains("tile::gather4")
    };
    assert!(copies(true, 65 * 576));
    assert!(!copies(true, 65 * 576 + 16) && !copies(false, 65 * 576));
}

/// Bytes that copies bring for 512 keys with a row of queries, values being `dim` columns of the keys or
/// rows of their own.
fn bytes_copied(row_blocks: RowBlocks, key_dim: u64, dim: u64, same: bool) -> u64 {
    let view = |tokens, dim| View::bshd(DType::Bf16, [1, 1, tokens, dim]);
    let keys = view(512, key_dim);
    let segment =
        if same { Segment::shared(keys, dim) } else { Segment::new(keys, view(512, dim)) };
    let problem = Problem::builder(view(1, key_dim)).segment(segment).build().expect("valid");
    let mut engine = blackwell();
    engine.options.row_blocks = row_blocks;
    engine.options.split = Split::Never;
    let program = plan(&problem, engine.arch, &engine.options).expect("supported").program;
    let memory: Vec<_> = program.buffers.iter().map(|b| vec![0; b.bytes as usize]).collect();
    let options = sim::Options { checks: false, ..Default::default() };
    sim::run(&program, &memory, &options).expect("runs").counters.copied
}

#[test]
fn keys_that_are_values_are_copied_once() {
    for row_blocks in [RowBlocks::One, RowBlocks::Two] {
        for (key_dim, value_dim) in [(64, 64), (128, 128), (192, 128), (256, 256)] {
            let copied = |same| bytes_copied(row_blocks, key_dim, value_dim, same);
            assert_eq!(copied(false) - copied(true), 512 * value_dim * 2, "{key_dim}/{value_dim}");
        }
    }
}

/// By the simulator's cost model, at head dim 128 without a mask over 4096 keys.
#[test]
fn long_prefill_keeps_the_tensor_unit_busy() {
    let view = |tokens| View::bshd(DType::Bf16, [1, 1, tokens, 128]);
    let segment = Segment::new(view(4096), view(4096));
    let problem = Problem::builder(view(256)).segment(segment).build().expect("a valid problem");
    let mut engine = blackwell();
    engine.options.row_blocks = RowBlocks::Two;
    engine.options.split = Split::Never;
    let program = plan(&problem, engine.arch, &engine.options).expect("supported").program;
    let memory: Vec<_> = program.buffers.iter().map(|b| vec![0x3f; b.bytes as usize]).collect();
    let options = sim::Options { checks: false, ..Default::default() };
    let counters = sim::run(&program, &memory, &options).expect("runs").counters;
    let busy = counters.tensor_busy as f64 / counters.cycles as f64;
    assert!(busy >= 0.7, "{busy}");
}

/// Output and LSE of a problem with 16-bit output, from the bytes of its tensors.
fn run(problem: &Problem, bytes: impl Fn(Slot) -> Vec<u8>) -> (Vec<f32>, Vec<f32>) {
    let engine = blackwell();
    let program = plan(problem, engine.arch, &engine.options).expect("supported").program;
    let slots = problem.slots();
    let memory = program.buffers.iter().map(|buffer| {
        let slot = slots.iter().find(|slot| slot.to_string() == buffer.name);
        slot.map_or_else(|| vec![0; buffer.bytes as usize], |slot| bytes(*slot))
    });
    let memory: Vec<Vec<u8>> = memory.collect();
    let report = sim::run(&program, &memory, &engine.simulator).expect("runs");
    let buffer = |slot: Slot| &report.buffers[program.buffer(&slot.to_string()).expect("there").0];
    let bf16 = |b: &[u8]| f32::from_bits(u32::from(u16::from_le_bytes([b[0], b[1]])) << 16);
    let f32 = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    let out = buffer(Slot::Out).chunks(2).map(bf16).collect();
    (out, buffer(Slot::Lse).chunks(4).map(f32).collect())
}

#[test]
fn two_segments_are_one_pass() {
    const CASE: &str = "
[[case]]
name = 'd{dim}'
heads = 4
kv_heads = 1
queries = 40
keys = 300
sinks = 'random'
each = { dim = [64, 512] }
";
    for case in cases::parse(CASE).expect("cases") {
        let data = CaseData::new(&case).expect("a valid case");
        let dim = data.problem.key_dim();
        let view = |heads, tokens| View::bhsd(DType::Bf16, [1, heads, tokens, dim]);
        let part = |keys| Segment::new(view(1, keys), view(1, keys));
        let parts = Problem::builder(view(4, 40)).segment(part(100)).segment(part(200));
        let parts = parts.sinks().return_lse().build().expect("valid");
        let cut = 100 * dim as usize * 2;
        let (out, lse) = run(&data.problem, |slot| data.bytes(slot));
        let (merged, merged_lse) = run(&parts, |slot| match slot {
            Slot::Segment(0, which) => data.bytes(Slot::Segment(0, which))[..cut].to_vec(),
            Slot::Segment(_, which) => data.bytes(Slot::Segment(0, which))[cut..].to_vec(),
            _ => data.bytes(slot),
        });
        let apart = |a: &[f32], b: &[f32]| {
            assert_eq!(a.len(), b.len());
            a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        assert!(apart(&out, &merged) <= 4e-3, "{}: {}", case.name, apart(&out, &merged));
        assert!(apart(&lse, &merged_lse) <= 1e-5, "{}", case.name);
    }
}

#[test]
fn the_planner_takes_sixteen_warps_for_long_queries() {
    let summary = |queries, dim| {
        let view = |heads, tokens| View::bshd(DType::Bf16, [1, heads, tokens, dim]);
        let segment = Segment::new(view(8, 8192), view(8, 8192));
        let problem = Problem::builder(view(32, queries)).segment(segment).build().expect("valid");
        plan(&problem, Arch::Sm100, &PlanOptions::for_arch(Arch::Sm100)).expect("supported").summary
    };
    for dim in [64, 128] {
        assert!(summary(1, dim).starts_with("6 warps, 128 rows"), "{}", summary(1, dim));
        assert!(summary(128, dim).starts_with("6 warps"), "{}", summary(128, dim));
        assert!(summary(8192, dim).starts_with("16 warps, 256 rows"), "{}", summary(8192, dim));
    }
    assert!(summary(8192, 256).starts_with("6 warps"), "{}", summary(8192, 256));
    assert!(summary(1, 512).starts_with("6 warps in each of a pair"), "{}", summary(1, 512));
}

/// The bytes of a bf16 number that a counter makes.
fn number(i: u64) -> [u8; 2] {
    let value = (i * 37 % 61) as f32 / 20.0 - 1.5;
    ((value.to_bits() >> 16) as u16).to_le_bytes()
}

/// Rows that lists name in pages that lie `gap` elements apart: output and LSE. Of the entries some are used twice, and
/// some name no row.
fn listed_in_pages(dim: u64, gap: u64) -> (Vec<f32>, Vec<f32>) {
    const PAGES: u64 = 6;
    const ROWS: u64 = 16;
    let page = ROWS * dim + gap;
    let q = View::bshd(DType::Bf16, [1, 4, 2, dim]);
    let k = View::bshd(DType::Bf16, [PAGES, 1, ROWS, dim]).with_strides([page, dim, dim, 1]);
    let segment = Segment::shared(k, dim).paged(0).indexed(40);
    let problem = Problem::builder(q).segment(segment).return_lse().build().expect("valid");
    let engine = blackwell();
    let program = plan(&problem, engine.arch, &engine.options).expect("supported").program;
    let text = program.module.to_string();
    assert_eq!((text.contains("tile::gather4"), text.contains("cp.async.cg")), (gap == 0, gap > 0));
    run(&problem, |slot| match slot {
        Slot::Segment(_, SegmentSlot::Indices) => {
            let entry = |i: i32| [i, (i * 7) % 96, -1, 96, i32::MAX, 5][i as usize % 6];
            (0..80).flat_map(|i| entry(i).to_le_bytes()).collect()
        }
        Slot::Segment(..) => {
            let element = |i: u64| match (i / page, i % page) {
                (page, within) if within < ROWS * dim => number(page * ROWS * dim + within),
                _ => [0xFF; 2],
            };
            (0..problem.slot_bytes(slot) / 2).flat_map(element).collect()
        }
        _ => (0..problem.slot_bytes(slot) / 2).flat_map(number).collect(),
    })
}

#[test]
fn threads_copy_rows_that_no_tensor_map_reaches() {
    for dim in [64, 512] {
        assert_eq!(listed_in_pages(dim, 0), listed_in_pages(dim, 8), "{dim}");
    }
}

//! Work shared out by lengths on the device: right for any lengths, and in equal shares.

mod common;

use cases::{Case, CaseData, Outcome};
use common::{Simulated, memory};
use problem::{Problem, SegmentSlot, Slot};
use program::Program;
use sim::Row;
use sixwarp_kernels::{Arch, PlanOptions, RowBlocks, Split, plan};

/// Processors among which work is shared out.
const PROCESSORS: u32 = 8;

/// Key columns from which on heads are wide.
const WIDE: u64 = 512;

/// Times as many keys and queries have narrow heads.
const FEWER: u64 = 6;

/// A kernel whose work is shared out: its architecture, its row blocks, its head dim.
type Kernel = (Arch, RowBlocks, u64);

/// Those of Hopper, for heads of all widths, and on Blackwell those of six and of sixteen warps.
const KERNELS: [Kernel; 4] = [
    (Arch::Sm90, RowBlocks::Auto, 64),
    (Arch::Sm90, RowBlocks::Auto, WIDE),
    (Arch::Sm100, RowBlocks::One, 64),
    (Arch::Sm100, RowBlocks::Two, 64),
];

/// Queries and keys of the sequences of a batch.
type Batch = (Vec<u64>, Vec<u64>);

/// A causal batch from pages. Wide heads have a sixth of the keys, which are values too.
fn case(name: &str, kernel: Kernel, batch: &Batch) -> Case {
    in_pages(name, kernel, batch, 128)
}

/// The same from pages of so many rows.
fn in_pages(name: &str, kernel: Kernel, (queries, keys): &Batch, page: u64) -> Case {
    let (dim, wide) = (kernel.2, kernel.2 == WIDE);
    let less = if wide { FEWER } else { 1 };
    let keys: Vec<u64> = keys.iter().map(|keys| keys.div_ceil(less)).collect();
    let queries: Vec<u64> = queries.iter().map(|queries| queries.div_ceil(less)).collect();
    let heads = if wide { [16, 1] } else { [4, 2] };
    let text = format!(
        "[[case]]\nname = \"{name}\"\nheads = {}\nkv_heads = {}\ndim = {dim}\nqueries = {queries:?}\nkeys = {keys:?}\n\
         mask = \"causal\"\nlayout = \"paged\"\npage = {page}\nsinks = \"random\"\nshared = {wide}\n",
        heads[0], heads[1]
    );
    cases::parse(&text).expect("a case").remove(0)
}

/// Batches in which work lies where one would not look for it.
fn batches() -> Vec<(&'static str, Batch)> {
    let of = |queries: u64, keys: &[u64]| (vec![queries; keys.len()], keys.to_vec());
    vec![
        ("one-long-first", of(1, &[6000, 1, 1, 2, 1, 130, 1, 1])),
        ("one-long-last", of(1, &[1, 1, 2, 1, 130, 1, 1, 6000])),
        ("nothing-but-the-middle", of(1, &[0, 0, 0, 5000, 0, 0])),
        ("longer-and-longer", of(1, &[100, 300, 700, 1500, 3100])),
        ("one-prefill", (vec![1, 1, 700, 1, 0, 1], vec![900, 10, 700, 2000, 44, 128])),
        ("more-queries-than-keys", (vec![300, 1], vec![20, 1500])),
        ("drafts", of(5, &[1000, 64, 2200, 640])),
    ]
}

fn simulated((arch, row_blocks, _): Kernel) -> Simulated {
    let mut engine = Simulated::on(arch);
    engine.options.processors = PROCESSORS;
    engine.options.row_blocks = row_blocks;
    engine
}

/// The program of a case, whose work is shared out.
fn planned(engine: &Simulated, problem: &Problem) -> Program {
    let plan = plan(problem, engine.arch, &engine.options).expect("supported");
    assert!(plan.summary.ends_with("shared out by lengths on the device"), "{}", plan.summary);
    plan.program
}

#[test]
fn any_lengths_give_the_right_numbers() {
    for kernel in KERNELS {
        let mut engine = simulated(kernel);
        // Wide heads take long here.
        let step = if kernel.2 == WIDE { 3 } else { 1 };
        for (n, (name, batch)) in batches().into_iter().enumerate().step_by(step) {
            // Every kernel meets both, and so does every batch.
            let never = (n + usize::from(kernel.1 == RowBlocks::One)).is_multiple_of(2);
            engine.options.split = if never { Split::Never } else { Split::Auto };
            let outcome = cases::check(&case(name, kernel, &batch), &mut engine);
            assert!(matches!(outcome, Outcome::Passed(_)), "{name} {kernel:?}: {outcome}");
        }
    }
}

/// A NaN that some rows do not see, in units that are cut: the CTA that finishes one has the whole row.
#[test]
fn rows_of_cut_units_are_computed_again() {
    for kernel in KERNELS {
        let keys = 1500;
        let whole = case("drafts-and-a-nan", kernel, &(vec![10; 3], vec![keys; 3]));
        // One of the last keys: the first token does not see it.
        let last = if kernel.2 == WIDE { keys / FEWER - 1 } else { keys - 3 };
        let special = vec![format!("v[{last}] = nan")];
        let outcome = cases::check(&Case { special, ..whole }, &mut simulated(kernel));
        assert!(matches!(outcome, Outcome::Passed(_)), "{kernel:?}: {outcome}");
    }
}

/// Copies that each processor issued for a batch.
fn copies(kernel: Kernel, case: &Case) -> [u32; PROCESSORS as usize] {
    let problem = case.problem().expect("valid");
    let engine = simulated(kernel);
    let program = planned(&engine, &problem);
    let options = sim::Options { trace: true, checks: false, ..engine.simulator };
    let data = CaseData::new(case).expect("valid");
    let report = sim::run(&program, &memory(&program, &problem, &data), &options);
    let trace = report.expect("it runs").trace.expect("a timeline");
    let mut copies = [0; PROCESSORS as usize];
    for slice in trace.slices.iter().filter(|slice| slice.row == Row::Copy) {
        copies[slice.cta[0] as usize] += 1;
    }
    copies
}

/// Bytes are what counts: a tile of keys takes the same copies, whoever it is for.
#[test]
fn no_processor_gets_more_than_its_share() {
    for kernel in KERNELS {
        for (name, batch) in batches() {
            let copies = copies(kernel, &case(name, kernel, &batch));
            let mean = copies.iter().sum::<u32>() as f64 / f64::from(PROCESSORS);
            let most = f64::from(copies.into_iter().max().unwrap_or(0));
            // Queries of each unit, and cuts between tiles of keys, are what is left. Wide rows are eight copies, and
            // Hopper's tiles of narrow ones from pages two.
            let rest = match kernel {
                (_, _, WIDE) => 40.0,
                (Arch::Sm90, ..) => 20.0,
                _ => 10.0,
            };
            assert!(most <= 1.15 * mean + rest, "{name} {kernel:?}: {copies:?}");
        }
    }
}

/// All KV heads have as many CTAs where memory is what a batch waits for, so that they read the same tokens together.
#[test]
fn single_tokens_have_as_many_shares_of_each_head() {
    let shares = |kv_heads: u64, queries: [u64; 2]| {
        let text = format!(
            "[[case]]\nname = \"x\"\nheads = {}\nkv_heads = {kv_heads}\ndim = 128\nqueries = {queries:?}\n\
             keys = [50000, 40000]\nmask = \"causal\"\nlayout = \"paged\"\npage = 64\n",
            4 * kv_heads
        );
        let case = cases::parse(&text).expect("a case").remove(0);
        let mut engine = Simulated::on(Arch::Sm90);
        engine.options.processors = 132;
        let program = planned(&engine, &case.problem().expect("valid"));
        program.launches.last().expect("a launch").grid[0]
    };
    assert_eq!(shares(32, [1, 1]), 128);
    assert_eq!(shares(33, [1, 1]), 132);
    // Twelve CTAs are too many to leave out.
    assert_eq!(shares(40, [1, 1]), 132);
    // Products are what a prefill waits for.
    assert_eq!(shares(32, [1, 600]), 132);
}

/// The output of one token after a run in which the sequences but `kept` have other lengths.
fn token(engine: &Simulated, case: &Case, kept: usize, lengths: impl Fn(i32) -> i32) -> Vec<u8> {
    let (problem, data) = (case.problem().expect("valid"), CaseData::new(case).expect("valid"));
    let program = planned(engine, &problem);
    let mut memory = memory(&program, &problem, &data);
    let buffer = |slot: Slot| program.buffer(&slot.to_string()).expect("a buffer").0;
    let used = buffer(Slot::Segment(0, SegmentSlot::Used));
    for (n, length) in memory[used].as_chunks_mut::<4>().0.iter_mut().enumerate() {
        if n != kept {
            *length = lengths(i32::from_le_bytes(*length)).to_le_bytes();
        }
    }
    let report = sim::run(&program, &memory, &engine.simulator).expect("it runs");
    let (out, view) = (&report.buffers[buffer(Slot::Out)], &problem.out);
    let row = |head: u64| {
        let at = (kept as u64 * view.step_bytes(2) + head * view.step_bytes(1)) as usize;
        &out[at..at + 2 * view.dim() as usize]
    };
    (0..view.heads()).flat_map(row).copied().collect()
}

/// Where nothing is cut, a sequence has the same bits whatever else is in the batch.
#[test]
fn whole_work_tiles_have_the_same_bits_in_any_batch() {
    for kernel in KERNELS {
        let mut engine = simulated(kernel);
        engine.options.split = Split::Never;
        // Single tokens come first, so that the number of a sequence is that of its token.
        let batch = (vec![1, 1, 1, 90], vec![700, 1300, 300, 400]);
        let case = case("among-others", kernel, &batch);
        let among = token(&engine, &case, 1, |keys| keys);
        for others in [|_| 0, |keys| keys / 3] {
            assert!(token(&engine, &case, 1, others) == among, "{kernel:?}");
        }
    }
}

/// Processors that share a batch with a tail.
const FEW: u32 = 2;

/// A batch so large that its last part goes to the CTAs that are done first, in pages of so many rows.
fn with_tail(dim: u64, page: u64) -> Case {
    let mut batch = (vec![1; 8], vec![800; 8]);
    batch.0.extend([70, 1, 40]);
    batch.1.extend([600, 900, 300]);
    let mut case = in_pages("with-a-tail", (Arch::Sm90, RowBlocks::Auto, 64), &batch, page);
    (case.dim, case.value_dim) = (dim, None);
    case
}

fn simulated_with_tail() -> Simulated {
    let mut engine = simulated((Arch::Sm90, RowBlocks::Auto, 64));
    engine.options.processors = FEW;
    engine.options.tail_from = Some(16);
    engine
}

/// Outputs of a run, and how many pieces of the tail were taken.
fn run_with_tail(case: &Case, mode: &str, seed: u64) -> (Vec<u8>, u32) {
    let (problem, data) = (case.problem().expect("valid"), CaseData::new(case).expect("valid"));
    let mut engine = simulated_with_tail();
    engine.simulator = sim::Options::mode(mode, seed).expect("a mode");
    let program = planned(&engine, &problem);
    let report = sim::run(&program, &memory(&program, &problem, &data), &engine.simulator);
    let buffers = report.unwrap_or_else(|error| panic!("{mode} {seed}: {error}")).buffers;
    let buffer = |name: &str| &buffers[program.buffer(name).expect("a buffer").0];
    // The counter is the last of the flags.
    let taken = buffer("flags").as_chunks::<4>().0.last().map(|word| u32::from_le_bytes(*word));
    (buffer("out").clone(), taken.unwrap_or(0))
}

/// Whoever takes a piece of the tail, every part is added to the same sum.
#[test]
fn a_tail_gives_the_right_numbers_and_the_same_bits() {
    // Rows that tensor copies bring, and rows that threads gather, of narrow and of wide heads.
    for (dim, page, seeds) in [(64, 128, 2), (64, 16, 1), (320, 16, 1)] {
        let case = with_tail(dim, page);
        let outcome = cases::check(&case, &mut simulated_with_tail());
        assert!(matches!(outcome, Outcome::Passed(_)), "{dim} {page}: {outcome}");
        let first = run_with_tail(&case, "adversarial", 0);
        assert_eq!(first.1, FEW, "{dim} {page}: pieces of the tail");
        for seed in 0..seeds {
            assert!(run_with_tail(&case, "random", seed) == first, "{dim} {page} {seed}");
        }
    }
}

/// Wide decodes are shared out where there are many of long keys. Others take a list.
#[test]
fn few_or_short_decodes_of_wide_heads_take_a_list() {
    let options = PlanOptions::for_arch(Arch::Sm90);
    let summary = |batch: usize, mask: &str| {
        let text = format!(
            "[[case]]\nname = \"x\"\nbatch = {batch}\nheads = 64\nkv_heads = 1\ndim = 512\nshared = true\n\
             queries = 1\nkeys = {:?}\nmask = \"{mask}\"\nlayout = \"paged\"\npage = 64\n",
            vec![4096; batch]
        );
        let case = cases::parse(&text).expect("a case").remove(0);
        plan(&case.problem().expect("valid"), Arch::Sm90, &options).expect("supported").summary
    };
    assert!(summary(64, "full").ends_with("shared out by lengths on the device"));
    assert!(summary(16, "full").ends_with("split(s)"));
    assert!(summary(128, "window(127,0)").ends_with("split(s)"));
}

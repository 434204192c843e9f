//! The kernels that are broken, each on the smallest problem that goes round every ring of its
//! barriers twice and comes to all its branches: sequences without keys, tiles with and without a mask,
//! tiles whose last rows must be cleared, a run of sequences so short that only the barriers of queries
//! and of first keys hold the loader back, queries that leave warpgroups without rows.

use cases::CaseData;
use kernels::{Arch, FewHeads, PlanOptions, Probabilities, RowBlocks, Split, plan};
use program::Program;

/// A kernel and a problem for it.
pub struct Subject {
    /// Name, in the list of survivors.
    pub name: &'static str,
    arch: Arch,
    /// Fields of a case of `crates/cases/cases.toml`.
    case: &'static str,
    /// The choices of the planner that lead to the kernel.
    options: fn(PlanOptions) -> PlanOptions,
    /// The function whose mutants are tried, where not all are.
    pub function: Option<&'static str>,
    /// The files whose mutants are tried, where another subject has tried the others.
    pub files: &'static [&'static str],
}

/// What gathers rows, and waits for what that says about them.
const GATHERING: &[&str] = &["gatherers.rs", "unpackers.rs", "softmax.rs", "step.rs", "queries.rs"];

/// What hands parts of work tiles from one CTA to another.
const EXCHANGE: &[&str] = &["work/exchange.rs", "blackwell/parts.rs"];

/// Three processors, among which work tiles are cut.
fn three(options: PlanOptions) -> PlanOptions {
    PlanOptions { processors: 3, ..options }
}

/// One processor: one CTA works on all tiles.
fn alone(options: PlanOptions) -> PlanOptions {
    PlanOptions { processors: 1, split: Split::Never, ..options }
}

/// One cluster of two.
fn pair(options: PlanOptions) -> PlanOptions {
    PlanOptions { processors: 2, split: Split::Never, ..options }
}

/// What copies and waits in the `mma.sync` family.
const COPIES: &[&str] = &["ampere/ring.rs", "ampere/warp.rs"];

/// The `mma.sync` family, two buffers of keys and of values.
pub const SM80: Subject = Subject {
    name: "sm80",
    arch: Arch::Sm80,
    case: r#"
        dim = 64
        amplitude = 2.5
        queries = [100, 20, 70, 100, 90]
        keys = [300, 0, 130, 200, 90]
        mask = "causal"
    "#,
    options: alone,
    function: None,
    files: COPIES,
};

/// The `mma.sync` family, keys that are values, looked up a tile ahead.
pub const SM80_SHARED: Subject = Subject {
    name: "sm80-shared",
    arch: Arch::Sm80,
    case: r#"
        dim = 64
        shared = true
        amplitude = 2.5
        queries = [100, 20, 70, 100, 90]
        keys = [300, 0, 130, 200, 90]
        layout = "paged"
        page = 16
        mask = "causal"
    "#,
    options: alone,
    function: None,
    files: COPIES,
};

/// The `mma.sync` family, wide queries that pass through the ring to registers.
pub const SM80_PASSED: Subject = Subject {
    name: "sm80-passed",
    arch: Arch::Sm80,
    case: r#"
        dim = 136
        batch = 2
        amplitude = 2.5
        queries = 100
        keys = 170
        mask = "causal"
    "#,
    options: alone,
    function: None,
    files: &["ampere/ring.rs", "ampere/warp.rs", "ampere/parked.rs"],
};

/// The same, two warps on the same rows.
pub const SM80_HALVES: Subject = Subject {
    name: "sm80-halves",
    arch: Arch::Sm80,
    case: r#"
        dim = 264
        batch = 2
        amplitude = 2.5
        queries = 70
        keys = 100
        mask = "causal"
    "#,
    options: alone,
    function: None,
    files: &["ampere/ring.rs", "ampere/warp.rs", "ampere/parked.rs"],
};

/// The `mma.sync` family, packed rows that come as bytes, in two segments.
pub const SM80_PACKED: Subject = Subject {
    name: "sm80-packed",
    arch: Arch::Sm80,
    case: r#"
        batch = 2
        heads = 8
        kv_heads = 1
        dim = 512
        queries = 1
        keys = 128
        layout = "paged"
        page = 64
        shared = true
        model1 = true
        indices = 100
        second = { keys = 100, layout = "paged", page = 64, shared = true, model1 = true, indices = 70 }
    "#,
    options: alone,
    function: None,
    files: &["ampere/ring.rs", "ampere/warp.rs", "ampere/packed.rs"],
};

/// Hopper, two warpgroups.
pub const SM90: Subject = Subject {
    name: "sm90",
    arch: Arch::Sm90,
    case: r#"
        dim = 128
        amplitude = 2.5
        queries = [128, 100, 100, 40, 100, 100, 128, 20]
        keys = [700, 100, 100, 40, 100, 100, 0, 384]
        mask = "causal"
    "#,
    options: alone,
    function: None,
    files: &[],
};

/// Hopper, three warpgroups that take turns: many queries, most of which see no keys.
pub const SM90_TURNS: Subject = Subject {
    name: "sm90-turns",
    arch: Arch::Sm90,
    case: r#"
        dim = 64
        amplitude = 2.5
        queries = [1152, 1152, 20]
        keys = [700, 100, 384]
        mask = "causal"
    "#,
    options: alone,
    function: None,
    files: &[],
};

/// Hopper, keys that are values, in pages whose last one is part empty.
pub const SM90_SHARED: Subject = Subject {
    name: "sm90-shared",
    arch: Arch::Sm90,
    case: r#"
        dim = 192
        queries = [128, 100, 100, 40, 100, 100, 128, 20]
        keys = [700, 100, 100, 40, 100, 100, 0, 384]
        mask = "causal"
        shared = true
    "#,
    options: alone,
    function: None,
    files: &[],
};

/// Hopper, rows of short pages that threads gather.
pub const SM90_GATHER: Subject = Subject {
    name: "sm90-gather",
    arch: Arch::Sm90,
    case: r#"
        dim = 128
        queries = [128, 100, 100, 40, 100, 100, 128, 20]
        keys = [700, 100, 100, 40, 100, 100, 0, 384]
        mask = "causal"
        layout = "paged"
        page = 5
    "#,
    options: alone,
    function: None,
    files: &[],
};

/// Hopper, a unit that three CTAs have parts of.
pub const SM90_CUT: Subject = Subject {
    name: "sm90-cut",
    arch: Arch::Sm90,
    case: r#"
        dim = 64
        queries = [1, 40]
        keys = [1700, 60]
        mask = "causal"
    "#,
    options: three,
    function: None,
    files: EXCHANGE,
};

/// Hopper, a batch whose last part goes to the CTAs that are done first.
pub const SM90_TAIL: Subject = Subject {
    name: "sm90-tail",
    arch: Arch::Sm90,
    case: r#"
        dim = 64
        queries = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 40]
        keys = [800, 800, 800, 800, 100, 100, 100, 100, 100, 100, 100, 60]
        mask = "causal"
    "#,
    options: |options| PlanOptions { processors: 2, tail_from: Some(8), ..options },
    function: None,
    files: &["work/shares.rs", "work/tail.rs"],
};

/// Hopper, the launch that combines parts of the keys, more of them than one warp takes at a time.
pub const SM90_COMBINE: Subject = Subject {
    name: "sm90-combine",
    arch: Arch::Sm90,
    case: r#"
        dim = 64
        queries = 5
        keys = 1200
        sinks = "random"
    "#,
    options: |options| PlanOptions { split: Split::Every { keys: 128 }, ..options },
    function: Some("combine"),
    files: &[],
};

/// Hopper, wide rows: two CTAs copy for each other.
pub const SM90_WIDE: Subject = Subject {
    name: "sm90-wide",
    arch: Arch::Sm90,
    case: r#"
        dim = 512
        queries = 128
        batch = 7
        keys = [300, 0, 50, 50, 50, 50, 192]
        mask = "causal"
    "#,
    options: pair,
    function: None,
    files: &[],
};

/// Hopper, wide rows in one CTA, keys that are values, in pages.
pub const SM90_WIDE_SHARED: Subject = Subject {
    name: "sm90-wide-shared",
    arch: Arch::Sm90,
    case: r#"
        dim = 512
        heads = 16
        kv_heads = 1
        batch = 8
        queries = 4
        keys = [258, 0, 50, 50, 50, 50, 192, 258]
        mask = "causal"
        shared = true
        layout = "paged"
        page = 64
    "#,
    options: alone,
    function: None,
    files: &[],
};

/// Hopper, wide rows of a work tile that three clusters have parts of.
pub const SM90_WIDE_CUT: Subject = Subject {
    name: "sm90-wide-cut",
    arch: Arch::Sm90,
    case: r#"
        dim = 512
        heads = 16
        kv_heads = 1
        queries = [1, 6]
        keys = [1000, 40]
        mask = "causal"
        shared = true
        layout = "paged"
        page = 64
    "#,
    options: |options| PlanOptions { processors: 6, ..options },
    function: None,
    files: &["work/exchange.rs", "hopper/parts.rs", "hopper/wide/right_columns.rs"],
};

/// Hopper, wide rows that lists name, keys that are values.
pub const SM90_WIDE_LISTS: Subject = Subject {
    name: "sm90-wide-lists",
    arch: Arch::Sm90,
    case: r#"
        dim = 512
        heads = 16
        kv_heads = 1
        batch = 8
        queries = 1
        keys = 100
        shared = true
        indices = 330
        entries = [330, 0, 50, 50, 50, 50, 192, 330]
        lists = "holes"
    "#,
    options: alone,
    function: None,
    files: &[],
};

/// Hopper, wide rows of fp8 numbers, unpacked by the warps that gather them.
pub const SM90_WIDE_FP8: Subject = Subject {
    name: "sm90-wide-fp8",
    arch: Arch::Sm90,
    case: r#"
        dim = 512
        heads = 16
        kv_heads = 1
        batch = 8
        queries = 4
        keys = [258, 0, 50, 50, 50, 50, 192, 258]
        mask = "causal"
        shared = true
        model1 = true
        layout = "paged"
        page = 5
    "#,
    options: |options| PlanOptions { few_heads: FewHeads::Never, ..alone(options) },
    function: None,
    files: &[],
};

/// Hopper, few heads: rows of fp8 numbers, unpacked to registers.
pub const SM90_FEW_HEADS: Subject = Subject {
    name: "sm90-few-heads",
    arch: Arch::Sm90,
    case: r#"
        dim = 512
        heads = 8
        kv_heads = 1
        batch = 6
        queries = 1
        amplitude = 1.5
        keys = [330, 0, 50, 50, 0, 330]
        shared = true
        model1 = true
        layout = "paged"
        page = 5
    "#,
    options: |options| PlanOptions { few_heads: FewHeads::Always, ..alone(options) },
    function: None,
    files: &[],
};

/// Hopper, wide rows: a cluster of four, which merges two parts of the keys of two blocks of rows.
pub const SM90_MERGE: Subject = Subject {
    name: "sm90-merge",
    arch: Arch::Sm90,
    case: r#"
        dim = 512
        queries = 128
        keys = 500
        mask = "causal"
    "#,
    options: |options| PlanOptions { processors: 4, ..options },
    function: None,
    files: &[],
};

/// Blackwell, six warps.
pub const SM100_SIX: Subject = Subject {
    name: "sm100-six",
    arch: Arch::Sm100,
    case: r#"
        dim = 128
        amplitude = 2.5
        queries = 128
        batch = 8
        keys = [700, 0, 100, 100, 40, 100, 100, 384]
        mask = "causal"
    "#,
    options: |options| PlanOptions { row_blocks: RowBlocks::One, ..alone(options) },
    function: None,
    files: &[],
};

/// Blackwell, six warps, probabilities in shared memory, keys that are values, in pages.
pub const SM100_SIX_SHARED: Subject = Subject {
    name: "sm100-six-shared",
    arch: Arch::Sm100,
    case: r#"
        dim = 128
        amplitude = 2.5
        queries = 128
        batch = 8
        keys = [384, 0, 100, 100, 40, 100, 100, 700]
        mask = "causal"
        shared = true
    "#,
    options: |options| PlanOptions {
        row_blocks: RowBlocks::One,
        probabilities: Probabilities::SharedMemory,
        ..alone(options)
    },
    function: None,
    files: &[],
};

/// Blackwell, six warps, a unit that three CTAs have parts of.
pub const SM100_SIX_CUT: Subject = Subject {
    name: "sm100-six-cut",
    arch: Arch::Sm100,
    case: r#"
        dim = 64
        queries = [1, 40]
        keys = [1700, 60]
        mask = "causal"
    "#,
    options: |options| PlanOptions { row_blocks: RowBlocks::One, ..three(options) },
    function: None,
    files: EXCHANGE,
};

/// Blackwell, rows that lists name.
pub const SM100_SIX_LISTS: Subject = Subject {
    name: "sm100-six-lists",
    arch: Arch::Sm100,
    case: r#"
        dim = 128
        heads = 16
        kv_heads = 1
        batch = 5
        queries = 1
        keys = 100
        indices = 700
        entries = [700, 0, 50, 50, 300]
        lists = "holes"
    "#,
    options: alone,
    function: None,
    files: GATHERING,
};

/// Blackwell, sixteen warps.
pub const SM100_SIXTEEN: Subject = Subject {
    name: "sm100-sixteen",
    arch: Arch::Sm100,
    case: r#"
        dim = 128
        amplitude = 2.5
        queries = 256
        batch = 6
        keys = [500, 0, 100, 100, 100, 256]
        mask = "causal"
    "#,
    options: |options| PlanOptions { row_blocks: RowBlocks::Two, ..alone(options) },
    function: None,
    files: &[],
};

/// Blackwell, sixteen warps, a unit that three CTAs have parts of.
pub const SM100_SIXTEEN_CUT: Subject = Subject {
    name: "sm100-sixteen-cut",
    arch: Arch::Sm100,
    case: r#"
        dim = 64
        queries = [1, 40]
        keys = [1700, 60]
        mask = "causal"
    "#,
    options: |options| PlanOptions { row_blocks: RowBlocks::Two, ..three(options) },
    function: None,
    files: EXCHANGE,
};

/// Blackwell, a pair of CTAs, in pages.
pub const SM100_PAIR: Subject = Subject {
    name: "sm100-pair",
    arch: Arch::Sm100,
    case: r#"
        dim = 512
        amplitude = 2.5
        queries = 128
        batch = 5
        keys = [400, 0, 40, 100, 256]
        mask = "causal"
        layout = "paged"
        page = 64
    "#,
    options: pair,
    function: None,
    files: &[],
};

/// Blackwell, a pair of CTAs, rows that lists name.
pub const SM100_PAIR_LISTS: Subject = Subject {
    name: "sm100-pair-lists",
    arch: Arch::Sm100,
    case: r#"
        dim = 512
        heads = 16
        kv_heads = 1
        batch = 4
        queries = 1
        keys = 100
        shared = true
        indices = 300
        entries = [300, 0, 50, 50]
        lists = "holes"
    "#,
    options: pair,
    function: None,
    files: GATHERING,
};

/// Blackwell, a pair of CTAs, rows of fp8 numbers that lists name.
pub const SM100_PAIR_FP8: Subject = Subject {
    name: "sm100-pair-fp8",
    arch: Arch::Sm100,
    case: r#"
        dim = 512
        heads = 16
        kv_heads = 1
        batch = 4
        queries = 1
        keys = 100
        layout = "paged"
        page = 5
        shared = true
        model1 = true
        indices = 300
        entries = [300, 0, 50, 50]
        lists = "holes"
    "#,
    options: pair,
    function: None,
    files: GATHERING,
};

/// Blackwell, a pair of CTAs, rows of fp8 numbers whose bytes tensor copies bring.
pub const SM100_PAIR_RAW: Subject = Subject {
    name: "sm100-pair-raw",
    options: |options| PlanOptions { packed_copies: true, ..pair(options) },
    files: &["unpackers.rs", "cta_pair/raw.rs"],
    ..SM100_PAIR_FP8
};

impl Subject {
    /// The program and the contents of its buffers.
    pub fn program(&self) -> (Program, Vec<Vec<u8>>) {
        let case = format!("[[case]]\nname = \"{}\"\n{}\n", self.name, self.case);
        let case = cases::parse(&case).expect("a case").remove(0);
        let problem = case.problem().expect("a valid case");
        let data = CaseData::new(&case).expect("data of a valid case");
        let options = (self.options)(PlanOptions::for_arch(self.arch));
        let plan = plan(&problem, self.arch, &options).expect("a supported case");
        println!("{}: {}", self.name, plan.summary);
        let slots = problem.slots();
        let contents = plan.program.buffers.iter().map(|buffer| {
            let slot = slots.iter().find(|slot| slot.to_string() == buffer.name);
            slot.map_or_else(|| vec![0; buffer.bytes as usize], |slot| data.bytes(*slot))
        });
        let contents = contents.collect();
        (plan.program, contents)
    }
}

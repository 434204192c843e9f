//! Draws what the warps and engines of a Blackwell CTA do at the same time, by the simulator's cost
//! model: head dim 128, six tiles of 128 keys, each tile in a colour of its own.
//!
//! `cargo run --release -p sixwarp-kernels --example timeline six > docs/blackwell/six-warps.svg`
//! `cargo run --release -p sixwarp-kernels --example timeline sixteen > docs/blackwell/sixteen-warps.svg`

use problem::{DType, Problem, Segment, View};
use sim::svg::{Bar, GREY, Line, Picture, group_fill};
use sim::{Row, Slice, Trace};
use sixwarp_kernels::{Arch, PlanOptions, RowBlocks, Split, plan};

const TILES: usize = 6;
const DIM: u64 = 128;
/// Instructions of a product: steps of 16 along the head dim, or along the keys.
const STEPS: usize = 8;
/// Copies of 128 rows: panels of 64 columns.
const PANELS: usize = 2;
/// Runs of a softmax warp that are shorter are not a tile's.
const LEAST_SOFTMAX: u64 = 500;

/// Something an engine does in several parts, one after the other.
struct Step {
    label: String,
    tile: Option<usize>,
    parts: usize,
}

fn step(what: &str, tile: usize, parts: usize) -> Step {
    Step { label: format!("{what}{tile}"), tile: Some(tile), parts }
}

/// What the two schedules do, in the order of the issuing warps.
struct Schedule {
    title: &'static str,
    blocks: usize,
    /// Warps to show: number, name, and whether it takes the softmax.
    warps: &'static [(u32, &'static str, bool)],
    row_blocks: RowBlocks,
}

const SIX: Schedule = Schedule {
    title: "Six warps, head dim 128: each colour is a tile of 128 keys",
    blocks: 1,
    warps: &[
        (5, "warp 5: load", false),
        (4, "warp 4: multiply", false),
        (0, "warps 0–3: softmax", true),
    ],
    row_blocks: RowBlocks::One,
};

const SIXTEEN: Schedule = Schedule {
    title: "Sixteen warps, head dim 128: each colour is a tile of 128 keys",
    blocks: 2,
    warps: &[
        (13, "warp 13: load", false),
        (12, "warp 12: multiply", false),
        (0, "warps 0–3: softmax, block 0", true),
        (4, "warps 4–7: softmax, block 1", true),
        (8, "warps 8–11: correct, write", false),
    ],
    row_blocks: RowBlocks::Two,
};

impl Schedule {
    /// Queries, then keys and values in the order of their products.
    fn copies(&self) -> Vec<Step> {
        let queries = Step { label: "Q".into(), tile: None, parts: self.blocks * PANELS };
        let mut steps = vec![queries, step("K", 0, PANELS)];
        for tile in 0..TILES {
            let values = step("V", tile, PANELS);
            let keys = (tile + 1 < TILES).then(|| step("K", tile + 1, PANELS));
            match self.blocks {
                1 => steps.extend(keys.into_iter().chain([values])),
                _ => steps.extend([values].into_iter().chain(keys)),
            }
        }
        steps
    }

    fn products(&self) -> Vec<Step> {
        let scores = |block: usize, tile| match self.blocks {
            1 => step("S", tile, STEPS),
            _ => step(["S₀ ", "S₁ "][block], tile, STEPS),
        };
        let output = |block: usize, tile| match self.blocks {
            1 => step("O", tile, STEPS),
            _ => step(["O₀ ", "O₁ "][block], tile, STEPS),
        };
        let mut steps: Vec<Step> = (0..self.blocks).map(|block| scores(block, 0)).collect();
        for tile in 0..TILES {
            for block in 0..self.blocks {
                let next = (tile + 1 < TILES).then(|| scores(block, tile + 1));
                match self.blocks {
                    1 => steps.extend(next.into_iter().chain([output(block, tile)])),
                    _ => steps.extend([output(block, tile)].into_iter().chain(next)),
                }
            }
        }
        steps
    }
}

/// The slices of a row in the order of time.
fn slices(trace: &Trace, row: Row) -> Vec<&Slice> {
    let of_row = |slice: &&Slice| slice.row == row && !slice.name.starts_with("wait");
    let mut slices: Vec<&Slice> = trace.slices.iter().filter(of_row).collect();
    slices.sort_by_key(|slice| slice.start);
    slices
}

/// An engine's slices, each named by the step it is a part of.
fn engine(trace: &Trace, row: Row, name: &str, steps: Vec<Step>) -> Line {
    let slices = slices(trace, row);
    let parts: usize = steps.iter().map(|step| step.parts).sum();
    assert_eq!(slices.len(), parts, "the {name} does something else");
    let mut slices = slices.into_iter();
    let bars = steps.into_iter().flat_map(|step| {
        let parts: Vec<&Slice> = slices.by_ref().take(step.parts).collect();
        runs(&parts).into_iter().map(move |(start, end)| Bar {
            start,
            end,
            name: step.label.clone(),
            fill: step.tile.map_or(GREY, group_fill),
            labelled: true,
        })
    });
    Line { name: name.into(), bars: bars.collect(), note: String::new() }
}

/// Slices without gaps between them, joined.
fn runs(slices: &[&Slice]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for slice in slices {
        match runs.last_mut() {
            Some(last) if last.1 == slice.start => last.1 = slice.end,
            _ => runs.push((slice.start, slice.end)),
        }
    }
    runs
}

/// A warp's runs, cut at `cuts`; those of a softmax warp that are long enough are a tile's each.
fn warp(trace: &Trace, (number, name, softmax): (u32, &str, bool), cuts: &[u64]) -> Line {
    let mut tiles = 0..;
    let runs = slices(trace, Row::Warp(number)).into_iter().flat_map(|slice| {
        let inside = cuts.iter().copied().filter(|cut| (slice.start + 1..slice.end).contains(cut));
        let edges: Vec<u64> = [slice.start].into_iter().chain(inside).chain([slice.end]).collect();
        edges.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>()
    });
    let bars = runs.map(|(start, end)| {
        let is_tile = softmax && tiles.start < TILES && end - start > LEAST_SOFTMAX;
        let tile = if is_tile { tiles.next() } else { None };
        let name = tile.map_or("other work".to_owned(), |tile| format!("softmax {tile}"));
        Bar { start, end, name, fill: tile.map_or(GREY, group_fill), labelled: tile.is_some() }
    });
    Line { name: name.into(), bars: bars.collect(), note: String::new() }
}

fn trace(schedule: &Schedule) -> Trace {
    let view = |tokens| View::bshd(DType::Bf16, [1, 1, tokens, DIM]);
    let segment = Segment::new(view(128 * TILES as u64), view(128 * TILES as u64));
    let queries = view(128 * schedule.blocks as u64);
    let problem = Problem::builder(queries).segment(segment).build().expect("a valid problem");
    let options = PlanOptions {
        row_blocks: schedule.row_blocks,
        split: Split::Never,
        ..PlanOptions::for_arch(Arch::Sm100)
    };
    let program = plan(&problem, Arch::Sm100, &options).expect("supported").program;
    let memory: Vec<Vec<u8>> =
        program.buffers.iter().map(|buffer| vec![0x3f; buffer.bytes as usize]).collect();
    let simulator = sim::Options { checks: false, trace: true, ..Default::default() };
    sim::run(&program, &memory, &simulator).expect("runs").trace.expect("a trace")
}

fn main() {
    let schedule = match std::env::args().nth(1).as_deref() {
        Some("sixteen") => SIXTEEN,
        _ => SIX,
    };
    let trace = trace(&schedule);
    let copies = engine(&trace, Row::Copy, "copy engine", schedule.copies());
    let products = engine(&trace, Row::Tensor, "tensor unit", schedule.products());
    // One block's softmax never waits for scores: a tile's ends where its product begins.
    let is_output = |bar: &&Bar| schedule.blocks == 1 && bar.name.starts_with('O');
    let cuts: Vec<u64> = products.bars.iter().filter(is_output).map(|bar| bar.start).collect();
    let warps = schedule.warps.iter().map(|which| warp(&trace, *which, &cuts));
    let lines: Vec<Line> =
        [copies, products].into_iter().chain(warps.collect::<Vec<_>>()).collect();
    let end = lines.iter().flat_map(|line| &line.bars).map(|bar| bar.end).max().unwrap_or(0);
    let (title, subtitle) = (schedule.title.to_owned(), String::new());
    print!("{}", Picture { title, subtitle, lines, end }.to_svg());
}

//! The timeline of a kernel's first CTA as a picture.

use sim::svg::{Bar, Line, Picture};
use sim::{Row, Slice, Trace};

/// Draws the rows of CTA 0, warps first.
pub fn draw(title: &str, trace: &Trace) -> String {
    let slices: Vec<&Slice> = trace.slices.iter().filter(|slice| slice.cta == [0; 3]).collect();
    let mut rows: Vec<Row> = slices.iter().map(|slice| slice.row).collect();
    rows.sort_unstable();
    rows.dedup();
    let lines = rows.into_iter().map(|row| line(row, &slices)).collect();
    let end = slices.iter().map(|slice| slice.end).max().unwrap_or(0);
    let subtitle = "CTA (0,0,0); cycles are the simulator's model, not a GPU's".into();
    Picture { title: title.into(), subtitle, lines, end }.to_svg()
}

fn line(row: Row, slices: &[&Slice]) -> Line {
    let name = match row {
        Row::Warp(n) => format!("warp {n}"),
        Row::Copy => "copy engine".into(),
        Row::Tensor => "tensor unit".into(),
    };
    let bar = |slice: &&Slice| Bar {
        start: slice.start,
        end: slice.end,
        name: slice.name.clone(),
        fill: fill(&slice.name),
        labelled: false,
    };
    let bars = slices.iter().filter(|slice| slice.row == row).map(bar).collect();
    Line { name, bars, note: String::new() }
}

/// Waits are pale; work is not.
fn fill(name: &str) -> &'static str {
    match name {
        "run" => "#3b82f6",
        "wait for mbarrier" => "#fde68a",
        "wait at barrier" => "#fecaca",
        "wait for group" => "#ddd6fe",
        _ if name.contains("mma") => "#0f766e",
        _ if name.contains("load") => "#22c55e",
        _ if name.contains("store") => "#f97316",
        _ => "#a3a3a3",
    }
}

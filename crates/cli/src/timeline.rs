//! A simulated CTA's timeline: as text, a line per warp and engine and a column per stretch of cycles;
//! and as a drawing.

use sim::svg::{Bar, Line, Picture};
use sim::{Row, Slice, Trace};
use std::fmt::Write;

/// Columns of the picture.
const WIDTH: u64 = 72;
/// How full a column is, from idle to busy throughout.
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// A row of the timeline.
pub struct Lane<'a> {
    /// What it is.
    pub name: String,
    /// What it did.
    pub slices: Vec<&'a Slice>,
}

impl Lane<'_> {
    fn work(&self) -> impl Iterator<Item = (u64, u64)> {
        let busy = self.slices.iter().filter(|slice| is_busy(slice));
        busy.map(|slice| (slice.start, slice.end))
    }

    /// Cycles it worked.
    pub fn busy(&self) -> u64 {
        self.work().map(|(start, end)| end - start).sum()
    }
}

/// The rows of `cta`, warps first, and the cycle its last slice ends; `name` says what a row is.
pub fn lanes(trace: &Trace, cta: [u32; 3], name: impl Fn(Row) -> String) -> (Vec<Lane<'_>>, u64) {
    let slices: Vec<&Slice> = trace.slices.iter().filter(|slice| slice.cta == cta).collect();
    let end = slices.iter().map(|slice| slice.end).max().unwrap_or(0);
    let mut rows: Vec<Row> = slices.iter().map(|slice| slice.row).collect();
    rows.sort_unstable();
    rows.dedup();
    let of_row = |row: Row| slices.iter().copied().filter(|slice| slice.row == row).collect();
    let lane = |row| Lane { name: name(row), slices: of_row(row) };
    (rows.into_iter().map(lane).collect(), end)
}

/// What a row of any kernel is.
pub fn plain_name(row: Row) -> String {
    match row {
        Row::Warp(n) => format!("warp {n}"),
        Row::Copy => "copy engine".to_string(),
        Row::Tensor => "tensor unit".to_string(),
    }
}

/// The rows as text.
pub fn picture((lanes, end): &(Vec<Lane<'_>>, u64)) -> String {
    let widest = lanes.iter().map(|lane| lane.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for lane in lanes {
        let line = shades(lane.work(), *end);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:>widest$} {line}", lane.name);
    }
    let width = WIDTH as usize - 1;
    let _ = writeln!(text, "{:>widest$} 0{:>width$}", "", cycles(*end));
    text
}

/// The rows as a drawing.
pub fn drawing(title: &str, subtitle: &str, (lanes, end): &(Vec<Lane<'_>>, u64)) -> Picture {
    let bar = |slice: &&Slice| Bar {
        start: slice.start,
        end: slice.end,
        name: slice.name.clone(),
        fill: fill(&slice.name),
        labelled: false,
    };
    let line = |lane: &Lane<'_>| Line {
        name: lane.name.clone(),
        bars: lane.slices.iter().map(bar).collect(),
        note: format!("{:.0} %", lane.busy() as f64 * 100.0 / (*end).max(1) as f64),
    };
    let lines = lanes.iter().map(line).collect();
    Picture { title: title.into(), subtitle: subtitle.into(), lines, end: *end }
}

/// Colours of what warps and engines do. Waits are pale; work is not.
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

/// Warps wait and run; engines have slices only for work.
fn is_busy(slice: &Slice) -> bool {
    !slice.name.starts_with("wait")
}

fn cycles(end: u64) -> String {
    format!("{end} cycles")
}

/// How busy each of [`WIDTH`] equal stretches of `0..end` is.
fn shades(busy: impl Iterator<Item = (u64, u64)>, end: u64) -> String {
    let mut filled = [0u64; WIDTH as usize];
    let edge = |column: u64| column * end / WIDTH;
    for (from, to) in busy {
        for column in 0..WIDTH {
            let (low, high) = (edge(column).max(from), edge(column + 1).min(to));
            filled[column as usize] += high.saturating_sub(low);
        }
    }
    let shade = |(column, filled): (usize, &u64)| {
        let span = edge(column as u64 + 1) - edge(column as u64);
        let steps = SHADES.len() as u64 - 1;
        SHADES[(filled * steps).div_ceil(span.max(1)).min(steps) as usize]
    };
    filled.iter().enumerate().map(shade).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_stretches_are_full_and_waits_are_not() {
        let slice =
            |row, name: &str, start, end| Slice { cta: [0; 3], row, name: name.into(), start, end };
        let trace = Trace {
            slices: vec![
                slice(Row::Warp(0), "run", 0, 360),
                slice(Row::Warp(0), "wait for mbarrier", 360, 720),
                slice(Row::Tensor, "mma", 715, 720),
            ],
            steps: Vec::new(),
        };
        let text = picture(&lanes(&trace, [0; 3], |row| format!("{row:?}")));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("Warp(0) {}{}", "█".repeat(36), "·".repeat(36)));
        assert_eq!(lines[1], format!(" Tensor {}▒", "·".repeat(71)));
        assert!(lines[2].ends_with("720 cycles"));
        assert_eq!(picture(&lanes(&trace, [1, 0, 0], plain_name)).lines().count(), 1);
    }
}

//! A timeline as SVG: a line per warp or engine, bars for what took time, marks for the places of the finding.

use super::escaped;
use crate::timeline::{Span, Timeline, TimelineRow};
use std::fmt::Write;

/// A place of the finding on a row.
pub(super) struct Mark {
    /// Name of the row.
    pub(super) row: String,
    pub(super) cycle: u64,
    /// What is written beside it.
    pub(super) label: String,
}

const WIDTH: f64 = 1100.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 26.0;
const LINE: f64 = 44.0;
const BAR: f64 = 18.0;

/// The cycles that a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Window {
    fn x(self, cycle: u64) -> f64 {
        let span = (self.end - self.start).max(1) as f64;
        let at = cycle.clamp(self.start, self.end) - self.start;
        LEFT + (WIDTH - LEFT - RIGHT) * at as f64 / span
    }

    fn shows(self, span: &Span) -> bool {
        span.end > self.start && span.start < self.end
    }
}

/// The cycles in which the last steps of the rows happened, if they are a small part of the whole.
pub(super) fn last_steps(timeline: &Timeline, steps: usize) -> Option<Window> {
    let first = |row: &TimelineRow| row.steps.iter().rev().take(steps).map(|s| s.cycle).min();
    let start = timeline.rows.iter().filter_map(first).min()?;
    let margin = (timeline.end - start.min(timeline.end)) / 50 + 1;
    let start = start.saturating_sub(margin);
    (start > timeline.end / 5).then_some(Window { start, end: timeline.end })
}

pub(super) fn draw(timeline: &Timeline, window: Window, marks: &[Mark]) -> String {
    let height = TOP + timeline.rows.len() as f64 * LINE + 30.0;
    let mut svg = format!(
        "<svg class=\"timeline\" role=\"img\" aria-label=\"timeline\" viewBox=\"0 0 {WIDTH} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n"
    );
    ticks(&mut svg, window, height);
    for (i, row) in timeline.rows.iter().enumerate() {
        let top = TOP + i as f64 * LINE;
        text(&mut svg, LEFT - 10.0, top + 18.0, "end", "", &row.name);
        rect(&mut svg, [LEFT, top + 5.0, WIDTH - LEFT - RIGHT, BAR], "#eef1f4", "");
        row.spans.iter().filter(|span| window.shows(span)).for_each(|span| {
            let (from, to) = (window.x(span.start), window.x(span.end));
            let tip = format!("{}, cycles {} to {}", span.name, span.start, span.end);
            rect(&mut svg, [from, top + 5.0, (to - from).max(0.5), BAR], fill(&span.name), &tip);
        });
        steps(&mut svg, row, window, top);
    }
    for (i, row) in timeline.rows.iter().enumerate() {
        let of_row = marks.iter().filter(|mark| mark.row == row.name && mark.cycle >= window.start);
        // The labels of two marks of one row stand one above the other.
        for (mark, rise) in of_row.zip([0.0, 18.0].into_iter().cycle()) {
            draw_mark(&mut svg, mark, window, (TOP + i as f64 * LINE, rise));
        }
    }
    svg + "</svg>\n"
}

fn steps(svg: &mut String, row: &TimelineRow, window: Window, top: f64) {
    for step in row.steps.iter().filter(|step| step.cycle >= window.start) {
        let (x, y) = (window.x(step.cycle), top + 5.0 + BAR);
        let tip = format!("cycle {}, PTX line {}: {}", step.cycle, step.ptx_line, step.instruction);
        let _infallible = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"#475569\"><title>{}</title></circle>",
            escaped(&tip)
        );
    }
}

fn draw_mark(svg: &mut String, mark: &Mark, window: Window, (top, rise): (f64, f64)) {
    let (x, y) = (window.x(mark.cycle), top + 2.0);
    let (y0, y1) = (y - 2.0 - rise / 2.0, y + BAR + 6.0);
    let _infallible = writeln!(
        svg,
        "<g class=\"mark\"><line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y0:.1}\" y2=\"{y1:.1}\" stroke=\"#b91c1c\" \
         stroke-width=\"2.5\"/>",
    );
    let end = x > WIDTH - 200.0;
    let (at, anchor) = if end { (x - 5.0, "end") } else { (x + 5.0, "start") };
    let label = format!("{} (cycle {})", mark.label, mark.cycle);
    text(svg, at, y + 16.0 - rise, anchor, "class=\"label\"", &label);
    svg.push_str("</g>\n");
}

fn ticks(svg: &mut String, window: Window, height: f64) {
    let span = window.end - window.start;
    let power = 10u64.pow((span / 6).max(1).ilog10());
    let step = [power, 2 * power, 5 * power].into_iter().find(|s| span / s <= 8);
    let step = step.unwrap_or(10 * power);
    let mut cycle = window.start.div_ceil(step) * step;
    while cycle <= window.end {
        let x = window.x(cycle);
        let _infallible = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\" stroke=\"#dde3e9\"/>",
            height - 24.0
        );
        text(svg, x, height - 8.0, "middle", "class=\"tick\"", &cycle.to_string());
        cycle += step;
    }
}

/// Waits are pale; work is not.
pub(super) fn fill(name: &str) -> &'static str {
    match name {
        "run" => "#60a5fa",
        _ if name.starts_with("wait") => "#fde68a",
        _ if name.contains("mma") => "#2dd4bf",
        _ if name.contains("load") || name.contains("copy") => "#86efac",
        _ if name.contains("store") => "#fdba74",
        _ => "#cbd5e1",
    }
}

fn rect(svg: &mut String, [x, y, width, height]: [f64; 4], fill: &str, tip: &str) {
    let tip =
        if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(tip)) };
    let _infallible = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{fill}\">{tip}</rect>"
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
    let _infallible = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {class}>{}</text>",
        escaped(text)
    );
}

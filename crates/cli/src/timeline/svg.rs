//! The timeline as a drawing: a row per warp and engine, a box per slice, the share of busy cycles
//! behind each row.

use super::{Lane, cycles};
use sim::Slice;
use std::fmt::Write;

/// Width of the drawing and of its left and right margins.
const WIDTH: f64 = 1200.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 70.0;
/// Height of a row, and of the box in it.
const ROW: f64 = 26.0;
const BOX: f64 = 20.0;
/// Height of the head: title, subtitle, legend.
const HEAD: f64 = 92.0;
/// Boxes of one colour that are nearer than this become one.
const NEAR: f64 = 0.4;

/// What is drawn.
pub struct Drawing<'a> {
    /// First line.
    pub title: &'a str,
    /// Second line.
    pub subtitle: &'a str,
    /// Rows, from the top.
    pub lanes: Vec<Lane<'a>>,
    /// Cycle at the right edge.
    pub end: u64,
}

/// Colours of what warps and engines do. Waits are pale; work is not.
fn colour(name: &str) -> &'static str {
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

impl Drawing<'_> {
    /// The drawing as SVG.
    pub fn to_svg(&self) -> String {
        let height = HEAD + self.lanes.len() as f64 * ROW + 40.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"ui-sans-serif, system-ui, sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        );
        text(&mut svg, [16.0, 26.0], "font-size=\"17\" font-weight=\"600\"", self.title);
        text(&mut svg, [16.0, 46.0], "fill=\"#6b7280\"", self.subtitle);
        self.legend(&mut svg);
        self.ticks(&mut svg, height);
        for (i, lane) in self.lanes.iter().enumerate() {
            self.lane(&mut svg, lane, HEAD + i as f64 * ROW);
        }
        svg + "</svg>\n"
    }

    fn x(&self, cycle: u64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * cycle as f64 / self.end.max(1) as f64
    }

    fn legend(&self, svg: &mut String) {
        let mut names: Vec<&str> =
            self.lanes.iter().flat_map(|lane| &lane.slices).map(|s| s.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let mut x = 16.0;
        for name in names {
            rect(svg, [x, 60.0, 14.0, 14.0], colour(name), None);
            text(svg, [x + 20.0, 72.0], "", name);
            x += 44.0 + 7.2 * name.len() as f64;
        }
    }

    /// A line per round number of cycles, 5 to 10 of them.
    fn ticks(&self, svg: &mut String, height: f64) {
        let step = round_step(self.end);
        for cycle in (0..=self.end).step_by(step as usize) {
            let x = self.x(cycle);
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{HEAD}\" y2=\"{:.1}\" stroke=\"#e5e7eb\"/>",
                height - 30.0
            );
            let style = "text-anchor=\"middle\" fill=\"#6b7280\"";
            text(svg, [x, height - 12.0], style, &cycle.to_string());
        }
        let end = cycles(self.end);
        let style = "text-anchor=\"end\" fill=\"#6b7280\"";
        text(svg, [WIDTH - 16.0, 46.0], style, &end);
    }

    fn lane(&self, svg: &mut String, lane: &Lane<'_>, top: f64) {
        let middle = top + ROW / 2.0 + 4.0;
        text(svg, [LEFT - 10.0, middle], "text-anchor=\"end\"", &lane.name);
        let track = [LEFT, top + 3.0, WIDTH - LEFT - RIGHT, BOX];
        rect(svg, track, "#f3f4f6", None);
        for (from, to, name) in merged(&lane.slices, |cycle| self.x(cycle)) {
            let span = [self.x(from), top + 3.0, (self.x(to) - self.x(from)).max(0.2), BOX];
            rect(svg, span, colour(name), Some(&format!("{name}, cycles {from} to {to}")));
        }
        let percent = lane.busy() as f64 * 100.0 / self.end.max(1) as f64;
        let style = "fill=\"#374151\"";
        text(svg, [WIDTH - RIGHT + 8.0, middle], style, &format!("{percent:.0} %"));
    }
}

/// Slices in order, those of one name that touch on the page made one.
fn merged<'a>(slices: &[&'a Slice], x: impl Fn(u64) -> f64) -> Vec<(u64, u64, &'a str)> {
    let mut sorted: Vec<&Slice> = slices.to_vec();
    sorted.sort_by_key(|slice| (slice.start, slice.end));
    let mut boxes: Vec<(u64, u64, &str)> = Vec::new();
    for slice in sorted {
        match boxes.last_mut() {
            Some((_, to, name)) if *name == slice.name && x(slice.start) - x(*to) < NEAR => {
                *to = slice.end.max(*to);
            }
            _ => boxes.push((slice.start, slice.end, &slice.name)),
        }
    }
    boxes
}

/// The 1, 2 or 5 times a power of ten that cuts `end` into 5 to 10 parts or so.
fn round_step(end: u64) -> u64 {
    let power = 10u64.pow((end / 10).max(1).ilog10());
    let fits = |step: &u64| end / step <= 10;
    [power, 2 * power, 5 * power].into_iter().find(fits).unwrap_or(10 * power)
}

fn rect(svg: &mut String, [x, y, width, height]: [f64; 4], fill: &str, tip: Option<&str>) {
    let tip = tip.map_or(String::new(), |tip| format!("<title>{}</title>", escaped(tip)));
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height}\" \
         fill=\"{fill}\">{tip}</rect>"
    );
}

fn text(svg: &mut String, [x, y]: [f64; 2], style: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escaped(text));
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Row;

    fn slice(name: &str, start: u64, end: u64) -> Slice {
        Slice { cta: [0; 3], row: Row::Warp(0), name: name.into(), start, end }
    }

    #[test]
    fn every_row_and_name_is_drawn_and_the_text_is_escaped() {
        let slices = [slice("run", 0, 400), slice("wait for mbarrier", 400, 1000)];
        let lanes = vec![Lane { name: "warp 0".into(), slices: slices.iter().collect() }];
        let drawing = Drawing { title: "a < b", subtitle: "", lanes, end: 1000 };
        let svg = drawing.to_svg();
        assert!(svg.contains("a &lt; b") && svg.contains(">warp 0<") && svg.contains(">40 %<"));
        assert!(svg.contains("<title>wait for mbarrier, cycles 400 to 1000</title>"));
    }

    #[test]
    fn neighbours_of_one_name_are_one_box() {
        let slices = [slice("run", 0, 10), slice("run", 10, 20), slice("wait at barrier", 20, 30)];
        let boxes = merged(&slices.iter().collect::<Vec<_>>(), |cycle| cycle as f64);
        assert_eq!(boxes, [(0, 20, "run"), (20, 30, "wait at barrier")]);
    }

    #[test]
    fn ticks_are_round() {
        for (end, step) in [(9, 1), (100, 10), (1000, 100), (1500, 200), (48_000, 5000)] {
            assert_eq!(round_step(end), step, "{end}");
        }
    }
}

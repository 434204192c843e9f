//! Timelines as SVG: a line per warp or engine, a bar per thing that took time.

use std::fmt::Write;

/// A timeline to be drawn.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// First line.
    pub title: String,
    /// Second line, where it says anything.
    pub subtitle: String,
    /// Lines, from the top.
    pub lines: Vec<Line>,
    /// Cycle at the right edge.
    pub end: u64,
}

/// A line of the picture.
#[derive(Clone, Debug)]
pub struct Line {
    /// What the line is of.
    pub name: String,
    /// What happened there.
    pub bars: Vec<Bar>,
    /// What stands behind the line.
    pub note: String,
}

/// Something that took time.
#[derive(Clone, Debug)]
pub struct Bar {
    /// First cycle.
    pub start: u64,
    /// Cycle behind the last.
    pub end: u64,
    /// What it was.
    pub name: String,
    /// Colour, as SVG writes it.
    pub fill: &'static str,
    /// Whether the name is written in the bar where it fits; else it is in the legend, and neighbours
    /// of one name are one bar.
    pub labelled: bool,
}

/// Colour of what belongs to no group.
pub const GREY: &str = "#c4c8cc";

/// The colour of a group: dark text is readable on it, and neighbours are far apart.
pub fn group_fill(group: usize) -> &'static str {
    const FILLS: [&str; 6] = ["#8ecae6", "#ffb703", "#95d5b2", "#f4acb7", "#cdb4db", "#e9c46a"];
    FILLS[group % FILLS.len()]
}

const WIDTH: f64 = 1200.0;
/// Space at the edges.
const MARGIN: f64 = 16.0;
/// Width of a letter.
const LETTER: f64 = 6.6;
/// Height of a line, and of the bars in it.
const LINE: f64 = 28.0;
const BAR: f64 = 22.0;
/// Bars of one name that are nearer than this become one.
const NEAR: f64 = 0.4;
const PALE: &str = "fill=\"#6b7280\"";

/// Where things are on the page.
struct Page<'p> {
    picture: &'p Picture,
    /// Bottom of title, subtitle and legend.
    head: f64,
    left: f64,
    right: f64,
    height: f64,
}

impl Picture {
    /// The picture as SVG.
    pub fn to_svg(&self) -> String {
        let page = Page::of(self);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {0}\" \
             font-family=\"ui-sans-serif, system-ui, sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
            page.height
        );
        text(&mut svg, [MARGIN, 26.0], "font-size=\"17\" font-weight=\"600\"", &self.title);
        text(&mut svg, [MARGIN, 46.0], PALE, &self.subtitle);
        page.legend(&mut svg);
        page.ticks(&mut svg);
        for (i, line) in self.lines.iter().enumerate() {
            page.line(&mut svg, line, page.head + i as f64 * LINE);
        }
        svg + "</svg>\n"
    }

    /// Names and colours of bars that do not bear their names.
    fn legend(&self) -> Vec<(&str, &'static str)> {
        let bars = self.lines.iter().flat_map(|line| &line.bars).filter(|bar| !bar.labelled);
        let mut names: Vec<(&str, &str)> = bars.map(|bar| (bar.name.as_str(), bar.fill)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

impl<'p> Page<'p> {
    fn of(picture: &'p Picture) -> Self {
        let widest = |of: fn(&Line) -> &str| {
            picture.lines.iter().map(|line| width(of(line))).fold(0.0, f64::max)
        };
        let subtitle = if picture.subtitle.is_empty() { 0.0 } else { 20.0 };
        let legend = if picture.legend().is_empty() { 0.0 } else { 28.0 };
        let head = 44.0 + subtitle + legend;
        Page {
            picture,
            head,
            left: MARGIN + widest(|line| &line.name) + 10.0,
            right: WIDTH - MARGIN - widest(|line| &line.note) - 8.0,
            height: head + picture.lines.len() as f64 * LINE + 36.0,
        }
    }

    fn x(&self, cycle: u64) -> f64 {
        self.left + (self.right - self.left) * cycle as f64 / self.picture.end.max(1) as f64
    }

    fn legend(&self, svg: &mut String) {
        let (mut x, y) = (MARGIN, self.head - 30.0);
        for (name, fill) in self.picture.legend() {
            rect(svg, [x, y, 14.0, 14.0], fill, None);
            text(svg, [x + 20.0, y + 12.0], "", name);
            x += 44.0 + width(name);
        }
    }

    /// A line per round number of cycles, 5 to 10 of them.
    fn ticks(&self, svg: &mut String) {
        let (end, bottom) = (self.picture.end, self.height - 30.0);
        for cycle in (0..=end).step_by(round_step(end) as usize) {
            let x = self.x(cycle);
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom:.1}\" stroke=\"#e5e7eb\"/>",
                self.head
            );
            let style = format!("text-anchor=\"middle\" {PALE}");
            text(svg, [x, self.height - 12.0], &style, &cycle.to_string());
        }
        let style = format!("text-anchor=\"end\" {PALE}");
        text(svg, [WIDTH - MARGIN, 26.0], &style, &format!("{end} cycles"));
    }

    fn line(&self, svg: &mut String, line: &Line, top: f64) {
        let base = top + LINE / 2.0 + 4.0;
        text(svg, [self.left - 10.0, base], "text-anchor=\"end\"", &line.name);
        rect(svg, [self.left, top + 3.0, self.right - self.left, BAR], "#f3f4f6", None);
        for bar in merged(&line.bars, |cycle| self.x(cycle)) {
            self.bar(svg, &bar, top);
        }
        text(svg, [self.right + 8.0, base], "fill=\"#374151\"", &line.note);
    }

    fn bar(&self, svg: &mut String, bar: &Bar, top: f64) {
        let Bar { start, end, name, fill, labelled } = bar;
        let (from, span) = (self.x(*start), (self.x(*end) - self.x(*start)).max(0.2));
        let tip = format!("{name}, cycles {start} to {end}");
        rect(svg, [from, top + 3.0, span, BAR], fill, Some(&tip));
        if *labelled && width(name) < span {
            let middle = [from + span / 2.0, top + LINE / 2.0 + 4.0];
            text(svg, middle, "text-anchor=\"middle\"", name);
        }
    }
}

/// Bars in order, those of one name that touch on the page made one.
fn merged(bars: &[Bar], x: impl Fn(u64) -> f64) -> Vec<Bar> {
    let mut sorted = bars.to_vec();
    sorted.sort_by_key(|bar| (bar.start, bar.end));
    let mut drawn: Vec<Bar> = Vec::new();
    for bar in sorted {
        match drawn.last_mut() {
            Some(last)
                if !bar.labelled && last.name == bar.name && x(bar.start) - x(last.end) < NEAR =>
            {
                last.end = bar.end.max(last.end);
            }
            _ => drawn.push(bar),
        }
    }
    drawn
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
    if !text.is_empty() {
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escaped(text));
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, start: u64, end: u64, labelled: bool) -> Bar {
        Bar { start, end, name: name.into(), fill: GREY, labelled }
    }

    fn picture(bars: Vec<Bar>, end: u64) -> String {
        let line = Line { name: "warp 0".into(), bars, note: "40 %".into() };
        Picture { title: "a < b".into(), subtitle: String::new(), lines: vec![line], end }.to_svg()
    }

    #[test]
    fn every_line_and_name_is_drawn_and_the_text_is_escaped() {
        let svg = picture(vec![bar("run", 0, 400, false), bar("wait", 400, 1000, false)], 1000);
        assert!(svg.contains("a &lt; b") && svg.contains(">warp 0<") && svg.contains(">40 %<"));
        assert!(svg.contains("<title>wait, cycles 400 to 1000</title>") && svg.contains(">wait<"));
    }

    #[test]
    fn labels_are_where_there_is_room() {
        let svg = picture(vec![bar("wide", 0, 480, true), bar("narrow", 480, 481, true)], 481);
        assert!(svg.contains(">wide<") && !svg.contains(">narrow<"));
    }

    #[test]
    fn neighbours_of_one_name_are_one_bar() {
        let bars =
            [bar("run", 0, 10, false), bar("run", 10, 20, false), bar("wait", 20, 30, false)];
        let drawn = merged(&bars, |cycle| cycle as f64);
        let spans: Vec<_> = drawn.iter().map(|bar| (bar.start, bar.end)).collect();
        assert_eq!(spans, [(0, 20), (20, 30)]);
    }

    #[test]
    fn ticks_are_round() {
        for (end, step) in [(9, 1), (100, 10), (1000, 100), (1500, 200), (48_000, 5000)] {
            assert_eq!(round_step(end), step, "{end}");
        }
    }
}

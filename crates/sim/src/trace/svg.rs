//! Timelines as SVG: a line per warp or engine, a bar per thing that took time.

use std::fmt::Write;

/// A line of the picture.
#[derive(Clone, Debug)]
pub struct Line {
    /// What the line is of.
    pub name: String,
    /// What happened there.
    pub bars: Vec<Bar>,
}

/// Something that took time.
#[derive(Clone, Debug)]
pub struct Bar {
    /// First cycle.
    pub start: u64,
    /// Cycle behind the last.
    pub end: u64,
    /// What it was; shown where it fits.
    pub label: String,
    /// Bars that belong together have the same number; `None` is grey.
    pub group: Option<usize>,
}

const WIDTH: f64 = 1160.0;
const NAMES: f64 = 190.0;
const LINE: f64 = 30.0;
const HEAD: f64 = 34.0;
/// Width of a letter at the size of labels.
const LETTER: f64 = 6.0;
const GREY: &str = "#c4c8cc";
/// Fills that dark text is readable on, neighbours far apart.
const FILLS: [&str; 6] = ["#8ecae6", "#ffb703", "#95d5b2", "#f4acb7", "#cdb4db", "#e9c46a"];

/// Draws `lines` from cycle 0 to the end of the last bar.
pub fn svg(title: &str, lines: &[Line]) -> String {
    let bars = lines.iter().flat_map(|line| &line.bars);
    let end = bars.map(|bar| bar.end).max().unwrap_or(1).max(1);
    let x = |cycle: u64| NAMES + (WIDTH - NAMES - 10.0) * cycle as f64 / end as f64;
    let height = HEAD + LINE * lines.len() as f64 + 26.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\">{}</text>\n",
        escape(title)
    );
    for (number, line) in lines.iter().enumerate() {
        let y = HEAD + LINE * number as f64;
        draw_line(&mut text, line, y, &x);
    }
    let y = height - 8.0;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "<text x=\"{NAMES}\" y=\"{y}\">0</text>");
    let right = WIDTH - 10.0;
    let _ = writeln!(text, "<text x=\"{right}\" y=\"{y}\" text-anchor=\"end\">{end} cycles</text>");
    text + "</svg>\n"
}

fn draw_line(text: &mut String, line: &Line, y: f64, x: &impl Fn(u64) -> f64) {
    let (base, name) = (y + 17.0, escape(&line.name));
    let _ = writeln!(
        text,
        "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{name}</text>",
        NAMES - 8.0
    );
    for bar in &line.bars {
        let (left, width) = (x(bar.start), x(bar.end) - x(bar.start));
        let fill = bar.group.map_or(GREY, |group| FILLS[group % FILLS.len()]);
        let label = escape(&bar.label);
        let _ = writeln!(
            text,
            "<rect x=\"{left:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"{}\" fill=\"{fill}\" \
             stroke=\"white\" stroke-width=\"0.5\"><title>{label} {}–{}</title></rect>",
            y + 2.0,
            LINE - 6.0,
            bar.start,
            bar.end
        );
        if bar.label.chars().count() as f64 * LETTER < width {
            let middle = left + width / 2.0;
            let _ = writeln!(
                text,
                "<text x=\"{middle:.1}\" y=\"{base}\" text-anchor=\"middle\">{label}</text>"
            );
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_drawn_to_scale_and_labelled_where_there_is_room() {
        let bar = |start, end, label: &str| Bar { start, end, label: label.into(), group: None };
        let bars = vec![bar(0, 480, "wide"), bar(480, 481, "narrow")];
        let picture = svg("a < b", &[Line { name: "warp 0".into(), bars }]);
        assert!(picture.contains("a &lt; b") && picture.contains(">481 cycles<"));
        assert!(picture.contains("x=\"190.0\" y=\"36\" width=\"958.0\""), "{picture}");
        assert_eq!(picture.matches(">wide<").count(), 1);
        assert_eq!(picture.matches(">narrow<").count(), 0);
    }
}

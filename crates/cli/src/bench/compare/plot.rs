//! Predicted over measured time as a picture.

use super::Pair;
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 60.0;
/// Ratios shown, on a logarithmic axis.
const RATIOS: [f64; 7] = [0.6, 0.7, 0.8, 1.0, 1.2, 1.4, 1.6];
const SUITES: [(&str, &str); 4] =
    [("dense", "#0072b2"), ("mqa", "#d55e00"), ("decode", "#009e73"), ("dsv4", "#cc79a7")];

/// The picture: measured time to the right, predicted over measured up; circles are rows that were fitted.
pub fn svg(pairs: &[Pair]) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">Predicted over measured time on an H200</text>\n\
         <text x=\"{LEFT}\" y=\"42\" fill=\"#555\">filled: rows that no constant was fitted to; rings: fitted; \
         grey band: ±10 %</text>\n"
    );
    let (top, bottom) = (y(1.1), y(0.9));
    let width = WIDTH - LEFT - RIGHT;
    line(
        &mut text,
        &format!(
            "<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{width}\" height=\"{:.1}\" fill=\"#eee\"/>",
            bottom - top
        ),
    );
    for ratio in RATIOS {
        let at = y(ratio);
        line(
            &mut text,
            &format!(
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ccc\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{ratio}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0
            ),
        );
    }
    for microseconds in [1.0, 10.0, 100.0, 1000.0, 10000.0] {
        let (at, low) = (x(microseconds), HEIGHT - BOTTOM);
        line(
            &mut text,
            &format!(
                "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{low}\" stroke=\"#ccc\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{microseconds} µs</text>",
                low + 18.0
            ),
        );
    }
    for (i, (suite, colour)) in SUITES.iter().enumerate() {
        let at = LEFT + 90.0 * i as f64;
        let low = HEIGHT - 18.0;
        line(
            &mut text,
            &format!(
                "<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"/><text x=\"{:.1}\" y=\"{low}\">{suite}</text>",
                low - 4.0,
                at + 10.0
            ),
        );
    }
    pairs.iter().for_each(|pair| line(&mut text, &point(pair)));
    text + "</svg>\n"
}

fn line(text: &mut String, content: &str) {
    let _infallible = writeln!(text, "{content}");
}

fn x(microseconds: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * microseconds.max(1.0).log10() / 4.0
}

fn y(ratio: f64) -> f64 {
    let (low, high) = (RATIOS[0].ln(), RATIOS[RATIOS.len() - 1].ln());
    let up = (ratio.ln().clamp(low, high) - low) / (high - low);
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up
}

fn point(pair: &Pair) -> String {
    let colour = SUITES.iter().find(|(suite, _)| *suite == pair.suite).map_or("#000", |s| s.1);
    let fill = if pair.fitted { "none" } else { colour };
    let (cx, cy) = (x(pair.measured_us), y(1.0 + pair.error()));
    format!(
        "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4\" fill=\"{fill}\" stroke=\"{colour}\"><title>{} {}: \
         {:.1} µs measured, {:.1} µs predicted</title></circle>",
        pair.suite, pair.name, pair.measured_us, pair.predicted_us
    )
}

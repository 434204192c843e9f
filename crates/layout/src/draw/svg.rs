//! SVG: one file without scripts or external fonts, for slides and papers.

use std::fmt::Write;

use super::colour::Colour;
use super::grid::Grid;
use super::scene::{Anchor, Item, Scene};

/// The grid as an SVG document.
pub fn svg(grid: &Grid) -> String {
    let scene = Scene::of(grid);
    let (width, height) = (scene.width.ceil(), scene.height.ceil());
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n",
        escaped(&grid.title),
        Colour::PAPER.hex(),
    );
    for item in &scene.items {
        write_item(&mut out, item);
    }
    out.push_str("</svg>\n");
    out
}

fn write_item(out: &mut String, item: &Item) {
    // Writing to a string cannot fail.
    let _ = match item {
        Item::Rect { x, y, width, height, fill } => writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\" fill=\"{}\"/>",
            fill.hex()
        ),
        Item::Text { x, y, size, anchor, fill, bold, text } => writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{}\" \
             dominant-baseline=\"central\"{} fill=\"{}\">{}</text>",
            match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            },
            if *bold { " font-weight=\"600\"" } else { "" },
            fill.hex(),
            escaped(text)
        ),
    };
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

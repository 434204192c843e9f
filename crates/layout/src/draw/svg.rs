//! SVG: one file without scripts or external fonts, for slides and papers.

use super::colour::Colour;
use super::grid::Grid;
use super::scene::{Anchor, Item, Scene};

/// What most texts of a picture have in common is said once, on the root.
const COMMON_SIZE: f64 = 12.0;

/// The grid as an SVG document.
pub fn svg(grid: &Grid) -> String {
    let scene = Scene::of(grid);
    let (width, height) = (scene.width.ceil(), scene.height.ceil());
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-size=\"{COMMON_SIZE}\" text-anchor=\"middle\" \
         dominant-baseline=\"central\" fill=\"{}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\">\n\
         <title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n",
        Colour::INK.hex(),
        escaped(&grid.title),
        Colour::PAPER.hex(),
    );
    for item in &scene.items {
        match item {
            Item::Rect { x, y, width, height, fill } => {
                let (size, fill) =
                    (format!("width=\"{width:.1}\" height=\"{height:.1}\""), fill.hex());
                out.push_str(&format!(
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" {size} rx=\"3\" fill=\"{fill}\"/>\n"
                ));
            }
            Item::Text { x, y, text, .. } => {
                let (style, text) = (style(item), escaped(text));
                out.push_str(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\"{style}>{text}</text>\n"));
            }
        }
    }
    out.push_str("</svg>\n");
    out
}

/// The attributes of a text that differ from the common ones.
fn style(item: &Item) -> String {
    let Item::Text { size, anchor, fill, bold, .. } = item else { return String::new() };
    let mut style = String::new();
    if *size != COMMON_SIZE {
        style.push_str(&format!(" font-size=\"{size}\""));
    }
    match anchor {
        Anchor::Start => style.push_str(" text-anchor=\"start\""),
        Anchor::Middle => {}
        Anchor::End => style.push_str(" text-anchor=\"end\""),
    }
    if *fill != Colour::INK {
        style.push_str(&format!(" fill=\"{}\"", fill.hex()));
    }
    if *bold {
        style.push_str(" font-weight=\"600\"");
    }
    style
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

//! Drawing a scene into pixels, with smooth edges.

use super::colour::Colour;
use super::glyphs::{CAP_HEIGHT, CAP_MIDDLE, WIDTH, segments};
use super::scene::{ADVANCE, Anchor, Item, Scene};

/// Height of a capital, as a part of the font size.
const CAP: f64 = 0.66;

/// An RGB image.
pub(super) struct Canvas {
    pub width: usize,
    pub height: usize,
    pub pixels: Vec<u8>,
}

impl Canvas {
    pub fn draw(scene: &Scene, scale: f64) -> Canvas {
        let (width, height) =
            ((scene.width * scale).ceil() as usize, (scene.height * scale).ceil() as usize);
        let pixels = Colour::PAPER.rgb.repeat(width * height);
        let mut canvas = Canvas { width, height, pixels };
        for item in &scene.items {
            canvas.item(item, scale);
        }
        canvas
    }

    fn item(&mut self, item: &Item, scale: f64) {
        match item {
            Item::Rect { x, y, width, height, fill } => {
                self.rect(x * scale, y * scale, (x + width) * scale, (y + height) * scale, *fill);
            }
            Item::Text { x, y, size, anchor, fill, bold, text } => {
                let size = size * scale;
                let width = text.chars().count() as f64 * size * ADVANCE;
                let left = x * scale
                    - match anchor {
                        Anchor::Start => 0.0,
                        Anchor::Middle => width / 2.0,
                        Anchor::End => width,
                    };
                let radius = size * if *bold { 0.062 } else { 0.042 };
                for (i, character) in text.chars().enumerate() {
                    self.glyph(
                        character,
                        left + i as f64 * size * ADVANCE,
                        y * scale,
                        size,
                        radius,
                        *fill,
                    );
                }
            }
        }
    }

    fn rect(&mut self, left: f64, top: f64, right: f64, bottom: f64, fill: Colour) {
        let (left, right) = (left.round() as usize, (right.round() as usize).min(self.width));
        for y in top.round() as usize..(bottom.round() as usize).min(self.height) {
            for x in left..right {
                self.pixels[3 * (y * self.width + x)..][..3].copy_from_slice(&fill.rgb);
            }
        }
    }

    /// Draws one character in the cell that starts at `left`, its middle at `middle`.
    fn glyph(
        &mut self,
        character: char,
        left: f64,
        middle: f64,
        size: f64,
        radius: f64,
        fill: Colour,
    ) {
        let unit = size * CAP / CAP_HEIGHT;
        let left = left + (size * ADVANCE - WIDTH * unit) / 2.0;
        for segment in segments(character) {
            let [from, to] =
                segment.map(|(x, y)| (left + x * unit, middle + (y - CAP_MIDDLE) * unit));
            self.stroke(from, to, radius, fill);
        }
    }

    /// A round-ended line: each pixel is covered by how far its centre lies inside the stroke.
    fn stroke(&mut self, from: (f64, f64), to: (f64, f64), radius: f64, fill: Colour) {
        let reach = radius + 1.0;
        let range = |a: f64, b: f64, limit: usize| {
            let low = (a.min(b) - reach).floor().max(0.0) as usize;
            let high = ((a.max(b) + reach).ceil().max(0.0) as usize).min(limit);
            low..high
        };
        for y in range(from.1, to.1, self.height) {
            for x in range(from.0, to.0, self.width) {
                let distance = distance_to_segment((x as f64 + 0.5, y as f64 + 0.5), from, to);
                let coverage = (radius + 0.5 - distance).clamp(0.0, 1.0);
                if coverage > 0.0 {
                    self.blend(x, y, fill, coverage);
                }
            }
        }
    }

    fn blend(&mut self, x: usize, y: usize, fill: Colour, coverage: f64) {
        let pixel = &mut self.pixels[3 * (y * self.width + x)..][..3];
        for (channel, ink) in pixel.iter_mut().zip(fill.rgb) {
            let mixed = f64::from(*channel) * (1.0 - coverage) + f64::from(ink) * coverage;
            *channel = mixed.round() as u8;
        }
    }
}

fn distance_to_segment(point: (f64, f64), from: (f64, f64), to: (f64, f64)) -> f64 {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx * dx + dy * dy;
    let along = ((point.0 - from.0) * dx + (point.1 - from.1) * dy) / length.max(f64::MIN_POSITIVE);
    let along = along.clamp(0.0, 1.0);
    (point.0 - from.0 - along * dx).hypot(point.1 - from.1 - along * dy)
}

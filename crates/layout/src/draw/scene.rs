//! Laying a grid out on a page: the rectangles and texts that SVG and PNG both draw.

use super::colour::Colour;
use super::grid::Grid;

/// Where a text's x coordinate is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Something to draw; coordinates in pixels from the top left.
pub(super) enum Item {
    Rect {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        fill: Colour,
    },
    /// A text whose vertical middle is at `y`.
    Text {
        x: f64,
        y: f64,
        size: f64,
        anchor: Anchor,
        fill: Colour,
        bold: bool,
        text: String,
    },
}

/// A page.
pub(super) struct Scene {
    pub width: f64,
    pub height: f64,
    pub items: Vec<Item>,
}

/// Width of a monospaced character, as a part of the font size.
pub(super) const ADVANCE: f64 = 0.6;

const MARGIN: f64 = 24.0;
const TITLE: f64 = 18.0;
const NOTE: f64 = 13.0;
const NAME: f64 = 11.0;
const LABEL: f64 = 12.0;
const ROW_HEIGHT: f64 = 26.0;
const GAP: f64 = 1.5;

impl Scene {
    pub fn of(grid: &Grid) -> Scene {
        let mut items = Vec::new();
        let mut y = MARGIN;
        let mut widest = text_items(&mut items, &mut y, &grid.title, TITLE, Colour::INK, true);
        for note in &grid.notes {
            widest = widest.max(text_items(&mut items, &mut y, note, NOTE, Colour::GREY, false));
        }
        y += 10.0;
        let left = MARGIN + names_width(&grid.rows) + 8.0;
        let cell = cell_width(grid);
        column_names(&mut items, grid, left, cell, y);
        y += NAME + 8.0;
        cells(&mut items, grid, left, cell, y);
        let bottom = y + ROW_HEIGHT * grid.rows.len() as f64;
        let right = left + cell * grid.columns.len() as f64;
        Scene { width: right.max(MARGIN + widest) + MARGIN, height: bottom + MARGIN, items }
    }
}

/// Adds a line of text and moves `y` below it; returns the text's width.
fn text_items(
    items: &mut Vec<Item>,
    y: &mut f64,
    text: &str,
    size: f64,
    fill: Colour,
    bold: bool,
) -> f64 {
    let middle = *y + size / 2.0;
    *y += size * 1.5;
    items.push(Item::Text {
        x: MARGIN,
        y: middle,
        size,
        anchor: Anchor::Start,
        fill,
        bold,
        text: text.to_owned(),
    });
    text.chars().count() as f64 * size * ADVANCE
}

fn names_width(names: &[String]) -> f64 {
    names.iter().map(|name| name.len()).max().unwrap_or(0) as f64 * NAME * ADVANCE
}

fn cell_width(grid: &Grid) -> f64 {
    let labels = grid.cells.iter().flatten().map(|cell| cell.label.len());
    let widest = labels.max().unwrap_or(0) as f64 * LABEL * ADVANCE;
    (widest + 12.0).max(names_width(&grid.columns) + 6.0).max(ROW_HEIGHT)
}

fn column_names(items: &mut Vec<Item>, grid: &Grid, left: f64, cell: f64, y: f64) {
    for (column, name) in grid.columns.iter().enumerate() {
        let x = left + (column as f64 + 0.5) * cell;
        let (anchor, fill) = (Anchor::Middle, Colour::GREY);
        items.push(Item::Text {
            x,
            y: y + NAME / 2.0,
            size: NAME,
            anchor,
            fill,
            bold: false,
            text: name.clone(),
        });
    }
}

fn cells(items: &mut Vec<Item>, grid: &Grid, left: f64, width: f64, top: f64) {
    for (row, (name, line)) in grid.rows.iter().zip(&grid.cells).enumerate() {
        let y = top + row as f64 * ROW_HEIGHT;
        let middle = y + ROW_HEIGHT / 2.0;
        let (anchor, fill) = (Anchor::End, Colour::GREY);
        items.push(Item::Text {
            x: left - 8.0,
            y: middle,
            size: NAME,
            anchor,
            fill,
            bold: false,
            text: name.clone(),
        });
        for (column, cell) in line.iter().enumerate() {
            let x = left + column as f64 * width;
            items.push(Item::Rect {
                x,
                y,
                width: width - GAP,
                height: ROW_HEIGHT - GAP,
                fill: cell.colour,
            });
            let (x, anchor, fill) = (x + (width - GAP) / 2.0, Anchor::Middle, Colour::INK);
            let y = middle - GAP / 2.0;
            if !cell.label.is_empty() {
                items.push(Item::Text {
                    x,
                    y,
                    size: LABEL,
                    anchor,
                    fill,
                    bold: false,
                    text: cell.label.clone(),
                });
            }
        }
    }
}

//! The results as a picture: a cell per measurement, coloured by its share of the floor.

use super::Measured;
use layout::draw::{Cell, Colour, Grid, png, svg};
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Writes the chart; the file's extension says whether as SVG or PNG.
pub fn write(path: &Path, title: &str, notes: Vec<String>, rows: &[Measured]) -> Result<()> {
    let grid = grid(title, notes, rows);
    let bytes = match path.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => svg(&grid).into_bytes(),
        Some("png") => png(&grid)?,
        _ => return Err(format!("{}: .svg or .png is drawn", path.display()).into()),
    };
    Ok(files::write(path, bytes)?)
}

fn grid(title: &str, notes: Vec<String>, rows: &[Measured]) -> Grid {
    let lines = distinct(rows.iter().map(|row| &row.line));
    let columns = distinct(rows.iter().map(|row| &row.column));
    let cell = |line: &String, column: &String| {
        rows.iter()
            .find(|row| row.line == *line && row.column == *column)
            .map_or(Cell { label: String::new(), colour: Colour::EMPTY }, measured)
    };
    let cells = lines.iter().map(|line| columns.iter().map(|c| cell(line, c)).collect()).collect();
    Grid { title: title.to_string(), notes, rows: lines, columns, cells }
}

fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for name in names {
        if !list.contains(name) {
            list.push(name.clone());
        }
    }
    list
}

fn measured(row: &Measured) -> Cell {
    let label = match (row.microseconds, row.tflops) {
        (Some(_), Some(rate)) if rate >= 100.0 => format!("{rate:.0} TF"),
        (Some(time), _) => format!("{time:.1} us"),
        (None, _) => "-".to_string(),
    };
    Cell { label, colour: row.percent.map_or(Colour::EMPTY, heat) }
}

/// From pale red at nothing to green at the floor.
fn heat(percent: f64) -> Colour {
    let share = (percent / 100.0).clamp(0.0, 1.0);
    let mix = |from: f64, to: f64| (from + (to - from) * share).round() as u8;
    Colour { rgb: [mix(252.0, 134.0), mix(205.0, 226.0), mix(190.0, 160.0)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measurement_has_its_cell() {
        let row = |line: &str, column: &str, time| Measured {
            line: line.into(),
            column: column.into(),
            microseconds: time,
            tflops: time.map(|_| 500.0),
            ..Measured::default()
        };
        let rows = [row("a", "x", Some(1.0)), row("b", "y", None)];
        let grid = grid("t", vec![], &rows);
        assert_eq!((grid.rows.len(), grid.columns.len()), (2, 2));
        assert_eq!(grid.cells[0][0].label, "500 TF");
        assert_eq!(grid.cells[0][1].label, "");
        assert_eq!(grid.cells[1][1].label, "-");
        assert!(svg(&grid).contains("500 TF"));
    }
}

//! Tables for the terminal, coloured with 24-bit escapes.

use std::fmt::Write;

use super::grid::{Cell, Grid};

const RESET: &str = "\x1b[0m";

/// The grid as lines of text; `colour` adds ANSI escapes.
pub fn terminal(grid: &Grid, colour: bool) -> String {
    let mut out = String::new();
    let bold = if colour { "\x1b[1m" } else { "" };
    let reset = if colour { RESET } else { "" };
    out.push_str(&format!("{bold}{}{reset}\n", grid.title));
    for note in &grid.notes {
        out.push_str(&format!("  {note}\n"));
    }
    let cell_width = grid.cells.iter().flatten().map(|cell| cell.label.len());
    let cell_width = cell_width.chain(grid.columns.iter().map(String::len)).max().unwrap_or(1) + 2;
    let name_width = grid.rows.iter().map(String::len).max().unwrap_or(0);
    write_names(&mut out, grid, name_width, cell_width);
    for (name, row) in grid.rows.iter().zip(&grid.cells) {
        out.push_str(&format!("{name:>name_width$} "));
        for cell in row {
            write_cell(&mut out, cell, cell_width, colour);
        }
        out.push('\n');
    }
    out
}

fn write_names(out: &mut String, grid: &Grid, name_width: usize, cell_width: usize) {
    out.push_str(&" ".repeat(name_width + 1));
    for column in &grid.columns {
        let _ = write!(out, "{column:^cell_width$}");
    }
    let end = out.trim_end().len();
    out.truncate(end);
    out.push('\n');
}

fn write_cell(out: &mut String, cell: &Cell, width: usize, colour: bool) {
    if colour {
        let [r, g, b] = cell.colour.rgb;
        let _ =
            write!(out, "\x1b[48;2;{r};{g};{b}m\x1b[38;2;31;41;55m{:^width$}{RESET}", cell.label);
    } else {
        let _ = write!(out, "{:^width$}", cell.label);
    }
}

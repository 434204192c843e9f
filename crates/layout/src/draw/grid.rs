//! [`Grid`]: what a picture shows, before it is decided how.

use std::ops::Range;

use super::colour::Colour;
use crate::composed::ComposedLayout;
use crate::error::{LayoutError, Result};
use crate::int_tuple::Shape;
use crate::layout::Layout;
use crate::transform::{Arrangement, BANKS, BankLoad, Transform, WarpAccess, bank_of};
use crate::tv::TvLayout;

/// The most cells a picture may have.
const MAX_CELLS: u64 = 1 << 16;

/// One labelled, coloured square.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// What the cell says; empty cells say nothing.
    pub label: String,
    /// Its ground.
    pub colour: Colour,
}

/// A table of cells with names for rows and columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// What is shown.
    pub title: String,
    /// Facts below the title.
    pub notes: Vec<String>,
    /// Names of rows, top to bottom.
    pub rows: Vec<String>,
    /// Names of columns, left to right.
    pub columns: Vec<String>,
    /// Cells by row and column.
    pub cells: Vec<Vec<Cell>>,
}

impl Grid {
    /// A memory layout: each cell shows the index of its coordinate. Rows are the first mode,
    /// columns all others; colours repeat with the index modulo `ring`, so equal colours in a
    /// column are equal positions in a line of memory.
    pub fn of_layout(layout: &ComposedLayout, ring: u64) -> Result<Grid> {
        let ring = ring.max(1);
        let indices: Vec<u64> = indices_of(layout)?;
        let (rows, columns) = extents(layout.shape())?;
        let groups = ring.min(32);
        let mut grid = Grid::new(layout.to_string(), rows, columns, |row, column| {
            let index = indices[(row + column * rows) as usize];
            let position = index % ring * groups / ring;
            Cell { label: index.to_string(), colour: Colour::of_ring(position, groups) }
        });
        let kind = if layout.is_injective() { "injective" } else { "not injective" };
        grid.notes.push(format!("size {}, cosize {}, {kind}", layout.size(), layout.cosize()));
        Ok(grid)
    }

    /// A memory layout coloured by the shared-memory bank of each element.
    pub fn of_banks(layout: &ComposedLayout, element_bits: u64) -> Result<Grid> {
        let indices = indices_of(layout)?;
        let (rows, columns) = extents(layout.shape())?;
        let mut grid = Grid::new(layout.to_string(), rows, columns, |row, column| {
            let byte = indices[(row + column * rows) as usize].saturating_mul(element_bits) / 8;
            let bank = bank_of(byte);
            Cell { label: format!("b{bank}"), colour: Colour::of_ring(bank, BANKS) }
        });
        grid.notes.push(format!("shared-memory bank of each {element_bits}-bit element"));
        Ok(grid)
    }

    /// A thread-value layout: each cell shows `thread:value`, coloured by thread.
    pub fn of_tv(tv: &TvLayout) -> Result<Grid> {
        let (rows, columns) = extents(tv.tile())?;
        let mut owners = vec![None; (rows * columns) as usize];
        let threads = tv.threads();
        for (i, element) in tv.layout().indices().enumerate() {
            let owner = (i as u64 % threads, i as u64 / threads);
            owners[element as usize].get_or_insert(owner);
        }
        let mut grid = Grid::new(tv.to_string(), rows, columns, |row, column| {
            match owners[(row + column * rows) as usize] {
                Some((thread, value)) => {
                    let colour = Colour::of_thread(thread);
                    Cell { label: format!("T{thread}:{value}"), colour }
                }
                None => Cell { label: String::new(), colour: Colour::EMPTY },
            }
        });
        let whole = if tv.is_partition() { "each element held once" } else { "not a partition" };
        grid.notes.push(format!("{threads} threads x {} values, {whole}", tv.values()));
        Ok(grid)
    }

    /// A matrix in tensor memory, as [`crate::hw::DataPath::layout`] gives it: each cell shows
    /// `lane,column`, coloured by the quarter of the lanes, which is the warp that can read it.
    pub fn of_tmem(layout: &Layout) -> Result<Grid> {
        let (rows, columns) = extents(layout.shape())?;
        let places: Vec<u64> = layout.indices().collect();
        let mut grid = Grid::new(layout.to_string(), rows, columns, |row, column| {
            let place = places[(row + column * rows) as usize];
            let (cta, lane) = (place >> 32, place >> 16 & 0xffff);
            let prefix = if cta == 0 { String::new() } else { format!("cta{cta} ") };
            let colour = Colour::of_ring(2 * (lane / 32 + 4 * cta) + lane / 16 % 2, 16);
            Cell { label: format!("{prefix}{lane},{}", place & 0xffff), colour }
        });
        grid.notes
            .push("lane,column of each element; one hue per warp that can read it".to_owned());
        Ok(grid)
    }

    /// A transform: each cell of the source's tile shows where it goes, coloured by the thread
    /// that holds it, or by its bank when the source is memory.
    pub fn of_transform(transform: &Transform) -> Result<Grid> {
        let (rows, columns) = extents(transform.tile())?;
        let destination = indices_of(transform.to())?;
        let holders = holders(transform)?;
        let bits = transform.element_bits();
        let mut grid = Grid::new(transform.to_string(), rows, columns, |row, column| {
            let element = (row + column * rows) as usize;
            let byte = destination[element].saturating_mul(bits) / 8;
            let colour = match holders[element] {
                Some(thread) => Colour::of_thread(thread),
                None => Colour::of_ring(bank_of(byte), BANKS),
            };
            Cell { label: byte.to_string(), colour }
        });
        grid.notes = transform_notes(transform)?;
        Ok(grid)
    }

    /// The bank view of a transform's warp accesses: one row per access, one column per bank; a
    /// cell counts the words the bank must deliver, and names the first lane that asks.
    pub fn of_conflicts(transform: &Transform) -> Result<Grid> {
        let accesses = transform.warp_accesses()?;
        check_cells(accesses.len() as u64, BANKS)?;
        let phases = named_phases(&accesses);
        let title = format!("banks of {transform}");
        let mut grid = Grid::new(title, phases.len() as u64, BANKS, |row, bank| {
            let load = phases[row as usize].1[bank as usize];
            let label = match load.words {
                0 => String::new(),
                1 => format!("L{}", load.first_lane),
                words => format!("L{} x{words}", load.first_lane),
            };
            Cell { label, colour: Colour::of_conflict(load.words) }
        });
        grid.rows = phases.into_iter().map(|(name, _)| name).collect();
        grid.notes = transform_notes(transform)?;
        grid.notes.push(
            "row: one pass of a warp access; column: bank; xN: N words wait for one bank"
                .to_owned(),
        );
        Ok(grid)
    }

    /// The part of the grid within these rows and columns, with a note when something is left out.
    pub fn window(&self, rows: Range<usize>, columns: Range<usize>) -> Grid {
        let clip = |range: Range<usize>, len: usize| {
            range.start.min(len)..range.end.min(len).max(range.start.min(len))
        };
        let (rows, columns) = (clip(rows, self.rows.len()), clip(columns, self.columns.len()));
        let mut notes = self.notes.clone();
        if rows.len() < self.rows.len() || columns.len() < self.columns.len() {
            notes.push(format!(
                "showing {} of {} rows, {} of {} columns",
                rows.len(),
                self.rows.len(),
                columns.len(),
                self.columns.len()
            ));
        }
        Grid {
            title: self.title.clone(),
            notes,
            rows: self.rows[rows.clone()].to_vec(),
            columns: self.columns[columns.clone()].to_vec(),
            cells: self.cells[rows].iter().map(|row| row[columns.clone()].to_vec()).collect(),
        }
    }

    /// The same grid under another title; the old one becomes the first note.
    pub fn titled(mut self, title: impl Into<String>) -> Grid {
        let old = std::mem::replace(&mut self.title, title.into());
        self.notes.insert(0, old);
        self
    }

    fn new(title: String, rows: u64, columns: u64, cell: impl Fn(u64, u64) -> Cell) -> Grid {
        let names = |count: u64| (0..count).map(|i| i.to_string()).collect();
        let line = |row: u64| (0..columns).map(|column| cell(row, column)).collect();
        Grid {
            title,
            notes: Vec::new(),
            rows: names(rows),
            columns: names(columns),
            cells: (0..rows).map(line).collect(),
        }
    }
}

/// Rows are the first mode of the shape, columns everything else; a flat shape is one row.
fn extents(shape: &Shape) -> Result<(u64, u64)> {
    let size = shape.product()?;
    let rows = if shape.rank() <= 1 { 1 } else { shape.modes()[0].product()? };
    let columns = size / rows.max(1);
    check_cells(rows, columns)?;
    Ok((rows, columns))
}

fn check_cells(rows: u64, columns: u64) -> Result<()> {
    match rows.checked_mul(columns) {
        Some(cells) if cells <= MAX_CELLS => Ok(()),
        _ => Err(LayoutError::hardware(
            "a picture has at most 65536 cells",
            format!("{rows} x {columns} cells"),
        )),
    }
}

fn indices_of(layout: &ComposedLayout) -> Result<Vec<u64>> {
    check_cells(layout.size(), 1)?;
    Ok(layout.indices().collect())
}

/// The thread that holds each element of a transform's tile.
fn holders(transform: &Transform) -> Result<Vec<Option<u64>>> {
    let mut holders = vec![None; transform.tile().product()? as usize];
    if let Arrangement::Registers(tv) = transform.from() {
        for (i, element) in tv.layout().indices().enumerate() {
            holders[element as usize].get_or_insert(i as u64 % tv.threads());
        }
    }
    Ok(holders)
}

fn transform_notes(transform: &Transform) -> Result<Vec<String>> {
    let kind = if transform.is_bijection() { "a bijection" } else { "not a bijection" };
    let (any, in_order) = (transform.vector_bits(), transform.vector_bits_in_order());
    let order =
        if any == in_order { String::new() } else { format!(" ({in_order} in value order)") };
    let degree = transform.conflict_degree()?;
    let conflicts = if degree == 1 {
        "no bank conflicts".to_owned()
    } else {
        format!("{degree}-way bank conflicts")
    };
    Ok(vec![format!("{kind}; widest store {any} bits{order}; {conflicts}")])
}

/// The phases of all accesses, named `access` or `access.phase`.
fn named_phases(accesses: &[WarpAccess]) -> Vec<(String, Vec<BankLoad>)> {
    let mut named = Vec::new();
    for (number, access) in accesses.iter().enumerate() {
        let phases: Vec<Vec<BankLoad>> = access.phases().collect();
        let single = phases.len() == 1;
        for (part, banks) in phases.into_iter().enumerate() {
            let name = if single { number.to_string() } else { format!("{number}.{part}") };
            named.push((name, banks));
        }
    }
    named
}

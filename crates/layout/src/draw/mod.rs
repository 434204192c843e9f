//! Pictures of layouts: in the terminal, as SVG for talks and papers, and as PNG.
//!
//! A [`Grid`] is what to show: labelled, coloured cells with row and column names. The same grid
//! goes to [`terminal`], [`svg`] or [`png`].
//!
//! ```
//! use layout::draw::{Grid, svg, terminal};
//! use layout::hw::fragment::mma_c;
//! let grid = Grid::of_tv(&mma_c(32)?.tv)?;
//! assert!(terminal(&grid, false).contains("T0:0"));
//! assert!(svg(&grid).starts_with("<svg"));
//! # Ok::<(), layout::LayoutError>(())
//! ```

mod colour;
mod deflate;
mod glyphs;
mod grid;
mod png;
mod raster;
mod scene;
mod svg;
mod terminal;

pub use colour::Colour;
pub use grid::{Cell, Grid};
pub use png::png;
pub use svg::svg;
pub use terminal::terminal;

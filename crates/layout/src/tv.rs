//! [`TvLayout`]: which thread holds which elements of a tile, in which of its registers.

use std::fmt;

use crate::coord_layout::CoordLayout;
use crate::error::{LayoutError, Result};
use crate::int_tuple::{Coord, Shape};
use crate::layout::Layout;

/// A thread and the number of the value it holds.
pub type Owner = (u64, u64);

/// A layout `(thread, value) -> coordinate of a tile`.
///
/// `value` counts the elements a thread holds in register order, several to a register when
/// elements are narrower than 32 bits.
///
/// ```
/// use layout::{Layout, TvLayout};
/// // The accumulator of mma.sync m16n8: 32 threads, 4 values each.
/// let layout: Layout = "((4,8),(2,2)):((32,1),(16,8))".parse()?;
/// let fragment = TvLayout::new(layout, (16, 8))?;
/// assert_eq!(fragment.row_col(5, 3)?, (9, 3));
/// assert_eq!(fragment.owner((9, 3))?, Some((5, 3)));
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TvLayout {
    coords: CoordLayout,
}

impl TvLayout {
    /// Reads a rank-2 layout as `(thread, value)` to one-number coordinates of `tile`.
    pub fn new(layout: Layout, tile: impl Into<Shape>) -> Result<TvLayout> {
        if layout.rank() != 2 {
            return Err(LayoutError::Rank {
                operation: "TV layout",
                asked: 2,
                rank: layout.rank(),
            });
        }
        Ok(TvLayout { coords: CoordLayout::new(layout, tile)? })
    }

    /// The layout to one-number (column-major) coordinates of the tile.
    pub fn layout(&self) -> &Layout {
        self.coords.layout()
    }

    /// The tile that the threads share.
    pub fn tile(&self) -> &Shape {
        self.coords.tile()
    }

    /// The same map with tile coordinates as values.
    pub fn coords(&self) -> &CoordLayout {
        &self.coords
    }

    /// Number of threads.
    pub fn threads(&self) -> u64 {
        self.extent(0)
    }

    /// Number of values each thread holds.
    pub fn values(&self) -> u64 {
        self.extent(1)
    }

    fn extent(&self, mode: usize) -> u64 {
        self.layout().shape().modes()[mode].flatten().into_iter().product()
    }

    /// The tile coordinate of value `value` of thread `thread`.
    pub fn coord(&self, thread: u64, value: u64) -> Result<Coord> {
        self.coords.at((thread, value))
    }

    /// The row and column of a value, for a tile of rank 2.
    pub fn row_col(&self, thread: u64, value: u64) -> Result<(u64, u64)> {
        match self.tile().coord_by_mode(self.layout().at((thread, value))?)?.as_slice() {
            &[row, col] => Ok((row, col)),
            modes => {
                Err(LayoutError::Rank { operation: "row and column", asked: 2, rank: modes.len() })
            }
        }
    }

    /// All (thread, value) pairs that hold a tile coordinate, in order of threads.
    pub fn owners(&self, coord: impl Into<Coord>) -> Result<Vec<Owner>> {
        let wanted = self.tile().index_of(&coord.into())?;
        let threads = self.threads();
        let holders = self.layout().indices().enumerate().filter(|&(_, index)| index == wanted);
        let mut owners: Vec<_> =
            holders.map(|(i, _)| (i as u64 % threads, i as u64 / threads)).collect();
        owners.sort_unstable();
        Ok(owners)
    }

    /// The first thread that holds a coordinate, and its value number; none when nobody does.
    pub fn owner(&self, coord: impl Into<Coord>) -> Result<Option<Owner>> {
        Ok(self.owners(coord)?.first().copied())
    }

    /// Whether every element of the tile is held exactly once.
    pub fn is_partition(&self) -> bool {
        let tile: u64 = self.tile().flatten().into_iter().product();
        self.layout().size() == tile && self.layout().is_injective()
    }

    /// The tile coordinates that one thread holds, in value order.
    pub fn thread_coords(&self, thread: u64) -> Result<Vec<Coord>> {
        (0..self.values()).map(|value| self.coord(thread, value)).collect()
    }
}

impl fmt::Display for TvLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layout().fmt(f)
    }
}

impl fmt::Debug for TvLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}", self.layout(), self.tile())
    }
}

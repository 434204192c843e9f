//! Products: a layout repeated according to another layout.

use super::tiler::Tiler;
use crate::error::{Result, checked_mul};
use crate::layout::Layout;

impl Layout {
    /// `self` as a tile, repeated as `tiler` arranges it: `(tile, arrangement)`.
    ///
    /// Definition: `(self, complement(self, size(self) * cosize(tiler)) o tiler)`.
    ///
    /// ```
    /// use layout::Layout;
    /// let tile: Layout = "(2,2):(4,1)".parse()?;
    /// assert_eq!(tile.logical_product(&"6:1".parse()?)?.to_string(), "((2,2),(2,3)):((4,1),(2,8))");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn logical_product(&self, tiler: &Tiler) -> Result<Layout> {
        tiler.apply(self, &|tile, arrangement| {
            let bound = checked_mul("logical product", tile.size(), arrangement.cosize())?;
            let repeats = tile.complement(bound)?.compose(arrangement)?;
            Layout::from_modes([tile.clone(), repeats])
        })
    }

    /// The product as one tensor in which each tile stays a contiguous block.
    ///
    /// ```
    /// use layout::Layout;
    /// let tile: Layout = "(2,5):(5,1)".parse()?;
    /// let tiled = tile.blocked_product(&"(3,4):(1,3)".parse()?)?;
    /// assert_eq!(tiled.to_string(), "((2,3),(5,4)):((5,10),(1,30))");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn blocked_product(&self, arrangement: &Layout) -> Result<Layout> {
        let (tile, repeats) = self.product_modes(arrangement)?;
        zip_modes(tile, repeats)
    }

    /// The product as one tensor in which the tiles are interleaved element by element.
    pub fn raked_product(&self, arrangement: &Layout) -> Result<Layout> {
        let (tile, repeats) = self.product_modes(arrangement)?;
        zip_modes(repeats, tile)
    }

    /// Both halves of the logical product, with as many modes as the larger operand.
    fn product_modes(&self, arrangement: &Layout) -> Result<(Vec<Layout>, Vec<Layout>)> {
        let rank = self.rank().max(arrangement.rank());
        let tile = padded(self, rank)?;
        let product = tile.logical_product(&padded(arrangement, rank)?.into())?;
        Ok((product.mode(0)?.modes(), product.mode(1)?.modes()))
    }
}

fn padded(layout: &Layout, rank: usize) -> Result<Layout> {
    let mut modes = layout.modes();
    modes.resize(rank, Layout::unit());
    Layout::from_modes(modes)
}

fn zip_modes(first: Vec<Layout>, second: Vec<Layout>) -> Result<Layout> {
    let pairs: Result<Vec<Layout>> = first
        .into_iter()
        .zip(second)
        .map(|(first, second)| Layout::from_modes([first, second]))
        .collect();
    Layout::from_modes(pairs?)
}

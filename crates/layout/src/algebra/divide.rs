//! Division: a layout seen as tiles, and the arrangement of the tiles.

use super::tiler::Tiler;
use crate::composed::ComposedLayout;
use crate::error::Result;
use crate::layout::Layout;

impl Layout {
    /// Splits the domain into the part picked by `tiler` and the rest: `(tile, rest)`, for each
    /// mode that has a tiler.
    ///
    /// Definition: `self o (tiler, complement(tiler, size(self)))`.
    ///
    /// ```
    /// use layout::Layout;
    /// let layout: Layout = "(4,2,3):(2,1,8)".parse()?;
    /// assert_eq!(layout.logical_divide(&"4:2".parse()?)?.to_string(), "((2,2),(2,3)):((4,1),(2,8))");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn logical_divide(&self, tiler: &Tiler) -> Result<Layout> {
        tiler.apply(self, &|mode, tile| {
            tile.check_gaps("logical divide")?;
            let rest = tile.complement(mode.size())?;
            mode.compose(&Layout::from_modes([tile.clone(), rest])?)
        })
    }

    /// [`Layout::logical_divide`] with all tile modes first: `((tile, ...), (rest, ...))`.
    pub fn zipped_divide(&self, tiler: &Tiler) -> Result<Layout> {
        let (tile, rest) = unzip(&self.logical_divide(tiler)?, tiler)?;
        Layout::from_modes([tile, rest])
    }

    /// [`Layout::zipped_divide`] with the rest modes side by side: `((tile, ...), rest, ...)`.
    pub fn tiled_divide(&self, tiler: &Tiler) -> Result<Layout> {
        let (tile, rest) = unzip(&self.logical_divide(tiler)?, tiler)?;
        let mut modes = vec![tile];
        modes.extend(rest.modes());
        Layout::from_modes(modes)
    }

    /// [`Layout::zipped_divide`] with no grouping: `(tile, ..., rest, ...)`.
    pub fn flat_divide(&self, tiler: &Tiler) -> Result<Layout> {
        let (tile, rest) = unzip(&self.logical_divide(tiler)?, tiler)?;
        Layout::from_modes(tile.modes().into_iter().chain(rest.modes()))
    }
}

impl ComposedLayout {
    /// [`Layout::logical_divide`] on the layout before the swizzle.
    pub fn logical_divide(&self, tiler: &Tiler) -> Result<ComposedLayout> {
        self.map_layout(|layout| layout.logical_divide(tiler))
    }

    /// [`Layout::zipped_divide`] on the layout before the swizzle.
    pub fn zipped_divide(&self, tiler: &Tiler) -> Result<ComposedLayout> {
        self.map_layout(|layout| layout.zipped_divide(tiler))
    }

    /// [`Layout::tiled_divide`] on the layout before the swizzle.
    pub fn tiled_divide(&self, tiler: &Tiler) -> Result<ComposedLayout> {
        self.map_layout(|layout| layout.tiled_divide(tiler))
    }
}

/// Gathers the tile halves and the rest halves of a divided layout.
fn unzip(divided: &Layout, tiler: &Tiler) -> Result<(Layout, Layout)> {
    match tiler {
        Tiler::Layout(_) => Ok((divided.mode(0)?, divided.mode(1)?)),
        Tiler::Keep => Ok((Layout::unit(), divided.clone())),
        Tiler::ByMode(tilers) => {
            let modes = divided.modes();
            let pairs: Result<Vec<_>> =
                modes.iter().zip(tilers).map(|(mode, tiler)| unzip(mode, tiler)).collect();
            let (tiles, mut rests): (Vec<_>, Vec<_>) = pairs?.into_iter().unzip();
            rests.extend(modes.into_iter().skip(tilers.len()));
            Ok((Layout::from_modes(tiles)?, Layout::from_modes(rests)?))
        }
    }
}

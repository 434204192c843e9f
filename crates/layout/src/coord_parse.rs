//! Reading coordinate layouts back: strides such as `1@0`, `32@1` or `1@0+2@1`.

use crate::coord_layout::CoordLayout;
use crate::error::{LayoutError, Result, checked_add, checked_mul};
use crate::int_tuple::{IntTuple, Shape};
use crate::layout::Layout;
use crate::parse::{MAX_DEPTH, ParseError, Reader};

impl CoordLayout {
    /// Reads what `Display` (and CuTe) prints, for values that are coordinates of `tile`.
    ///
    /// ```
    /// use layout::CoordLayout;
    /// // What CuTe prints for the columns that one thread loads from tensor memory.
    /// let columns = CoordLayout::parse("((32,1),4):((1@1,0),32@1)", (128, 128))?;
    /// assert_eq!(columns.at(((5, 0), 3))?.to_string(), "(0,101)");
    /// # Ok::<(), layout::LayoutError>(())
    /// ```
    pub fn parse(text: &str, tile: impl Into<Shape>) -> Result<CoordLayout> {
        let tile = tile.into();
        let mut reader = Reader::new(text);
        let shape = reader.int_tuple(0)?;
        reader.expect(':')?;
        let strides = basis_tuple(&mut reader, 0)?;
        reader.end()?;
        CoordLayout::new(Layout::new(shape, strides.in_tile(&tile)?)?, tile)
    }
}

/// A stride tuple whose leaves are sums of steps along modes of the tile.
enum Bases {
    Leaf(Vec<Step>),
    Tuple(Vec<Bases>),
}

/// `count` steps along the mode at `path`, outermost mode first; without a path, along the tile as
/// a whole.
struct Step {
    count: u64,
    path: Vec<u64>,
}

fn basis_tuple(reader: &mut Reader, depth: usize) -> std::result::Result<Bases, ParseError> {
    if reader.peek() == Some('(') && depth < MAX_DEPTH {
        return Ok(Bases::Tuple(reader.list(('(', ')'), |reader| basis_tuple(reader, depth + 1))?));
    }
    let mut steps = vec![step(reader)?];
    while reader.accept('+') {
        steps.push(step(reader)?);
    }
    Ok(Bases::Leaf(steps))
}

fn step(reader: &mut Reader) -> std::result::Result<Step, ParseError> {
    let count = reader.number()?;
    let mut path = Vec::new();
    while reader.accept('@') {
        path.push(reader.number()?);
    }
    path.reverse();
    Ok(Step { count, path })
}

impl Bases {
    /// The strides in one-number coordinates of the tile.
    fn in_tile(&self, tile: &Shape) -> Result<IntTuple> {
        match self {
            Bases::Leaf(steps) => steps
                .iter()
                .try_fold(0, |sum, step| checked_add("coordinate step", sum, step.in_tile(tile)?))
                .map(IntTuple::Int),
            Bases::Tuple(modes) => modes
                .iter()
                .map(|mode| mode.in_tile(tile))
                .collect::<Result<_>>()
                .map(IntTuple::Tuple),
        }
    }
}

impl Step {
    fn in_tile(&self, tile: &Shape) -> Result<u64> {
        let mut unit = 1;
        let mut shape = tile;
        for &mode in &self.path {
            let modes = shape.modes();
            let at = usize::try_from(mode).unwrap_or(usize::MAX);
            let Some(inner) = modes.get(at) else {
                return Err(LayoutError::Rank {
                    operation: "coordinate step",
                    asked: at,
                    rank: modes.len(),
                });
            };
            for before in &modes[..at] {
                unit = checked_mul("coordinate step", unit, before.product()?)?;
            }
            shape = inner;
        }
        checked_mul("coordinate step", unit, self.count)
    }
}

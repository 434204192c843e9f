//! Coordinates: the three ways to name one position of a shape, and how to go between them.
//!
//! A position in `((2,4),3)` can be named by one number (colexicographic: the left-most mode runs
//! fastest), by one number per mode, `(5,1)`, or by the full nesting, `((1,2),1)`. Mixtures are
//! fine: a number stands for the whole sub-shape at its place.

use crate::error::{LayoutError, Result};
use crate::int_tuple::{Coord, IntTuple, Shape};

impl IntTuple {
    /// The fully nested coordinate of position `index` of this shape.
    pub fn coord_of(&self, index: u64) -> Result<Coord> {
        let size = self.product()?;
        if index >= size {
            return Err(out_of_shape(&IntTuple::Int(index), self));
        }
        Ok(unroll(index, self))
    }

    /// The one-number form of a coordinate of this shape.
    pub fn index_of(&self, coord: &Coord) -> Result<u64> {
        match (coord, self) {
            (IntTuple::Int(index), shape) => {
                if *index >= shape.product()? {
                    return Err(out_of_shape(coord, shape));
                }
                Ok(*index)
            }
            (IntTuple::Tuple(coords), IntTuple::Tuple(shapes)) if coords.len() == shapes.len() => {
                self.product()?;
                let mut index = 0;
                let mut scale = 1;
                for (coord, shape) in coords.iter().zip(shapes) {
                    index += shape.index_of(coord)? * scale;
                    scale *= shape.product()?;
                }
                Ok(index)
            }
            _ => Err(out_of_shape(coord, self)),
        }
    }

    /// The same position named in another shape of the same size.
    pub fn convert_coord(&self, coord: &Coord, to: &Shape) -> Result<Coord> {
        to.coord_of(self.index_of(coord)?)
    }

    /// One number per top-level mode: the middle coordinate form.
    pub fn coord_by_mode(&self, index: u64) -> Result<Vec<u64>> {
        let nested = self.coord_of(index)?;
        self.modes()
            .iter()
            .zip(nested.modes())
            .map(|(shape, coord)| shape.index_of(coord))
            .collect()
    }
}

/// Splits an in-range index over the leaves of `shape`.
fn unroll(index: u64, shape: &Shape) -> Coord {
    let mut rest = index;
    shape.map_leaves(&mut |extent| {
        let digit = rest % extent;
        rest /= extent;
        digit
    })
}

pub(crate) fn out_of_shape(coord: &Coord, shape: &Shape) -> LayoutError {
    LayoutError::Coordinate { coordinate: coord.to_string(), shape: shape.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_forms_name_one_position() {
        let shape = IntTuple::from(((2, 4), 3));
        for index in 0..24 {
            let nested = shape.coord_of(index).unwrap();
            let by_mode = IntTuple::from(shape.coord_by_mode(index).unwrap());
            assert_eq!(shape.index_of(&nested), Ok(index));
            assert_eq!(shape.index_of(&by_mode), Ok(index));
            assert_eq!(shape.index_of(&index.into()), Ok(index));
        }
        assert_eq!(shape.coord_of(13).unwrap().to_string(), "((1,2),1)");
    }

    #[test]
    fn outside_is_an_error() {
        let shape = IntTuple::from(((2, 4), 3));
        let error = shape.index_of(&IntTuple::from((8, 0))).unwrap_err();
        assert_eq!(error.to_string(), "coordinate 8 is not in shape (2,4)");
        assert!(shape.index_of(&IntTuple::from((1, 1, 1))).is_err());
        assert!(shape.coord_of(24).is_err());
    }
}

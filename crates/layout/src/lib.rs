//! Layouts in the manner of CuTe, as plain Rust values: which coordinate of a tile lives at which
//! index, which thread holds it, and how to get from one arrangement to another.
//!
//! - [`IntTuple`], [`Layout`], [`Swizzle`], [`ComposedLayout`]: the values, printed and parsed in
//!   CuTe's notation.
//! - The algebra is methods on [`Layout`]: [`coalesce`](Layout::coalesce),
//!   [`compose`](Layout::compose), [`complement`](Layout::complement), inverses, divisions,
//!   products, [`recast`](Layout::recast), [`slice`](Layout::slice).
//! - [`CoordLayout`] and [`TvLayout`]: layouts whose values are coordinates, and which thread
//!   holds which of them.
//! - [`transform`]: from one arrangement of a tile to another, with vector width and bank
//!   conflicts.
//! - [`draw`]: pictures of all of these.
//! - [`hw`]: the hardware's own layouts, descriptors and fragments as values.
//!
//! Numbers are exact: everything is 64-bit, and what overflows or does not divide is a
//! [`LayoutError`] that names the operation and the numbers.
//!
//! ```
//! use layout::{ComposedLayout, Layout};
//! let row_major: Layout = "(8,64):(64,1)".parse()?;
//! let swizzled: ComposedLayout = "S<3,3,3> o 0 o (8,64):(64,1)".parse()?;
//! assert_eq!(row_major.at((3, 8))?, 200);
//! assert_eq!(swizzled.at((3, 8))?, 208);
//! # Ok::<(), layout::LayoutError>(())
//! ```

mod algebra;
mod composed;
mod coord;
mod coord_layout;
mod coord_parse;
pub mod draw;
mod error;
pub mod hw;
mod int_tuple;
mod layout;
mod parse;
mod slice;
mod swizzle;
mod transform;
mod tv;

pub use algebra::Tiler;
pub use composed::ComposedLayout;
pub use coord_layout::CoordLayout;
pub use error::{LayoutError, Result};
pub use int_tuple::{Coord, IntTuple, Shape, Stride};
pub use layout::Layout;
pub use parse::ParseError;
pub use slice::Slice;
pub use swizzle::Swizzle;
pub use transform::{
    Arrangement, BANKS, BankLoad, Transform, VectorAccess, WORD_BYTES, WarpAccess, bank_of,
    transform,
};
pub use tv::{Owner, TvLayout};

//! The algebra: operations that make layouts from layouts.
//!
//! Each operation states its post-condition; the property tests check it for random layouts.

mod coalesce;
mod complement;
mod compose;
mod divide;
mod inverse;
mod product;
mod recast;
mod tiler;
mod vector;

pub use tiler::Tiler;

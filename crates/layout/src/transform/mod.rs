//! From one arrangement of a tile to another: what moves where, how wide, and at what cost.
//!
//! A tile is the same set of elements in both arrangements; an element is named by its one-number
//! (column-major) position in the tile. The source is either memory ([`ComposedLayout`]) or the
//! registers of threads ([`TvLayout`]); the destination is memory.
//!
//! ```
//! use layout::hw::{Major, SmemSwizzle, SmemTile, TmemAccess, TmemShape};
//! use layout::transform;
//! // One row of P per thread, into the A operand of the next MMA.
//! let rows = TmemAccess::new(TmemShape::S32x32b, 64)?.warpgroup_tv()?;
//! let p = SmemTile::new(128, 64, 16, Major::K, SmemSwizzle::B128)?;
//! let store = transform(rows, p.layout()?, 16)?;
//! assert!(store.is_bijection());
//! assert_eq!(store.vector_bits(), 128);
//! assert_eq!(store.conflict_degree()?, 1);
//! # Ok::<(), layout::LayoutError>(())
//! ```

mod banks;
mod vectors;

use std::fmt;

pub use banks::{BANKS, BankLoad, WORD_BYTES, WarpAccess, bank_of};
pub use vectors::VectorAccess;

use crate::composed::ComposedLayout;
use crate::error::{LayoutError, Result, checked_mul, exact_div};
use crate::int_tuple::{Coord, Shape};
use crate::layout::Layout;
use crate::tv::TvLayout;
use vectors::{aligned_runs, in_value_order};

/// Threads per warp.
const WARP: u64 = 32;
/// The widest shared- or global-memory access of one thread, in bits.
const MAX_VECTOR_BITS: u64 = 128;
/// A transform visits every element; far more than any on-chip memory holds is a mistake.
const MAX_TILE: u64 = 1 << 26;

/// Where the elements of a tile are before a transform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// In memory; a thread takes one vector of consecutive elements at a time.
    Memory(ComposedLayout),
    /// In the registers of threads.
    Registers(TvLayout),
}

impl From<ComposedLayout> for Arrangement {
    fn from(layout: ComposedLayout) -> Self {
        Arrangement::Memory(layout)
    }
}

impl From<Layout> for Arrangement {
    fn from(layout: Layout) -> Self {
        Arrangement::Memory(layout.into())
    }
}

impl From<TvLayout> for Arrangement {
    fn from(tv: TvLayout) -> Self {
        Arrangement::Registers(tv)
    }
}

/// The move of a tile from one arrangement to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transform {
    from: Arrangement,
    to: ComposedLayout,
    element_bits: u64,
}

/// The transform between two arrangements of one tile of `element_bits`-bit elements.
pub fn transform(
    from: impl Into<Arrangement>,
    to: impl Into<ComposedLayout>,
    element_bits: u64,
) -> Result<Transform> {
    let transform = Transform { from: from.into(), to: to.into(), element_bits };
    let tile = transform.tile().product()?;
    if tile != transform.to.size() {
        return Err(LayoutError::NotCongruent {
            operation: "transform",
            expected: transform.tile().to_string(),
            found: transform.to.shape().to_string(),
        });
    }
    if tile > MAX_TILE {
        return Err(LayoutError::hardware(
            "a tile has at most 2^26 elements",
            format!("{tile} elements"),
        ));
    }
    if !element_bits.is_power_of_two() || element_bits > MAX_VECTOR_BITS {
        return Err(LayoutError::hardware(
            "elements have a power of two of bits, at most 128",
            format!("element of {element_bits} bits"),
        ));
    }
    Ok(transform)
}

impl Transform {
    /// The source.
    pub fn from(&self) -> &Arrangement {
        &self.from
    }

    /// The destination.
    pub fn to(&self) -> &ComposedLayout {
        &self.to
    }

    /// Bits per element.
    pub fn element_bits(&self) -> u64 {
        self.element_bits
    }

    /// The shape in which the source names elements.
    pub fn tile(&self) -> &Shape {
        match &self.from {
            Arrangement::Memory(layout) => layout.shape(),
            Arrangement::Registers(tv) => tv.tile(),
        }
    }

    /// The coordinate map: a coordinate of the source's tile as a coordinate of the destination.
    pub fn coord(&self, coord: impl Into<Coord>) -> Result<Coord> {
        self.tile().convert_coord(&coord.into(), self.to.shape())
    }

    /// The destination element index of a coordinate of the source's tile.
    pub fn index(&self, coord: impl Into<Coord>) -> Result<u64> {
        self.to.at(self.tile().index_of(&coord.into())?)
    }

    /// The destination byte of a coordinate of the source's tile, swizzle included.
    pub fn byte(&self, coord: impl Into<Coord>) -> Result<u64> {
        let bits = checked_mul("byte offset", self.index(coord)?, self.element_bits)?;
        exact_div("byte offset", bits, 8)
    }

    /// Whether every element of the source goes to a place of its own and none is missing.
    pub fn is_bijection(&self) -> bool {
        let source = match &self.from {
            Arrangement::Memory(layout) => layout.is_injective(),
            Arrangement::Registers(tv) => tv.is_partition(),
        };
        source && self.to.is_injective()
    }

    /// The widest legal access per thread, in bits: the most elements, a power of two and at most
    /// 128 bits, that are contiguous and aligned at the destination.
    ///
    /// Registers may be combined in any order; see [`Transform::vector_bits_in_order`]. A vector
    /// from memory must be one vector at the source too.
    pub fn vector_bits(&self) -> u64 {
        match self.from {
            Arrangement::Registers(_) => {
                self.widest(|indices, width| aligned_runs(indices, width).is_some())
            }
            Arrangement::Memory(_) => self.vector_bits_in_order(),
        }
    }

    /// The widest access that also takes the values in the order the source holds them, as copies
    /// that may not name registers one by one need it.
    pub fn vector_bits_in_order(&self) -> u64 {
        self.widest(in_value_order)
    }

    fn widest(&self, legal: impl Fn(&[u64], u64) -> bool) -> u64 {
        let mut bits = MAX_VECTOR_BITS;
        while bits > self.element_bits {
            let width = bits / self.element_bits;
            let lanes = self.lanes(width);
            if lanes.is_some_and(|lanes| lanes.iter().all(|indices| legal(indices, width))) {
                return bits;
            }
            bits /= 2;
        }
        self.element_bits
    }

    /// For each thread, the destination indices of its values in value order. A memory source is
    /// dealt to one warp in vectors of `width`; none when it does not consist of such vectors.
    fn lanes(&self, width: u64) -> Option<Vec<Vec<u64>>> {
        let destination: Vec<u64> = self.to.indices().collect();
        match &self.from {
            Arrangement::Registers(tv) => {
                let mut lanes = vec![Vec::new(); tv.threads() as usize];
                for (i, element) in tv.layout().indices().enumerate() {
                    lanes[i % tv.threads() as usize].push(destination[element as usize]);
                }
                Some(lanes)
            }
            Arrangement::Memory(layout) => {
                let mut by_source: Vec<(u64, u64)> = layout.indices().zip(destination).collect();
                by_source.sort_unstable();
                deal(&by_source, width)
            }
        }
    }

    /// The vector accesses of each thread at the widest legal width.
    pub fn accesses(&self) -> Result<Vec<Vec<VectorAccess>>> {
        let width = self.vector_bits() / self.element_bits;
        let lanes = self.lanes(width).unwrap_or_default();
        let runs: Option<Vec<_>> =
            lanes.iter().map(|indices| aligned_runs(indices, width)).collect();
        runs.ok_or_else(|| LayoutError::Overlap {
            operation: "transform",
            layout: self.to.to_string(),
        })
    }

    /// The warp-wide accesses that store the tile, warp by warp, with their bank conflicts.
    pub fn warp_accesses(&self) -> Result<Vec<WarpAccess>> {
        let bytes = self.vector_bits().div_ceil(8);
        let lanes = self.accesses()?;
        let mut accesses = Vec::new();
        for warp in lanes.chunks(WARP as usize) {
            let most = warp.iter().map(Vec::len).max().unwrap_or(0);
            for i in 0..most {
                let runs = warp.iter().filter_map(|lane| lane.get(i));
                let addresses = runs.map(|run| run.index * self.element_bits / 8).collect();
                accesses.push(WarpAccess::new(addresses, bytes));
            }
        }
        Ok(accesses)
    }

    /// The worst conflict degree over all warp accesses: 1 is conflict-free.
    pub fn conflict_degree(&self) -> Result<u64> {
        Ok(self.warp_accesses()?.iter().map(WarpAccess::conflict_degree).max().unwrap_or(1))
    }
}

/// Deals runs of `width` consecutive source elements to the lanes of a warp in turn.
fn deal(by_source: &[(u64, u64)], width: u64) -> Option<Vec<Vec<u64>>> {
    let mut lanes = vec![Vec::new(); WARP as usize];
    for (i, run) in by_source.chunks(width as usize).enumerate() {
        let first = run[0].0;
        let contiguous = run.iter().zip(first..).all(|((found, _), wanted)| *found == wanted);
        if run.len() as u64 != width || !first.is_multiple_of(width) || !contiguous {
            return None;
        }
        lanes[i % WARP as usize].extend(run.iter().map(|(_, destination)| *destination));
    }
    Some(lanes)
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.from {
            Arrangement::Memory(layout) => write!(f, "{layout} -> {}", self.to),
            Arrangement::Registers(tv) => write!(f, "registers {tv} -> {}", self.to),
        }
    }
}

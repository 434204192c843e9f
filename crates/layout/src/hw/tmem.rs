//! Tensor memory: where `tcgen05.mma` keeps accumulators and reads A from.
//!
//! From the PTX ISA ("Data path layout organization", "Tensor memory allocation") and CUTLASS's
//! `mma_traits_sm100.hpp`. A [`TmemTile`]'s layout maps `(row, column)` of the matrix to
//! `cta << 32 | lane << 16 | column`, the address PTX uses with the CTA of a pair above it, so a
//! 128 by 128 accumulator prints as CuTe prints it: `(128,128):(65536,1)`.

use super::address::{TmemAddress, TmemColumn, TmemLane};
use super::instruction::CtaGroup;
use crate::error::{LayoutError, Result, checked_mul};
use crate::layout::Layout;

/// Step of one lane in a TMEM address.
const LANE: u64 = 1 << 16;
/// Step from the even to the odd CTA of a pair.
const CTA: u64 = 1 << 32;

/// The data-path layouts of `tcgen05.mma`, named as in the PTX ISA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataPath {
    /// M = 256, two CTAs: 128 rows each.
    A,
    /// M = 128, two CTAs, dense: 64 rows each, the halves of N in the two halves of the lanes.
    B,
    /// M = 128, two CTAs, sparse: 64 rows each, 16 in every 32 lanes. From the ISA's figure only;
    /// no kernel that was looked at uses it.
    C,
    /// M = 128, one CTA (also `.ws`): row m in lane m.
    D,
    /// M = 64, `.ws`: the halves of N in the two halves of the lanes.
    E,
    /// M = 64, one CTA: 16 rows in every 32 lanes.
    F,
    /// M = 32, `.ws`: the quarters of N in the four quarters of the lanes.
    G,
}

impl DataPath {
    /// The data path of a `tcgen05.mma`.
    pub fn of(m: u64, group: CtaGroup, weight_stationary: bool, sparse: bool) -> Result<DataPath> {
        match (m, group, weight_stationary) {
            (256, CtaGroup::Two, false) => Ok(DataPath::A),
            (128, CtaGroup::Two, false) => Ok(if sparse { DataPath::C } else { DataPath::B }),
            (128, CtaGroup::One, _) => Ok(DataPath::D),
            (64, CtaGroup::One, true) => Ok(DataPath::E),
            (64, CtaGroup::One, false) => Ok(DataPath::F),
            (32, CtaGroup::One, true) => Ok(DataPath::G),
            _ => Err(LayoutError::hardware(
                "M is 64 or 128 for one CTA, 128 or 256 for two, 32, 64 or 128 for .ws",
                format!("M = {m}, {group:?}, .ws {weight_stationary}"),
            )),
        }
    }

    /// Rows of the matrix.
    pub fn m(self) -> u64 {
        match self {
            DataPath::A => 256,
            DataPath::B | DataPath::C | DataPath::D => 128,
            DataPath::E | DataPath::F => 64,
            DataPath::G => 32,
        }
    }

    /// The layout of an M by `n` matrix of 32-bit cells.
    pub fn layout(self, n: u64) -> Result<Layout> {
        let parts = match self {
            DataPath::B | DataPath::E => 2,
            DataPath::G => 4,
            _ => 1,
        };
        if n == 0 || !n.is_multiple_of(8 * parts) {
            return Err(LayoutError::hardware(
                "N is a multiple of 8 in every part of the lanes that holds columns",
                format!("N = {n} for data path {self:?}"),
            ));
        }
        match self {
            DataPath::A => Layout::new(((128, 2), n), ((LANE, CTA), 1)),
            DataPath::B => Layout::new(((64, 2), (n / 2, 2)), ((LANE, CTA), (1, 64 * LANE))),
            DataPath::C => Layout::new(((16, 4, 2), n), ((LANE, 32 * LANE, CTA), 1)),
            DataPath::D => Layout::new((128, n), (LANE, 1)),
            DataPath::E => Layout::new((64, (n / 2, 2)), (LANE, (1, 64 * LANE))),
            DataPath::F => Layout::new(((16, 4), n), ((LANE, 32 * LANE), 1)),
            DataPath::G => Layout::new((32, (n / 4, 4)), (LANE, (1, 32 * LANE))),
        }
    }
}

/// Where one element of a matrix is in tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TmemPlace {
    /// CTA of the pair: 0 or 1.
    pub cta: u32,
    /// Lane and column.
    pub address: TmemAddress,
    /// Bit within the 32-bit cell.
    pub bit: u32,
}

/// A matrix in tensor memory.
///
/// ```
/// use layout::hw::{DataPath, TmemAddress, TmemTile};
/// let s = TmemTile::accumulator(DataPath::D, 128, TmemAddress::default())?;
/// assert_eq!(s.layout()?.to_string(), "(128,128):(65536,1)");
/// assert_eq!(s.at(17, 3)?.address.to_string(), "tmem[17,3]");
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TmemTile {
    path: DataPath,
    columns: u64,
    element_bits: u64,
    base: TmemAddress,
}

impl TmemTile {
    /// An accumulator of `n` columns, one element per 32-bit cell.
    pub fn accumulator(path: DataPath, n: u64, base: TmemAddress) -> Result<TmemTile> {
        TmemTile::new(path, n, 32, base)
    }

    /// An A operand of `k` elements per row, packed `32 / element_bits` to a cell, the lowest
    /// first. Rows are where the accumulator has them; data paths that spread columns over lanes
    /// arrange A in other ways and are refused.
    pub fn operand_a(
        path: DataPath,
        k: u64,
        element_bits: u64,
        base: TmemAddress,
    ) -> Result<TmemTile> {
        if !matches!(element_bits, 8 | 16 | 32) {
            return Err(LayoutError::hardware(
                "A in tensor memory has elements of 8, 16 or 32 bits",
                format!("element of {element_bits} bits"),
            ));
        }
        if !matches!(path, DataPath::A | DataPath::D | DataPath::F) {
            return Err(LayoutError::hardware(
                "A operands in tensor memory are known for data paths A, D and F",
                format!("data path {path:?}"),
            ));
        }
        TmemTile::new(path, k, element_bits, base)
    }

    fn new(path: DataPath, columns: u64, element_bits: u64, base: TmemAddress) -> Result<TmemTile> {
        let tile = TmemTile { path, columns, element_bits, base };
        let last = tile.layout()?.cosize() - 1;
        let (lane, column) = (last >> 16 & 0xffff, last & 0xffff);
        let end = (u64::from(base.lane.0) + lane, u64::from(base.column.0) + column);
        if end.0 >= u64::from(TmemAddress::LANES) || end.1 >= u64::from(TmemAddress::COLUMNS) {
            return Err(LayoutError::hardware(
                "a matrix must fit the 128 lanes and 512 columns of tensor memory",
                format!("data path {path:?}, {columns} columns of {element_bits} bits at {base}"),
            ));
        }
        Ok(tile)
    }

    /// The data path of the tile.
    pub fn path(&self) -> DataPath {
        self.path
    }

    /// Lane and column of the first element.
    pub fn base(&self) -> TmemAddress {
        self.base
    }

    /// The layout `(row, cell) -> cta << 32 | lane << 16 | column`, relative to the base.
    pub fn layout(&self) -> Result<Layout> {
        self.path.layout(checked_mul("TMEM tile", self.columns, self.element_bits)? / 32)
    }

    /// Number of 32-bit columns the tile occupies.
    pub fn width(&self) -> Result<TmemColumn> {
        Ok(TmemColumn(((self.layout()?.cosize() - 1) as u32 & 0xffff) + 1))
    }

    /// The first column behind the tile.
    pub fn end(&self) -> Result<TmemColumn> {
        Ok(self.base.column + self.width()?)
    }

    /// Where element `(row, column)` of the matrix is.
    pub fn at(&self, row: u64, column: u64) -> Result<TmemPlace> {
        let per_cell = 32 / self.element_bits;
        let place = self.layout()?.at((row, column / per_cell))?;
        let lane = TmemLane((place >> 16) as u32 & 0xffff);
        let address = TmemAddress::new(
            TmemLane(self.base.lane.0 + lane.0),
            self.base.column + TmemColumn((place & 0xffff) as u32),
        )?;
        let bit = (column % per_cell * self.element_bits) as u32;
        Ok(TmemPlace { cta: (place >> 32) as u32, address, bit })
    }
}

/// The smallest allocation that holds `columns`: a power of two from 32 to 512.
pub fn allocation_columns(columns: u32) -> Result<TmemColumn> {
    if columns > TmemAddress::COLUMNS {
        return Err(LayoutError::hardware(
            "tcgen05.alloc gives 32 to 512 columns, a power of two",
            format!("{columns} columns"),
        ));
    }
    Ok(TmemColumn(columns.next_power_of_two().max(32)))
}

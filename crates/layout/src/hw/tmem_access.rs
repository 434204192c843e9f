//! `tcgen05.ld` and `tcgen05.st`: which lane and column each thread's registers move.
//!
//! From the PTX ISA ("Data movement shape") and CUTLASS's `copy_traits_sm100.hpp`. Warp `w` of a
//! CTA can only reach lanes `32 * (w % 4)` to `32 * (w % 4) + 31`; a whole warpgroup is needed for
//! 128 lanes.
//!
//! Register `r` of thread `t`, relative to the address of the instruction:
//!
//! | shape | lane | column | registers of .xN |
//! |---|---|---|---|
//! | 32x32b | `t` | `r` | N |
//! | 16x64b | `t/4 + 8*(t%2)` | `2*r + (t/2)%2` | N |
//! | 16x128b | `t/4 + 8*(r%2)` | `t%4 + 4*(r/2)` | 2N |
//! | 16x256b | `t/4 + 8*((r/2)%2)` | `8*(r/4) + 2*(t%4) + r%2` | 4N |
//! | 16x32bx2 | `t%16` | `r`, and `split + r` for `t >= 16` | N |
//!
//! With `.pack::16b` (loads) or `.unpack::16b` (stores) a register holds the low halves of two
//! neighbouring columns, the even one low, so twice as many columns are moved.

use std::fmt;
use std::ops::Range;

use super::address::{TmemAddress, TmemColumn, TmemLane};
use crate::error::{LayoutError, Result};
use crate::int_tuple::IntTuple;
use crate::layout::Layout;
use crate::tv::TvLayout;

/// The `.shape` of a `tcgen05.ld` or `tcgen05.st`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TmemShape {
    /// One lane per thread, consecutive columns.
    S32x32b,
    /// 16 lanes, two columns per repetition.
    S16x64b,
    /// 16 lanes, four columns per repetition.
    S16x128b,
    /// 16 lanes, eight columns per repetition: the fragment of `mma.sync`.
    S16x256b,
    /// 16 lanes, two groups of columns this far apart.
    S16x32bx2 {
        /// The immediate: columns between the groups of the two half-warps.
        split: u32,
    },
}

impl TmemShape {
    /// Every shape, with a split of `split` columns for the last.
    pub fn all(split: u32) -> [TmemShape; 5] {
        [
            TmemShape::S32x32b,
            TmemShape::S16x64b,
            TmemShape::S16x128b,
            TmemShape::S16x256b,
            TmemShape::S16x32bx2 { split },
        ]
    }

    /// Lanes one warp moves.
    pub fn lanes(self) -> u64 {
        if self == TmemShape::S32x32b { 32 } else { 16 }
    }

    /// Registers per repetition.
    pub fn registers_per_repeat(self) -> u64 {
        match self {
            TmemShape::S16x128b => 2,
            TmemShape::S16x256b => 4,
            _ => 1,
        }
    }

    /// The largest repetition: 128 registers.
    pub fn max_repeat(self) -> u64 {
        128 / self.registers_per_repeat()
    }
}

impl fmt::Display for TmemShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TmemShape::S32x32b => "32x32b",
            TmemShape::S16x64b => "16x64b",
            TmemShape::S16x128b => "16x128b",
            TmemShape::S16x256b => "16x256b",
            TmemShape::S16x32bx2 { .. } => "16x32bx2",
        })
    }
}

/// One `tcgen05.ld` or `tcgen05.st` of a warp.
///
/// ```
/// use layout::hw::{TmemAccess, TmemShape};
/// let load = TmemAccess::new(TmemShape::S32x32b, 32)?;
/// assert_eq!(load.tv()?.to_string(), "(32,32):(1,32)");
/// assert_eq!(load.tv()?.row_col(7, 5)?, (7, 5));
/// assert_eq!(load.to_string(), "32x32b.x32");
/// # Ok::<(), layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TmemAccess {
    shape: TmemShape,
    repeat: u64,
    packed: bool,
}

impl TmemAccess {
    /// An access of `.xN`, N a power of two with at most 128 registers.
    pub fn new(shape: TmemShape, repeat: u64) -> Result<TmemAccess> {
        if !repeat.is_power_of_two() || repeat > shape.max_repeat() {
            return Err(LayoutError::hardware(
                "repetitions are powers of two with at most 128 registers",
                format!("{shape}.x{repeat}"),
            ));
        }
        Ok(TmemAccess { shape, repeat, packed: false })
    }

    /// With `.pack::16b` or `.unpack::16b`.
    pub fn packed_16b(self) -> TmemAccess {
        TmemAccess { packed: true, ..self }
    }

    /// The shape.
    pub fn shape(&self) -> TmemShape {
        self.shape
    }

    /// The repetition.
    pub fn repeat(&self) -> u64 {
        self.repeat
    }

    /// Whether registers hold two 16-bit columns.
    pub fn is_packed(&self) -> bool {
        self.packed
    }

    /// 32-bit registers per thread.
    pub fn registers(&self) -> u64 {
        self.repeat * self.shape.registers_per_repeat()
    }

    /// Columns from the first to the last one moved.
    pub fn columns(&self) -> u64 {
        let cells = match self.shape {
            TmemShape::S32x32b => self.repeat,
            TmemShape::S16x64b => 2 * self.repeat,
            TmemShape::S16x128b => 4 * self.repeat,
            TmemShape::S16x256b => 8 * self.repeat,
            TmemShape::S16x32bx2 { split } => u64::from(split) + self.repeat,
        };
        if self.packed { 2 * cells } else { cells }
    }

    /// `(thread, value) -> (lane, column)` for one warp, relative to the instruction's address.
    ///
    /// A value is a register, or with packing a half register.
    pub fn tv(&self) -> Result<TvLayout> {
        TvLayout::new(self.placed(self.shape.lanes())?, (self.shape.lanes(), self.columns()))
    }

    /// The same for the four warps of a warpgroup over all 128 lanes.
    ///
    /// Shapes of 16 lanes need two instructions, the second 16 lanes further down; their values
    /// follow those of the first.
    pub fn warpgroup_tv(&self) -> Result<TvLayout> {
        let warp = self.placed(u64::from(TmemAddress::LANES))?;
        let threads = Layout::from_modes([warp.mode(0)?, Layout::strided(4, 32)?])?;
        let values = match self.shape {
            TmemShape::S32x32b => warp.mode(1)?,
            _ => Layout::from_modes([warp.mode(1)?, Layout::strided(2, 16)?])?,
        };
        TvLayout::new(
            Layout::from_modes([threads, values])?,
            (u64::from(TmemAddress::LANES), self.columns()),
        )
    }

    /// The TV layout with `column` indices from one column of the tile to the next.
    fn placed(&self, column: u64) -> Result<Layout> {
        // A packed register spans two columns, so everything that steps by columns doubles.
        let step = if self.packed { 2 * column } else { column };
        let n = self.repeat;
        let unpacked = match self.shape {
            TmemShape::S32x32b => Layout::new((32, n), (1, step))?,
            TmemShape::S16x64b => Layout::new(((2, 2, 8), n), ((8, step, 1), 2 * step))?,
            TmemShape::S16x128b => Layout::new(((4, 8), (2, n)), ((step, 1), (8, 4 * step)))?,
            TmemShape::S16x256b => {
                Layout::new(((4, 8), (2, 2, n)), ((2 * step, 1), (step, 8, 8 * step)))?
            }
            TmemShape::S16x32bx2 { split } => {
                Layout::new(((16, 2), n), ((1, u64::from(split) * step), step))?
            }
        };
        if !self.packed {
            return Ok(unpacked);
        }
        let halves = Layout::from_modes([Layout::strided(2, column)?, unpacked.mode(1)?])?;
        Layout::from_modes([unpacked.mode(0)?, halves])
    }

    /// The cell that a register of a thread of warp `warp` moves; the low half's when packed.
    pub fn cell(
        &self,
        warp: u64,
        thread: u64,
        register: u64,
        base: TmemAddress,
    ) -> Result<TmemAddress> {
        let value: IntTuple = if self.packed { (0, register).into() } else { register.into() };
        let index = self.tv()?.layout().at((IntTuple::from(thread), value))?;
        let (lane, column) = (index % self.shape.lanes(), index / self.shape.lanes());
        let lane = lane + warp_lanes(warp).start + u64::from(base.lane.0);
        let lane = TmemLane(u32::try_from(lane).unwrap_or(u32::MAX));
        TmemAddress::new(lane, base.column + TmemColumn(column as u32))
    }
}

impl fmt::Display for TmemAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.x{}{}", self.shape, self.repeat, if self.packed { ".pack::16b" } else { "" })
    }
}

/// The lanes that warp `warp` of a CTA can reach.
pub fn warp_lanes(warp: u64) -> Range<u64> {
    let first = 32 * (warp % 4);
    first..first + 32
}

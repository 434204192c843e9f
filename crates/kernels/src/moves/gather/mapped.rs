//! Rows of 16-bit elements that tensor copies gather, four rows each (Blackwell).
//!
//! One tensor map of two dimensions reaches every row of a tensor: its rows lie as far apart as the greatest common
//! divisor of the tensor's strides, so a page, a head and a token are so many rows on. A copy names a column and four
//! rows. A row that does not exist has a number outside the map, and becomes zeros without being read.

use super::WARPS;
use super::lookup::{Place, Rows};
use super::share::{LANES, ROWS};
use super::strides::RowStrides;
use crate::call::tensors::{self, CHUNK};
use crate::moves::copies::{Column, Counter};
use problem::{Segment, Storage, View};
use program::BufferId;
use program::build::Arguments;
use ptx::build::{Builder, Cmp, Reg, SharedTile, TensorMapParam};

/// Numbers of rows are signed coordinates.
const MOST_ROWS: u64 = 1 << 31;

/// Bytes of a row of a panel.
const ROW_BYTES: u32 = CHUNK * 2;

/// Whether copies can gather the listed rows of a segment.
pub fn suits(segment: &Segment) -> bool {
    let views = [segment.k, segment.value_view()];
    segment.indices.is_some()
        && segment.storage == Storage::Elements
        && views.iter().all(|view| Extent::of(view).is_some())
}

/// The rows of a tensor as one map has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Elements from one row to the next.
    pitch: u64,
    /// Rows from one page, head and token to the next.
    strides: [u64; 3],
    /// Rows.
    rows: u64,
}

impl Extent {
    /// The rows of `view`, if none overlaps the next.
    fn of(view: &View) -> Option<Self> {
        // The stride of a dimension of extent 1 is never used and may be anything.
        let used = [0, 1, 2].map(|d| if view.shape[d] > 1 { view.strides[d] } else { 0 });
        let pitch = match used.into_iter().fold(0, gcd) {
            0 => view.dim().next_multiple_of(8),
            pitch => pitch,
        };
        let strides = used.map(|stride| stride / pitch);
        let last = (0..3).try_fold(0u64, |sum, d| {
            let last = view.shape[d].saturating_sub(1).checked_mul(strides[d])?;
            sum.checked_add(last)
        })?;
        (pitch >= view.dim() && last < MOST_ROWS).then_some(Extent {
            pitch,
            strides,
            rows: last + 1,
        })
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A tensor of 16-bit elements whose rows copies gather.
#[derive(Clone, Copy, Debug)]
pub struct Mapped {
    map: TensorMapParam,
    /// In rows of the map.
    pub strides: RowStrides,
    /// First column.
    first: Option<Reg<u32>>,
}

impl Mapped {
    /// Declares the parameters of a tensor of a segment that [suits](suits()).
    #[track_caller]
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        name: &str,
        view: &View,
        buffer: BufferId,
    ) -> Self {
        let extent = Extent::of(view).expect("a segment whose rows one map reaches");
        let map = tensors::single_rows(view, buffer, extent.rows, extent.pitch);
        let map = args.tensor_map(b, &format!("tma_{name}"), map);
        let strides = RowStrides::declare(b, args, name, extent.strides);
        Mapped { map, strides, first: None }
    }

    /// The same rows from column `first` on.
    pub fn columns(&self, first: Reg<u32>) -> Self {
        Mapped { first: Some(first), ..*self }
    }

    /// Issues the copies of a warp's share of columns from `column` on to `to`, counted on `counter`.
    #[track_caller]
    pub fn copy(
        &self,
        b: &mut Builder,
        fours: &Fours,
        places: &[Place],
        column: u32,
        to: SharedTile,
        counter: Counter,
    ) {
        let (layout, column) = (to.layout(), Column { base: self.first, offset: column });
        let at = b.smem_add(to.at(), fours.offset);
        for (i, place) in (0..).zip(places) {
            let rows = fours.rows(b, place);
            let at = at.plus(i * LANES * WARPS * ROW_BYTES);
            b.if_(fours.leads, |b| {
                for panel in 0..layout.blocks() as u32 {
                    let at = at.plus(panel * layout.block_bytes() as u32);
                    let column = column.plus(b, panel * CHUNK);
                    counter.gather(b, at, self.map, column, rows);
                }
            });
        }
    }
}

/// How a lane takes part: the lanes that looked up four neighbouring rows of a tile hand them to the first of them,
/// which issues the copies.
pub struct Fours {
    lane: Reg<u32>,
    leads: Reg<bool>,
    /// Bytes of a panel before the four rows.
    offset: Reg<u32>,
}

impl Fours {
    /// The lanes of warp `warp`.
    #[track_caller]
    pub fn new(b: &mut Builder, warp: Reg<u32>) -> Self {
        let lane = b.special("%laneid");
        let of_four = b.eval(lane % ROWS);
        let row = Rows::Runs(warp).first(b, lane);
        Fours { lane, leads: b.setp(Cmp::Eq, of_four, 0), offset: b.eval(row * ROW_BYTES) }
    }

    /// Bytes that a warp's copies of rows at so many places bring to so many panels.
    pub fn bytes(places: usize, panels: u32) -> u32 {
        places as u32 * LANES * ROW_BYTES * panels
    }

    #[track_caller]
    fn rows(&self, b: &mut Builder, place: &Place) -> [Reg<u32>; ROWS as usize] {
        std::array::from_fn(|i| match i as u32 {
            0 => place.row,
            next => {
                let from = b.eval(self.lane + next);
                b.lane_value(place.row, from)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use problem::DType;

    fn view(shape: [u64; 4], strides: [u64; 4]) -> View {
        View::bshd(DType::Bf16, shape).with_strides(strides)
    }

    #[test]
    fn rows_of_pages_heads_and_tokens_are_rows_of_one_map() {
        let of = |view: View| Extent::of(&view).map(|e| (e.pitch, e.strides, e.rows));
        let paged = View::bshd(DType::Bf16, [8, 1, 64, 576]);
        assert_eq!(of(paged), Some((576, [64, 0, 1], 512)));
        // Heads of a token are neighbours.
        let heads = View::bshd(DType::Bf16, [8, 2, 64, 128]);
        assert_eq!(of(heads), Some((128, [128, 1, 2], 1024)));
        // Tokens of a head are.
        let planes = View::bhsd(DType::Bf16, [8, 2, 64, 128]);
        assert_eq!(of(planes), Some((128, [128, 64, 1], 1024)));
        // Pages padded by half a row, and by one.
        assert_eq!(of(view([8, 1, 64, 128], [64 * 128 + 64, 128, 128, 1])), None);
        let padded = view([8, 1, 64, 128], [65 * 128, 128, 128, 1]);
        assert_eq!(of(padded), Some((128, [65, 0, 1], 7 * 65 + 64)));
    }
}

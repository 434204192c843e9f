//! MODEL1 rows as one tensor map has them, for copies that bring their bytes (Blackwell).

use super::format::Format;
use super::lookup::Place;
use super::share::NOWHERE;
use crate::call::tensors;
use crate::moves::copies::Counter;
use problem::{DType, Segment, Storage, View};
use program::BufferId;
use program::build::Arguments;
use ptx::build::{Builder, Mbarrier, Reg, SmemPtr, TensorMapParam};

/// Numbers of rows are signed coordinates.
const MOST_ROWS: u64 = 1 << 31;
/// The map has columns of two bytes, which copies leave as they are.
const COLUMN_BYTES: u64 = 2;

/// Whether one map reaches all rows of a segment: those of MODEL1 pages that lie whole rows apart.
pub fn suits(segment: &Segment) -> bool {
    segment.storage == Storage::Model1 && rows(segment).is_some_and(|rows| rows <= MOST_ROWS)
}

/// Rows of the map: from the first page's first to the last page's last, footers among them.
fn rows(segment: &Segment) -> Option<u64> {
    let stride = segment.page_stride();
    let pages = segment.k.batch();
    let step = if pages > 1 { stride } else { 0 };
    let before = pages.saturating_sub(1).checked_mul(step / Storage::MODEL1_ROW_BYTES)?;
    let whole = step.is_multiple_of(Storage::MODEL1_ROW_BYTES);
    before.checked_add(segment.k.tokens()).filter(|_| whole)
}

/// The bytes of rows.
#[derive(Clone, Copy, Debug)]
pub struct RawMap(TensorMapParam);

impl RawMap {
    /// Declares the map of a segment that [suits](suits()).
    #[track_caller]
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        segment: &Segment,
        buffer: BufferId,
    ) -> Self {
        let rows = rows(segment).expect("a segment whose rows one map reaches");
        let columns = Storage::MODEL1_ROW_BYTES / COLUMN_BYTES;
        let row = View::bhsd(DType::Bf16, [1, 1, 1, columns]);
        RawMap(args.tensor_map(b, "tma_k", tensors::single_rows(&row, buffer, rows, columns)))
    }

    /// The map's number of the row at `place`; where there is none, one outside the map, which becomes zeros.
    #[track_caller]
    pub fn row(&self, b: &mut Builder, format: Format, place: &Place) -> Reg<u32> {
        let exists = place.exists(b);
        let row = b.eval(place.row / format.row_vectors());
        b.select::<u32>(exists, row, NOWHERE)
    }

    /// Copies a box of four rows from byte `byte` of each on, counted on `barrier`.
    #[track_caller]
    pub fn gather(
        &self,
        b: &mut Builder,
        at: SmemPtr,
        byte: u32,
        rows: [Reg<u32>; 4],
        barrier: Mbarrier,
    ) {
        let column = byte / COLUMN_BYTES as u32;
        Counter::from(barrier).gather(b, at, self.0, (column as i32).into(), rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(pages: u64, page_rows: u64) -> Segment {
        let view = View::bhsd(DType::Bf16, [pages, 1, page_rows, Storage::MODEL1_DIM]);
        Segment::shared(view, Storage::MODEL1_DIM).stored(Storage::Model1).paged(0)
    }

    #[test]
    fn rows_of_pages_are_rows_of_one_map() {
        // A page of 64 rows is 65 rows long: its footer takes one.
        assert_eq!(rows(&segment(8, 64)), Some(7 * 65 + 64));
        assert_eq!(rows(&segment(1, 64)), Some(64));
        assert_eq!(rows(&segment(3, 2).page_bytes(4 * 576)), Some(2 * 4 + 2));
        let odd = segment(3, 2).page_bytes(2 * 584 + 8);
        assert!(!suits(&odd) && suits(&segment(3, 2)));
        assert!(!suits(&segment(3, 2).stored(Storage::V32)));
        assert!(!suits(&segment(1 << 31, 64)));
    }
}

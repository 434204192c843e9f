//! Rows on their way to shared memory: eight threads per row and panel, 16 bytes each.

use crate::call::tensors::CHUNK;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, SharedTile, SmemPtr, VECTOR_BYTES};

/// Columns of a vector of 16 bytes.
pub const UNIT: u32 = VECTOR_BYTES / 2;

/// A thread among those of a CTA that copy a tile.
#[derive(Clone, Copy)]
pub struct Copier {
    /// The thread's row of those that are copied at once.
    pub row: Reg<u32>,
    /// Its vector of every panel.
    pub vector: Reg<u32>,
    /// Bytes from the beginning of a panel to the vector.
    byte: Reg<u64>,
    /// Rows that are copied at once.
    rows: u32,
}

/// The columns of a tensor that are copied.
#[derive(Clone, Copy)]
pub struct Columns {
    /// Panels of a tile's row.
    pub panels: u32,
    /// How many of their columns exist.
    pub count: Count,
}

/// A number of columns.
#[derive(Clone, Copy)]
pub enum Count {
    /// The same in every CTA.
    Fixed(u32),
    /// Of a slice.
    OfSlice(Reg<u32>),
}

impl Copier {
    /// Threads that share a row of a panel.
    pub const THREADS_PER_ROW: u32 = 8;

    /// This thread of `threads`.
    #[track_caller]
    pub fn new(b: &mut Builder, threads: u32) -> Self {
        let thread = b.thread();
        let (row, vector) =
            (b.eval(thread / Self::THREADS_PER_ROW), b.eval(thread % Self::THREADS_PER_ROW));
        let byte = b.eval(vector.widening_mul(VECTOR_BYTES));
        Copier { row, vector, byte, rows: threads / Self::THREADS_PER_ROW }
    }

    /// Rows that are copied at once.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Rows of a tile of `rows` rows that the thread copies, if [all](Self::among) do.
    pub fn turns(&self, rows: u32) -> u32 {
        let whole = rows.is_multiple_of(self.rows) || rows < self.rows;
        assert!(whole, "threads that copy have as many rows of {rows}");
        rows.div_ceil(self.rows)
    }

    /// `p`, in threads that have a row of a tile of `rows` rows.
    #[track_caller]
    pub fn among(&self, b: &mut Builder, rows: u32, p: Reg<bool>) -> Reg<bool> {
        if rows >= self.rows {
            return p;
        }
        let has = b.setp(Cmp::Lt, self.row, rows);
        b.and(p, has)
    }

    /// The thread's vectors of a row that begins at `row`.
    #[track_caller]
    pub fn from(&self, b: &mut Builder, row: GlobalPtr) -> GlobalPtr {
        b.global_add(row, self.byte)
    }

    /// The same of a row of bytes.
    #[track_caller]
    pub fn bytes_of_row(&self, b: &mut Builder, row: GlobalPtr) -> GlobalPtr {
        b.global_add(row, self.vector.widening_mul(UNIT))
    }

    /// Where the thread's vector of its first row of a tile goes.
    #[track_caller]
    pub fn to(&self, b: &mut Builder, tile: SharedTile) -> SmemPtr {
        tile.row(b, self.row).from_vector(b, self.vector).vector(b, 0)
    }

    /// The same of its row of turn `turn`.
    pub fn in_turn(&self, tile: SharedTile, first: SmemPtr, turn: u32) -> SmemPtr {
        first.plus(turn * self.rows * tile.layout().swizzle().span_bytes() as u32)
    }

    /// Copies the thread's vectors of a row if it `exists`, else zeros: from `from` on, to `to` in the first panel.
    #[track_caller]
    pub fn copy(
        &self,
        b: &mut Builder,
        exists: Reg<bool>,
        from: GlobalPtr,
        (tile, to): (SharedTile, SmemPtr),
        columns: &Columns,
    ) {
        let whole = b.select::<u32>(exists, VECTOR_BYTES, 0);
        for panel in 0..columns.panels {
            let valid = self.within(b, panel, columns.count, whole);
            let to = to.plus(panel * tile.layout().block_bytes() as u32);
            b.cp_async16(to, from.plus(i64::from(panel * CHUNK * 2)), Some(valid));
        }
    }

    /// `whole`, or 0 where the thread's vector of a panel is past the last column.
    #[track_caller]
    pub fn within(&self, b: &mut Builder, panel: u32, count: Count, whole: Reg<u32>) -> Reg<u32> {
        let inside = match count {
            Count::Fixed(count) if count >= (panel + 1) * CHUNK => return whole,
            Count::Fixed(count) => {
                b.setp(Cmp::Lt, self.vector, count.saturating_sub(panel * CHUNK) / UNIT)
            }
            Count::OfSlice(count) => {
                let column = b.eval((self.vector + panel * CHUNK / UNIT) * UNIT);
                b.setp(Cmp::Lt, column, count)
            }
        };
        b.select::<u32>(inside, whole, 0)
    }
}

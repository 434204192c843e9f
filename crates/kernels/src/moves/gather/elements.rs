//! Rows of 16-bit elements: copied 16 bytes at a time, asynchronously.

use super::share::{Share, row_at};
use super::strides::RowStrides;
use crate::call::tensors::CHUNK;
use problem::View;
use program::BufferId;
use program::build::Arguments;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, VECTOR_BYTES};

/// A tensor of 16-bit elements.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    /// First element.
    pub base: GlobalPtr,
    /// In vectors of 16 bytes.
    pub strides: RowStrides,
    /// Columns of a row.
    columns: u32,
}

impl Elements {
    /// Declares the parameters of a tensor.
    #[track_caller]
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        name: &str,
        view: &View,
        buffer: BufferId,
    ) -> Self {
        let base = args.pointer(b, name, buffer);
        let strides = [0, 1, 2].map(|d| {
            // The stride of a dimension of extent 1 is never used and may be anything.
            let stride = if view.shape[d] > 1 { view.strides[d] * view.dtype.bytes() } else { 0 };
            stride / u64::from(VECTOR_BYTES)
        });
        let strides = RowStrides::declare(b, args, name, strides);
        Elements { base, strides, columns: view.dim() as u32 }
    }

    /// The same rows, `columns` columns from `first` on, which is a multiple of a vector's.
    #[track_caller]
    pub fn columns(&self, b: &mut Builder, first: Reg<u32>, columns: u32) -> Self {
        let offset = b.eval(first.widening_mul(2));
        Elements { base: b.global_add(self.base, offset), columns, ..*self }
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> u32 {
        self.columns * 2
    }

    /// Issues the copies of a warp's share; rows and columns that do not exist become zeros.
    #[track_caller]
    pub fn copy(&self, b: &mut Builder, share: &Share<'_>) {
        let first = b.eval(share.vector.widening_mul(VECTOR_BYTES));
        let first = b.global_add(self.base, first).plus(i64::from(share.column * 2));
        for run in 0..share.runs() {
            let place = share.handed(b, run);
            let from = row_at(b, first, place.row);
            let whole = b.select::<u32>(place.exists, VECTOR_BYTES, 0);
            for panel in 0..share.panels() {
                let valid = self.within_row(b, share.column + panel * CHUNK, share.vector, whole);
                let from = from.plus(i64::from(panel * CHUNK * 2));
                b.cp_async16(share.to(run, panel), from, Some(valid));
            }
        }
    }

    /// `bytes`, or none where vector `vector` of the panel at `column` is past the end of a row.
    #[track_caller]
    fn within_row(
        &self,
        b: &mut Builder,
        column: u32,
        vector: Reg<u32>,
        bytes: Reg<u32>,
    ) -> Reg<u32> {
        let remaining = self.columns.saturating_sub(column);
        if remaining >= CHUNK {
            return bytes;
        }
        let inside = b.setp(Cmp::Lt, vector, remaining * 2 / VECTOR_BYTES);
        b.select::<u32>(inside, bytes, 0)
    }
}

//! Rows in DeepSeek-V4's fp8 format: seven panels of e4m3 numbers with a power of two each, one of bf16.
//!
//! A page holds its rows, 576 bytes each, and behind them eight bytes of scales per row.

use super::share::row_at;
use crate::arguments::Arguments;
use problem::{Segment, Storage};
use program::BufferId;
use ptx::build::{Builder, GlobalPtr, Reg, UNIT_BYTES};

/// Bytes of a row without its scales.
pub const ROW_BYTES: u32 = Storage::MODEL1_ROW_BYTES as u32;
const SCALE_BYTES: u32 = Storage::MODEL1_SCALE_BYTES as u32;
/// Columns of e4m3.
pub const FP8: u32 = Storage::MODEL1_FP8 as u32;

/// A tensor of such rows.
#[derive(Clone, Copy, Debug)]
pub struct Model1 {
    /// First byte.
    pub base: GlobalPtr,
    /// Units of 16 bytes between batches or pages.
    page_units: Reg<u32>,
    /// Rows of a batch or page.
    page_rows: Reg<u32>,
}

impl Model1 {
    /// Declares the parameters of a segment's rows.
    #[track_caller]
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        segment: &Segment,
        buffer: BufferId,
    ) -> Self {
        let rows = segment.k.tokens();
        let page_units = Storage::model1_page_bytes(rows) / u64::from(UNIT_BYTES);
        Model1 {
            base: args.pointer(b, "k", buffer),
            page_units: args.u32(b, "k_page_units", page_units as u32),
            page_rows: args.u32(b, "k_page_rows", rows as u32),
        }
    }

    /// Where a row is, in units of 16 bytes.
    #[track_caller]
    pub fn place(&self, b: &mut Builder, outer: Reg<u32>, token: Reg<u32>) -> Reg<u32> {
        let page = b.mul(outer, self.page_units);
        b.mad(token, ROW_BYTES / UNIT_BYTES, page)
    }

    /// Loads a row's scales, if it `exists`.
    #[track_caller]
    pub fn load_scales(
        &self,
        b: &mut Builder,
        outer: Reg<u32>,
        token: Reg<u32>,
        exists: Reg<bool>,
        scales: &[Reg<u32>; 2],
    ) {
        let page = b.mul(outer, self.page_units);
        let footer = b.mad(self.page_rows, ROW_BYTES / UNIT_BYTES, page);
        let from = row_at(b, self.base, footer);
        let offset = b.mul_wide(token, SCALE_BYTES);
        let from = b.global_add(from, offset);
        scales.iter().for_each(|scale| b.assign(*scale, 0));
        b.ld_global_if(exists, from, scales);
    }
}

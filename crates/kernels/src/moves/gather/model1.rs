//! Rows in DeepSeek-V4's fp8 format: seven panels of e4m3 numbers with a power of two each, one of bf16.
//!
//! A page holds its rows, 576 bytes each, and behind them eight bytes of scales per row.

use super::share::{Share, row_at};
use crate::call::tensors::CHUNK;
use problem::{Segment, Storage};
use program::BufferId;
use program::build::Arguments;
use ptx::build::{Arg, Builder, Cmp, GlobalPtr, HalfType, Reg, VECTOR_BYTES as UNIT_BYTES};

/// Bytes of a row without its scales.
pub const ROW_BYTES: u32 = Storage::MODEL1_ROW_BYTES as u32;
const SCALE_BYTES: u32 = Storage::MODEL1_SCALE_BYTES as u32;
/// Columns of e4m3.
pub const FP8: u32 = Storage::MODEL1_FP8 as u32;
/// Columns that a thread reads together where it reads a row alone.
const VECTOR: u32 = 8;
/// Bits of 2^-127, the smallest scale.
const SMALLEST_SCALE: u32 = 0x0040_0000;

/// A row, found for one thread.
#[derive(Clone, Copy, Debug)]
pub struct PackedRow {
    first: GlobalPtr,
    scales: [Reg<u32>; 2],
}

/// A tensor of such rows.
#[derive(Clone, Copy, Debug)]
pub struct Model1 {
    /// First byte.
    pub base: GlobalPtr,
    /// Units of 16 bytes between batches or pages.
    page_units: Reg<u32>,
    /// Rows of a batch or page.
    page_rows: Reg<u32>,
    /// The first column that is read, of units of [`VECTOR`]: 0 if not said.
    first: Option<Reg<u32>>,
    /// Columns that are read.
    columns: u32,
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
        let page_units = segment.page_stride() / u64::from(UNIT_BYTES);
        Model1 {
            base: args.pointer(b, "k", buffer),
            page_units: args.u32(b, "k_page_units", page_units as u32),
            page_rows: args.u32(b, "k_page_rows", rows as u32),
            first: None,
            columns: Storage::MODEL1_DIM as u32,
        }
    }

    /// The same rows, `columns` columns from `first` on.
    #[track_caller]
    pub fn columns(&self, b: &mut Builder, first: Reg<u32>, columns: u32) -> Self {
        Model1 { first: Some(b.div(first, VECTOR)), columns, ..*self }
    }

    /// Stores a warp's share, unpacked; rows and columns that do not exist become zeros.
    #[track_caller]
    pub fn unpack(&self, b: &mut Builder, share: &Share<'_>) {
        share.for_each_run(b, |b, handed, to| {
            let scales = handed.scales.expect("rows with scales");
            let row = PackedRow { first: row_at(b, self.base, handed.row), scales };
            for panel in 0..share.panels() {
                let column = share.column + panel * CHUNK;
                let words = self.unpack_unit(b, share.vector, column, &row, handed.exists);
                b.st_shared_vector(share.panel(to, panel), &words);
            }
        });
    }

    /// A unit of the panel at `column`, of a row if it `exists`.
    #[track_caller]
    fn unpack_unit(
        &self,
        b: &mut Builder,
        unit: Reg<u32>,
        column: u32,
        row: &PackedRow,
        exists: Reg<bool>,
    ) -> Vec<Reg<u32>> {
        let words = b.regs::<u32>(4);
        words.iter().for_each(|word| b.assign(*word, 0));
        let within = self.columns.saturating_sub(column) / VECTOR;
        let inside = b.setp(Cmp::Lt, unit, within);
        let wanted = b.and(exists, inside);
        b.if_(wanted, |b| {
            let vector = b.add(unit, column / VECTOR);
            let vector = self.first.map_or(vector, |first| b.add(vector, first));
            let numbers = row.vector(b, vector);
            for (&word, pair) in words.iter().zip(numbers.chunks_exact(2)) {
                let packed = b.pack(HalfType::Bf16, pair[0], pair[1]);
                b.assign(word, packed);
            }
        });
        words
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

    /// Finds a row; one that does not exist may not be read.
    #[track_caller]
    pub fn row(
        &self,
        b: &mut Builder,
        outer: Reg<u32>,
        token: Reg<u32>,
        exists: Reg<bool>,
    ) -> PackedRow {
        let scales = std::array::from_fn(|_| b.reg());
        self.load_scales(b, outer, token, exists, &scales);
        let place = self.place(b, outer, token);
        PackedRow { first: row_at(b, self.base, place), scales }
    }
}

impl PackedRow {
    /// Eight neighbouring columns, the `vector`-th of them.
    #[track_caller]
    pub fn vector(&self, b: &mut Builder, vector: Reg<u32>) -> [Reg<f32>; VECTOR as usize] {
        let numbers = std::array::from_fn(|_| b.reg());
        let is_fp8 = b.setp(Cmp::Lt, vector, FP8 / VECTOR);
        b.if_else(
            is_fp8,
            |b| self.unpack_fp8(b, vector, &numbers),
            |b| self.unpack_bf16(b, vector, &numbers),
        );
        numbers
    }

    #[track_caller]
    fn unpack_fp8(&self, b: &mut Builder, vector: Reg<u32>, numbers: &[Reg<f32>]) {
        let at = b.mul_wide(vector, VECTOR);
        let at = b.global_add(self.first, at);
        let words = b.ld_global_vector::<u32>(at, 2);
        let panel = b.div(vector, CHUNK / VECTOR);
        let upper = b.setp(Cmp::Ge, panel, 4);
        let word = b.select::<u32>(upper, self.scales[1], self.scales[0]);
        let byte = b.and(panel, 3);
        let bit = b.shl(byte, 3);
        let scale = scale(b, word, bit);
        for (word, numbers) in words.into_iter().zip(numbers.chunks_exact(4)) {
            for (&number, loaded) in numbers.iter().zip(b.unpack_e4m3(word)) {
                let scaled = b.mul(loaded, scale);
                b.assign(number, scaled);
            }
        }
    }

    #[track_caller]
    fn unpack_bf16(&self, b: &mut Builder, vector: Reg<u32>, numbers: &[Reg<f32>]) {
        let at = b.mul_wide(vector, 2 * VECTOR);
        // The first columns take a byte each, not two.
        let at = b.global_add(self.first, at).plus(-i64::from(FP8));
        let words = b.ld_global_vector::<u32>(at, 4);
        for (word, numbers) in words.into_iter().zip(numbers.chunks_exact(2)) {
            for (&number, loaded) in numbers.iter().zip(b.unpack(HalfType::Bf16, word)) {
                b.assign(number, loaded);
            }
        }
    }
}

/// The power of two that the byte from bit `bit` of a word on says, as a pair of bf16.
#[track_caller]
pub fn scale_pair(b: &mut Builder, scales: Reg<u32>, bit: u32) -> Reg<u32> {
    let exponent = b.shr(scales, bit);
    let exponent = b.and(exponent, 0xff);
    let bits = b.shl(exponent, 7);
    let bits = b.max(bits, SMALLEST_SCALE >> 16);
    b.mul(bits, 0x0001_0001)
}

/// The power of two that the byte from bit `bit` of a word on says.
#[track_caller]
pub fn scale(b: &mut Builder, scales: Reg<u32>, bit: impl Into<Arg<u32>>) -> Reg<f32> {
    let exponent = b.shr(scales, bit);
    let exponent = b.and(exponent, 0xff);
    let bits = b.shl(exponent, 23);
    let bits = b.max(bits, SMALLEST_SCALE);
    b.float_from_bits(bits)
}

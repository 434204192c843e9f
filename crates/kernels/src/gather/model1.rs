//! Rows in DeepSeek-V4's fp8 format, unpacked on their way: seven panels of e4m3 numbers with a power of two
//! each, one of bf16.
//!
//! A number times its power of two is a bf16 number: nothing is rounded.

use super::lookup::Place;
use super::share::{Share, row_at};
use crate::arguments::Arguments;
use crate::tensors::CHUNK;
use problem::{Segment, Storage};
use program::BufferId;
use ptx::build::{Builder, GlobalPtr, HalfType, Reg, UNIT_BYTES};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of a row without its scales.
pub const ROW_BYTES: u32 = Storage::MODEL1_ROW_BYTES as u32;
const SCALE_BYTES: u32 = Storage::MODEL1_SCALE_BYTES as u32;
/// Columns of e4m3.
const FP8: u32 = Storage::MODEL1_FP8 as u32;
/// Runs that are loaded before the one that is unpacked.
const AHEAD: u32 = 2;
/// Bits of 2^-127, the smallest scale.
const SMALLEST_SCALE: u32 = 0x0040_0000;

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

/// What a lane has loaded of a row: a unit of every panel.
struct Loaded {
    panels: Vec<Vec<Reg<u32>>>,
    /// Scales of the panels, a byte each, from the first whole word of them on.
    scales: Vec<Reg<u32>>,
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

    /// Where a row is, and its scales, which are on their way a tile before they are needed.
    #[track_caller]
    pub fn place(
        &self,
        b: &mut Builder,
        outer: Reg<u32>,
        token: Reg<u32>,
        exists: Reg<bool>,
    ) -> Place {
        let page = b.mul(outer, self.page_units);
        let row = b.mad(token, ROW_BYTES / UNIT_BYTES, page);
        let footer = b.mad(self.page_rows, ROW_BYTES / UNIT_BYTES, page);
        let from = row_at(b, self.base, footer);
        let offset = b.mul_wide(token, SCALE_BYTES);
        let from = b.global_add(from, offset);
        let scales = [0, 0].map(|zero| b.value::<u32>(zero));
        b.ld_global_if(exists, from, &scales);
        Place { row, scales: Some(scales) }
    }

    /// Unpacks a warp's share; rows that do not exist become zeros.
    #[track_caller]
    pub fn copy(&self, b: &mut Builder, share: &Share<'_>) {
        let mut loaded = VecDeque::new();
        for run in 0..share.runs() + AHEAD {
            if run < share.runs() {
                loaded.push_back(self.load(b, share, run));
            }
            if let Some(stored) = run.checked_sub(AHEAD) {
                let loaded = loaded.pop_front().expect("a run that was loaded");
                store(b, share, stored, &loaded);
            }
        }
        b.fence_proxy_async();
        // What a lane alone says next, of marks, is not about these rows.
        b.warp_sync();
        share.full.arrive(b);
    }

    /// Loads this lane's units of its row of run `run`, zeros where there is none.
    #[track_caller]
    fn load(&self, b: &mut Builder, share: &Share<'_>, run: u32) -> Loaded {
        let place = share.handed(b, run);
        let row = row_at(b, self.base, place.row);
        let panels = (0..share.panels()).map(|panel| {
            let column = share.column + panel * CHUNK;
            let (words, first) = match column < FP8 {
                true => (2, column),
                false => (4, FP8 + (column - FP8) * 2),
            };
            let unit = b.mul_wide(share.unit, words as u32 * 4);
            let from = b.global_add(row, unit).plus(i64::from(first));
            let values: Vec<_> = (0..words).map(|_| b.value::<u32>(0)).collect();
            b.ld_global_if(place.exists, from, &values);
            values
        });
        let panels = panels.collect();
        let scales = share.place(run).scales.expect("rows with scales");
        let scales = words_of_scales(share)
            .map(|word| b.lane_value(scales[word as usize], place.from))
            .collect();
        Loaded { panels, scales }
    }
}

/// The words that hold the scales of a share's panels, four each.
fn words_of_scales(share: &Share<'_>) -> Range<u32> {
    let first = share.column / CHUNK;
    let end = (first + share.panels()).min(FP8 / CHUNK);
    first / 4..end.div_ceil(4)
}

/// Stores what was loaded of run `run`, unpacked.
#[track_caller]
fn store(b: &mut Builder, share: &Share<'_>, run: u32, loaded: &Loaded) {
    for (panel, words) in (0..).zip(&loaded.panels) {
        let to = share.to(run, panel);
        if share.column + panel * CHUNK >= FP8 {
            b.st_shared_vector(to, words);
            continue;
        }
        let number = share.column / CHUNK + panel;
        let word = number / 4 - words_of_scales(share).start;
        let scale = scale(b, loaded.scales[word as usize], number % 4);
        let numbers = words.iter().flat_map(|word| b.unpack_e4m3(*word));
        let numbers: Vec<_> = numbers.collect();
        let pairs = numbers.chunks_exact(2).map(|pair| {
            let [low, high] = [pair[0], pair[1]].map(|number| b.mul(number, scale));
            b.pack(HalfType::Bf16, low, high)
        });
        let pairs: Vec<_> = pairs.collect();
        b.st_shared_vector(to, &pairs);
    }
}

/// The power of two that byte `byte` of a word says.
#[track_caller]
fn scale(b: &mut Builder, scales: Reg<u32>, byte: u32) -> Reg<f32> {
    let exponent = b.shr(scales, byte * 8);
    let exponent = b.and(exponent, 0xff);
    let bits = b.shl(exponent, 23);
    let bits = b.max(bits, SMALLEST_SCALE);
    b.float_from_bits(bits)
}

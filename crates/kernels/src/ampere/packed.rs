//! Packed rows on their way: bytes as they come, and then bf16 elements where warps multiply.
//!
//! As with e4m3 rows (`narrow`), a thread copies bytes to places of its own and unpacks them itself. It has eight numbers
//! of every panel of its row, and a copy of the row's scales beside them. One buffer is enough: a thread that has
//! unpacked its part of a tile copies that of the next one to the same places, while warps multiply.

use super::copies::Copier;
use crate::call::tensors::CHUNK;
use crate::moves::gather::{Format, Numbers, Packed, ScaleKind, ScalePlace, numbers};
use ptx::build::{Builder, GlobalPtr, Reg, SharedTile, SharedTiles, SmemPtr};

/// Bytes of eight e4m3 numbers.
const NARROW: u32 = 8;
/// Bytes of eight bf16 numbers.
const WIDE: u32 = 16;

/// The bytes of a tile of packed rows, in shared memory: of every turn each panel, and the scales, of all threads.
#[derive(Clone, Copy)]
pub struct Waiting {
    at: SmemPtr,
    format: Format,
    threads: u32,
}

impl Waiting {
    /// Bytes that a thread has of a row. `None` where numbers are half bytes, of which too few are neighbours.
    pub fn bytes_of_row(format: Format) -> Option<u32> {
        let bytes = Self::bytes_before(format, format.panels()) + format.scale_bytes();
        (format.scaled_numbers() == Numbers::E4m3).then_some(bytes)
    }

    /// Bytes that a thread has of the panels before `panel`.
    fn bytes_before(format: Format, panel: u32) -> u32 {
        let scaled = format.scaled() / CHUNK;
        scaled.min(panel) * NARROW + panel.saturating_sub(scaled) * WIDE
    }

    /// Reserves the places of a tile of which every thread has `turns` rows.
    pub fn reserve(
        b: &mut Builder,
        base: SmemPtr,
        format: Format,
        threads: u32,
        turns: u32,
    ) -> Self {
        let bytes = Self::bytes_of_row(format).expect("numbers of a byte") * threads * turns;
        Waiting { at: SharedTiles::reserve_region(b, base, bytes), format, threads }
    }

    /// The thread's places of `bytes` bytes in turn `turn`, as if all were of that size.
    #[track_caller]
    fn of_thread(&self, b: &mut Builder, bytes: u32, turn: u32) -> SmemPtr {
        let row = Self::bytes_of_row(self.format).expect("numbers of a byte");
        let thread = b.thread();
        let at = self.at.plus(turn * row * self.threads);
        b.smem_add(at, thread * bytes)
    }

    /// Bytes from the first place of a turn to those of panel `panel`, or of the scales behind the last one.
    fn offset(&self, panel: u32) -> u32 {
        Self::bytes_before(self.format, panel) * self.threads
    }

    /// Copies what the thread has of a row in turn `turn`, zeros unless it `exists`.
    #[track_caller]
    pub fn copy(
        &self,
        b: &mut Builder,
        copier: &Copier,
        rows: &Packed,
        [outer, row]: [Reg<u32>; 2],
        exists: Reg<bool>,
        turn: u32,
    ) {
        let (first, footer) = rows.row_and_scales(b, outer, row);
        let scales = match self.format.scale_place() {
            ScalePlace::Row(at) => first.plus(at.into()),
            ScalePlace::LookedUp | ScalePlace::Footer => footer,
        };
        for bytes in [NARROW, WIDE] {
            let valid = b.select::<u32>(exists, bytes, 0);
            let to = self.of_thread(b, bytes, turn);
            let from = b.global_add(first, copier.vector.widening_mul(bytes));
            let panels = (0..self.format.panels()).filter(|panel| self.bytes_of(*panel) == bytes);
            for panel in panels {
                let from = from.plus(self.format.panel_at(panel).into());
                copy(b, bytes, to.plus(self.offset(panel)), from, valid);
            }
            if self.format.scale_bytes() == bytes {
                let to = to.plus(self.offset(self.format.panels()));
                copy(b, bytes, to, scales, valid);
            }
        }
    }

    fn bytes_of(&self, panel: u32) -> u32 {
        if self.format.numbers(panel) == Numbers::Bf16 { WIDE } else { NARROW }
    }

    /// Stores what was copied as bf16 elements of `tile`, of which the thread has `turns` rows.
    #[track_caller]
    pub fn unpack(&self, b: &mut Builder, copier: &Copier, tile: SharedTile, turns: u32) {
        let first = copier.to(b, tile);
        for turn in 0..turns {
            let to = copier.in_turn(tile, first, turn);
            let block = tile.layout().block_bytes() as u32;
            let narrow = self.of_thread(b, NARROW, turn);
            // A loop: unrolled, it takes registers that output needs.
            b.range(0, self.format.scaled() / CHUNK, |b, panel| {
                let from = b.smem_add(narrow, panel * (NARROW * self.threads));
                let words = b.ld_shared_vector::<u32>(from, 2);
                let scale = self.scale(b, copier, panel, turn);
                let pairs = words.into_iter();
                let pairs =
                    pairs.flat_map(|word| numbers::unpack_word(b, Numbers::E4m3, word, scale));
                let pairs: Vec<_> = pairs.collect();
                let to = b.smem_add(to, panel * block);
                b.st_shared_vector(to, &pairs);
            });
            let wide = self.of_thread(b, WIDE, turn);
            for panel in self.format.scaled() / CHUNK..self.format.panels() {
                let words = b.ld_shared_vector::<u32>(wide.plus(self.offset(panel)), 4);
                b.st_shared_vector(to.plus(panel * block), &words);
            }
        }
    }

    /// The scale of the thread's numbers of panel `panel`.
    #[track_caller]
    fn scale(
        &self,
        b: &mut Builder,
        copier: &Copier,
        panel: Reg<u32>,
        turn: u32,
    ) -> numbers::Scale {
        let at = self.of_thread(b, self.format.scale_bytes(), turn);
        let at = at.plus(self.offset(self.format.panels()));
        let kind = self.format.scales();
        let (word, bit) = match kind {
            ScaleKind::PowerPerPanel => (b.eval(panel / 4), b.eval(panel % 4 * 8)),
            ScaleKind::PowerPerHalf => {
                (b.eval(panel / 2), b.eval((panel % 2 * 2 + copier.vector / 4) * 8))
            }
            ScaleKind::FloatPerTwo => (b.eval(panel / 2), b.value(0)),
            ScaleKind::E4m3PerQuarter => panic!("scales of numbers that are half bytes"),
        };
        let at = b.smem_add(at, word * 4);
        let word = b.ld_shared::<u32>(at);
        numbers::scale(b, kind, word, bit)
    }
}

#[track_caller]
fn copy(b: &mut Builder, bytes: u32, to: SmemPtr, from: GlobalPtr, valid: Reg<u32>) {
    match bytes {
        NARROW => b.cp_async8(to, from, Some(valid)),
        _ => b.cp_async16(to, from, Some(valid)),
    }
}

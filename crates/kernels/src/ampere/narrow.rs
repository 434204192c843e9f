//! e4m3 rows on their way: bytes as they come, and then 16-bit elements where warps multiply.
//!
//! A thread copies eight numbers of eight bytes at a time to a place of its own, which no other thread looks at. When
//! they have come it unpacks them to where a 16-bit vector of theirs would have gone. So waiting for its own copies is
//! enough before, and the barrier that is there anyway comes behind. Rows and columns that do not exist are zeros.
//!
//! One tile of keys and one of values are unpacked at a time; bytes have as many buffers as there are stages. Where
//! there is no room for those, a thread loads a row's bytes to registers and unpacks them at once.

use super::config::Config;
use super::copies::{Columns, Copier};
use crate::call::tensors::CHUNK;
use layout::Layout;
use ptx::build::{Builder, Cmp, GlobalPtr, HalfType, Reg, SharedArray, SharedTile, SmemPtr};

/// Numbers, and bytes, that a thread copies at a time.
pub const NUMBERS: u32 = 8;

/// Bytes of keys or of values, in shared memory: `[word, thread, vector, stage]`.
pub struct Staging {
    words: SharedArray<u32>,
    panels: u32,
}

/// What a thread has of a tile in one of the buffers.
pub struct Staged<'a> {
    staging: &'a Staging,
    first: SmemPtr,
}

impl Staging {
    /// Bytes of all buffers of a tile with so many panels.
    pub fn bytes(config: &Config, panels: u32) -> u32 {
        config.stages * panels * config.turns() * config.threads() * NUMBERS
    }

    /// Reserves the buffers of tiles with so many panels.
    pub fn reserve(b: &mut Builder, base: SmemPtr, config: &Config, panels: u32) -> Self {
        let vectors = panels * config.turns();
        let extents = [NUMBERS / 4, config.threads(), vectors, config.stages].map(u64::from);
        let layout = Layout::column_major((extents[0], extents[1], extents[2], extents[3]));
        let words = SharedArray::reserve(b, base, &layout.expect("a small layout"));
        Staging { words, panels }
    }

    /// What this thread has of a tile in the buffer `stage`.
    #[track_caller]
    pub fn of_thread(&self, b: &mut Builder, stage: Reg<u32>) -> Staged<'_> {
        let (zero, thread) = (b.value::<u32>(0), b.thread());
        Staged { staging: self, first: self.words.element(b, &[zero, thread, zero, stage]) }
    }
}

impl Staged<'_> {
    /// Where the thread's vector of panel `panel` in turn `turn` is.
    fn at(&self, turn: u32, panel: u32) -> SmemPtr {
        let Staging { words, panels } = self.staging;
        self.first.plus(words.offset(&[0, 0, turn * panels + panel]))
    }

    /// Copies the thread's vectors of its row of turn `turn` if the row `exists`, else zeros.
    #[track_caller]
    pub fn copy(
        &self,
        b: &mut Builder,
        copier: &Copier,
        exists: Reg<bool>,
        from: GlobalPtr,
        turn: u32,
        columns: &Columns,
    ) {
        let whole = b.select::<u32>(exists, NUMBERS, 0);
        for panel in 0..columns.panels {
            let valid = copier.within(b, panel, columns.count, whole);
            b.cp_async8(self.at(turn, panel), from.plus(i64::from(panel * CHUNK)), Some(valid));
        }
    }

    /// Stores what was copied as 16-bit elements of `tile`.
    #[track_caller]
    pub fn unpack(&self, b: &mut Builder, copier: &Copier, config: &Config, tile: SharedTile) {
        let (first, half) = (copier.to(b, tile), config.unpacked_to());
        // A loop over panels: unrolled, it takes registers that scores and output need.
        b.range(0, self.staging.panels, |b, panel| {
            let from = b.smem_add(self.first, panel * self.staging.words.offset(&[0, 0, 1]));
            let staged = Staged { staging: self.staging, first: from };
            let first = b.smem_add(first, panel * tile.layout().block_bytes() as u32);
            for turn in 0..config.turns() {
                let from = staged.at(turn, 0);
                let words = b.ld_shared_vector::<u32>(from, NUMBERS as usize / 4);
                let pairs: Vec<_> =
                    words.into_iter().flat_map(|word| b.e4m3_pairs(half, word)).collect();
                b.st_shared_vector(copier.in_turn(tile, first, turn), &pairs);
            }
        });
    }
}

/// Loads the thread's vectors of a row from `from` on if it `exists`, and stores them as 16-bit elements of a tile, its
/// first to `to`; else zeros.
#[track_caller]
pub fn unpack_row(
    b: &mut Builder,
    copier: &Copier,
    half: HalfType,
    exists: Reg<bool>,
    from: GlobalPtr,
    (tile, to): (SharedTile, SmemPtr),
    columns: &Columns,
) {
    let whole = b.select::<u32>(exists, NUMBERS, 0);
    for panel in 0..columns.panels {
        let valid = copier.within(b, panel, columns.count, whole);
        let there = b.setp(Cmp::Ne, valid, 0);
        let words: [Reg<u32>; 2] = [b.value(0), b.value(0)];
        b.if_(there, |b| {
            let loaded = b.ld_global_vector::<u32>(from.plus(i64::from(panel * CHUNK)), 2);
            words.iter().zip(loaded).for_each(|(word, loaded)| b.assign(*word, loaded));
        });
        let pairs = words.map(|word| b.e4m3_pairs(half, word)).concat();
        b.st_shared_vector(to.plus(panel * tile.layout().block_bytes() as u32), &pairs);
    }
}

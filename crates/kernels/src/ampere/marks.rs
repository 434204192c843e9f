//! Which keys of a tile exist, where lists leave entries out: a byte per four keys, from the threads that copy the
//! rows to those that hold their scores.

use layout::Layout;
use ptx::build::{Builder, Reg, SharedArray, SmemPtr};

/// Keys of a byte.
const KEYS: u32 = 4;
/// Keys of a word.
const KEYS_OF_WORD: u32 = 4 * KEYS;

/// Bytes of a ring of tiles, in shared memory.
pub struct Marks {
    words: SharedArray<u32>,
    per_tile: u32,
}

impl Marks {
    /// Reserves the bytes of `stages` tiles of `tile` keys.
    pub fn reserve(b: &mut Builder, base: SmemPtr, tile: u32, stages: u32) -> Self {
        let per_tile = tile / KEYS_OF_WORD;
        let layout = Layout::column_major((u64::from(per_tile), u64::from(stages)));
        let words = SharedArray::reserve(b, base, &layout.expect("a small layout"));
        Marks { words, per_tile }
    }

    /// Writes whether four rows from `row` on exist, that eight lanes each know: those of a warp.
    #[track_caller]
    pub fn write(&self, b: &mut Builder, stage: Reg<u32>, row: Reg<u32>, exists: Reg<bool>) {
        let lane = b.special("%laneid");
        // Lane `i` speaks for row `i` of the four.
        let speaker = b.eval(lane * 8 % 32);
        let known = b.select::<u32>(exists, 1, 0);
        let spoken = b.lane_value(known, speaker);
        let exists = b.setp(ptx::build::Cmp::Ne, spoken, 0);
        let bits = b.ballot(exists);
        let lead = b.setp(ptx::build::Cmp::Eq, lane, 0);
        let at = self.at(b, stage);
        let at = b.smem_add(at, row / KEYS);
        b.st_shared_byte_if(lead, at, bits);
    }

    /// What a thread of an accumulator needs of the tile at `stage`, as [`crate::moves::marks::hide`] takes it: bits
    /// `4i` and `4i + 1` are columns `8i` and `8i + 1` from its first on.
    #[track_caller]
    pub fn read(&self, b: &mut Builder, stage: Reg<u32>) -> Vec<Reg<u32>> {
        let lane = b.special("%laneid");
        let shift = b.eval((lane & 1) * 2 + ((lane & 2) << 2));
        let at = self.at(b, stage);
        let mut words = Vec::new();
        for first in (0..self.per_tile).step_by(4) {
            let mut bits = b.value::<u32>(0);
            for i in first..self.per_tile.min(first + 4) {
                let word = b.ld_shared::<u32>(at.plus(self.words.offset(&[i])));
                let two = two_columns(b, word, shift);
                bits = b.eval(bits | (two << ((i - first) * 8)));
            }
            words.push(bits);
        }
        words
    }

    #[track_caller]
    fn at(&self, b: &mut Builder, stage: Reg<u32>) -> SmemPtr {
        let zero = b.value::<u32>(0);
        self.words.element(b, &[zero, stage])
    }
}

/// The marks of a thread's columns of 16 keys.
#[track_caller]
fn two_columns(b: &mut Builder, word: Reg<u32>, shift: Reg<u32>) -> Reg<u32> {
    let word = b.eval(word >> shift);
    b.eval((word & 3) | ((word >> 12) & 0x30))
}

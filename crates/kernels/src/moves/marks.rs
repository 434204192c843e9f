//! Which keys of a gathered tile exist, where lists leave entries out: one bit per key, from the warps that
//! look the keys up to those that multiply with them.
//!
//! A word is what the lanes of one warp found ([`crate::moves::gather`]): bit `4i + j` of word `w` of warp `u` is row
//! `64w + 8i + 4u + j`. A thread of an accumulator holds columns `8i + 2q` and the next, where `q` is its lane
//! among four: they are in one warp's words.

use crate::moves::gather::WARPS;
use layout::Layout;
use ptx::build::{Builder, Cmp, Reg, SharedArray, SmemPtr};

/// Keys whose bits are in one word of each warp.
const KEYS: u32 = 32 * WARPS;

/// Words of a ring of tiles, in shared memory.
pub struct Marks {
    words: SharedArray<u32>,
    per_tile: u32,
}

impl Marks {
    /// Reserves the words of `stages` tiles of `tile` keys.
    pub fn reserve(b: &mut Builder, base: SmemPtr, tile: u32, stages: u32) -> Self {
        let per_tile = tile.div_ceil(KEYS);
        let shape = (u64::from(per_tile), u64::from(WARPS), u64::from(stages));
        let layout = Layout::column_major(shape).expect("a small layout");
        Marks { words: SharedArray::reserve(b, base, &layout), per_tile }
    }

    /// Writes a warp's words of the tile at `stage`: whether the keys that each lane looked up exist.
    #[track_caller]
    pub fn write(
        &self,
        b: &mut Builder,
        warp: Reg<u32>,
        stage: Reg<u32>,
        exist: &[Reg<bool>],
        lead: Reg<bool>,
    ) {
        let words: Vec<_> = exist.iter().map(|exists| b.ballot(*exists)).collect();
        b.if_(lead, |b| {
            let zero = b.value::<u32>(0);
            let at = self.words.element(b, &[zero, warp, stage]);
            for (i, word) in words.into_iter().enumerate() {
                b.st_shared(at.plus(self.words.offset(&[i as u32])), word);
            }
        });
    }

    /// Writes what warp `number` of those that unpack a tile found, for each [`KEYS`] keys a byte: whether each of its
    /// two runs' rows exists, a bit each.
    #[track_caller]
    pub fn write_bytes(
        &self,
        b: &mut Builder,
        number: Reg<u32>,
        stage: Reg<u32>,
        bytes: &[Reg<u32>],
        lead: Reg<bool>,
    ) {
        let (two, warp) = (b.eval(number / WARPS), b.eval(number % WARPS));
        let zero = b.value::<u32>(0);
        let at = self.words.element(b, &[zero, warp, stage]);
        let at = b.smem_add(at, two);
        for (i, &byte) in bytes.iter().enumerate() {
            b.st_shared_byte_if(lead, at.plus(self.words.offset(&[i as u32])), byte);
        }
    }

    /// Words that a thread reads of a tile.
    pub fn words(&self) -> usize {
        self.per_tile as usize
    }

    /// Reads what a thread of an accumulator needs of the tile at `stage` into `words`.
    #[track_caller]
    pub fn read(&self, b: &mut Builder, thread: Reg<u32>, stage: Reg<u32>, words: &[Reg<u32>]) {
        let warp = b.eval(thread / 2);
        let warp = b.eval(warp & (WARPS - 1));
        let first = b.eval((thread % 2) << 1);
        let zero = b.value::<u32>(0);
        let at = self.words.element(b, &[zero, warp, stage]);
        for (i, &register) in words.iter().enumerate() {
            let word = b.ld_shared::<u32>(at.plus(self.words.offset(&[i as u32])));
            b.assign(register, word >> first);
        }
    }
}

/// The words of [`KEYS`] neighbouring keys.
pub type WordsOfRun = [Reg<u32>; WARPS as usize];

impl Marks {
    /// Reads the words of `keys` neighbouring keys of the tile at `stage`, from its first on or that of number
    /// `first`, a multiple of [`KEYS`].
    #[track_caller]
    pub fn read_run(
        &self,
        b: &mut Builder,
        stage: Reg<u32>,
        first: Option<Reg<u32>>,
        keys: u32,
    ) -> Vec<WordsOfRun> {
        let first = match first {
            None => b.value::<u32>(0),
            Some(key) => b.eval(key / KEYS),
        };
        let zero = b.value::<u32>(0);
        let at = self.words.element(b, &[first, zero, stage]);
        let mut word = |i, warp| b.ld_shared::<u32>(at.plus(self.words.offset(&[i, warp])));
        (0..keys / KEYS).map(|i| std::array::from_fn(|warp| word(i, warp as u32))).collect()
    }
}

/// Replaces the scores of keys that do not exist by `-inf`, in a thread that holds those of neighbouring keys.
#[track_caller]
pub fn hide_run(b: &mut Builder, words: &[WordsOfRun], scores: &[Reg<f32>]) {
    let mut all = b.value(u32::MAX);
    for word in words.iter().flatten() {
        all = b.eval(all & *word);
    }
    let missing = b.setp(Cmp::Ne, all, u32::MAX);
    let missing = b.vote_any(missing);
    b.if_(missing, |b| {
        for (key, &score) in (0..).zip(scores) {
            let (warp, bit) = bit_of_run(key % KEYS);
            let mark = b.eval(words[(key / KEYS) as usize][warp] & (1u32 << bit));
            let hidden = b.setp(Cmp::Eq, mark, 0);
            b.assign_if(hidden, score, f32::NEG_INFINITY);
        }
    });
}

/// The warp that looked a key of a run up, and the bit of its word.
fn bit_of_run(key: u32) -> (usize, u32) {
    ((key / 4 % WARPS) as usize, key / 8 * 4 + key % 4)
}

/// Word and bit of a column, counted from a thread's first one.
fn bit(column: u32) -> (usize, u32) {
    ((column / KEYS) as usize, column % KEYS / 8 * 4 + column % 8)
}

/// Replaces the scores of keys that do not exist by `-inf`: of each row of scores, `columns[i]` is the column of
/// `scores[i]`, counted from the thread's first one; `words` are what the thread read. Most tiles are whole.
#[track_caller]
pub fn hide(b: &mut Builder, words: &[Reg<u32>], rows: &[Vec<Reg<f32>>], columns: &[u32]) {
    let missing = missing(b, words, columns);
    let any = b.setp(Cmp::Ne, missing, 0);
    let any = b.vote_any(any);
    b.if_(any, |b| rows.iter().for_each(|scores| hide_row(b, words, scores, columns)));
}

/// Not zero where a key of the thread's columns does not exist.
#[track_caller]
fn missing(b: &mut Builder, words: &[Reg<u32>], columns: &[u32]) -> Reg<u32> {
    let mut masks = vec![0u32; words.len()];
    for (word, bit) in columns.iter().map(|column| bit(*column)) {
        masks[word] |= 1 << bit;
    }
    let mut missing = b.value::<u32>(0);
    for (&word, mask) in words.iter().zip(masks) {
        let absent = b.not(word);
        missing = b.eval(missing | (absent & mask));
    }
    missing
}

#[track_caller]
fn hide_row(b: &mut Builder, words: &[Reg<u32>], scores: &[Reg<f32>], columns: &[u32]) {
    for (&score, &column) in scores.iter().zip(columns) {
        let (word, bit) = bit(column);
        let mark = b.eval(words[word] & (1u32 << bit));
        let hidden = b.setp(Cmp::Eq, mark, 0);
        b.assign_if(hidden, score, f32::NEG_INFINITY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moves::gather::row_of_lane;
    use layout::hw::fragment::wgmma_d;

    #[test]
    fn every_key_of_a_run_has_the_mark_of_the_lane_that_looked_it_up() {
        for key in 0..KEYS {
            let (warp, bit) = bit_of_run(key);
            assert_eq!(row_of_lane(warp as u32, bit), key);
        }
    }

    /// What a thread reads of a column's mark is what the lane wrote that looked the column's row up.
    #[test]
    fn every_register_of_every_thread_finds_the_mark_of_its_key() {
        for tile in [64u64, 80, 96, 128] {
            let fragment = wgmma_d(tile, 32).expect("a width that wgmma has");
            for thread in 0..128u32 {
                for register in 0..tile / 2 {
                    let at = |thread: u32| {
                        fragment.row_col(thread.into(), register).expect("a register").1 as u32
                    };
                    let (word, bit) = bit(at(0));
                    let (warp, lane) = ((thread >> 1) & (WARPS - 1), bit + 2 * (thread & 1));
                    let row = row_of_lane(warp, lane) + word as u32 * KEYS;
                    assert_eq!(
                        row,
                        at(thread),
                        "tile {tile}, thread {thread}, register {register}"
                    );
                }
            }
        }
    }
}

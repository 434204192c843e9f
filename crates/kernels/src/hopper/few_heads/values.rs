//! `O += P·V` of a warp's 64 columns, unpacked from shared memory.

use super::config::{BLOCK, SCALED, TILE};
use super::kernel::{Shared, at_stage};
use super::order;
use super::unpack::{half_of_two_keys, number_of_two_keys};
use ptx::build::{Builder, Cmp, HalfType, Reg, SmemPtr};

/// Keys of a product.
const STEP: u32 = 16;
/// Columns that a lane has of a key: one of each product.
const COLUMNS: u32 = 8;

/// Where a lane finds its columns of values.
pub struct ValuePlace {
    /// The lane's two keys of the first eight in the first stage.
    keys: [SmemPtr; 2],
    /// Their factors.
    factors: SmemPtr,
    /// The lane's words of the first probabilities.
    probabilities: SmemPtr,
    /// Whether the warp has the columns that are bf16.
    is_last: Reg<bool>,
}

/// Where a tile's are.
struct TilePlace {
    keys: [SmemPtr; 2],
    factors: SmemPtr,
    probabilities: SmemPtr,
}

impl ValuePlace {
    /// Lane `lane` of warp `warp`.
    #[track_caller]
    pub fn new(b: &mut Builder, shared: &Shared, warp: Reg<u32>, lane: Reg<u32>) -> Self {
        let (group, quarter) = (b.eval(lane / 4), b.eval(lane % 4));
        let column = b.eval(quarter << 1);
        let is_last = b.setp(Cmp::Eq, warp, SCALED);
        // Eight columns are two words of fp8 numbers, and four of bf16.
        let (narrow, wide) = (b.eval(group * 2), b.eval(group * 4));
        let within = b.select::<u32>(is_last, wide, narrow);
        let word = b.eval(warp * (BLOCK / 4) + within);
        let zero = b.value(0);
        ValuePlace {
            keys: [0, 1].map(|half| {
                let column = b.eval(column + half);
                let row = order::row_of(b, column);
                shared.rows.element(b, &[word, row])
            }),
            factors: shared.key_factors.element(b, &[column, warp]),
            probabilities: shared.probabilities.element(b, &[zero, lane]),
            is_last,
        }
    }

    /// Adds the output of the tile at `stage`, whose probabilities are in `buffer`, to `out`.
    #[track_caller]
    pub fn add_output(
        &self,
        b: &mut Builder,
        shared: &Shared,
        (stage, buffer): (Reg<u32>, Reg<u32>),
        out: &[Reg<f32>],
    ) {
        let offset = b.eval(buffer * shared.probabilities.offset(&[0, 0, 0, 1]));
        let place = TilePlace {
            keys: self.keys.map(|key| at_stage(b, &shared.rows, key, stage)),
            factors: at_stage(b, &shared.key_factors, self.factors, stage),
            probabilities: b.smem_add(self.probabilities, offset),
        };
        b.if_else(
            self.is_last,
            |b| place.add(b, shared, out, TilePlace::halves),
            |b| place.add(b, shared, out, TilePlace::numbers),
        );
    }
}

impl TilePlace {
    /// Adds the products of all keys, of which `pairs` gives a lane's pairs from a key on.
    #[track_caller]
    fn add(
        &self,
        b: &mut Builder,
        shared: &Shared,
        out: &[Reg<f32>],
        pairs: impl Fn(&Self, &mut Builder, &Shared, u32) -> Vec<Reg<u32>>,
    ) {
        for step in 0..TILE / STEP {
            let at = self.probabilities.plus(shared.probabilities.offset(&[0, 0, step]));
            let left = b.ld_shared_vector::<u32>(at, 4);
            let left = std::array::from_fn(|i| left[i]);
            let [first, second] = [0, 8].map(|keys| pairs(self, b, shared, step * STEP + keys));
            for (n, (x, y)) in first.into_iter().zip(second).enumerate() {
                let sums = std::array::from_fn(|i| out[4 * n + i]);
                b.mma_m16n8k16(HalfType::Bf16, &sums, &left, &[x, y]);
            }
        }
    }

    /// Two keys' numbers of each of the lane's columns, unpacked from fp8.
    #[track_caller]
    fn numbers(&self, b: &mut Builder, shared: &Shared, key: u32) -> Vec<Reg<u32>> {
        let factors = self.factors.plus(shared.key_factors.offset(&[key]));
        let factors = b.ld_shared::<u32>(factors);
        let words = self.words(b, shared, key, 2);
        let pair = |i: u32| {
            let two = [0, 1].map(|n: usize| words[n][i as usize / 4]);
            number_of_two_keys(b, two, i % 4, factors)
        };
        (0..COLUMNS).map(pair).collect()
    }

    /// The same of bf16 numbers.
    #[track_caller]
    fn halves(&self, b: &mut Builder, shared: &Shared, key: u32) -> Vec<Reg<u32>> {
        let words = self.words(b, shared, key, 4);
        let pair = |i: u32| {
            let two = [0, 1].map(|n: usize| words[n][i as usize / 2]);
            half_of_two_keys(b, two, i % 2)
        };
        (0..COLUMNS).map(pair).collect()
    }

    /// The lane's words of two keys of the eight from `key` on.
    #[track_caller]
    fn words(
        &self,
        b: &mut Builder,
        shared: &Shared,
        key: u32,
        count: usize,
    ) -> [Vec<Reg<u32>>; 2] {
        let offset = shared.rows.offset(&[0, key]);
        self.keys.map(|at| b.ld_shared_vector::<u32>(at.plus(offset), count))
    }
}

//! `O += P·V` of a warp's 64 columns, unpacked from shared memory.

use super::config::{BLOCK, SCALED, TILE};
use super::kernel::{Shared, at_stage};
use super::order;
use super::unpack::{half_of_two_keys, numbers_of_two_keys};
use ptx::build::{Builder, Cmp, HalfType, Reg, SmemPtr};

/// Keys of a product.
const STEP: u32 = 16;
/// Products of a tile.
pub const STEPS: u32 = TILE / STEP;
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
            factors: shared.factors.element(b, &[column, warp]),
            probabilities: shared.probabilities.element(b, &[zero, lane]),
            is_last,
        }
    }

    /// Adds the output of the tile at `stage`, whose probabilities are in `buffer`, to `out`. `between` is emitted
    /// behind each of the [`STEPS`] products, with its number.
    #[track_caller]
    pub fn add_output(
        &self,
        b: &mut Builder,
        shared: &Shared,
        (stage, buffer): (Reg<u32>, Reg<u32>),
        out: &[Reg<f32>],
        between: impl Fn(&mut Builder, u32),
    ) {
        let offset = b.eval(buffer * shared.probabilities.offset(&[0, 0, 0, 1]));
        let place = TilePlace {
            keys: self.keys.map(|key| at_stage(b, &shared.rows, key, stage)),
            factors: at_stage(b, &shared.factors, self.factors, stage),
            probabilities: b.smem_add(self.probabilities, offset),
        };
        let add = |b: &mut Builder, product: fn(&TilePlace, &mut Builder, &Shared, u32) -> _| {
            for step in 0..STEPS {
                let Product { half, left, right } = product(&place, b, shared, step);
                for (n, right) in right.iter().enumerate() {
                    let sums = std::array::from_fn(|i| out[4 * n + i]);
                    b.mma_m16n8k16(half, &sums, &left, right);
                }
                between(b, step);
            }
        };
        b.if_else(self.is_last, |b| add(b, TilePlace::wide), |b| add(b, TilePlace::narrow));
    }
}

/// The operands of a product of 16 keys.
struct Product {
    half: HalfType,
    left: [Reg<u32>; 4],
    /// Of each of the lane's columns.
    right: Vec<[Reg<u32>; 2]>,
}

impl TilePlace {
    /// Product `step` with e4m3 numbers, whose scales multiply probabilities.
    #[track_caller]
    fn narrow(&self, b: &mut Builder, shared: &Shared, step: u32) -> Product {
        let left = self.probabilities(b, shared, step);
        let [first, second] = [0, 8].map(|key| {
            let at = self.factors.plus(shared.factors.offset(&[step * STEP + key]));
            b.ld_shared::<u32>(at)
        });
        let factors = [first, first, second, second];
        let left = std::array::from_fn(|i| b.mul_halves(HalfType::F16, left[i], factors[i]));
        let [first, second] = [0, 8].map(|key| {
            let words = self.words(b, shared, step * STEP + key, 2);
            let pairs = [0, 1].map(|n| numbers_of_two_keys(b, [words[0][n], words[1][n]]));
            pairs.concat()
        });
        let right = first.into_iter().zip(second).map(|(x, y)| [x, y]).collect();
        Product { half: HalfType::F16, left, right }
    }

    /// The same with bf16 numbers.
    #[track_caller]
    fn wide(&self, b: &mut Builder, shared: &Shared, step: u32) -> Product {
        let left = self.probabilities(b, shared, step).map(|pair| {
            let [x, y] = b.unpack(HalfType::F16, pair);
            b.pack(HalfType::Bf16, x, y)
        });
        let [first, second] = [0, 8].map(|key| {
            let words = self.words(b, shared, step * STEP + key, 4);
            let pair = |i: u32| {
                let two = [0, 1].map(|n: usize| words[n][i as usize / 2]);
                half_of_two_keys(b, two, i % 2)
            };
            (0..COLUMNS).map(pair).collect::<Vec<_>>()
        });
        let right = first.into_iter().zip(second).map(|(x, y)| [x, y]).collect();
        Product { half: HalfType::Bf16, left, right }
    }

    /// The A operand of product `step`: f16 probabilities.
    #[track_caller]
    fn probabilities(&self, b: &mut Builder, shared: &Shared, step: u32) -> [Reg<u32>; 4] {
        let at = self.probabilities.plus(shared.probabilities.offset(&[0, 0, step]));
        let words = b.ld_shared_vector::<u32>(at, 4);
        std::array::from_fn(|i| words[i])
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

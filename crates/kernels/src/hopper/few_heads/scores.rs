//! `S = Q·Kᵀ` of a warp's eight keys, unpacked from shared memory.

use super::config::{BLOCK, SCALED};
use super::kernel::{Shared, at_stage};
use super::order;
use super::queries::Queries;
use super::unpack::numbers_of_key;
use ptx::build::{Builder, Cmp, HalfType, Reg, SmemPtr, VECTOR_BYTES};

/// Where a lane finds its key in the first stage.
pub struct KeyPlace {
    /// The lane's vector of the first block.
    key: SmemPtr,
    /// The first scales of the two keys whose scores the lane has.
    scales: SmemPtr,
}

/// Scores of which some blocks of columns are added up.
pub struct Begun {
    key: SmemPtr,
    scales: SmemPtr,
    sums: [Reg<f32>; 4],
}

impl Begun {
    /// Adds block `block` of the columns.
    #[track_caller]
    pub fn add(&self, b: &mut Builder, shared: &Shared, queries: &Queries, block: u32) {
        let left = queries.operands(b, shared, block);
        if block == SCALED {
            return self.add_wide(b, &left);
        }
        let words = b.ld_shared_vector::<u32>(self.key.plus(block * BLOCK), 4);
        let scales = self.scales.plus(shared.key_scales.offset(&[0, block]));
        let scales = b.ld_shared_vector::<f32>(scales, 2);
        let sums = zeros(b);
        for (left, word) in left.iter().zip(words) {
            let pairs = numbers_of_key(b, word);
            b.mma_m16n8k16(HalfType::F16, &sums, left, &pairs);
        }
        for (i, (sum, to)) in sums.into_iter().zip(self.sums).enumerate() {
            let sum = b.fma(sum, scales[i % 2], to);
            b.assign(to, sum);
        }
    }

    /// Adds the last block, whose numbers are bf16: a lane has twice as many bytes of it.
    #[track_caller]
    fn add_wide(&self, b: &mut Builder, left: &[[Reg<u32>; 4]; 4]) {
        let lane = b.special("%laneid");
        let key = b.smem_add(self.key, lane % 4 * VECTOR_BYTES);
        let words = [0, VECTOR_BYTES].map(|at| {
            let at = key.plus(SCALED * BLOCK + at);
            b.ld_shared_vector::<u32>(at, 4)
        });
        for (left, pair) in left.iter().zip(words.concat().chunks_exact(2)) {
            b.mma_m16n8k16(HalfType::Bf16, &self.sums, left, &[pair[0], pair[1]]);
        }
    }

    /// The scores: two columns of either of a lane's rows.
    #[track_caller]
    pub fn finish(&self, b: &mut Builder, shared: &Shared, queries: &Queries) -> [Reg<f32>; 4] {
        let scales = queries.scales(b, shared);
        std::array::from_fn(|i| b.mul(self.sums[i], scales[i / 2]))
    }
}

#[track_caller]
fn zeros(b: &mut Builder) -> [Reg<f32>; 4] {
    std::array::from_fn(|_| b.value(0.0))
}

impl KeyPlace {
    /// Lane `lane` of warp `warp`.
    #[track_caller]
    pub fn new(b: &mut Builder, shared: &Shared, warp: Reg<u32>, lane: Reg<u32>) -> Self {
        let (group, quarter) = (b.eval(lane / 4), b.eval(lane % 4));
        let row = order::row_of(b, group);
        let row = b.eval(warp * 8 + row);
        let word = b.eval(quarter * (VECTOR_BYTES / 4));
        let column = b.eval(warp * 8 + (quarter << 1));
        KeyPlace {
            key: shared.rows.element(b, &[word, row]),
            scales: shared.key_scales.element(b, &[column]),
        }
    }

    /// Begins the scores of the tile at `stage`.
    #[track_caller]
    pub fn begin(&self, b: &mut Builder, shared: &Shared, stage: Reg<u32>) -> Begun {
        Begun {
            key: at_stage(b, &shared.rows, self.key, stage),
            scales: at_stage(b, &shared.key_scales, self.scales, stage),
            sums: zeros(b),
        }
    }

    /// Replaces the scores of keys that do not exist by `-inf`.
    #[track_caller]
    pub fn hide_missing(
        &self,
        b: &mut Builder,
        shared: &Shared,
        stage: Reg<u32>,
        scores: &[Reg<f32>; 4],
    ) {
        let marks = at_stage(b, &shared.key_scales, self.scales, stage);
        let marks = marks.plus(shared.key_scales.offset(&[0, SCALED]));
        for (column, mark) in b.ld_shared_vector::<f32>(marks, 2).into_iter().enumerate() {
            let missing = b.setp(Cmp::Eq, mark, 0.0);
            for score in [scores[column], scores[column + 2]] {
                b.assign_if(missing, score, f32::NEG_INFINITY);
            }
        }
    }
}

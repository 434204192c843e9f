//! `S = Q·Kᵀ` of a warp's eight keys, unpacked from shared memory.

use super::config::{BLOCK, SCALED, WARPS};
use super::kernel::{Shared, at_stage};
use super::order;
use super::queries::Queries;
use super::unpack::{NanBytes, numbers_of_key};
use ptx::build::{Builder, Cmp, HalfType, Reg, SmemPtr, VECTOR_BYTES};

/// Independent sums. A product waits for the one before it of the same sum; unpacking takes longer than half of that.
const SUMS: usize = 2;

/// Where a lane finds its key in the first stage.
pub struct KeyPlace {
    /// The lane's vector of the first block.
    key: SmemPtr,
    /// The key's factors.
    factors: SmemPtr,
    /// Whether the two keys exist whose scores the lane has.
    marks: SmemPtr,
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
        let (zero, last) = (b.value(0), b.value(SCALED));
        KeyPlace {
            key: shared.rows.element(b, &[word, row]),
            factors: shared.row_factors.element(b, &[zero, row]),
            marks: shared.key_factors.element(b, &[column, last]),
        }
    }

    /// The scores of the tile at `stage`: two columns of either of a lane's rows.
    #[track_caller]
    pub fn scores(
        &self,
        b: &mut Builder,
        shared: &Shared,
        queries: &Queries,
        stage: Reg<u32>,
    ) -> [Reg<f32>; 4] {
        let sums: Vec<[Reg<f32>; 4]> =
            (0..SUMS).map(|_| std::array::from_fn(|_| b.value(0.0))).collect();
        let factors = at_stage(b, &shared.row_factors, self.factors, stage);
        let vectors = [0, VECTOR_BYTES].map(|at| b.ld_shared_vector::<u32>(factors.plus(at), 4));
        let factors = vectors.concat();
        let key = at_stage(b, &shared.rows, self.key, stage);
        let nan = NanBytes::new(b);
        for block in 0..SCALED {
            let words = b.ld_shared_vector::<u32>(key.plus(block * BLOCK), 4);
            for (step, word) in (0..).zip(words) {
                nan.look(b, word);
                let pairs = numbers_of_key(b, word, factors[block as usize]);
                let left = queries.operand(block, step);
                b.mma_m16n8k16(HalfType::Bf16, &sums[step as usize % SUMS], &left, &pairs);
            }
        }
        let last = [0, BLOCK].map(|at| {
            let at = key.plus(SCALED * BLOCK + at);
            b.ld_shared_vector::<u32>(at, 4)
        });
        let mut last = last.concat();
        last[0] = nan.spoil(b, last[0]);
        for (step, pair) in (0..).zip(last.chunks_exact(2)) {
            let left = queries.operand(WARPS - 1, step);
            b.mma_m16n8k16(HalfType::Bf16, &sums[step as usize % SUMS], &left, &[pair[0], pair[1]]);
        }
        std::array::from_fn(|i| b.add(sums[0][i], sums[1][i]))
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
        let marks = at_stage(b, &shared.key_factors, self.marks, stage);
        let marks = b.ld_shared::<u32>(marks);
        let marks = [b.eval(marks & 0xffff), b.eval(marks >> 16)];
        for (column, mark) in marks.into_iter().enumerate() {
            let missing = b.setp(Cmp::Eq, mark, 0);
            for score in [scores[column], scores[column + 2]] {
                b.assign_if(missing, score, f32::NEG_INFINITY);
            }
        }
    }
}

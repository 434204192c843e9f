//! Probabilities of a tile, which all warps tell each other.

use super::config::WARPS;
use super::kernel::Shared;
use crate::hopper::fragment;
use crate::math::softmax::{Reference, RowState, Softmax};
use ptx::build::{Builder, Cmp, HalfType, Reg, SmemPtr};

/// The named barrier of the warps that compute.
const BARRIER: u32 = 1;
/// Their threads.
const THREADS: u32 = WARPS * 32;

/// The softmax of a lane's two rows, eight apart.
pub struct RowSoftmax {
    pub rows: [RowState; 2],
    references: [Reference; 2],
    /// Where the lane leaves its probabilities in the first of two buffers.
    to: SmemPtr,
    warp: Reg<u32>,
}

impl RowSoftmax {
    /// Lane `lane` of warp `warp`.
    #[track_caller]
    pub fn new(b: &mut Builder, shared: &Shared, warp: Reg<u32>, lane: Reg<u32>) -> Self {
        let (half, step) = (b.eval((warp % 2) << 1), b.eval(warp / 2));
        RowSoftmax {
            rows: [RowState::new(b), RowState::new(b)],
            references: [Reference::new(b), Reference::new(b)],
            to: shared.probabilities.element(b, &[half, lane, step]),
            warp,
        }
    }

    /// Forgets the last row block.
    #[track_caller]
    pub fn reset(&self, b: &mut Builder) {
        self.rows.iter().for_each(|row| row.reset(b));
        self.references.iter().for_each(|reference| reference.reset(b));
    }

    /// Leaves the probabilities of `scores` in buffer `buffer`, where all warps see them behind this. Makes `out` relative
    /// to what they are relative to.
    #[track_caller]
    pub fn step(
        &self,
        b: &mut Builder,
        shared: &Shared,
        softmax: &Softmax,
        scores: &[Reg<f32>; 4],
        (buffer, out): (Reg<u32>, &[Reg<f32>]),
    ) {
        let halves = scores.as_chunks::<2>().0;
        let [upper, lower] = [0, 1].map(|half| self.references[half].may_move(b, &halves[half]));
        let moves = b.or(upper, lower);
        let to = b.smem_add(self.to, buffer * shared.probabilities.offset(&[0, 0, 0, 1]));
        let probabilities = b.regs::<f32>(4);
        self.store(b, softmax, halves, &probabilities, to);
        let moves = b.barrier_any(BARRIER, THREADS, moves);
        b.if_(moves, |b| {
            self.follow(b, shared, softmax, halves, out);
            self.store(b, softmax, halves, &probabilities, to);
            b.barrier_sync(BARRIER, THREADS);
        });
        for (row, probabilities) in self.rows.iter().zip(probabilities.chunks_exact(2)) {
            row.add(b, probabilities);
        }
    }

    /// Stores the probabilities of both rows.
    #[track_caller]
    fn store(
        &self,
        b: &mut Builder,
        softmax: &Softmax,
        scores: &[[Reg<f32>; 2]],
        probabilities: &[Reg<f32>],
        to: SmemPtr,
    ) {
        let mut rounded = Vec::new();
        for (half, some) in probabilities.chunks_exact(2).enumerate() {
            some.iter().zip(scores[half]).for_each(|(p, score)| b.assign(*p, score));
            softmax.exponentiate(b, some, self.references[half].shift);
            rounded.push(b.pack(HalfType::F16, some[0], some[1]));
        }
        b.st_shared_vector(to, &rounded);
    }

    /// Moves both rows' references along with the largest scores of all warps.
    #[track_caller]
    fn follow(
        &self,
        b: &mut Builder,
        shared: &Shared,
        softmax: &Softmax,
        scores: &[[Reg<f32>; 2]],
        out: &[Reg<f32>],
    ) {
        let largest = [0, 1].map(|half| {
            let [x, y] = scores[half];
            let largest = b.max(x, y);
            b.join_lanes(largest, 4, |b, x, y| b.max(x, y))
        });
        let of_all = self.exchange(b, shared, largest);
        let largest = of_all.map(|of_row| b.max_tree(&of_row));
        let factors = [0, 1]
            .map(|half| self.references[half].follow(b, softmax, &self.rows[half], largest[half]));
        fragment::scale_rows(b, out, factors);
    }

    /// A number of each warp for both rows, in all warps.
    #[track_caller]
    fn exchange(
        &self,
        b: &mut Builder,
        shared: &Shared,
        numbers: [Reg<f32>; 2],
    ) -> [Vec<Reg<f32>>; 2] {
        // Seldom wanted, and found anew: registers are short.
        let lane = b.special("%laneid");
        let (row, quarter, zero) = (b.eval(lane / 4), b.eval(lane % 4), b.value(0));
        let own = shared.of_warps.element(b, &[self.warp, row]);
        let of_all = shared.of_warps.element(b, &[zero, row]);
        let leads = b.setp(Cmp::Eq, quarter, 0);
        let lower = shared.of_warps.offset(&[0, 8]);
        for (number, at) in numbers.into_iter().zip([0, lower]) {
            b.st_shared_if(leads, own.plus(at), number);
        }
        b.barrier_sync(BARRIER, THREADS);
        [0, lower].map(|at| {
            let vectors = [0, 16].map(|half| {
                let from = of_all.plus(at + half);
                b.ld_shared_vector::<f32>(from, 4)
            });
            vectors.concat()
        })
    }

    /// Both rows' states with sums over all keys.
    #[track_caller]
    pub fn totals(&self, b: &mut Builder, shared: &Shared) -> [RowState; 2] {
        let sums = self.rows.map(|row| b.join_lanes(row.sum, 4, |b, x, y| b.add(x, y)));
        let sums = self.exchange(b, shared, sums);
        let sums = sums.map(|of_row| b.sum_tree(&of_row));
        // The next row block may have no key: nothing else would keep its sums from overwriting these.
        b.barrier_sync(BARRIER, THREADS);
        [0, 1].map(|half| RowState { max: self.rows[half].max, sum: sums[half] })
    }
}

//! The end of a row block: normalise, write LSE and output.
//!
//! Product `i` of a warp makes every eighth of its 64 columns, so that a lane has 16 neighbouring columns of a row.

use super::config::{BLOCK, ROWS, SCALED};
use super::unpack::UNLIFT;
use crate::hopper::fragment;
use crate::math::exact::{Again, Watch};
use crate::math::softmax::RowState;
use crate::moves::output::{BlockOutput, RowPlace};
use ptx::build::{Builder, Cmp, HalfType, Reg};

/// A warp's columns of the output.
pub struct Columns<'a> {
    pub warp: Reg<u32>,
    pub lane: Reg<u32>,
    /// Accumulators.
    pub out: &'a [Reg<f32>],
    /// Whether they are finite.
    pub watch: Watch,
}

impl Columns<'_> {
    /// Finishes both rows of a lane, whose sinks are given where there are any, and writes them.
    #[track_caller]
    pub fn finish(
        &self,
        b: &mut Builder,
        output: &BlockOutput<'_>,
        states: [RowState; 2],
        sinks: Option<[Reg<f32>; 2]>,
    ) {
        let row = b.eval(self.lane / 4);
        let position = b.eval((self.lane % 4) | self.warp);
        let writes_lse = b.setp(Cmp::Eq, position, 0);
        let places = [0, 8].map(|offset| {
            let row = b.eval(row + offset);
            output.place(b, row)
        });
        let is_last = b.setp(Cmp::Eq, self.warp, SCALED);
        let unlift = b.select::<f32>(is_last, 1.0, UNLIFT);
        let factors = [0, 1].map(|half| {
            let RowState { max, sum } = states[half];
            let result = output.finish_with(b, max, sum, sinks.map(|sinks| sinks[half]));
            output.write_lse(b, &places[half], &result, Some(writes_lse));
            b.mul(result.inverse, unlift)
        });
        fragment::scale_rows(b, self.out, factors);
        let finite = self.watch.finite(b);
        finite.look(b, self.out);
        self.watch.note(b, &finite);
        for (half, place) in places.iter().enumerate() {
            b.if_(place.live, |b| self.write(b, output, place, half));
        }
    }

    /// Writes what a lane has of row `half` of its two.
    #[track_caller]
    fn write(&self, b: &mut Builder, output: &BlockOutput<'_>, place: &RowPlace, half: usize) {
        let column = b.eval(self.warp * BLOCK + (self.lane % 4) * 16);
        let numbers = [0, 1].map(|right| {
            let of_products = self.out.chunks_exact(4);
            of_products.map(|four| four[2 * half + right]).collect::<Vec<_>>()
        });
        let numbers = numbers.concat();
        if let Some(partial) = output.params.output.partial {
            let byte = b.eval(column.widening_mul(4));
            let to = output.partial_row(b, place, partial, byte);
            for (n, some) in (0..).zip(numbers.chunks_exact(4)) {
                b.st_global_vector(to.plus(n * 16), some);
            }
            return;
        }
        let byte = b.eval(column.widening_mul(2));
        let to = output.output_row(b, place, byte);
        let pairs = numbers.chunks_exact(2);
        let pairs: Vec<_> = pairs.map(|two| b.pack(HalfType::Bf16, two[0], two[1])).collect();
        for (n, some) in (0..).zip(pairs.chunks_exact(4)) {
            b.st_global_vector(to.plus(n * 16), some);
        }
    }

    /// Computes the warp's columns of rows again that were written and are not finite but should be.
    #[track_caller]
    pub fn write_again(&self, b: &mut Builder, output: &BlockOutput<'_>) {
        let column = b.eval(self.warp * BLOCK);
        let first = b.value(0);
        Again { output, column, columns: BLOCK }.rows(b, first, ROWS);
    }
}

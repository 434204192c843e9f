//! The end of a tile: normalise, write LSE and output.
//!
//! The four lanes of a quad hold a row's columns in pairs, interleaved. They trade pairs, so that each
//! has eight neighbouring columns, and write 64 neighbouring bytes of a row together. No shared memory
//! is needed: the next queries are on their way meanwhile. Partial results are f32 and are written as
//! they are. Rows that are not finite but should be are computed again at the end of the kernel ([`crate::math::exact`]).

use super::fragment;
use super::scores::Scores;
use crate::math::exact::{Again, Watch};
use crate::math::softmax::RowState;
use crate::moves::output::{BlockOutput, RowPlace};
use ptx::build::{Builder, Cmp, GlobalPtr, HalfType, Reg};

/// Rows of a warp.
const WARP_ROWS: u32 = 16;

/// Finished output columns of a warpgroup.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    /// Thread within the warpgroup.
    pub thread: Reg<u32>,
    /// Accumulators.
    pub out: &'a [Reg<f32>],
    /// First column.
    pub first: u32,
    /// Element type of the output.
    pub half: HalfType,
    /// Whether they are finite.
    pub watch: Watch,
}

/// The sinks of a thread's two rows, where there are sinks.
pub type Sinks = [Option<Reg<f32>>; 2];

/// Loads the sinks of a thread's two rows, where there are sinks.
#[track_caller]
pub fn sinks(b: &mut Builder, thread: Reg<u32>, output: &BlockOutput<'_>) -> Sinks {
    let places = places(b, thread, output);
    [0, 1].map(|half| output.sink(b, &places[half]))
}

/// Completes both rows of a thread, writes their LSEs and returns the factors on their outputs.
#[track_caller]
pub fn finish(b: &mut Builder, scores: &Scores, output: &BlockOutput<'_>) -> [Reg<f32>; 2] {
    let states = scores.totals(b);
    finish_rows(b, scores.thread, states, output, true)
}

/// The same with sinks that were loaded before.
#[track_caller]
pub fn finish_with(
    b: &mut Builder,
    scores: &Scores,
    output: &BlockOutput<'_>,
    sinks: Sinks,
) -> [Reg<f32>; 2] {
    let states = scores.totals(b);
    complete_rows(b, scores.thread, states, output, true, |_, half, _| sinks[half])
}

/// The factors on the outputs of a thread's rows whose `states` are complete; writes their LSEs if
/// this warpgroup is the one that does.
#[track_caller]
pub fn finish_rows(
    b: &mut Builder,
    thread: Reg<u32>,
    states: [RowState; 2],
    output: &BlockOutput<'_>,
    writes_lse: bool,
) -> [Reg<f32>; 2] {
    let sink = |b: &mut Builder, _, place: &RowPlace| output.sink(b, place);
    complete_rows(b, thread, states, output, writes_lse, sink)
}

#[track_caller]
fn complete_rows(
    b: &mut Builder,
    thread: Reg<u32>,
    states: [RowState; 2],
    output: &BlockOutput<'_>,
    writes_lse: bool,
    sink: impl Fn(&mut Builder, usize, &RowPlace) -> Option<Reg<f32>>,
) -> [Reg<f32>; 2] {
    let places = places(b, thread, output);
    let quad = b.eval(thread % 4);
    let first_of_row = b.setp(Cmp::Eq, quad, 0);
    [0, 1].map(|half| {
        let RowState { max, sum } = states[half];
        let sink = sink(b, half, &places[half]);
        let result = output.finish_with(b, max, sum, sink);
        if writes_lse {
            output.write_lse(b, &places[half], &result, Some(first_of_row));
        }
        output.descaled(b, result.inverse)
    })
}

/// Computes a warp's rows again that were written and are not finite but should be: `columns` columns from `first` on.
#[track_caller]
pub fn write_again(
    b: &mut Builder,
    thread: Reg<u32>,
    output: &BlockOutput<'_>,
    first: u32,
    columns: u32,
) {
    let column = b.value(first);
    let again = Again { output, column, columns };
    let first = b.eval(thread / 32 * WARP_ROWS);
    again.rows(b, first, WARP_ROWS);
}

/// Where the results of a thread's two rows go.
#[track_caller]
pub fn places(b: &mut Builder, thread: Reg<u32>, output: &BlockOutput<'_>) -> [RowPlace; 2] {
    let row = fragment::first_row(b, thread);
    [0, 8].map(|offset| {
        let row = b.eval(row + offset);
        output.place(b, row)
    })
}

impl Columns<'_> {
    /// Multiplies rows by `factors` and writes them.
    pub fn write(&self, b: &mut Builder, output: &BlockOutput<'_>, factors: [Reg<f32>; 2]) {
        fragment::scale_rows(b, self.out, factors);
        let finite = self.watch.finite(b);
        finite.look(b, self.out);
        self.watch.note(b, &finite);
        match output.params.output.partial {
            Some(partial) => self.write_partial(b, output, partial),
            None => self.write_rows(b, output),
        }
    }

    /// Computes the warp's rows again that were written and are not finite but should be.
    pub fn write_again(&self, b: &mut Builder, output: &BlockOutput<'_>) {
        write_again(b, self.thread, output, self.first, self.out.len() as u32 * 2);
    }

    fn write_partial(&self, b: &mut Builder, output: &BlockOutput<'_>, partial: GlobalPtr) {
        let column = b.eval((self.thread % 4).widening_mul(8));
        let places = places(b, self.thread, output);
        for (half, place) in places.iter().enumerate() {
            b.if_(place.live, |b| {
                let at = output.partial_row(b, place, partial, column);
                let at = at.plus(self.first as i64 * 4);
                let registers = fragment::of_row(self.out, half);
                for (n, columns) in registers.chunks_exact(2).enumerate() {
                    b.st_global_vector(at.plus(n as i64 * 32), columns);
                }
            });
        }
    }

    fn write_rows(&self, b: &mut Builder, output: &BlockOutput<'_>) {
        let quad = fragment::Quad::new(b, self.thread);
        let column = b.eval(quad.lane.widening_mul(16));
        let places = places(b, self.thread, output);
        for (half, place) in places.iter().enumerate() {
            let to = output.output_row(b, place, column).plus(self.first as i64 * 2);
            let registers = fragment::of_row(self.out, half);
            for (run, registers) in registers.chunks(8).enumerate() {
                let mut pairs: Vec<Reg<u32>> =
                    registers.chunks_exact(2).map(|c| b.pack(self.half, c[0], c[1])).collect();
                let lanes = pairs.len() as u32;
                pairs.resize(4, pairs[0]);
                let vectors = quad.transpose(b, [pairs[0], pairs[1], pairs[2], pairs[3]]);
                let mut writes = place.live;
                if lanes < 4 {
                    let covered = b.setp(Cmp::Lt, quad.lane, lanes);
                    writes = b.and(writes, covered);
                }
                let to = to.plus(run as i64 * 64);
                b.if_(writes, |b| b.st_global_vector(to, &vectors));
            }
        }
    }
}

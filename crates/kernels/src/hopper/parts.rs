//! What a warpgroup's threads hold of a work tile that is cut, on its way to another CTA.

use crate::call::task::Params;
use crate::hopper::fragment;
use crate::math::softmax::RowState;
use crate::work::exchange::{Exchange, Given, Part};
use ptx::build::{Builder, Reg};

/// Words of the states of a thread's rows.
const STATES: usize = 4;
/// Accumulators of another CTA that are loaded at a time.
const AT_ONCE: usize = 64;

/// Words of a thread that has `columns` output columns of its rows.
pub fn words(columns: u32) -> u32 {
    (columns / 2 + STATES as u32).next_multiple_of(4)
}

/// A thread's two rows: maxima, sums, and accumulators of some of their columns.
pub struct HeldRows<'a> {
    pub params: &'a Params,
    pub rows: [RowState; 2],
    pub out: &'a [Reg<f32>],
}

impl HeldRows<'_> {
    /// Adds what other CTAs have left of these rows for the warp of number `warp`. Then the rows go to the CTA
    /// that finishes them, or `finish` does it here.
    #[track_caller]
    pub fn exchange(
        &self,
        b: &mut Builder,
        (exchange, part): (&Exchange, &Part),
        warp: Reg<u32>,
        finish: impl FnOnce(&mut Builder),
    ) {
        let flag_value = exchange.take(b, part, warp, |b, given| self.add(b, given));
        b.if_else(
            part.gives,
            |b| {
                exchange.give(b, part, warp, flag_value, |b, given| {
                    given.store(b, 0, &self.held());
                })
            },
            finish,
        );
    }

    /// What a thread holds, in the order in which it is left.
    fn held(&self) -> Vec<Reg<f32>> {
        let states = self.rows.iter().flat_map(|row| [row.max, row.sum]);
        let mut held: Vec<_> = states.chain(self.out.iter().copied()).collect();
        held.resize(held.len().next_multiple_of(4), held[0]);
        held
    }

    /// Adds what another CTA's thread [held](Self::held) of the same rows.
    fn add(&self, b: &mut Builder, given: Given) {
        let states = given.load(b, 0, STATES);
        let load = |b: &mut Builder, n: usize, words: usize| {
            given.load(b, STATES + n * AT_ONCE, words.next_multiple_of(4))
        };
        // Nothing waits for the states alone.
        let mut first = load(b, 0, self.out.len().min(AT_ONCE));
        let factors = [0, 1].map(|half| {
            let other = RowState { max: states[2 * half], sum: states[2 * half + 1] };
            let row = self.rows[half];
            let (state, factors) = self.params.softmax.merge(b, &[row, other]);
            b.assign(row.max, state.max);
            b.assign(row.sum, state.sum);
            [factors[0], factors[1]]
        });
        fragment::scale_rows(b, self.out, factors.map(|[own, _]| own));
        for (n, some) in self.out.chunks(AT_ONCE).enumerate() {
            let others = match n {
                0 => std::mem::take(&mut first),
                _ => {
                    // The assembler would load everything first, and spill.
                    b.warp_sync();
                    load(b, n, some.len())
                }
            };
            fragment::add_rows(b, some, &others, factors.map(|[_, other]| other));
        }
    }
}

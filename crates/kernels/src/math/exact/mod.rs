//! Rows computed again, by a warp each: those whose output is not finite and may have to be.
//!
//! A tile of values is multiplied with all rows of a block, so a value that is not finite meets the probability 0 of
//! rows that do not see it, and makes their outputs NaN. And outputs are normalised at the end, so values near the
//! largest number overflow their sums. A tile in which no key is hidden may have scores of −∞ only, against which no
//! exponents can be taken. Telling so while tiles come by would slow everything down. Where rows are
//! written it takes half an instruction per column ([`Watch`]).
//!
//! When a warp has written all its rows and one was not finite, it goes over its tiles once more. It reads its rows
//! back and computes those again that are not finite. That is slow and simple: a warp goes over the keys that the row
//! sees, once for the softmax and once for some columns at a time, whose weights are normalised before they are
//! multiplied. Where a row does see a value that is not finite, its output is not finite this way either.
//!
//! All this comes behind the loop over tiles because the assembler serialises `wgmma` in a loop with such branches.
//!
//! 32 keys at a time, each lane has the score of one. Then every four lanes (a quad) have the values of every eighth
//! key, each lane a quarter of the columns, and the quads' sums are added up: all quads have the row.

mod rows;

pub use rows::{Rows, SegmentRows, Tensor};

use crate::call::precision::{Precision, VECTOR};
use crate::call::task::{Keys, OpenTile, Params};
use crate::call::visible::RowWindow;
use crate::math::average;
use crate::math::bias::RowScores;
use crate::math::softmax::{RowResult, RowState};
use crate::moves::output::{BlockOutput, RowPlace};
use layout::Layout;
use ptx::build::{Builder, Cmp, GlobalPtr, Reg, SharedArray, SmemPtr};
use rows::elements;

/// Lanes of a warp.
const LANES: u32 = 32;
/// Lanes that share a key's value.
const QUAD: u32 = 4;
/// Keys whose values are read side by side.
const QUADS: u32 = LANES / QUAD;
/// Vectors of columns that a lane computes at a time: what warps with few registers have room for.
const AT_ONCE: u32 = 2;

/// Where warps take note whether all numbers that they have written were finite.
#[derive(Clone, Copy, Debug)]
pub enum Watch {
    /// In a register of each lane.
    Register(Finite),
    /// In shared memory, a word per warp: Hopper's warps have no register to keep through the loop over tiles.
    Words(SmemPtr),
}

impl Watch {
    /// The most warps of a CTA.
    const WARPS: u64 = 16;

    /// Reserves words of shared memory.
    pub fn reserve(b: &mut Builder) -> Self {
        let base = b.shared_base();
        let words = Layout::column_major(Self::WARPS).expect("a small layout");
        Watch::Words(SharedArray::<u32>::reserve(b, base, &words).at())
    }

    /// Nothing was written yet (each warp that writes).
    #[track_caller]
    pub fn begin(self, b: &mut Builder) -> Self {
        if let Watch::Words(words) = self {
            let always = b.predicate(true);
            set_word(b, words, always, 0);
        }
        self
    }

    /// What to look at numbers with that are about to be written.
    #[track_caller]
    pub fn finite(&self, b: &mut Builder) -> Finite {
        match self {
            Watch::Register(finite) => *finite,
            Watch::Words(_) => Finite::new(b),
        }
    }

    /// Takes note of what was looked at.
    #[track_caller]
    pub fn note(&self, b: &mut Builder, written: &Finite) {
        if let Watch::Words(words) = *self {
            let strange = written.any_strange(b);
            set_word(b, words, strange, 1);
        }
    }

    /// Whether the warp has written a number that was not finite.
    #[track_caller]
    fn any_strange(&self, b: &mut Builder) -> Reg<bool> {
        match *self {
            Watch::Register(finite) => finite.any_strange(b),
            Watch::Words(words) => {
                b.warp_sync();
                let word = word_of_warp(b, words);
                let word = b.ld_shared::<u32>(word);
                b.setp(Cmp::Ne, word, 0)
            }
        }
    }

    /// Runs `body` once more with all tiles of the warp, which has written their rows, if not all were finite.
    #[track_caller]
    pub fn revisit(
        &self,
        b: &mut Builder,
        params: &Params,
        body: impl FnOnce(&mut Builder, OpenTile),
    ) {
        params.end(b);
        let any = self.any_strange(b);
        b.if_(any, |b| {
            // Lanes are going to read what other lanes wrote.
            b.warp_sync();
            params.revisit_tiles(b, body);
        });
    }
}

/// Sets the warp's word if `p` holds.
#[track_caller]
fn set_word(b: &mut Builder, words: SmemPtr, p: Reg<bool>, value: u32) {
    let lane = b.special("%laneid");
    let leads = b.setp(Cmp::Eq, lane, 0);
    let sets = b.and(leads, p);
    let (word, value) = (word_of_warp(b, words), b.value::<u32>(value));
    b.st_shared_if(sets, word, value);
}

#[track_caller]
fn word_of_warp(b: &mut Builder, words: SmemPtr) -> SmemPtr {
    let thread = b.thread();
    b.smem_add(words, (thread >> LANES.ilog2()) * 4)
}

/// Whether numbers of one lane are finite.
#[derive(Clone, Copy, Debug)]
pub struct Finite {
    /// 0 as long as they are, NaN from then on.
    zero: Reg<f32>,
}

impl Finite {
    /// There are none yet.
    #[track_caller]
    pub fn new(b: &mut Builder) -> Self {
        Finite { zero: b.value(0.0) }
    }

    /// Looks at numbers. Those whose products are not finite count as if they were not either.
    #[track_caller]
    pub fn look(&self, b: &mut Builder, numbers: &[Reg<f32>]) {
        let sum = b.sum_of_products(numbers);
        let zero = b.fma(sum, 0.0, self.zero);
        b.assign(self.zero, zero);
    }

    /// Whether those of a lane of the warp are not.
    #[track_caller]
    fn any_strange(&self, b: &mut Builder) -> Reg<bool> {
        let finite = b.setp(Cmp::Eq, self.zero, 0.0);
        let strange = b.not(finite);
        b.vote_any(strange)
    }
}

/// Some columns of the rows of a block, written before.
pub struct Again<'a> {
    pub output: &'a BlockOutput<'a>,
    /// First column in the output row.
    pub column: Reg<u32>,
    /// How many there are.
    pub columns: u32,
}

/// A row in work.
struct Row {
    /// Number in the block.
    number: Reg<u32>,
    place: RowPlace,
    query: GlobalPtr,
    lane: Reg<u32>,
    /// Number among the lanes of a quad.
    in_quad: Reg<u32>,
}

/// 32 keys and the lane's score.
struct Batch<'a> {
    rows: SegmentRows<'a>,
    open: &'a OpenTile,
    first: Reg<u32>,
    /// −∞ where the key is not seen.
    score: Reg<f32>,
}

impl Again<'_> {
    /// Computes those of `count` rows from row `first` of the block on again that are not finite and should be. All
    /// lanes of the warp come here together.
    #[track_caller]
    pub fn rows(&self, b: &mut Builder, first: Reg<u32>, count: u32) {
        b.range(0, count, |b, number| {
            let number = b.eval(first + number);
            let place = self.output.place(b, number);
            b.if_(place.live, |b| self.row(b, number, place));
        });
    }

    #[track_caller]
    fn row(&self, b: &mut Builder, number: Reg<u32>, place: RowPlace) {
        let lane = b.special("%laneid");
        let strange = self.was_strange(b, &place, lane);
        b.if_(strange, |b| {
            let (params, open) = (self.output.params, self.output.open);
            let at = [open.sequence.q_batch.reg(), place.head.reg(), place.token.reg()];
            let query = params.exact_queries.row(b, at);
            let in_quad = b.eval(lane & (QUAD - 1));
            self.compute(b, &Row { number, place, query, lane, in_quad });
        });
    }

    /// Whether the row's columns are not all finite, as they were written.
    #[track_caller]
    fn was_strange(&self, b: &mut Builder, place: &RowPlace, lane: Reg<u32>) -> Reg<bool> {
        let written = Finite::new(b);
        let vector = b.value(lane);
        b.while_(
            |b| b.setp(Cmp::Lt, vector, self.columns / VECTOR),
            |b| {
                let column = b.eval(vector * VECTOR + self.column);
                let numbers = self.written(b, place, column);
                written.look(b, &numbers);
                b.assign(vector, vector + LANES);
            },
        );
        written.any_strange(b)
    }

    /// A vector of columns, as it was written.
    #[track_caller]
    fn written(&self, b: &mut Builder, place: &RowPlace, column: Reg<u32>) -> Vec<Reg<f32>> {
        let params = self.output.params;
        match params.output.partial {
            Some(partial) => {
                let byte = b.eval(column.widening_mul(4));
                let from = self.output.partial_row(b, place, partial, byte);
                let halves = [0, 16].map(|at| b.ld_global_vector::<f32>(from.plus(at), 4));
                halves.concat()
            }
            None => {
                let byte = b.eval(column.widening_mul(params.precision.bytes()));
                let from = self.output.output_row(b, place, byte);
                let first = b.value(0);
                elements(b, params.precision, from, first).to_vec()
            }
        }
    }

    #[track_caller]
    fn compute(&self, b: &mut Builder, row: &Row) {
        let softmax = &self.output.params.softmax;
        let state = RowState::new(b);
        self.for_each_batch(b, row, |b, batch| {
            let largest = b.join_lanes(batch.score, LANES, |b, x, y| b.max(x, y));
            let (shift, _) = softmax.move_reference(b, &state, largest, true);
            let power = softmax.power(b, batch.score, shift);
            state.add(b, &[power]);
        });
        let sum = b.join_lanes(state.sum, LANES, |b, x, y| b.add(x, y));
        let result = self.output.finish_row(b, &row.place, state.max, sum);
        let shift = softmax.shift_of(b, state.max);
        // A row whose log-sum-exp is NaN stays NaN.
        let known = b.setp(Cmp::Ge, result.inverse, 0.0);
        b.if_(known, |b| {
            self.write_lse(b, row, &result);
            let factor = self.output.descaled(b, result.inverse);
            self.all_columns(b, row, shift, factor);
        });
    }

    /// Writes the log-sum-exp in one thread of the warp that has the row's first column, and wrote it before.
    #[track_caller]
    fn write_lse(&self, b: &mut Builder, row: &Row, result: &RowResult) {
        let position = b.eval(row.lane | self.column);
        let first = b.setp(Cmp::Eq, position, 0);
        self.output.write_lse(b, &row.place, result, Some(first));
    }

    #[track_caller]
    fn all_columns(&self, b: &mut Builder, row: &Row, shift: Reg<f32>, inverse: Reg<f32>) {
        let share = (self.columns / VECTOR).div_ceil(QUAD);
        let first_quad = b.setp(Cmp::Lt, row.lane, QUAD);
        let next = b.value::<u32>(0);
        b.while_(
            |b| b.setp(Cmp::Lt, next, share),
            |b| {
                let sums = self.some_columns(b, row, shift, inverse, next);
                b.if_(first_quad, |b| self.write(b, row, next, &sums));
                b.assign(next, next + AT_ONCE);
            },
        );
    }

    /// What the lane has of some vectors, from its `next` one on.
    #[track_caller]
    fn some_columns(
        &self,
        b: &mut Builder,
        row: &Row,
        shift: Reg<f32>,
        inverse: Reg<f32>,
        next: Reg<u32>,
    ) -> Vec<Vec<Reg<f32>>> {
        let zeros = |b: &mut Builder| (0..VECTOR).map(|_| b.value(0.0)).collect();
        let sums: Vec<Vec<Reg<f32>>> = (0..AT_ONCE).map(|_| zeros(b)).collect();
        self.for_each_batch(b, row, |b, batch| {
            let power = self.output.params.softmax.power(b, batch.score, shift);
            let mut weight = b.mul(power, inverse);
            if let Some(headroom) = average::headroom(self.output.params.precision) {
                weight = b.mul(weight, headroom);
            }
            let hidden = b.setp(Cmp::Eq, batch.score, f32::NEG_INFINITY);
            let seen = b.not(hidden);
            let seen = b.ballot(seen);
            let quad = b.eval(row.lane >> QUAD.ilog2());
            b.range(0, LANES / QUADS, |b, step| {
                let from = b.eval(step * QUADS + quad);
                let weight = b.lane_value(weight, from);
                let bit = b.eval(seen >> from);
                let bit = b.eval(bit % 2);
                let sees = b.setp(Cmp::Ne, bit, 0);
                b.if_(sees, |b| self.add_value(b, row, batch, from, weight, (next, &sums)));
            });
        });
        let join = |sum: Reg<f32>, b: &mut Builder| {
            (QUAD.ilog2()..LANES.ilog2()).fold(sum, |sum, bit| {
                let other = b.shuffle_xor(sum, 1 << bit);
                b.add(sum, other)
            })
        };
        sums.into_iter().map(|some| some.into_iter().map(|sum| join(sum, b)).collect()).collect()
    }

    /// Adds the value of key `key` of a batch to the lane's sums.
    #[track_caller]
    fn add_value(
        &self,
        b: &mut Builder,
        row: &Row,
        batch: &Batch<'_>,
        key: Reg<u32>,
        weight: Reg<f32>,
        (next, sums): (Reg<u32>, &[Vec<Reg<f32>>]),
    ) {
        let number = b.eval(batch.first + key);
        let key = batch.rows.find(b, batch.open, row.place.token, number);
        for (n, sums) in (0..).zip(sums) {
            self.if_exists(b, row, next, n, |b, vector| {
                let vector = b.eval((vector * VECTOR + self.column) >> VECTOR.ilog2());
                let values = key.value(b, vector);
                for (&sum, value) in sums.iter().zip(values) {
                    let added = b.fma(value, weight, sum);
                    b.assign(sum, added);
                }
            });
        }
    }

    /// Runs `body` with the vector that is the lane's `next + n`-th, of every fourth one, if there is one.
    #[track_caller]
    fn if_exists(
        &self,
        b: &mut Builder,
        row: &Row,
        next: Reg<u32>,
        n: u32,
        body: impl FnOnce(&mut Builder, Reg<u32>),
    ) {
        let vector = b.eval((next + n) * QUAD + row.in_quad);
        let exists = b.setp(Cmp::Lt, vector, self.columns / VECTOR);
        b.if_(exists, |b| body(b, vector));
    }

    /// Writes what the lane has of some vectors.
    #[track_caller]
    fn write(&self, b: &mut Builder, row: &Row, next: Reg<u32>, sums: &[Vec<Reg<f32>>]) {
        for (n, sums) in (0..).zip(sums) {
            self.if_exists(b, row, next, n, |b, vector| {
                let column = b.eval(vector * VECTOR + self.column);
                self.write_vector(b, row, column, sums);
            });
        }
    }

    #[track_caller]
    fn write_vector(&self, b: &mut Builder, row: &Row, column: Reg<u32>, sums: &[Reg<f32>]) {
        let params = self.output.params;
        let sums = &self.finished(b, sums)[..];
        if let Some(partial) = params.output.partial {
            let byte = b.eval(column.widening_mul(4));
            let to = self.output.partial_row(b, &row.place, partial, byte);
            for (i, some) in sums.chunks(4).enumerate() {
                b.st_global_vector(to.plus(i as i64 * 16), some);
            }
            return;
        }
        let byte = b.eval(column.widening_mul(params.precision.bytes()));
        let to = self.output.output_row(b, &row.place, byte);
        let words = params.precision.words(b, sums);
        Precision::store(b, to, &words);
    }

    /// Averages of values, whose weights were kept small where there is no room above the values.
    #[track_caller]
    fn finished(&self, b: &mut Builder, sums: &[Reg<f32>]) -> Vec<Reg<f32>> {
        let precision = self.output.params.precision;
        let Some(headroom) = average::headroom(precision) else { return sums.to_vec() };
        let factor = b.value(1.0 / headroom);
        sums.iter().map(|sum| average::scaled(b, precision, *sum, factor)).collect()
    }

    /// Runs `body` with the scores of the keys that this launch or cluster is for, 32 at a time.
    #[track_caller]
    fn for_each_batch(&self, b: &mut Builder, row: &Row, body: impl Fn(&mut Builder, &Batch<'_>)) {
        let BlockOutput { params, open, .. } = *self.output;
        params.for_each_segment(b, open, |b, segment, open| {
            let (begin, end) = self.visible(b, segment, open, row);
            let first = b.value(begin);
            b.while_(
                |b| b.setp(Cmp::Lt, first, end),
                |b| {
                    let rows = params.segments[segment].exact_rows(params.precision);
                    let key = b.eval(first + row.lane);
                    let visible = b.setp(Cmp::Lt, key, end);
                    let score = b.value(f32::NEG_INFINITY);
                    b.if_(visible, |b| self.score(b, row, &rows, open, key, score));
                    body(b, &Batch { rows, open, first, score });
                    b.assign(first, first + LANES);
                },
            );
        });
    }

    /// Puts the score of key `key` in `score`, if the key exists.
    #[track_caller]
    fn score(
        &self,
        b: &mut Builder,
        row: &Row,
        rows: &SegmentRows<'_>,
        open: &OpenTile,
        key: Reg<u32>,
        score: Reg<f32>,
    ) {
        let number = key.reinterpret::<i32>();
        let key = rows.find(b, open, row.place.token, key);
        b.if_(key.exists, |b| {
            let raw = key.dot(b, row.query);
            let softmax = &self.output.params.softmax;
            softmax.prepare_alone(b, raw);
            self.add_bias(b, row, rows.keys, open, number, raw);
            b.assign(score, raw);
        });
    }

    /// Adds what a mask tensor holds for the row and key `key` to a prepared score.
    #[track_caller]
    fn add_bias(
        &self,
        b: &mut Builder,
        row: &Row,
        keys: &Keys,
        open: &OpenTile,
        key: Reg<i32>,
        score: Reg<f32>,
    ) {
        let BlockOutput { params, block, .. } = *self.output;
        let Some(mask) = &keys.attn_mask else {
            return params.softmax.without_bias(b, &[score]);
        };
        let mask = mask.row(b, &params.tiling, open, block, row.number);
        let one = RowScores { scores: &[score], columns: &[0], origin: key, end: None };
        mask.add_to(b, &params.softmax, &one);
    }

    /// The keys of a segment that the mask shows the row, of those that the result is of.
    #[track_caller]
    fn visible(
        &self,
        b: &mut Builder,
        segment: usize,
        open: &OpenTile,
        row: &Row,
    ) -> (Reg<u32>, Reg<u32>) {
        let BlockOutput { params, block, .. } = *self.output;
        let (token, _) = block.query(b, row.number);
        let (mut first, mut end) = RowWindow::of(b, &open.bounds, token).keys(b);
        // Parts that a cluster merges, or CTAs exchange, are all in the result.
        let in_parts = params.segments[segment].tiles_per_split.is_some();
        if in_parts && params.part.is_none() {
            let tile = params.tiling.tile;
            let [begin, visited] = [open.range.begin, open.range.end].map(|n| n.first_key(b, tile));
            first = b.eval(first.max(begin));
            end = b.eval(end.min(visited));
        }
        let first = b.eval(first.max(0));
        let end = b.eval(end.max(first));
        (first.reinterpret(), end.reinterpret())
    }
}

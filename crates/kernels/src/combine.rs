//! Merging partial results: one warp, or a few, per 128 columns of a row.
//!
//! Each part `i` of a row (a split of its keys, or a segment) left a normalised f32 row `oᵢ` and a
//! natural-log LSE `lᵢ`. With `m = max lᵢ`, `wᵢ = e^(lᵢ − m)`:
//! `o = Σ wᵢ oᵢ / Σ wᵢ`, `l = m + ln Σ wᵢ`, and the sink, once: `o / (1 + e^(sink − l))`.
//! Weights are kept so much smaller, by a power of two, that their sum is 1 at most: sums of rows near the largest
//! number do not overflow.
//! Rows of parts are added in their own order, so that equal inputs give equal bits. Beside a mask tensor a part left
//! the sum `sᵢ` of its exponentials and what they are relative to instead, `rᵢ`: `m = max rᵢ`, `wᵢ = sᵢ e^(rᵢ − m)`.
//!
//! A lane has the LSE and the weight of a part of its own, 32 parts at a time, and the rows of
//! [`BATCH`] parts are under way at once in each warp: with one part after the other, the latency of
//! memory would be paid for each.

use crate::call::memory::Memory;
use crate::call::precision::Precision;
use crate::call::sequence::element;
use crate::math::average;
use crate::math::weights::{Headroom, Weights};
use crate::plan::Partial;
use layout::Layout;
use problem::{Problem, QueryLengths, Slot};
use program::Launch;
use program::build::{Arguments, Divisor};
use ptx::build::{Builder, Cmp, GlobalPtr, Kernel, Reg, SharedArray, SmemPtr, Target};

/// Warps of a CTA.
const WARPS: u32 = 4;
/// Columns of a warp.
const COLUMNS: u32 = 128;
/// Parts whose weights a warp holds at a time.
const LANES: u32 = 32;
/// Parts whose rows a warp loads at a time.
const BATCH: u32 = 8;
/// CTAs on one processor from which on they need not be spread.
const CROWD: u32 = 8;
/// Shared memory of a processor, and what of it the system keeps per CTA.
const SHARED_OF_ONE: u32 = 228 * 1024;
const SHARED_RESERVE: u32 = 1024;

struct Combine {
    partial: GlobalPtr,
    partial_lse: GlobalPtr,
    partial_sums: Option<GlobalPtr>,
    parts: Reg<u32>,
    /// What is added to the exponents of weights.
    headroom: Reg<f32>,
    rows: Reg<u32>,
    out: GlobalPtr,
    strides: [Reg<u64>; 3],
    heads: Divisor,
    tokens: Divisor,
    lse: Option<GlobalPtr>,
    sinks: Option<GlobalPtr>,
    cu_seqlens_end: Option<GlobalPtr>,
    value_dim: u32,
    precision: Precision,
    /// Warps that share a row.
    team: u32,
    /// Their sums, where there is more than one.
    shared: Option<SharedArray<f32>>,
}

/// A warp's row and a lane's columns of it.
struct Row {
    index: Reg<u32>,
    /// Batch, head, token.
    place: [Reg<u32>; 3],
    warp: Reg<u32>,
    /// Which of the warps that share the row this one is.
    member: Reg<u32>,
    lane: Reg<u32>,
    /// The first of the lane's four columns.
    column: Reg<u32>,
}

/// Weights of 32 parts.
#[derive(Clone, Copy)]
struct Weight {
    /// The weight of the lane's part.
    of_lane: Reg<f32>,
    /// Which lanes' parts have seen a key.
    counts: Reg<u32>,
}

/// Emits the kernel and its launch.
pub fn emit(
    target: Target,
    problem: &Problem,
    memory: &Memory,
    partial: Partial,
    parts: u32,
    processors: u32,
) -> (Kernel, Launch) {
    let mut b = Builder::new("combine", target);
    b.directive("maxntid", &[WARPS as u64 * 32, 1, 1]);
    // Room for a batch of rows; without a number the assembler may prefer 32 registers and spill.
    b.directive("minnctapersm", &[8]);
    let mut args = Arguments::default();
    let combine = declare(&mut b, &mut args, problem, memory, partial, parts);
    combine.emit(&mut b);
    let kernel = b.finish();
    let rows = (problem.lse_len() as u32).div_ceil(WARPS / combine.team);
    let columns = combine.value_dim.div_ceil(COLUMNS);
    let launch = Launch {
        kernel: "combine".to_string(),
        grid: [rows, columns, 1],
        block: [WARPS * 32, 1, 1],
        cluster: [1, 1, 1],
        shared_bytes: match target.overlaps_launches() {
            true => kernel.shared_bytes.max(spread(rows * columns, processors)),
            false => kernel.shared_bytes,
        },
        args: args.into_values(),
        overlaps_previous: target.overlaps_launches(),
    };
    (kernel, launch)
}

/// How many warps share a row: as many as have a batch each.
fn team(parts: u32) -> u32 {
    parts.div_ceil(BATCH).next_power_of_two().min(WARPS)
}

/// Shared memory to ask for so that few CTAs spread over all processors. They start while the previous
/// launch still runs, and would crowd together on the processors it leaves free.
fn spread(ctas: u32, processors: u32) -> u32 {
    let of_one = ctas.div_ceil(processors).max(1);
    if of_one > CROWD { 0 } else { SHARED_OF_ONE / of_one - SHARED_RESERVE }
}

fn declare(
    b: &mut Builder,
    args: &mut Arguments,
    problem: &Problem,
    memory: &Memory,
    partial: Partial,
    parts: u32,
) -> Combine {
    let bytes = problem.out.dtype.bytes();
    let packed = problem.query_lengths != QueryLengths::Full;
    let team = team(parts);
    Combine {
        partial: args.pointer(b, "partial", partial.rows),
        partial_lse: args.pointer(b, "partial_lse", partial.lse),
        partial_sums: partial.sums.map(|sums| args.pointer(b, "partial_sums", sums)),
        parts: args.u32(b, "parts", parts),
        headroom: args.f32(b, "headroom", Headroom::of(parts)),
        rows: args.u32(b, "rows", problem.lse_len() as u32),
        out: args.pointer(b, "out", memory.slot(Slot::Out)),
        strides: [0, 1, 2]
            .map(|d| args.u64(b, &format!("out_stride{d}"), problem.out.strides[d] * bytes)),
        heads: Divisor::declare(b, args, "heads", problem.q.heads() as u32),
        tokens: Divisor::declare(b, args, "tokens", problem.q.tokens() as u32),
        lse: problem.return_lse.then(|| args.pointer(b, "lse", memory.slot(Slot::Lse))),
        sinks: problem.sinks.then(|| args.pointer(b, "sinks", memory.slot(Slot::Sinks))),
        cu_seqlens_end: packed.then(|| {
            let offsets = memory.slot(Slot::CuSeqlensQ);
            args.pointer_at(b, "cu_seqlens_end", offsets, problem.batch() * 4)
        }),
        value_dim: problem.value_dim() as u32,
        precision: Precision::of(problem),
        team,
        shared: (team > 1).then(|| {
            let sums = Layout::column_major((u64::from(COLUMNS), u64::from(WARPS)));
            let base = b.shared_base();
            SharedArray::reserve(b, base, &sums.expect("a small layout"))
        }),
    }
}

impl Combine {
    fn emit(&self, b: &mut Builder) {
        let row = self.find(b);
        let total = b.value::<f32>(0.0);
        let max = b.value::<f32>(0.0);
        let sums: [Reg<f32>; 4] = std::array::from_fn(|_| b.value::<f32>(0.0));
        b.wait_previous_grid();
        let exists = self.exists(b, &row);
        b.if_(exists, |b| {
            let largest = self.largest(b, &row);
            b.assign(max, largest);
            self.for_each_lanes(b, |b, first| {
                let weight = self.weight(b, &row, first, max);
                let sum = b.add(total, weight.of_lane);
                b.assign(total, sum);
                self.add_parts(b, &row, first, weight, sums);
            });
            let all = b.join_lanes(total, LANES, |b, x, y| b.add(x, y));
            b.assign(total, all);
        });
        self.meet(b, &row, sums);
        let first = b.setp(Cmp::Eq, row.member, 0);
        let writes = b.and(exists, first);
        b.if_(writes, |b| {
            let sums = self.join_team(b, &row, sums);
            let factor = self.finish(b, &row, max, total);
            self.write(b, &row, factor, sums);
        });
    }

    /// The row and the columns of this thread.
    fn find(&self, b: &mut Builder) -> Row {
        let (cta, columns) = (b.special("%ctaid.x"), b.special("%ctaid.y"));
        let warp = b.warp().index();
        let (team, member) = (b.eval(warp / self.team), b.eval(warp % self.team));
        let index = b.eval(cta * (WARPS / self.team) + team);
        let (head_row, token) = self.tokens.divide(b, index);
        let (batch, head) = self.heads.divide(b, head_row);
        let lane = b.special("%laneid");
        let column = b.eval(lane * 4 + columns * COLUMNS);
        Row { index, place: [batch, head, token], warp, member, lane, column }
    }

    /// Whether there is such a row.
    fn exists(&self, b: &mut Builder, row: &Row) -> Reg<bool> {
        let exists = b.setp(Cmp::Lt, row.index, self.rows);
        let Some(end) = self.cu_seqlens_end else { return exists };
        let [_, _, token] = row.place;
        let end = b.ld_global::<u32>(end);
        let used = b.setp(Cmp::Lt, token, end);
        b.and(exists, used)
    }

    /// Runs `body` for parts 0, 32, …: lane `l` has part `first + l`.
    fn for_each_lanes(&self, b: &mut Builder, body: impl FnOnce(&mut Builder, Reg<u32>)) {
        let first = b.value::<u32>(0);
        b.while_(
            |b| b.setp(Cmp::Lt, first, self.parts),
            |b| {
                body(b, first);
                b.assign(first, first + LANES);
            },
        );
    }

    /// The LSE of the lane's part, −∞ where there is none.
    fn part_lse(&self, b: &mut Builder, row: &Row, first: Reg<u32>) -> Reg<f32> {
        self.of_part(b, row, first, self.partial_lse, f32::NEG_INFINITY)
    }

    /// A number of the lane's part, `none` where there is no such part.
    fn of_part(
        &self,
        b: &mut Builder,
        row: &Row,
        first: Reg<u32>,
        numbers: GlobalPtr,
        none: f32,
    ) -> Reg<f32> {
        let part = b.eval(first + row.lane);
        let exists = b.setp(Cmp::Lt, part, self.parts);
        let number = b.value::<f32>(none);
        let index = b.eval(part * self.rows + row.index);
        let at = element(b, numbers, index);
        b.ld_global_if(exists, at, &[number]);
        number
    }

    /// The largest LSE of the row, 0 if none is finite.
    fn largest(&self, b: &mut Builder, row: &Row) -> Reg<f32> {
        let max = b.value::<f32>(f32::NEG_INFINITY);
        self.for_each_lanes(b, |b, first| {
            let lse = self.part_lse(b, row, first);
            let larger = b.max(max, lse);
            b.assign(max, larger);
        });
        let max = b.join_lanes(max, LANES, |b, x, y| b.max(x, y));
        let empty = b.setp(Cmp::Eq, max, f32::NEG_INFINITY);
        b.select::<f32>(empty, 0.0, max)
    }

    fn weight(&self, b: &mut Builder, row: &Row, first: Reg<u32>, max: Reg<f32>) -> Weight {
        let lse = self.part_lse(b, row, first);
        let exponent = self.weighing(max).exponent(b, lse);
        let empty = b.setp(Cmp::Eq, lse, f32::NEG_INFINITY);
        let counts = b.not(empty);
        let power = b.ex2(exponent);
        let of_lane = match self.partial_sums {
            None => power,
            Some(sums) => {
                let sum = self.of_part(b, row, first, sums, 0.0);
                b.mul(power, sum)
            }
        };
        Weight { of_lane, counts: b.ballot(counts) }
    }

    /// How the parts of a row are weighed whose largest log-sum-exp is `max`.
    fn weighing(&self, max: Reg<f32>) -> Weights {
        Weights { headroom: Headroom::Parameter(self.headroom), max }
    }

    /// Adds the rows of this warp's share of the 32 parts from `first` on, those that have seen a key, however
    /// little they weigh: others may never have been written.
    fn add_parts(
        &self,
        b: &mut Builder,
        row: &Row,
        first: Reg<u32>,
        weight: Weight,
        sums: [Reg<f32>; 4],
    ) {
        let lanes = b.eval((self.parts - first).min(LANES));
        let from = b.eval(row.member * BATCH);
        b.while_(
            |b| b.setp(Cmp::Lt, from, lanes),
            |b| {
                let parts: Vec<_> = (0..BATCH)
                    .map(|n| {
                        let lane = b.eval(from + n);
                        let part = b.eval(first + lane);
                        self.load_part(b, row, part, weight, lane)
                    })
                    .collect();
                for (weight, values) in parts {
                    for (sum, value) in sums.into_iter().zip(values) {
                        let added = b.fma(value, weight, sum);
                        b.assign(sum, added);
                    }
                }
                b.assign(from, from + BATCH * self.team);
            },
        );
    }

    /// Leaves this warp's sums where the first warp of its row finds them.
    fn meet(&self, b: &mut Builder, row: &Row, sums: [Reg<f32>; 4]) {
        let Some(shared) = &self.shared else { return };
        let at = self.sums_of(b, shared, row, 0);
        b.st_shared_vector(at, &sums);
        b.barrier_all();
    }

    /// The sums of all warps of the row, in their order.
    fn join_team(&self, b: &mut Builder, row: &Row, sums: [Reg<f32>; 4]) -> [Reg<f32>; 4] {
        let Some(shared) = &self.shared else { return sums };
        (1..self.team).fold(sums, |sums, member| {
            let at = self.sums_of(b, shared, row, member);
            let others = b.ld_shared_vector::<f32>(at, 4);
            std::array::from_fn(|n| b.add(sums[n], others[n]))
        })
    }

    /// Where the sums of this lane are in the warp `later` behind this one.
    fn sums_of(
        &self,
        b: &mut Builder,
        shared: &SharedArray<f32>,
        row: &Row,
        later: u32,
    ) -> SmemPtr {
        let column = b.eval(row.lane * 4);
        let warp = b.eval(row.warp + later);
        shared.element(b, &[column, warp])
    }

    /// The weight of a part, which `lane` has, and the warp's columns of its row.
    fn load_part(
        &self,
        b: &mut Builder,
        row: &Row,
        part: Reg<u32>,
        weight: Weight,
        lane: Reg<u32>,
    ) -> (Reg<f32>, [Reg<f32>; 4]) {
        let counts = b.eval(weight.counts >> lane);
        let counts = b.eval(counts % 2);
        let counts = b.setp(Cmp::Ne, counts, 0);
        let counts = self.within(b, row, counts);
        let weight = b.lane_value(weight.of_lane, lane);
        let index = b.eval(part * self.rows + row.index);
        let offset = b.eval(index.widening_mul(self.value_dim * 4) + row.column.widening_mul(4));
        let at = b.global_add(self.partial, offset);
        let values: [Reg<f32>; 4] = std::array::from_fn(|_| b.value::<f32>(0.0));
        b.ld_global_if(counts, at, &values);
        (weight, values)
    }

    /// `p`, and the lane has columns: the last 128 of a row may not be whole.
    fn within(&self, b: &mut Builder, row: &Row, p: Reg<bool>) -> Reg<bool> {
        if self.value_dim.is_multiple_of(COLUMNS) {
            return p;
        }
        let within = b.setp(Cmp::Lt, row.column, self.value_dim);
        b.and(p, within)
    }

    /// Writes the LSE and returns the factor on the row.
    fn finish(&self, b: &mut Builder, row: &Row, max: Reg<f32>, total: Reg<f32>) -> Reg<f32> {
        let weighing = self.weighing(max);
        let (lse, empty) = weighing.lse(b, total);
        if let Some(out) = self.lse {
            let first = b.setp(Cmp::Eq, row.column, 0);
            let at = element(b, out, row.index);
            b.st_global_if(first, at, lse);
        }
        let [_, head, _] = row.place;
        weighing.factor(b, total, empty, self.sinks.map(|sinks| (sinks, head)))
    }

    fn write(&self, b: &mut Builder, row: &Row, factor: Reg<f32>, sums: [Reg<f32>; 4]) {
        let mut offset = b.eval(row.column.widening_mul(self.precision.bytes()));
        for (index, stride) in row.place.into_iter().zip(self.strides) {
            let index = b.widen(index);
            offset = b.eval(index * stride + offset);
        }
        let at = b.global_add(self.out, offset);
        let scaled = sums.map(|sum| average::scaled(b, self.precision, sum, factor));
        let words = self.precision.words(b, &scaled);
        let all = b.predicate(true);
        let within = self.within(b, row, all);
        b.if_(within, |b| Precision::store(b, at, &words));
    }
}

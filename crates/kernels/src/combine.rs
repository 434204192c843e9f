//! Merging partial results: one warp per row.
//!
//! Each part `i` of a row (a split of its keys, or a segment) left a normalised f32 row `oᵢ` and a
//! natural-log LSE `lᵢ`. With `m = max lᵢ`, `wᵢ = e^(lᵢ − m)`:
//! `o = Σ wᵢ oᵢ / Σ wᵢ`, `l = m + ln Σ wᵢ`, and the sink, once: `o / (1 + e^(sink − l))`.
//! Parts are added in their own order, so that equal inputs give equal bits.

use crate::arguments::{Arguments, Memory};
use crate::divide::Divisor;
use crate::sequence::element;
use problem::{DType, Problem, QueryLengths, Slot};
use program::{Argument, BufferId};
use ptx::build::{Builder, Cmp, GlobalPtr, HalfType, Kernel, Reg, Target};
use std::f32::consts::{LN_2, LOG2_E};

/// Warps (rows) of a CTA.
pub const ROWS_PER_CTA: u32 = 4;
/// Columns of one pass of a warp.
const PASS: u32 = 128;

struct Combine {
    partial: GlobalPtr,
    partial_lse: GlobalPtr,
    parts: Reg<u32>,
    rows: Reg<u32>,
    out: GlobalPtr,
    strides: [Reg<u64>; 3],
    heads: Divisor,
    tokens: Divisor,
    lse: Option<GlobalPtr>,
    sinks: Option<GlobalPtr>,
    cu_seqlens_end: Option<GlobalPtr>,
    value_dim: u32,
    half: HalfType,
}

/// Emits the kernel and its arguments.
pub fn emit(
    target: Target,
    problem: &Problem,
    memory: &Memory,
    [rows, lse]: [BufferId; 2],
    parts: u32,
) -> (Kernel, Vec<Argument>) {
    let mut b = Builder::new("combine", target);
    b.directive("maxntid", &[ROWS_PER_CTA as u64 * 32, 1, 1]);
    // Room for every column of a row; without a number the assembler may prefer 32 registers and spill.
    b.directive("minnctapersm", &[8]);
    let mut args = Arguments::default();
    let combine = declare(&mut b, &mut args, problem, memory, [rows, lse], parts);
    combine.emit(&mut b);
    (b.finish(), args.into_values())
}

fn declare(
    b: &mut Builder,
    args: &mut Arguments,
    problem: &Problem,
    memory: &Memory,
    [rows, lse]: [BufferId; 2],
    parts: u32,
) -> Combine {
    let bytes = problem.out.dtype.bytes();
    let packed = problem.query_lengths != QueryLengths::Full;
    Combine {
        partial: args.pointer(b, "partial", rows),
        partial_lse: args.pointer(b, "partial_lse", lse),
        parts: args.u32(b, "parts", parts),
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
        half: if problem.dtype() == DType::F16 { HalfType::F16 } else { HalfType::Bf16 },
    }
}

impl Combine {
    fn emit(&self, b: &mut Builder) {
        b.wait_previous_grid();
        let (cta, warp) = (b.special("%ctaid.x"), b.warp());
        let row = b.mad(cta, ROWS_PER_CTA, warp.index());
        let exists = b.setp(Cmp::Lt, row, self.rows);
        b.if_(exists, |b| {
            let (head_row, token) = self.tokens.divide(b, row);
            match self.cu_seqlens_end {
                None => self.row(b, row, head_row, token),
                Some(end) => {
                    let end = b.ld_global::<u32>(end);
                    let used = b.setp(Cmp::Lt, token, end);
                    b.if_(used, |b| self.row(b, row, head_row, token));
                }
            }
        });
    }

    fn row(&self, b: &mut Builder, row: Reg<u32>, head_row: Reg<u32>, token: Reg<u32>) {
        let (batch, head) = self.heads.divide(b, head_row);
        let max = self.largest(b, row);
        let total = b.value::<f32>(0.0);
        let lane = b.special("%laneid");
        let passes = self.value_dim.div_ceil(PASS);
        let sums: Vec<Vec<Reg<f32>>> =
            (0..passes).map(|_| (0..4).map(|_| b.value::<f32>(0.0)).collect()).collect();
        b.range(0, self.parts, |b, part| {
            let weight = self.weight(b, row, part, max);
            let sum = b.add(total, weight);
            b.assign(total, sum);
            let counts = b.setp(Cmp::Gt, weight, 0.0);
            b.if_(counts, |b| self.add_part(b, row, part, lane, weight, &sums));
        });
        let factor = self.finish(b, row, head, max, total, lane);
        self.write(b, [batch, head, token], lane, factor, &sums);
    }

    fn part_row(&self, b: &mut Builder, row: Reg<u32>, part: Reg<u32>) -> Reg<u32> {
        b.mad(part, self.rows, row)
    }

    /// The largest LSE of the row, 0 if none is finite.
    fn largest(&self, b: &mut Builder, row: Reg<u32>) -> Reg<f32> {
        let max = b.value::<f32>(f32::NEG_INFINITY);
        b.range(0, self.parts, |b, part| {
            let index = self.part_row(b, row, part);
            let at = element(b, self.partial_lse, index);
            let lse = b.ld_global::<f32>(at);
            let larger = b.max(max, lse);
            b.assign(max, larger);
        });
        let empty = b.setp(Cmp::Eq, max, f32::NEG_INFINITY);
        b.select::<f32>(empty, 0.0, max)
    }

    fn weight(&self, b: &mut Builder, row: Reg<u32>, part: Reg<u32>, max: Reg<f32>) -> Reg<f32> {
        let index = self.part_row(b, row, part);
        let at = element(b, self.partial_lse, index);
        let lse = b.ld_global::<f32>(at);
        let difference = b.sub(lse, max);
        let exponent = b.mul(difference, LOG2_E);
        b.ex2(exponent)
    }

    fn add_part(
        &self,
        b: &mut Builder,
        row: Reg<u32>,
        part: Reg<u32>,
        lane: Reg<u32>,
        weight: Reg<f32>,
        sums: &[Vec<Reg<f32>>],
    ) {
        let index = self.part_row(b, row, part);
        let column = b.mul_wide(lane, 16);
        let offset = b.mad_wide(index, self.value_dim * 4, column);
        let at = b.global_add(self.partial, offset);
        self.for_each_pass(b, lane, |b, pass| {
            let values = b.ld_global_vector::<f32>(at.plus((pass * PASS * 4) as i64), 4);
            for (&sum, value) in sums[pass as usize].iter().zip(values) {
                let added = b.fma(value, weight, sum);
                b.assign(sum, added);
            }
        });
    }

    /// Writes the LSE and returns the factor on the row.
    fn finish(
        &self,
        b: &mut Builder,
        row: Reg<u32>,
        head: Reg<u32>,
        max: Reg<f32>,
        total: Reg<f32>,
        lane: Reg<u32>,
    ) -> Reg<f32> {
        let empty = b.setp(Cmp::Le, total, 0.0);
        let log = b.lg2(total);
        let lse = b.fma(log, LN_2, max);
        let lse = b.select::<f32>(empty, f32::NEG_INFINITY, lse);
        if let Some(out) = self.lse {
            let first = b.setp(Cmp::Eq, lane, 0);
            b.if_(first, |b| {
                let at = element(b, out, row);
                b.st_global(at, lse);
            });
        }
        let mut denominator = total;
        if let Some(sinks) = self.sinks {
            let at = element(b, sinks, head);
            let sink = b.ld_global::<f32>(at);
            let difference = b.sub(sink, max);
            let exponent = b.mul(difference, LOG2_E);
            let power = b.ex2(exponent);
            denominator = b.add(total, power);
        }
        let inverse = b.rcp(denominator);
        b.select::<f32>(empty, 0.0, inverse)
    }

    fn write(
        &self,
        b: &mut Builder,
        place: [Reg<u32>; 3],
        lane: Reg<u32>,
        factor: Reg<f32>,
        sums: &[Vec<Reg<f32>>],
    ) {
        let mut offset = b.mul_wide(lane, 8);
        for (index, stride) in place.into_iter().zip(self.strides) {
            let index = b.widen(index);
            offset = b.mad(index, stride, offset);
        }
        let at = b.global_add(self.out, offset);
        self.for_each_pass(b, lane, |b, pass| {
            let scaled: Vec<Reg<f32>> =
                sums[pass as usize].iter().map(|&sum| b.mul(sum, factor)).collect();
            let packed: Vec<Reg<u32>> =
                scaled.chunks(2).map(|p| b.pack(self.half, p[0], p[1])).collect();
            b.st_global_vector(at.plus((pass * PASS * 2) as i64), &packed);
        });
    }

    /// Runs `body` for every pass whose columns this lane has.
    fn for_each_pass(&self, b: &mut Builder, lane: Reg<u32>, body: impl Fn(&mut Builder, u32)) {
        for pass in 0..self.value_dim.div_ceil(PASS) {
            let columns = (self.value_dim - pass * PASS).min(PASS);
            if columns == PASS {
                body(b, pass);
            } else {
                let within = b.setp(Cmp::Lt, lane, columns / 4);
                b.if_(within, |b| body(b, pass));
            }
        }
    }
}

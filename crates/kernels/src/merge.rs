//! Merging results over different keys of the same queries, each in tensors of its own: one warp per row.
//!
//! Part `i` of a row is a normalised row `oᵢ` and a natural-log LSE `lᵢ`; a part whose LSE is not finite saw no
//! key, and its row is not read. With `m = max lᵢ`, `wᵢ = e^(lᵢ − m)`: `o = Σ wᵢ oᵢ / Σ wᵢ`, `l = m + ln Σ wᵢ`, and
//! the sink, once: `o / (1 + e^(sink − l))`. Sums are of f32, parts in their order. Weights are so much smaller, by a
//! power of two, that their sum is 1 at most: sums of rows near the largest number do not overflow.
//!
//! `combine` merges parts that lie in one workspace, any number of them; here each part has two pointers, and
//! the loop over parts is unrolled.

use crate::call::sequence::element;
use crate::math::weights::{self, Headroom};
use crate::plan::options::Arch;
use problem::{DType, Unsupported, View};
use program::build::{Arguments, Divisor};
use program::{Access, Buffer, BufferId, Launch, Program};
use ptx::build::{Builder, Cmp, GlobalPtr, HalfType, Reg, module};
use std::fmt;
use std::sync::Arc;

/// The most parts of one merge.
pub const MOST_PARTS: usize = 64;

/// Warps of a CTA.
const WARPS: u32 = 4;
const LANES: u32 = 32;
/// Neighbouring elements that a lane moves at a time, where rows are aligned to as many.
const VECTOR: u64 = 4;

/// A merge of tensors that have one view.
#[derive(Clone, Copy, Debug)]
pub struct Merge {
    /// Every output, the merged one among them. The elements of a row lie side by side.
    pub view: View,
    /// How many results are merged.
    pub parts: usize,
    /// Whether there is a sink logit for each head.
    pub sinks: bool,
    /// What the addresses of all outputs are multiples of, in bytes.
    pub align: u64,
}

/// A tensor of a merge, by role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeSlot {
    /// The merged output.
    Out,
    /// The merged log-sum-exp, f32 `[batch, heads, tokens]`.
    Lse,
    /// Sink logits, f32 `[heads]`.
    Sinks,
    /// The output of a part.
    PartOut(usize),
    /// The log-sum-exp of a part.
    PartLse(usize),
}

impl fmt::Display for MergeSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MergeSlot::Out => f.write_str("out"),
            MergeSlot::Lse => f.write_str("lse"),
            MergeSlot::Sinks => f.write_str("sinks"),
            MergeSlot::PartOut(n) => write!(f, "outs[{n}]"),
            MergeSlot::PartLse(n) => write!(f, "lses[{n}]"),
        }
    }
}

impl Merge {
    /// Every tensor.
    pub fn slots(&self) -> Vec<MergeSlot> {
        let parts = (0..self.parts).flat_map(|n| [MergeSlot::PartOut(n), MergeSlot::PartLse(n)]);
        let sinks = self.sinks.then_some(MergeSlot::Sinks);
        [MergeSlot::Out, MergeSlot::Lse].into_iter().chain(sinks).chain(parts).collect()
    }

    fn rows(&self) -> Option<u64> {
        self.view.shape[..3].iter().try_fold(1u64, |rows, extent| rows.checked_mul(*extent))
    }

    fn check(&self) -> Result<(), Unsupported> {
        if let dtype @ (DType::F64 | DType::E4m3) = self.view.dtype {
            let what = format!("merging {dtype}");
            return Err(Unsupported::new(what, "kernels add in f32").nearest("f32"));
        }
        if self.parts > MOST_PARTS {
            let what = format!("a merge of {} parts", self.parts);
            let why = "a kernel has room for so many pointers";
            return Err(Unsupported::new(what, why).nearest(MOST_PARTS.to_string()));
        }
        match self.rows() {
            Some(rows) if rows < 1 << 31 && self.view.dim() < 1 << 31 => Ok(()),
            _ => Err(Unsupported::new(
                format!("a merge of {}", self.view),
                "row numbers have 31 bits",
            )),
        }
    }

    /// Elements that a lane moves at a time.
    fn vector(&self) -> u64 {
        let View { shape, strides, dtype } = self.view;
        let steps = (0..3).filter(|d| shape[*d] > 1).map(|d| strides[d]);
        let whole = steps.chain([shape[3]]).all(|n| n.is_multiple_of(VECTOR));
        if whole && self.align.is_multiple_of(VECTOR * dtype.bytes()) { VECTOR } else { 1 }
    }

    fn buffers(&self) -> Vec<Buffer> {
        let outputs = self.view.span().unwrap_or(0) * self.view.dtype.bytes();
        let of_rows = self.vector() * self.view.dtype.bytes();
        let buffer = |slot: MergeSlot| {
            let (bytes, align) = match slot {
                MergeSlot::Out | MergeSlot::PartOut(_) => (outputs, of_rows),
                MergeSlot::Lse | MergeSlot::PartLse(_) => (self.rows().unwrap_or(0) * 4, 4),
                MergeSlot::Sinks => (self.view.heads() * 4, 4),
            };
            let written = matches!(slot, MergeSlot::Out | MergeSlot::Lse);
            let access = if written { Access::Write } else { Access::Read };
            Buffer::new(slot.to_string(), bytes, align, access)
        };
        self.slots().into_iter().map(buffer).collect()
    }
}

/// The program of a merge. Its buffers have the names of [`MergeSlot`]s.
///
/// # Errors
/// If there are too many parts or rows, or they are of f64.
pub fn merge(arch: Arch, merge: &Merge) -> Result<Program, Unsupported> {
    merge.check()?;
    let mut b = Builder::new("merge", arch.target());
    b.directive("maxntid", &[WARPS as u64 * LANES as u64, 1, 1]);
    let mut args = Arguments::default();
    Kernel::declare(&mut b, &mut args, merge).emit(&mut b);
    let kernel = b.finish();
    let rows = merge.rows().unwrap_or(0) as u32;
    let launch = Launch {
        kernel: "merge".to_string(),
        grid: [rows.div_ceil(WARPS), 1, 1],
        block: [WARPS * LANES, 1, 1],
        cluster: [1, 1, 1],
        shared_bytes: kernel.shared_bytes,
        args: args.into_values(),
        overlaps_previous: false,
    };
    let launches = if rows > 0 { vec![launch] } else { Vec::new() };
    let module = Arc::new(module(arch.target(), vec![kernel]));
    Ok(Program { module, buffers: merge.buffers(), launches })
}

struct Kernel {
    out: GlobalPtr,
    lse: GlobalPtr,
    sinks: Option<GlobalPtr>,
    /// Output and LSE of each.
    parts: Vec<[GlobalPtr; 2]>,
    rows: Reg<u32>,
    heads: Divisor,
    tokens: Divisor,
    /// Bytes between batches, heads and tokens.
    strides: [Reg<u64>; 3],
    dim: u32,
    elements: Elements,
    /// What is added to the exponents of weights.
    headroom: f32,
}

/// A warp's row.
struct Row {
    index: Reg<u32>,
    head: Reg<u32>,
    /// Bytes from the start of every output.
    offset: Reg<u64>,
    lane: Reg<u32>,
}

/// What parts weigh, and the sum of it.
struct Weights {
    /// The weight of each part, and whether it is read.
    of: Vec<(Reg<f32>, Reg<bool>)>,
    max: Reg<f32>,
    total: Reg<f32>,
}

impl Kernel {
    fn declare(b: &mut Builder, args: &mut Arguments, merge: &Merge) -> Self {
        let View { shape, strides, dtype } = merge.view;
        let slots = merge.slots();
        let mut pointer = |b: &mut Builder, slot: MergeSlot, name: &str| {
            let at = slots.iter().position(|s| *s == slot).expect("every tensor is a buffer");
            args.pointer(b, name, BufferId(at))
        };
        let (out, lse) = (pointer(b, MergeSlot::Out, "out"), pointer(b, MergeSlot::Lse, "lse"));
        let sinks = merge.sinks.then(|| pointer(b, MergeSlot::Sinks, "sinks"));
        let parts = (0..merge.parts).map(|n| {
            let out = pointer(b, MergeSlot::PartOut(n), &format!("out{n}"));
            [out, pointer(b, MergeSlot::PartLse(n), &format!("lse{n}"))]
        });
        let parts = parts.collect();
        let mut stride = |b: &mut Builder, d: usize| {
            args.u64(b, &format!("stride{d}"), strides[d] * dtype.bytes())
        };
        Kernel {
            out,
            lse,
            sinks,
            parts,
            strides: [0, 1, 2].map(|d| stride(b, d)),
            rows: args.u32(b, "rows", merge.rows().unwrap_or(0) as u32),
            heads: Divisor::declare(b, args, "heads", shape[1] as u32),
            tokens: Divisor::declare(b, args, "tokens", shape[2] as u32),
            dim: shape[3] as u32,
            elements: Elements { dtype, count: merge.vector() as u32 },
            headroom: Headroom::of(merge.parts.max(1) as u32),
        }
    }

    fn emit(&self, b: &mut Builder) {
        let row = self.find(b);
        let exists = b.setp(Cmp::Lt, row.index, self.rows);
        b.if_(exists, |b| {
            let weights = self.weigh(b, &row);
            let factor = self.finish(b, &row, &weights);
            let step = LANES * self.elements.count;
            b.range(0, self.dim.div_ceil(step), |b, n| {
                let first = b.eval(n * step);
                self.columns(b, &row, &weights, factor, first);
            });
        });
    }

    fn find(&self, b: &mut Builder) -> Row {
        let (cta, warp) = (b.special("%ctaid.x"), b.warp().index());
        let index = b.eval(cta * WARPS + warp);
        let (head_row, token) = self.tokens.divide(b, index);
        let (batch, head) = self.heads.divide(b, head_row);
        let mut offset = b.value::<u64>(0);
        for (n, stride) in [batch, head, token].into_iter().zip(self.strides) {
            let n = b.widen(n);
            offset = b.eval(n * stride + offset);
        }
        Row { index, head, offset, lane: b.special("%laneid") }
    }

    /// The weight of every part; 0 and not read where its LSE is not finite, or so much smaller than another.
    fn weigh(&self, b: &mut Builder, row: &Row) -> Weights {
        let lse = |b: &mut Builder, part: &[GlobalPtr; 2]| {
            let at = element(b, part[1], row.index);
            let lse = b.ld_global::<f32>(at);
            let magnitude = b.abs(lse);
            // What is not a number is not less either.
            let finite = b.setp(Cmp::Lt, magnitude, f32::INFINITY);
            b.select::<f32>(finite, lse, f32::NEG_INFINITY)
        };
        let lses: Vec<Reg<f32>> = self.parts.iter().map(|part| lse(b, part)).collect();
        let max = b.value::<f32>(f32::NEG_INFINITY);
        for lse in &lses {
            let larger = b.max(max, *lse);
            b.assign(max, larger);
        }
        let none = b.setp(Cmp::Eq, max, f32::NEG_INFINITY);
        b.assign_if(none, max, 0.0);
        let total = b.value::<f32>(0.0);
        let weight = |b: &mut Builder, lse: Reg<f32>| {
            let exponent = self.weighing(max).exponent(b, lse);
            let weight = b.ex2(exponent);
            let sum = b.add(total, weight);
            b.assign(total, sum);
            (weight, b.setp(Cmp::Gt, weight, 0.0))
        };
        let of = lses.into_iter().map(|lse| weight(b, lse)).collect();
        Weights { of, max, total }
    }

    /// How the parts of a row are weighed whose largest log-sum-exp is `max`.
    fn weighing(&self, max: Reg<f32>) -> weights::Weights {
        weights::Weights { headroom: Headroom::Constant(self.headroom), max }
    }

    /// Writes the LSE, and returns the factor on sums of the row.
    fn finish(&self, b: &mut Builder, row: &Row, weights: &Weights) -> Reg<f32> {
        let Weights { max, total, .. } = *weights;
        let weighing = self.weighing(max);
        let (lse, empty) = weighing.lse(b, total);
        let first = b.setp(Cmp::Eq, row.lane, 0);
        let at = element(b, self.lse, row.index);
        b.st_global_if(first, at, lse);
        let sinks = self.sinks.map(|sinks| (sinks, row.head));
        weighing.factor(b, total, empty, sinks)
    }

    /// Merges the columns of a warp from `first` on.
    fn columns(
        &self,
        b: &mut Builder,
        row: &Row,
        weights: &Weights,
        factor: Reg<f32>,
        first: Reg<u32>,
    ) {
        let column = b.eval(row.lane * self.elements.count + first);
        let there = b.setp(Cmp::Lt, column, self.dim);
        let offset = b.eval(row.offset + column.widening_mul(self.elements.dtype.bytes() as u32));
        let sums: Vec<Reg<f32>> = (0..self.elements.count).map(|_| b.value::<f32>(0.0)).collect();
        for ([out, _], (weight, counts)) in self.parts.iter().zip(&weights.of) {
            let at = b.global_add(*out, offset);
            let read = b.and(there, *counts);
            for (sum, value) in sums.iter().zip(self.elements.load(b, read, at)) {
                let added = b.fma(value, *weight, *sum);
                b.assign(*sum, added);
            }
        }
        let scaled: Vec<_> = sums.into_iter().map(|sum| b.mul(sum, factor)).collect();
        let at = b.global_add(self.out, offset);
        self.elements.store(b, there, at, &scaled);
    }
}

/// Neighbouring elements that one instruction moves.
#[derive(Clone, Copy)]
struct Elements {
    dtype: DType,
    count: u32,
}

impl Elements {
    fn half(self) -> Option<HalfType> {
        match self.dtype {
            DType::F16 => Some(HalfType::F16),
            DType::Bf16 => Some(HalfType::Bf16),
            DType::F32 | DType::F64 | DType::E4m3 => None,
        }
    }

    /// The elements at `from`; zeros where `p` does not hold.
    fn load(self, b: &mut Builder, p: Reg<bool>, from: GlobalPtr) -> Vec<Reg<f32>> {
        let Some(half) = self.half() else {
            let values: Vec<_> = (0..self.count).map(|_| b.value::<f32>(0.0)).collect();
            b.ld_global_if(p, from, &values);
            return values;
        };
        if self.count == 1 {
            let bits = b.value::<u32>(0);
            b.ld_global_bytes(Some(p), from, 2, bits);
            return vec![b.unpack(half, bits)[0]];
        }
        let words: Vec<_> = (0..self.count / 2).map(|_| b.value::<u32>(0)).collect();
        b.ld_global_if(p, from, &words);
        words.into_iter().flat_map(|word| b.unpack(half, word)).collect()
    }

    fn store(self, b: &mut Builder, p: Reg<bool>, to: GlobalPtr, values: &[Reg<f32>]) {
        match (self.half(), values) {
            (None, [value]) => b.st_global_if(p, to, *value),
            (None, many) => b.if_(p, |b| b.st_global_vector(to, many)),
            (Some(half), [value]) => {
                let bits = b.pack(half, *value, *value);
                b.st_global_bytes(p, to, 2, bits);
            }
            (Some(half), many) => {
                let pairs = many.as_chunks::<2>().0.iter();
                let words: Vec<_> = pairs.map(|&[low, high]| b.pack(half, low, high)).collect();
                b.if_(p, |b| b.st_global_vector(to, &words));
            }
        }
    }
}

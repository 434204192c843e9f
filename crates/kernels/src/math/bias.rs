//! Mask tensors: what is added to scores, or hides them. Each thread reads the elements of its own scores, one at a
//! time: a row begins at any byte that its element type allows, and keys lie any distance apart.
//!
//! Scores of a problem with a mask tensor become exponents of two here, `s·f + m·log2 e`. A bias is kept within
//! ±[`AttnMask::MOST`] first, so that the product is finite; only `-inf` hides, whatever the score is.

use crate::call::index::QueryHead;
use crate::call::rows::Block;
use crate::call::task::{OpenTile, Tiling};
use crate::math::softmax::Softmax;
use problem::{AttnMask, DType, MaskElement};
use program::BufferId;
use program::build::Arguments;
use ptx::build::{Builder, Cmp, GlobalPtr, HalfType, Reg};
use std::f32::consts::LOG2_E;

/// Elements that are on their way to a thread at one time: what registers there are room for.
const AT_ONCE: usize = 16;

/// A segment's mask tensor, in a kernel.
#[derive(Clone, Copy, Debug)]
pub struct MaskTensor {
    element: MaskElement,
    base: GlobalPtr,
    /// Bytes between sequences, heads and queries.
    strides: [Reg<u64>; 3],
    /// Bytes between keys that are not neighbours in memory.
    key_stride: Option<Reg<u64>>,
}

/// The elements of one query and head.
#[derive(Clone, Copy, Debug)]
pub struct MaskRow {
    tensor: MaskTensor,
    /// Sequence, head and query. Addresses are found anew for each tile: they would take twice the registers.
    at: [Reg<u32>; 3],
}

/// An element of a row in a KV tile.
#[derive(Clone, Copy)]
struct Place {
    column: u32,
    at: GlobalPtr,
}

/// Some of a row's scores in a KV tile.
pub struct RowScores<'a> {
    pub scores: &'a [Reg<f32>],
    /// The key of each, counted from `origin`; in order.
    pub columns: &'a [u32],
    pub origin: Reg<i32>,
    /// One past the last key that is there, counted likewise, where not all of the tile may be.
    pub end: Option<Reg<i32>>,
}

impl MaskTensor {
    /// Declares the parameters of a tensor.
    #[track_caller]
    pub fn declare(
        b: &mut Builder,
        args: &mut Arguments,
        mask: &AttnMask,
        buffer: BufferId,
    ) -> Self {
        let base = args.pointer(b, "attn_mask", buffer);
        let steps = mask.steps().map(|step| step * mask.element.bytes());
        let mut stride =
            |b: &mut Builder, d: usize| args.u64(b, &format!("attn_mask_stride{d}"), steps[d]);
        let strides = [0, 1, 2].map(|d| stride(b, d));
        let neighbours = steps[3] == mask.element.bytes();
        let key_stride = (!neighbours).then(|| stride(b, 3));
        MaskTensor { element: mask.element, base, strides, key_stride }
    }

    /// The row of row `row` of a block; that of the last query for rows past it.
    #[track_caller]
    pub fn row(
        &self,
        b: &mut Builder,
        tiling: &Tiling,
        open: &OpenTile,
        block: &Block,
        row: Reg<u32>,
    ) -> MaskRow {
        let (token, head) = block.query(b, row);
        let token = b.eval(token.reg().min(open.sequence.q_len - 1));
        let head = QueryHead::of(b, open.tile.kv_head, tiling.group, head);
        MaskRow { tensor: *self, at: [open.tile.sequence.reg(), head.reg(), token] }
    }

    /// Bits of an element that hides.
    fn hiding(&self) -> u32 {
        match self.element {
            MaskElement::Bool => 0,
            MaskElement::Float(DType::F16) => 0xfc00,
            MaskElement::Float(DType::Bf16) => 0xff80,
            MaskElement::Float(_) => f32::NEG_INFINITY.to_bits(),
        }
    }

    /// Makes a prepared score the exponent of two that an element's bits ask for.
    #[track_caller]
    fn add(&self, b: &mut Builder, factor: Reg<f32>, score: Reg<f32>, bits: Reg<u32>) {
        let (exponent, hidden) = match self.element {
            MaskElement::Bool => (b.mul(score, factor), b.setp(Cmp::Eq, bits, 0)),
            MaskElement::Float(dtype) => {
                let bias = number(b, dtype, bits);
                let hidden = b.setp(Cmp::Eq, bias, f32::NEG_INFINITY);
                keep_finite(b, bias);
                let bias = b.mul(bias, LOG2_E);
                (b.fma(score, factor, bias), hidden)
            }
        };
        let exponent = b.select::<f32>(hidden, f32::NEG_INFINITY, exponent);
        b.assign(score, exponent);
    }
}

/// The number with these bits.
#[track_caller]
fn number(b: &mut Builder, dtype: DType, bits: Reg<u32>) -> Reg<f32> {
    match dtype {
        DType::F16 => b.unpack(HalfType::F16, bits)[0],
        DType::Bf16 => b.unpack(HalfType::Bf16, bits)[0],
        DType::E4m3 => b.unpack_e4m3(bits)[0],
        DType::F32 | DType::F64 => b.float_from_bits(bits),
    }
}

/// Keeps a bias within ±[`AttnMask::MOST`]; what is not a number stays so.
#[track_caller]
fn keep_finite(b: &mut Builder, bias: Reg<f32>) {
    for (cmp, bound) in [(Cmp::Lt, -AttnMask::MOST), (Cmp::Gt, AttnMask::MOST)] {
        let beyond = b.setp(cmp, bias, bound);
        b.assign_if(beyond, bias, bound);
    }
}

impl MaskRow {
    /// Adds the row's elements to prepared scores, which become exponents of two.
    #[track_caller]
    pub fn add_to(&self, b: &mut Builder, softmax: &Softmax, row: &RowScores<'_>) {
        let mut place = Place { column: 0, at: self.at(b, row.origin) };
        let factor = softmax.biased_factor();
        let parts = row.scores.chunks(AT_ONCE).zip(row.columns.chunks(AT_ONCE));
        for (scores, columns) in parts {
            let mut load = |column: &u32| {
                place = self.advance(b, place, *column);
                self.load(b, place, row.end)
            };
            let bits: Vec<_> = columns.iter().map(&mut load).collect();
            for (&score, bits) in scores.iter().zip(bits) {
                self.tensor.add(b, factor, score, bits);
            }
        }
    }

    /// The element of key `origin`.
    #[track_caller]
    fn at(&self, b: &mut Builder, origin: Reg<i32>) -> GlobalPtr {
        let origin = origin.reinterpret::<u32>();
        let offset = match self.tensor.key_stride {
            None => b.eval(origin.widening_mul(self.tensor.element.bytes() as u32)),
            Some(stride) => {
                let origin = b.widen(origin);
                b.eval(origin * stride)
            }
        };
        let mut at = b.global_add(self.tensor.base, offset);
        for (index, stride) in self.at.into_iter().zip(self.tensor.strides) {
            let index = b.widen(index);
            at = b.global_add(at, index * stride);
        }
        at
    }

    /// The element of a later column. Keys that are not neighbours are walked over step by step: their distances from
    /// the first would be the same in every tile, and the assembler would keep all of them in registers.
    #[track_caller]
    fn advance(&self, b: &mut Builder, from: Place, column: u32) -> Place {
        let gap = column - from.column;
        let at = match self.tensor.key_stride {
            None => from.at.plus(i64::from(gap) * self.tensor.element.bytes() as i64),
            Some(_) if gap == 0 => from.at,
            Some(stride) => b.global_add(from.at, stride * u64::from(gap)),
        };
        Place { column, at }
    }

    /// The bits of an element; those that hide from key `end` on, where nothing is read.
    #[track_caller]
    fn load(&self, b: &mut Builder, place: Place, end: Option<Reg<i32>>) -> Reg<u32> {
        let there = end.map(|end| b.setp(Cmp::Gt, end, place.column as i32));
        let bits = match there {
            None => b.reg(),
            Some(_) => b.value(self.tensor.hiding()),
        };
        b.ld_global_bytes(there, place.at, self.tensor.element.bytes() as u32, bits);
        bits
    }
}

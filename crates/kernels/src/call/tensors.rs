//! Tensor maps of queries, keys and values.
//!
//! Every map moves boxes that are as wide as one block of a canonical operand layout, a [`Panel`], so
//! that a box lands in the K-major (or, read the other way, MN-major) layout that the matrix units
//! take. Columns past the head dim and rows past the tensor are filled with zeros.

use crate::call::task::Tiling;
use problem::{DType, Problem, Segment, Unsupported, View};
use program::{BufferId, ElementType, L2Promotion, OobFill, Swizzle, TensorMap};

/// Columns of a box: 128 bytes of 16-bit elements.
pub const CHUNK: u32 = 64;

/// How a copy arranges rows in shared memory: side by side, panels of this many columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Panel {
    /// 64 columns: 128 bytes, the span of the 128-byte swizzle.
    Swizzled,
    /// 8 columns: the 16 bytes of a core-matrix row, no swizzle.
    Plain,
}

impl Panel {
    /// Columns of a panel.
    pub const fn columns(self) -> u32 {
        match self {
            Panel::Swizzled => CHUNK,
            Panel::Plain => 8,
        }
    }

    fn swizzle(self) -> Swizzle {
        match self {
            Panel::Swizzled => Swizzle::B128,
            Panel::Plain => Swizzle::None,
        }
    }
}

/// What a box of queries holds of one row block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryBox {
    /// One panel.
    Panel,
    /// All panels of the only KV head, side by side.
    OfSequence,
    /// All panels of the only sequence, side by side.
    OfKvHead,
}

impl QueryBox {
    /// All panels, if the kernel would have them so, where five dimensions are enough: panels are full,
    /// and there is only one KV head or one sequence.
    pub fn choose(problem: &Problem, tiling: &Tiling) -> Self {
        let whole = tiling.whole_queries
            && tiling.packing.used() == tiling.packing.capacity
            && problem.q.dim().is_multiple_of(CHUNK.into());
        match (problem.kv_heads(), problem.q.batch()) {
            (1, _) if whole => QueryBox::OfSequence,
            (_, 1) if whole => QueryBox::OfKvHead,
            _ => QueryBox::Panel,
        }
    }
}

/// The map of queries, a box of one block's rows: `(dim, head of the KV head, token, KV head, batch)`, or
/// `(column of panel, head of the KV head, token, panel, KV head or batch)`.
pub fn queries(problem: &Problem, buffer: BufferId, tiling: &Tiling, whole: QueryBox) -> TensorMap {
    let (q, group, Tiling { packing, panel, .. }) = (&problem.q, problem.group(), *tiling);
    let [batch, head, token] = [0, 1, 2].map(|d| q.strides[d]);
    let (columns, panels) = (u64::from(CHUNK), q.dim() / u64::from(CHUNK));
    let (first, inner, outer) = match whole {
        QueryBox::Panel => (q.dim(), (problem.kv_heads(), group * head, 1), (q.batch(), batch)),
        QueryBox::OfSequence => (columns, (panels, columns, panels), (q.batch(), batch)),
        QueryBox::OfKvHead => {
            (columns, (panels, columns, panels), (problem.kv_heads(), group * head))
        }
    };
    let dims = [first, group, q.tokens(), inner.0, outer.0];
    let strides = [head, token, inner.1, outer.1];
    let rows = [packing.heads, packing.tokens, inner.2 as u32, 1];
    map(q.dtype, buffer, &dims, &strides, panel, &rows)
}

/// The map of keys or values: `(dim, token, KV head, batch or page)`, a box of `rows` tokens.
pub fn rows(view: &View, buffer: BufferId, rows: u32, panel: Panel) -> TensorMap {
    let dims = [view.dim(), view.tokens(), view.heads(), view.batch()];
    let strides = [view.strides[2], view.strides[1], view.strides[0]];
    map(view.dtype, buffer, &dims, &strides, panel, &[rows, 1, 1])
}

/// The map of single rows of a tensor, so many and `pitch` elements apart, for copies that gather them.
pub fn single_rows(view: &View, buffer: BufferId, rows: u64, pitch: u64) -> TensorMap {
    map(view.dtype, buffer, &[view.dim(), rows], &[pitch], Panel::Swizzled, &[1])
}

/// Rows one copy can bring of a tile of `tile` keys: all, or what divides both tile and page.
pub fn rows_per_copy(segment: &Segment, tile: u32) -> u32 {
    match segment.paging {
        None => tile,
        Some(_) => gcd(segment.k.tokens(), tile as u64) as u32,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn map(
    dtype: DType,
    buffer: BufferId,
    dims: &[u64],
    strides: &[u64],
    panel: Panel,
    box_rows: &[u32],
) -> TensorMap {
    let packed = dims[0].next_multiple_of(8);
    TensorMap {
        buffer,
        offset: 0,
        element: if dtype == DType::F16 { ElementType::F16 } else { ElementType::Bf16 },
        dims: dims.iter().map(|d| (*d).max(1)).collect(),
        // The stride of a dimension of extent 1 is never used, but it must be a legal one.
        strides: strides
            .iter()
            .zip(&dims[1..])
            .map(|(stride, extent)| if *extent <= 1 { packed } else { *stride } * dtype.bytes())
            .collect(),
        box_dims: std::iter::once(panel.columns()).chain(box_rows.iter().copied()).collect(),
        element_strides: vec![1; dims.len()],
        im2col: None,
        swizzle: panel.swizzle(),
        oob_fill: OobFill::Zero,
        // A row of a box is 128 bytes: fetching 256 brought columns of another box too early and cost
        // 8 % of a decode's bandwidth on an H200.
        l2_promotion: L2Promotion::B128,
    }
}

/// Strides of tensor copies have 40 bits.
const MOST_STRIDE: u64 = 1 << 40;

/// The rules a tensor must meet to be copied by TMA, as a problem for the user.
pub fn check(name: &str, view: &View) -> Result<(), Unsupported> {
    let bytes = view.dtype.bytes();
    // Rows of bytes are copied by threads, 8 at a time.
    let unit = if view.dtype == DType::E4m3 { 8 } else { 16 };
    for (dimension, (stride, extent)) in
        ["batch", "head", "token"].iter().zip(view.strides.iter().zip(&view.shape))
    {
        // The stride of a dimension of extent 1 is never used and may be anything.
        let stride = stride.saturating_mul(bytes);
        if *extent > 1 && (!stride.is_multiple_of(unit) || stride >= MOST_STRIDE) {
            let nearest = stride.min(MOST_STRIDE - unit).next_multiple_of(unit);
            return Err(Unsupported::new(
                format!("{name} with a {dimension} stride of {stride} bytes"),
                format!("copies need strides that are multiples of {unit} bytes below 2^40"),
            )
            .nearest(format!("{nearest} bytes")));
        }
    }
    Ok(())
}

//! From candle's layouts to a problem.

use crate::op::{Attention, Sequences, failed};
use candle_core::backend::BackendStorage;
use candle_core::{DType, Layout, Result, Shape};
use sixwarp::{AttnMask, MaskElement, Problem, QueryLengths, Segment, SegmentSlot, Slot, View};

/// The output's shape: that of `q` with rows of `v`.
pub(crate) fn out_shape(q: &Layout, v: &Layout) -> Result<Shape> {
    let mut dims = q.dims().to_vec();
    match (dims.last_mut(), v.dims().last()) {
        (Some(columns), Some(values)) => *columns = *values,
        _ => candle_core::bail!("q and v have no dimensions"),
    }
    Ok(dims.into())
}

/// What a call asks.
pub(crate) fn describe(
    op: &Attention,
    q: &impl BackendStorage,
    [q_layout, k_layout, v_layout]: [&Layout; 3],
) -> Result<Problem> {
    let dtype = dtype_of(q.dtype())?;
    let packed = !matches!(op.sequences, Sequences::Batch);
    let paged = matches!(op.sequences, Sequences::Paged { .. });
    let queries = view("q", dtype, q_layout, packed)?;
    let keys = view("k", dtype, k_layout, packed && !paged)?;
    let values = view("v", dtype, v_layout, packed && !paged)?;
    let mut segment = Segment::new(keys, values).mask(op.mask);
    let mut builder = Problem::builder(queries).scale(op.scale);
    match op.sequences {
        Sequences::Batch => {}
        Sequences::Packed { keys, .. } => segment = segment.packed(keys as u64),
        Sequences::Paged { columns, .. } => segment = segment.paged(columns as u64).used(),
    }
    if let Sequences::Packed { count, queries, .. } | Sequences::Paged { count, queries, .. } =
        op.sequences
    {
        let (batch, longest) = (count as u64, queries as u64);
        builder = builder.query_lengths(QueryLengths::Packed { batch, longest });
    }
    if op.others.iter().any(|(slot, _)| *slot == Slot::Segment(0, SegmentSlot::AttnMask)) {
        let shape = [1, queries.heads(), queries.tokens(), keys.tokens()];
        segment = segment.attn_mask(AttnMask::new(MaskElement::Float(sixwarp::DType::F32), shape));
    }
    if let Some(cap) = op.softcap {
        builder = builder.softcap(cap);
    }
    let out = View::bshd(dtype, [queries.batch(), queries.heads(), queries.tokens(), values.dim()]);
    builder.segment(segment).out(out).build().map_err(failed)
}

fn dtype_of(dtype: DType) -> Result<sixwarp::DType> {
    Ok(match dtype {
        DType::F64 => sixwarp::DType::F64,
        DType::F32 => sixwarp::DType::F32,
        DType::F16 => sixwarp::DType::F16,
        DType::BF16 => sixwarp::DType::Bf16,
        other => {
            candle_core::bail!("q is {other:?}: F16, BF16 or, on the CPU, F32 or F64 is needed")
        }
    })
}

/// A tensor as `[batch, heads, tokens, dim]`; a packed one, of three dimensions, is a batch of one.
fn view(name: &str, dtype: sixwarp::DType, layout: &Layout, packed: bool) -> Result<View> {
    let (dims, strides) = (layout.dims(), layout.stride());
    let number = |x: usize| x as u64;
    let (shape, strides) = match (packed, dims, strides) {
        (true, &[tokens, heads, dim], &[token, head, column]) => {
            ([1, heads, tokens, dim], [0, head, token, column])
        }
        (false, &[batch, tokens, heads, dim], &[sequence, token, head, column]) => {
            ([batch, heads, tokens, dim], [sequence, head, token, column])
        }
        (true, ..) => {
            candle_core::bail!("{name} has shape {dims:?}: (tokens, heads, dim) is needed")
        }
        (false, ..) => {
            candle_core::bail!("{name} has shape {dims:?}: (batch, tokens, heads, dim) is needed")
        }
    };
    Ok(View::bhsd(dtype, shape.map(number)).with_strides(strides.map(number)))
}

//! Merging results on the host.

use crate::host::{readable, slice_mut, writable};
use problem::{DType, Element, View};
use serde::Deserialize;
use sixwarp::{Error, HostRef};

/// A merge as JSON: the shape `[batch, heads, tokens, dim]` of dense parts in `strides`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Merge {
    shape: [u64; 4],
    strides: [u64; 4],
    dtype: String,
    parts: usize,
    sinks: bool,
}

/// Merges parts: addresses are those of `out`, `lse`, `sinks` (or 0), then of each part's output and
/// log-sum-exp.
///
/// # Safety
/// Each address must be that of a tensor of the described shape that nobody writes; `out` and `lse`
/// must be writable and not accessed by anyone else.
pub(crate) unsafe fn merge(description: &str, addresses: *const u64) -> Result<(), Error> {
    let invalid = |text: String| problem::InvalidProblem::new("merge", "is read", text);
    let merge: Merge =
        serde_json::from_str(description).map_err(|error| invalid(error.to_string()))?;
    let dtype: DType = merge.dtype.parse().map_err(invalid)?;
    let view = View { shape: merge.shape, strides: merge.strides, dtype };
    let elements = view.span().unwrap_or(0) as usize;
    let rows = merge.shape[..3].iter().product::<u64>() as usize;
    // SAFETY: the caller gives three addresses and two for each part.
    let addresses = unsafe { std::slice::from_raw_parts(addresses, 3 + 2 * merge.parts) };
    let (results, parts) = addresses.split_at(3);
    // SAFETY: the caller vouches for memory of this shape.
    let part = |pair: &[u64]| unsafe {
        let lse = match readable(pair[1], rows, Element::Float(DType::F32)) {
            HostRef::F32(lse) => lse,
            _ => &[],
        };
        (readable(pair[0], elements, Element::Float(dtype)), lse)
    };
    let parts: Vec<_> = parts.chunks_exact(2).map(part).collect();
    // SAFETY: the caller vouches for memory of this shape.
    let out = || unsafe { writable(results[0], elements, Element::Float(dtype)) };
    // SAFETY: the caller vouches for one logit per row.
    let lse = unsafe { slice_mut::<f32>(results[1], rows) };
    sixwarp::merge(&view, &parts, out(), lse)?;
    if merge.sinks {
        // SAFETY: the caller vouches for one logit per head.
        let sinks = unsafe { slice_mut::<f32>(results[2], merge.shape[1] as usize) };
        sixwarp::apply_sink(&view, out(), lse, sinks)?;
    }
    Ok(())
}

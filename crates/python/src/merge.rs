//! Merging results on the host.

use crate::host::{readable, slice, slice_mut, writable};
use crate::memory::{CPU, Memory, overlap, range};
use problem::{DType, Element, InvalidProblem, View};
use serde::Deserialize;
use sixwarp::{Error, HostRef};
use std::fmt::Display;

/// A merge as JSON: outputs of shape `[batch, heads, tokens, dim]` in `strides`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    shape: [u64; 4],
    strides: [u64; 4],
    dtype: String,
}

/// The tensors of a merge.
pub(crate) struct Tensors<'a> {
    /// The merged output.
    pub(crate) out: &'a Memory,
    /// The merged log-sum-exp.
    pub(crate) lse: &'a Memory,
    /// One logit per head, where there are sinks.
    pub(crate) sinks: Option<&'a Memory>,
    /// Output and log-sum-exp of each part.
    pub(crate) parts: &'a [[Memory; 2]],
}

const F32: Element = Element::Float(DType::F32);

/// Merges parts.
///
/// # Safety
/// The memory must be as described; nobody may write it meanwhile, nor access `out` and `lse`.
pub(crate) unsafe fn merge(description: &str, tensors: &Tensors<'_>) -> Result<(), Error> {
    let view = view(description)?;
    let (elements, rows) = check(&view, tensors)?;
    // SAFETY: every tensor was checked to hold as much.
    let part = |[out, lse]: &[Memory; 2]| unsafe {
        (readable(out.address, elements, Element::Float(view.dtype)), slice(lse.address, rows))
    };
    let parts: Vec<(HostRef, &[f32])> = tensors.parts.iter().map(part).collect();
    // SAFETY: as above, and `out` lies apart from the others.
    let out = || unsafe { writable(tensors.out.address, elements, Element::Float(view.dtype)) };
    // SAFETY: as above.
    let lse = unsafe { slice_mut::<f32>(tensors.lse.address, rows) };
    sixwarp::merge(&view, &parts, out(), lse)?;
    if let Some(sinks) = tensors.sinks {
        // SAFETY: as above.
        let sinks = unsafe { slice::<f32>(sinks.address, view.heads() as usize) };
        sixwarp::apply_sink(&view, out(), lse, sinks)?;
    }
    Ok(())
}

fn view(description: &str) -> Result<View, InvalidProblem> {
    let invalid = |text: String| InvalidProblem::new("merge", "must be a shape as JSON", text);
    let Shape { shape, strides, dtype } =
        serde_json::from_str(description).map_err(|error| invalid(error.to_string()))?;
    Ok(View { shape, strides, dtype: dtype.parse().map_err(invalid)? })
}

/// Checks every tensor; how many elements an output spans, and how many rows it has.
fn check(view: &View, tensors: &Tensors<'_>) -> Result<(usize, usize), InvalidProblem> {
    let count = view.span().filter(|elements| *elements < 1 << 48);
    let rows = view.shape[..3].iter().try_fold(1u64, |n, extent| n.checked_mul(*extent));
    let (Some(elements), Some(rows)) = (count, rows.filter(|rows| *rows < 1 << 48)) else {
        return Err(InvalidProblem::new("out", "must span less than 2^48 elements", view));
    };
    let outputs = (Element::Float(view.dtype), elements * view.dtype.bytes());
    let logits = (F32, rows * 4);
    tensors.out.check("out", outputs, CPU, true)?;
    tensors.lse.check("lse", logits, CPU, true)?;
    let mut all =
        vec![("out".to_string(), tensors.out, outputs.1), ("lse".into(), tensors.lse, logits.1)];
    if let Some(sinks) = tensors.sinks {
        let bytes = view.heads().saturating_mul(4);
        sinks.check("sinks", (F32, bytes), CPU, false)?;
        all.push(("sinks".into(), sinks, bytes));
    }
    for (n, [out, lse]) in tensors.parts.iter().enumerate() {
        for (name, memory, need) in [("outs", out, outputs), ("lses", lse, logits)] {
            let name = format!("{name}[{n}]");
            memory.check(name.as_str(), need, CPU, false)?;
            all.push((name, memory, need.1));
        }
    }
    check_overlap(&all)?;
    Ok((elements as usize, rows as usize))
}

/// The first two, which are written, lie apart from all.
fn check_overlap<N: Display>(all: &[(N, &Memory, u64)]) -> Result<(), InvalidProblem> {
    for (written, (name, memory, bytes)) in all.iter().enumerate().take(2) {
        for (_, (other, beside, length)) in all.iter().enumerate().filter(|(i, _)| *i != written) {
            if overlap(&range(memory.address, *bytes), &range(beside.address, *length)) {
                let rule = format!("must not share memory with {other}");
                return Err(InvalidProblem::new(name, rule, "the same memory"));
            }
        }
    }
    Ok(())
}

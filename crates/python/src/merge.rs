//! Merging results, on the host or on a GPU.

use crate::host::{readable, slice, slice_mut, writable};
use crate::memory::{CPU, Memory, overlap, range};
use crate::plan::opened;
use problem::{DType, Element, InvalidProblem, View};
use sixwarp::{Device, Error, HostRef, MergeExecutable, MergeSlot, Stream, plan_merge};
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

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

impl Tensors<'_> {
    /// The device of the tensors: of the first three, that of two, so that the one that is elsewhere is named.
    fn device(&self) -> i32 {
        let (out, lse) = (self.out.device, self.lse.device);
        let other = self.parts.first().map_or(out, |[_, lse]| lse.device);
        if out == lse { out } else { other }
    }
}

const F32: Element = Element::Float(DType::F32);

/// Merges parts: on the host before returning, on the GPU that has them by queueing on `stream`.
///
/// # Safety
/// The memory must be as described; until the work has ended nobody may write it, nor access `out` and `lse`.
pub(crate) unsafe fn merge(
    description: &str,
    tensors: &Tensors<'_>,
    stream: usize,
) -> Result<(), Error> {
    let view = view(description)?;
    let (elements, rows) = check(&view, tensors)?;
    if tensors.device() != CPU {
        // SAFETY: every tensor was checked to hold as much as is needed; the caller vouches for the rest.
        return unsafe { on_gpu(&view, description, tensors, stream) };
    }
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

/// What one kernel serves: the description, the GPU, how many parts, whether there are sinks, alignment.
type Key = (String, i32, usize, bool, u64);

/// Kernels that are kept.
const MOST: usize = 1024;

/// A kernel on its GPU.
struct Loaded {
    device: Device,
    executable: MergeExecutable,
}

static LOADED: Mutex<Option<HashMap<Key, Arc<Loaded>>>> = Mutex::new(None);

/// # Safety
/// As [`merge`], with tensors that were checked.
unsafe fn on_gpu(
    view: &View,
    description: &str,
    tensors: &Tensors<'_>,
    stream: usize,
) -> Result<(), Error> {
    let outputs = tensors.parts.iter().map(|[out, _]| out.address).chain([tensors.out.address]);
    // Of addresses, only whether they are multiples of 16 matters.
    let align =
        if outputs.fold(0, |all, address| all | address).is_multiple_of(16) { 16 } else { 1 };
    let (parts, sinks) = (tensors.parts.len(), tensors.sinks.is_some());
    let key = (description.to_string(), tensors.out.device, parts, sinks, align);
    let loaded = match find(&key) {
        Some(found) => found,
        None => {
            let device = opened(tensors.out.device)?;
            let executable = plan_merge(view, parts, sinks, align, &device)?.prepare()?;
            keep(key, Loaded { device, executable })
        }
    };
    let Loaded { device, executable } = &*loaded;
    let address = |slot: MergeSlot| match slot {
        MergeSlot::Out => tensors.out.address,
        MergeSlot::Lse => tensors.lse.address,
        MergeSlot::Sinks => tensors.sinks.map_or(0, |sinks| sinks.address),
        MergeSlot::PartOut(n) => tensors.parts[n][0].address,
        MergeSlot::PartLse(n) => tensors.parts[n][1].address,
    };
    // SAFETY: as the caller says.
    unsafe { executable.launch_at(&Stream::from_raw(device, stream)?, address) }
}

fn find(key: &Key) -> Option<Arc<Loaded>> {
    let loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    loaded.as_ref()?.get(key).cloned()
}

fn keep(key: Key, kernel: Loaded) -> Arc<Loaded> {
    let kernel = Arc::new(kernel);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded.get_or_insert_default();
    if loaded.len() >= MOST {
        loaded.clear();
    }
    loaded.insert(key, kernel.clone());
    kernel
}

/// The view of every output, from JSON.
fn view(description: &str) -> Result<View, InvalidProblem> {
    let invalid = |error| InvalidProblem::new("merge", "must be a shape as JSON", error);
    serde_json::from_str(description).map_err(invalid)
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
    let device = tensors.device();
    tensors.out.check("out", outputs, device, true)?;
    tensors.lse.check("lse", logits, device, true)?;
    let mut all =
        vec![("out".to_string(), tensors.out, outputs.1), ("lse".into(), tensors.lse, logits.1)];
    if let Some(sinks) = tensors.sinks {
        let bytes = view.heads().saturating_mul(4);
        sinks.check("sinks", (F32, bytes), device, false)?;
        all.push(("sinks".into(), sinks, bytes));
    }
    for (n, [out, lse]) in tensors.parts.iter().enumerate() {
        for (name, memory, need) in [("outs", out, outputs), ("lses", lse, logits)] {
            let name = format!("{name}[{n}]");
            memory.check(name.as_str(), need, device, false)?;
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

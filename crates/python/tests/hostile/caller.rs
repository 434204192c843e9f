//! A caller of the C interface: plans, and tensors in guarded memory.

use crate::guard::{Guarded, Side};
use cases::CaseData;
use problem::{AttnMask, Element, Mask, Problem, QueryLengths, Segment, Slot, Values, View};
use serde_json::{Value, json};
use sixwarp_python::{Memory, Plan, ffi};
use std::ffi::{CStr, CString};
use std::ptr::null;

/// The last failure's sentence.
pub fn sentence() -> String {
    // SAFETY: a C string that lives until the next failure of this thread.
    unsafe { CStr::from_ptr(ffi::sixwarp_error()) }.to_string_lossy().into_owned()
}

/// A plan for the CPU, and the numbers of its slots.
pub struct Planned {
    pub plan: *mut Plan,
    numbers: Vec<(String, u32)>,
}

impl Planned {
    pub fn new(problem: &Problem) -> Self {
        let text = CString::new(description(problem).to_string()).unwrap();
        let mut kind = 0;
        // SAFETY: a C string and a place for the kind; a plan's information lives as long as it.
        unsafe {
            let plan = ffi::sixwarp_plan(text.as_ptr(), -1, &mut kind);
            assert!(!plan.is_null(), "{}: {text:?}", sentence());
            let info = CStr::from_ptr(ffi::sixwarp_plan_info(plan)).to_str().unwrap();
            let info: Value = serde_json::from_str(info).unwrap();
            let slots = info["slots"].as_array().unwrap().iter();
            let number = |slot: &Value| slot["number"].as_u64().unwrap() as u32;
            let name = |slot: &Value| slot["name"].as_str().unwrap().to_string();
            Planned { plan, numbers: slots.map(|slot| (name(slot), number(slot))).collect() }
        }
    }

    pub fn number(&self, slot: Slot) -> u32 {
        self.numbers.iter().find(|(name, _)| *name == slot.to_string()).unwrap().1
    }

    /// Runs on tensors; the sentence of a failure.
    pub fn run(&self, tensors: &[Memory]) -> Result<(), String> {
        // SAFETY: tensors are described as they are, or must be refused.
        match unsafe { ffi::sixwarp_run(self.plan, tensors.as_ptr(), tensors.len(), null(), 0) } {
            0 => Ok(()),
            1 => Err(sentence()),
            kind => panic!("kind {kind}: {}", sentence()),
        }
    }
}

impl Drop for Planned {
    fn drop(&mut self) {
        // SAFETY: made by `sixwarp_plan`, and freed once.
        unsafe { ffi::sixwarp_plan_free(self.plan) }
    }
}

pub fn element_number(element: Element) -> u32 {
    let names = ["f32", "f16", "bf16", "i32", "u8", "f64", "bool", "e4m3"];
    names.iter().position(|name| *name == element.to_string()).unwrap() as u32
}

/// A case's tensors, each in memory of its own.
pub struct Tensors {
    pub slots: Vec<(Slot, Guarded)>,
    pub given: Vec<Memory>,
}

impl Tensors {
    pub fn new(planned: &Planned, data: &CaseData, side: Side) -> Self {
        let (mut slots, mut given) = (Vec::new(), Vec::new());
        for slot in data.problem.slots() {
            let memory = Guarded::new(&data.bytes(slot), side);
            let memory = if slot.is_output() { memory } else { memory.read_only() };
            given.push(Memory {
                slot: planned.number(slot),
                element: element_number(data.problem.slot_element(slot)),
                device: -1,
                writable: slot.is_output() as u32,
                address: memory.address(),
                bytes: memory.len(),
            });
            slots.push((slot, memory));
        }
        Tensors { slots, given }
    }

    /// What the outputs hold.
    pub fn outputs(&self) -> Vec<Vec<u8>> {
        let outputs = self.slots.iter().filter(|(slot, _)| slot.is_output());
        outputs.map(|(_, memory)| memory.contents()).collect()
    }
}

fn view(view: &View) -> Value {
    json!({"shape": view.shape, "strides": view.strides, "dtype": view.dtype.to_string()})
}

fn attn_mask(mask: &AttnMask) -> Value {
    json!({"shape": mask.shape, "strides": mask.strides, "dtype": mask.element.to_string()})
}

fn segment(segment: &Segment) -> Value {
    let mut keys = json!({
        "k": view(&segment.k), "mask": mask(&segment.mask), "packed": segment.lengths.packed,
        "used": segment.lengths.used, "indices": segment.indices.map(|list| list.width),
        "pages_per_sequence": segment.paging.map(|paging| paging.pages_per_sequence),
        "storage": segment.storage.to_string(), "page_bytes": segment.page_bytes,
        "list_pitch": segment.indices.map(|list| list.pitch),
        "attn_mask": segment.attn_mask.as_ref().map(attn_mask),
        "k_descale": segment.k_descale.map(|descale| descale.strides),
        "v_descale": segment.v_descale.map(|descale| descale.strides),
    });
    match &segment.values {
        Values::Separate(values) => keys["v"] = view(values),
        Values::SameAsKeys { dim } => keys["value_dim"] = json!(dim),
    }
    keys
}

fn mask(mask: &Mask) -> String {
    mask.to_string().replace('∞', "inf")
}

/// A problem as a caller writes it.
pub fn description(problem: &Problem) -> Value {
    let packed = match problem.query_lengths {
        QueryLengths::Packed { batch, longest } => Some([batch, longest]),
        QueryLengths::Full => None,
    };
    json!({
        "q": view(&problem.q), "out": view(&problem.out), "packed_queries": packed,
        "segments": problem.segments.iter().map(segment).collect::<Vec<_>>(),
        "scale": problem.scale, "softcap": problem.softcap, "sinks": problem.sinks,
        "return_lse": problem.return_lse,
    })
}

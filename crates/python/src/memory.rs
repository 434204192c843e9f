//! Memory of the caller, and what a plan asks of it.
//!
//! Rules, all checked before anything is read or written:
//! 1. Every slot of the plan is given memory once, and no other slot is given any.
//! 2. Memory is of its slot's element type, on the plan's device, and holds the slot's bytes.
//! 3. Its address is not null and a multiple of the element's bytes (256 for a workspace).
//! 4. What is written is writable, and lies apart from everything else.
//!
//! Slots without bytes need no memory.

use problem::{DType, Element, InvalidProblem, SegmentSlot, Slot};
use program::WORKSPACE_ALIGN;
use std::fmt::Display;
use std::ops::Range;

/// Memory that a caller gives, and what it is for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The slot's number, from the plan's information.
    pub slot: u32,
    /// The element type's number: f32, f16, bf16, i32, u8, f64, bool, e4m3 from 0 on.
    pub element: u32,
    /// The GPU's number, -1 for the CPU.
    pub device: i32,
    /// Whether it may be written; 0 if not.
    pub writable: u32,
    /// Where it begins.
    pub address: u64,
    /// How many bytes there are from there on.
    pub bytes: u64,
}

/// The CPU, where GPUs count from 0.
pub(crate) const CPU: i32 = -1;

const ELEMENTS: [Element; 8] = [
    Element::Float(DType::F32),
    Element::Float(DType::F16),
    Element::Float(DType::Bf16),
    Element::I32,
    Element::U8,
    Element::Float(DType::F64),
    Element::Bool,
    Element::Float(DType::E4m3),
];

/// The number by which callers name a slot.
pub(crate) fn slot_number(slot: Slot) -> u32 {
    match slot {
        Slot::Q => 0,
        Slot::Out => 1,
        Slot::Lse => 2,
        Slot::Sinks => 3,
        Slot::CuSeqlensQ => 4,
        Slot::Positions => 5,
        Slot::Segment(n, part) => 16 * (1 + n as u32) + segment_slot_number(part),
    }
}

fn segment_slot_number(part: SegmentSlot) -> u32 {
    match part {
        SegmentSlot::K => 0,
        SegmentSlot::V => 1,
        SegmentSlot::CuSeqlens => 2,
        SegmentSlot::Used => 3,
        SegmentSlot::PageTable => 4,
        SegmentSlot::Indices => 5,
        SegmentSlot::AttnMask => 6,
        SegmentSlot::KDescale => 7,
        SegmentSlot::VDescale => 8,
    }
}

impl Memory {
    /// Checks rules 2 to 4, but for overlaps, for memory that is read (or written) as `bytes` of `element`.
    pub(crate) fn check(
        &self,
        name: impl Display + Copy,
        need: (Element, u64),
        device: i32,
        written: bool,
    ) -> Result<(), InvalidProblem> {
        let (element, bytes) = need;
        let wrong = |rule: String, value: String| Err(InvalidProblem::new(name, rule, value));
        match ELEMENTS.get(self.element as usize) {
            Some(given) if *given == element => {}
            Some(given) => return wrong(format!("must hold {element}"), given.to_string()),
            None => return wrong(format!("must hold {element}"), "of an unknown type".into()),
        }
        if self.device != device {
            let rule = format!("must be on {}", device_name(device));
            return wrong(rule, format!("on {}", device_name(self.device)));
        }
        if self.bytes < bytes {
            return wrong(format!("must hold {bytes} bytes"), self.bytes.to_string());
        }
        if written && self.writable == 0 {
            return wrong("must be writable".into(), "read-only".into());
        }
        match bytes {
            0 => Ok(()),
            _ => check_address(name, self.address, self.bytes, element.bytes()),
        }
    }
}

fn device_name(device: i32) -> String {
    match device {
        CPU => "the CPU".to_string(),
        _ => format!("GPU {device}"),
    }
}

fn check_address(
    name: impl Display,
    address: u64,
    bytes: u64,
    align: u64,
) -> Result<(), InvalidProblem> {
    if bytes == 0 {
        return Ok(());
    }
    if address == 0 || address.checked_add(bytes).is_none() {
        return Err(InvalidProblem::new(name, "must have memory", format!("at {address:#x}")));
    }
    match address.is_multiple_of(align) {
        true => Ok(()),
        false => {
            let rule = format!("must lie at a multiple of {align} bytes");
            Err(InvalidProblem::new(name, rule, format!("at {address:#x}")))
        }
    }
}

/// What a plan asks for one slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub(crate) slot: Slot,
    pub(crate) element: Element,
    pub(crate) bytes: u64,
}

/// What a plan asks for, in the order of its slots.
pub(crate) struct Needs {
    pub(crate) slots: Vec<Need>,
    pub(crate) workspace_bytes: u64,
    pub(crate) device: i32,
}

impl Needs {
    /// The address for each slot, then that of the workspace, of memory that keeps rules 1 to 3 and is
    /// writable where it must be. [`Needs::check_places`] checks the rest.
    pub(crate) fn addresses(
        &self,
        given: &[Memory],
        workspace: Option<&Memory>,
    ) -> Result<Vec<u64>, InvalidProblem> {
        self.check_names(given)?;
        let mut addresses = Vec::with_capacity(self.slots.len() + 1);
        for Need { slot, element, bytes } in &self.slots {
            let number = slot_number(*slot);
            let Some(memory) = given.iter().find(|memory| memory.slot == number) else {
                return Err(InvalidProblem::new(slot, "is needed by the plan", "missing"));
            };
            memory.check(slot, (*element, *bytes), self.device, slot.is_output())?;
            addresses.push(memory.address);
        }
        addresses.push(self.workspace_address(workspace)?);
        Ok(addresses)
    }

    fn check_names(&self, given: &[Memory]) -> Result<(), InvalidProblem> {
        for (at, memory) in given.iter().enumerate() {
            let need = self.slots.iter().find(|need| slot_number(need.slot) == memory.slot);
            let Some(need) = need else {
                let name = format!("slot {}", memory.slot);
                return Err(InvalidProblem::new(name, "is none of the plan's", "given"));
            };
            if given[..at].iter().any(|other| other.slot == memory.slot) {
                return Err(InvalidProblem::new(need.slot, "is given once", "given again"));
            }
        }
        Ok(())
    }

    fn workspace_address(&self, workspace: Option<&Memory>) -> Result<u64, InvalidProblem> {
        if self.workspace_bytes == 0 {
            return Ok(0);
        }
        let Some(memory) = workspace else {
            return Err(InvalidProblem::new("workspace", "is needed by the plan", "missing"));
        };
        memory.check("workspace", (Element::U8, self.workspace_bytes), self.device, true)?;
        Ok(memory.address)
    }

    /// Checks that addresses (the slots', then the workspace's) are possible ones, and that what is
    /// written lies apart from everything else.
    pub(crate) fn check_places(&self, addresses: &[u64]) -> Result<(), InvalidProblem> {
        for (need, address) in self.slots.iter().zip(addresses) {
            check_address(need.slot, *address, need.bytes, need.element.bytes())?;
        }
        let workspace = addresses.get(self.slots.len()).copied().unwrap_or(0);
        check_address("workspace", workspace, self.workspace_bytes, WORKSPACE_ALIGN)?;
        let place = |i: usize| match self.slots.get(i) {
            Some(need) => range(addresses[i], need.bytes),
            None => range(workspace, self.workspace_bytes),
        };
        let count = self.slots.len();
        for written in (0..=count).filter(|i| self.is_written(*i)) {
            for other in (0..=count).filter(|other| *other != written) {
                if overlap(&place(written), &place(other)) {
                    return Err(self.overlapping(written, other));
                }
            }
        }
        Ok(())
    }

    fn is_written(&self, i: usize) -> bool {
        self.slots.get(i).is_none_or(|need| need.slot.is_output())
    }

    fn overlapping(&self, written: usize, other: usize) -> InvalidProblem {
        let name = |i: usize| match self.slots.get(i) {
            Some(need) => need.slot.to_string(),
            None => "workspace".to_string(),
        };
        let rule = format!("must not share memory with {}", name(other));
        InvalidProblem::new(name(written), rule, "the same memory")
    }
}

pub(crate) fn range(address: u64, bytes: u64) -> Range<u64> {
    address..address.saturating_add(bytes)
}

pub(crate) fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(slots: &[(Slot, u64)]) -> Needs {
        let need = |&(slot, bytes): &(Slot, u64)| Need {
            slot,
            element: Element::Float(DType::F32),
            bytes,
        };
        Needs { slots: slots.iter().map(need).collect(), workspace_bytes: 0, device: CPU }
    }

    #[test]
    fn an_output_in_an_input_is_refused() {
        let needs = needs(&[(Slot::Q, 64), (Slot::Out, 64), (Slot::Lse, 8)]);
        assert!(needs.check_places(&[64, 128, 192]).is_ok());
        let error = needs.check_places(&[64, 124, 192]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "out: must not share memory with q, but it is the same memory"
        );
        assert!(needs.check_places(&[64, 128, 160]).is_err());
    }

    #[test]
    fn what_is_empty_lies_anywhere() {
        let needs = needs(&[(Slot::Q, 64), (Slot::Out, 0), (Slot::Lse, 0)]);
        assert!(needs.check_places(&[64, 0, 64]).is_ok());
    }

    #[test]
    fn a_workspace_is_aligned_and_apart() {
        let needs = Needs { workspace_bytes: 512, ..needs(&[(Slot::Q, 64)]) };
        assert!(needs.check_places(&[64, 256]).is_ok());
        let error = |addresses: &[u64]| needs.check_places(addresses).unwrap_err().to_string();
        assert!(error(&[64, 0]).starts_with("workspace: must have memory"));
        assert!(error(&[64, 288]).starts_with("workspace: must lie at a multiple of 256"));
        assert!(error(&[512, 256]).starts_with("workspace: must not share memory with q"));
    }

    #[test]
    fn slots_have_numbers_of_their_own() {
        let parts = [
            SegmentSlot::K,
            SegmentSlot::V,
            SegmentSlot::CuSeqlens,
            SegmentSlot::Used,
            SegmentSlot::PageTable,
            SegmentSlot::Indices,
        ];
        let segments = [0, 1].into_iter().flat_map(|n| parts.map(|part| Slot::Segment(n, part)));
        let whole = [Slot::Q, Slot::Out, Slot::Lse, Slot::Sinks, Slot::CuSeqlensQ, Slot::Positions];
        let mut numbers: Vec<u32> = whole.into_iter().chain(segments).map(slot_number).collect();
        let count = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
    }
}

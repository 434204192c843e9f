//! The buffers of an attention program.

use problem::{Problem, SegmentSlot, Slot};
use program::{Access, Buffer, BufferId, build};

/// The buffers of a program: the problem's slots, then workspaces.
#[derive(Clone, Debug)]
pub struct Memory {
    slots: Vec<Slot>,
    buffers: build::Memory,
}

impl Memory {
    /// One buffer per slot of the problem, under the slot's name.
    pub fn of(problem: &Problem) -> Self {
        let slots = problem.slots();
        let mut buffers = build::Memory::new();
        for &slot in &slots {
            let access = if slot.is_output() { Access::Write } else { Access::Read };
            let (bytes, align) = (problem.slot_bytes(slot), alignment(problem, slot));
            buffers.add(Buffer::new(slot.to_string(), bytes, align, access));
        }
        Memory { slots, buffers }
    }

    /// The buffer of a slot the problem has.
    pub fn slot(&self, slot: Slot) -> BufferId {
        let index = self.slots.iter().position(|s| *s == slot);
        BufferId(index.unwrap_or_else(|| panic!("the problem has no {slot}")))
    }

    /// Adds scratch memory.
    pub fn workspace(&mut self, name: &str, bytes: u64) -> BufferId {
        self.buffers.workspace(name, bytes)
    }

    /// Adds scratch memory for a copy of a slot, which then lies at any multiple of `align`: the slot's buffer, and that
    /// of the copy.
    pub fn copied(&mut self, slot: Slot, align: u64) -> (BufferId, BufferId) {
        let from = self.slot(slot);
        let buffer = self.buffers.buffer_mut(from);
        buffer.align = align;
        let bytes = buffer.bytes;
        (from, self.workspace(&format!("copy of {slot}"), bytes))
    }

    /// The same for a slot whose rows lie elsewhere in the copy: `bytes` is the slot's own size.
    pub fn repacked(&mut self, slot: Slot, align: u64, bytes: u64) -> (BufferId, BufferId) {
        let (from, copy) = self.copied(slot, align);
        self.buffers.buffer_mut(from).bytes = bytes;
        (from, copy)
    }

    /// Adds memory that the program writes for its caller.
    pub fn output(&mut self, name: &str, bytes: u64) -> BufferId {
        self.buffers.output(name, bytes)
    }

    /// The buffers, for the program.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.buffers.into_buffers()
    }
}

/// What a slot's memory is aligned to. Rows are moved in vectors of 16 bytes, those of e4m3 of 8; everything else (lengths, tables,
/// lists, positions, sinks, masks, log-sum-exps) element by element, so that a view of a part of it will do.
fn alignment(problem: &Problem, slot: Slot) -> u64 {
    match slot {
        Slot::Segment(n, SegmentSlot::K | SegmentSlot::V)
            if problem.segments[n as usize].is_e4m3() =>
        {
            8
        }
        Slot::Q | Slot::Out | Slot::Segment(_, SegmentSlot::K | SegmentSlot::V) => 16,
        _ => problem.slot_element(slot).bytes(),
    }
}

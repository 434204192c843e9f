//! Kernel parameters, declared once: each call adds the `.param` to the kernel and the value to the
//! launch, so the two cannot disagree.

use problem::{Problem, SegmentSlot, Slot};
use program::{Access, Argument, Buffer, BufferId, TensorMap, WORKSPACE_ALIGN};
use ptx::build::{Builder, GlobalPtr, Reg, TensorMapParam};

/// The buffers of a program: the problem's slots, then workspaces.
#[derive(Clone, Debug)]
pub struct Memory {
    slots: Vec<Slot>,
    buffers: Vec<Buffer>,
}

impl Memory {
    /// One buffer per slot of the problem, under the slot's name.
    pub fn of(problem: &Problem) -> Self {
        let slots = problem.slots();
        let buffers = slots.iter().map(|&slot| {
            let access = if slot.is_output() { Access::Write } else { Access::Read };
            let (bytes, align) = (problem.slot_bytes(slot), alignment(problem, slot));
            Buffer::new(slot.to_string(), bytes, align, access)
        });
        Memory { buffers: buffers.collect(), slots }
    }

    /// The buffer of a slot the problem has.
    pub fn slot(&self, slot: Slot) -> BufferId {
        let index = self.slots.iter().position(|s| *s == slot);
        BufferId(index.unwrap_or_else(|| panic!("the problem has no {slot}")))
    }

    /// Adds scratch memory.
    pub fn workspace(&mut self, name: &str, bytes: u64) -> BufferId {
        self.buffers.push(Buffer::new(name, bytes, WORKSPACE_ALIGN, Access::Workspace));
        BufferId(self.buffers.len() - 1)
    }

    /// Adds scratch memory for a copy of a slot, which then lies at any multiple of `align`: the slot's buffer, and that
    /// of the copy.
    pub fn copied(&mut self, slot: Slot, align: u64) -> (BufferId, BufferId) {
        let from = self.slot(slot);
        self.buffers[from.0].align = align;
        let to = self.workspace(&format!("copy of {slot}"), self.buffers[from.0].bytes);
        (from, to)
    }

    /// Adds memory that the program writes for its caller.
    pub fn output(&mut self, name: &str, bytes: u64) -> BufferId {
        self.buffers.push(Buffer::new(name, bytes, 16, Access::Write));
        BufferId(self.buffers.len() - 1)
    }

    /// The buffers, for the program.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.buffers
    }
}

/// What a slot's memory is aligned to. Rows are moved in vectors of 16 bytes; everything else (lengths, tables,
/// lists, positions, sinks, masks, log-sum-exps) element by element, so that a view of a part of it will do.
fn alignment(problem: &Problem, slot: Slot) -> u64 {
    match slot {
        Slot::Q | Slot::Out | Slot::Segment(_, SegmentSlot::K | SegmentSlot::V) => 16,
        _ => problem.slot_element(slot).bytes(),
    }
}

/// The arguments of one launch, in parameter order.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    values: Vec<Argument>,
    suffix: String,
}

impl Arguments {
    /// Ends the names of what is declared next with `suffix`, so that a kernel can have two of a kind.
    pub fn name_with(&mut self, suffix: impl Into<String>) {
        self.suffix = suffix.into();
    }

    fn name(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    /// The address of a buffer.
    #[track_caller]
    pub fn pointer(&mut self, b: &mut Builder, name: &str, buffer: BufferId) -> GlobalPtr {
        self.pointer_at(b, name, buffer, 0)
    }

    /// The address `offset` bytes into a buffer.
    #[track_caller]
    pub fn pointer_at(
        &mut self,
        b: &mut Builder,
        name: &str,
        buffer: BufferId,
        offset: u64,
    ) -> GlobalPtr {
        self.values.push(Argument::Buffer(buffer, offset));
        b.param_ptr(&self.name(name))
    }

    /// A 32-bit number.
    #[track_caller]
    pub fn u32(&mut self, b: &mut Builder, name: &str, value: u32) -> Reg<u32> {
        self.values.push(Argument::U32(value));
        b.param_u32(&self.name(name))
    }

    /// A 64-bit number.
    #[track_caller]
    pub fn u64(&mut self, b: &mut Builder, name: &str, value: u64) -> Reg<u64> {
        self.values.push(Argument::U64(value));
        b.param_u64(&self.name(name))
    }

    /// A single-precision number.
    #[track_caller]
    pub fn f32(&mut self, b: &mut Builder, name: &str, value: f32) -> Reg<f32> {
        self.values.push(Argument::F32(value));
        b.param_f32(&self.name(name))
    }

    /// A tensor map.
    #[track_caller]
    pub fn tensor_map(&mut self, b: &mut Builder, name: &str, map: TensorMap) -> TensorMapParam {
        self.values.push(Argument::TensorMap(map));
        b.param_tensor_map(&self.name(name))
    }

    /// The values, for the launch.
    pub fn into_values(self) -> Vec<Argument> {
        self.values
    }
}

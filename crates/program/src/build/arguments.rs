//! Kernel parameters, declared once: each call adds the `.param` to the kernel and the value to the
//! launch, so the two cannot disagree.

use super::Grid;
use crate::{Argument, BufferId, Launch, TensorMap};
use ptx::build::{Builder, GlobalPtr, Kernel, Reg, TensorMapParam};

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

    /// The launch of `kernel`, whose parameters these are.
    pub fn launch(self, kernel: &Kernel, grid: Grid) -> Launch {
        Launch {
            kernel: kernel.function.name.to_string(),
            grid: grid.ctas,
            block: grid.threads,
            cluster: grid.cluster,
            shared_bytes: kernel.shared_bytes,
            args: self.values,
            overlaps_previous: false,
        }
    }
}

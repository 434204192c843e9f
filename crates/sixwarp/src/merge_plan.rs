//! Merging results on a GPU or a simulated one: one kernel.

use crate::device::Kind;
use crate::gpu::Gpu;
use crate::merge::check;
use crate::{Device, Error, Stream};
use kernels::merge::{Merge, MergeSlot};
use problem::{HostMut, HostRef, InvalidProblem, Slot, View};
use program::Program;

/// How results are merged on a device that runs kernels. [`merge`](crate::merge) does it on the host.
#[derive(Clone, Debug)]
pub struct MergePlan {
    merge: Merge,
    device: Device,
    program: Program,
}

/// Plans to merge `parts` results whose outputs have the layout of `view`, at addresses that are multiples of
/// `align` bytes, and to apply `sinks`, if there are any.
///
/// # Errors
/// If the device runs no kernels, or its kernel cannot do this: see [`MOST_PARTS`](crate::MOST_PARTS).
pub fn plan_merge(
    view: &View,
    parts: usize,
    sinks: bool,
    align: u64,
    device: &Device,
) -> Result<MergePlan, Error> {
    let Some(arch) = device.arch() else {
        let rule = "is a GPU, or a simulated one, where merges are planned";
        return Err(InvalidProblem::new("device", rule, device).into());
    };
    let merge = Merge { view: *view, parts, sinks, align };
    let program = kernels::merge::merge(arch, &merge)?;
    Ok(MergePlan { merge, device: device.clone(), program })
}

impl MergePlan {
    /// The program that will run.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Merges tensors of the host, on the device.
    ///
    /// # Errors
    /// If a tensor is too small, or there are more or fewer than were planned for; if the device fails.
    pub fn run(
        &self,
        parts: &[(HostRef, &[f32])],
        sinks: Option<&[f32]>,
        mut out: HostMut,
        lse: &mut [f32],
    ) -> Result<(), Error> {
        self.check(parts, sinks, out.as_ref(), lse)?;
        let numbers = |values: &[f32]| HostRef::F32(values).to_bytes();
        let contents = |slot: MergeSlot| match slot {
            MergeSlot::Out => out.as_ref().to_bytes(),
            MergeSlot::Lse => numbers(lse),
            MergeSlot::Sinks => numbers(sinks.unwrap_or_default()),
            MergeSlot::PartOut(n) => parts[n].0.to_bytes(),
            MergeSlot::PartLse(n) => numbers(parts[n].1),
        };
        let bytes: Vec<_> = self.merge.slots().into_iter().map(contents).collect();
        let bytes = self.run_bytes(bytes)?;
        for (slot, bytes) in self.merge.slots().into_iter().zip(bytes) {
            match slot {
                MergeSlot::Out => out.copy_from_bytes(&bytes),
                MergeSlot::Lse => HostMut::F32(lse).copy_from_bytes(&bytes),
                _ => {}
            }
        }
        Ok(())
    }

    fn run_bytes(&self, mut bytes: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, Error> {
        if let Kind::Simulated { options, .. } = &self.device.0 {
            let before = bytes.clone();
            let report = sim::run(&self.program, &bytes, options)?;
            bytes = report.buffers;
            for (n, ranges) in report.unwritten.into_iter().enumerate() {
                for range in ranges {
                    bytes[n][range.clone()].copy_from_slice(&before[n][range]);
                }
            }
            return Ok(bytes);
        }
        self.device.expect_gpu("merges run")?.run_host(&self.program, &mut bytes)?;
        Ok(bytes)
    }

    fn check(
        &self,
        parts: &[(HostRef, &[f32])],
        sinks: Option<&[f32]>,
        out: HostRef,
        lse: &[f32],
    ) -> Result<(), InvalidProblem> {
        let Merge { view, parts: planned, sinks: with_sinks, .. } = self.merge;
        if parts.len() != planned {
            let rule = format!("are {planned} in this plan");
            return Err(InvalidProblem::new("parts", rule, parts.len()));
        }
        let heads = if with_sinks { view.heads() } else { 0 };
        let given = sinks.map_or(0, <[f32]>::len) as u64;
        if given < heads || sinks.is_some() != with_sinks {
            let rule = format!("must hold {heads} elements");
            return Err(InvalidProblem::new(Slot::Sinks, rule, given));
        }
        check(&view, out, lse)?;
        parts.iter().try_for_each(|(part, part_lse)| check(&view, *part, part_lse))
    }

    /// Compiles and loads the kernel on a GPU.
    ///
    /// # Errors
    /// If the device is not a GPU, or fails.
    pub fn prepare(&self) -> Result<MergeExecutable, Error> {
        let device = self.device.expect_gpu("merges are launched")?;
        let slots = self.merge.slots();
        let slot = |name: &str| slots.iter().find(|slot| slot.to_string() == name).copied();
        Ok(MergeExecutable(Gpu::new(device, &self.program, slot)?))
    }
}

/// A merge that is compiled and loaded, to be launched on any memory and stream of its GPU.
pub struct MergeExecutable(Gpu<MergeSlot>);

impl MergeExecutable {
    /// Queues the merge on memory by its addresses.
    ///
    /// # Safety
    /// `address` must give every tensor of the plan as much memory of the device as it needs, and the memory
    /// must stay until the work has ended.
    ///
    /// # Errors
    /// If the stream is not a GPU's, an address is not aligned, or the driver fails.
    pub unsafe fn launch_at(
        &self,
        stream: &Stream,
        address: impl Fn(MergeSlot) -> u64,
    ) -> Result<(), Error> {
        let Some(queue) = stream.queue() else {
            let rule = "is a GPU's where addresses are given";
            return Err(InvalidProblem::new("stream", rule, "another device's").into());
        };
        // SAFETY: as the caller vouches; there is no workspace.
        unsafe { self.0.launch(queue, address, 0) }
    }
}

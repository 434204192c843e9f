//! A plan made ready, and its launches.

use crate::gpu::Gpu;
use crate::tensor::{DeviceBuffers, DeviceMut, DeviceTensor, Pending, Place, PlaceMut};
use crate::{Error, Plan, Stream};
use problem::{Element, HostBuffers, InvalidProblem, Slot};
use program::WORKSPACE_ALIGN;
use std::fmt;

/// What rows lie at multiples of, in bytes, unless a plan is made for any address.
const ROWS_ALIGN: u64 = 16;

/// A plan that is compiled and loaded, to be launched on any memory and stream of its device.
///
/// A launch allocates no memory of the device, waits for nothing on a GPU, and reads nothing back. Scratch
/// memory is the caller's: a workspace serves one launch after the other on a stream.
pub struct Executable {
    plan: Plan,
    gpu: Option<Gpu<Slot>>,
}

impl Plan {
    /// Compiles and loads what the device runs.
    ///
    /// # Errors
    /// If the device fails.
    pub fn prepare(&self) -> Result<Executable, Error> {
        let gpu = match (self.device.gpu(), &self.emitted) {
            (Some(device), Some(emitted)) => {
                let slot = |name: &str| self.problem.slot_named(name);
                Some(Gpu::new(device, &emitted.program, slot)?)
            }
            _ => None,
        };
        Ok(Executable { plan: self.clone(), gpu })
    }
}

impl Executable {
    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bytes of a workspace, at an address that is a multiple of 256; 0 where none is needed. The CPU and
    /// simulators need none.
    pub fn workspace_bytes(&self) -> u64 {
        self.gpu.as_ref().map_or(0, Gpu::workspace_bytes)
    }

    /// A workspace that is large enough.
    ///
    /// # Errors
    /// If the device has no room for it.
    pub fn alloc_workspace(&self) -> Result<DeviceTensor<u8>, Error> {
        self.plan.device.alloc(self.workspace_bytes() as usize)
    }

    /// Computes on tensors of the device. A GPU only queues the work; all other devices have done it on
    /// return.
    ///
    /// # Errors
    /// If a slot has no tensor, or one that is too small, of another type, another device's or not at a multiple
    /// of [`Plan::alignment`]; the same of the workspace; if the device fails.
    pub fn launch<'a>(
        &self,
        stream: &Stream,
        buffers: DeviceBuffers<'a>,
        workspace: impl Into<DeviceMut<'a>>,
    ) -> Result<Pending<'a>, Error> {
        // SAFETY: the result borrows the tensors, and waits for the work when it goes.
        unsafe { self.queue(stream, buffers, workspace) }?;
        Ok(Pending::on(stream))
    }

    /// As [`Executable::launch`], but nothing borrows the tensors while the work goes on; for streams that
    /// are captured, and for callers who know when work has ended.
    ///
    /// # Safety
    /// The tensors and the workspace must stay until the work has ended, and what is written must not be
    /// accessed by anyone else until then. A graph that recorded the work does it whenever it is launched.
    ///
    /// # Errors
    /// As [`Executable::launch`].
    pub unsafe fn queue<'a>(
        &self,
        stream: &Stream,
        buffers: DeviceBuffers<'a>,
        workspace: impl Into<DeviceMut<'a>>,
    ) -> Result<(), Error> {
        let workspace = workspace.into();
        stream.ensure_of(&self.plan.device)?;
        self.check_devices(&buffers, &workspace)?;
        if self.gpu.is_none() {
            return self.plan.run(&mut on_host(buffers)?);
        }
        for slot in self.plan.problem.slots() {
            self.check_slot(&buffers, slot)?;
        }
        let scratch = self.workspace_address(&workspace)?;
        let address = |slot| find(&buffers, slot).map_or(0, |(pointer, _)| pointer.address());
        // SAFETY: sizes were checked, and the caller vouches for the rest.
        unsafe { self.launch_at(stream, address, scratch) }
    }

    /// Queues the work on a GPU, on memory by its addresses. This is the shortest way to a launch: nothing
    /// is looked at.
    ///
    /// # Safety
    /// `address` must give every slot of the problem as many bytes as it needs, of its type and in the
    /// device's memory, and `workspace` be that of [`Executable::workspace_bytes`]. Otherwise as
    /// [`Executable::queue`].
    ///
    /// # Errors
    /// If the device is not a GPU, an address is not aligned, or the driver fails.
    pub unsafe fn launch_at(
        &self,
        stream: &Stream,
        address: impl Fn(Slot) -> u64,
        workspace: u64,
    ) -> Result<(), Error> {
        let (Some(gpu), Some(queue)) = (&self.gpu, stream.queue()) else {
            let rule = "is a GPU where addresses are given";
            return Err(InvalidProblem::new("device", rule, &self.plan.device).into());
        };
        // SAFETY: as the caller vouches.
        unsafe { gpu.launch(queue, address, workspace) }
    }

    fn check_devices(
        &self,
        buffers: &DeviceBuffers,
        workspace: &DeviceMut,
    ) -> Result<(), InvalidProblem> {
        let here = self.plan.device.memory_name();
        let inputs = buffers.inputs.iter().map(|(slot, tensor)| (slot.to_string(), tensor.device));
        let outputs =
            buffers.outputs.iter().map(|(slot, tensor)| (slot.to_string(), tensor.device));
        let scratch = std::iter::once(("workspace".to_string(), workspace.device));
        for (name, device) in inputs.chain(outputs).chain(scratch) {
            let there = device.memory_name();
            if there != here {
                return Err(InvalidProblem::new(name, format!("must lie on {here}"), there));
            }
        }
        Ok(())
    }

    fn check_slot(&self, buffers: &DeviceBuffers, slot: Slot) -> Result<(), InvalidProblem> {
        let wrong =
            |rule: String, value: &dyn fmt::Display| Err(InvalidProblem::new(slot, rule, value));
        let Some((pointer, element)) = find(buffers, slot) else {
            return wrong("needs memory".into(), &"missing");
        };
        let (wanted, bytes) =
            (self.plan.problem.slot_element(slot), self.plan.problem.slot_bytes(slot));
        if !wanted.is_held_by(element) {
            return wrong(format!("must hold {wanted}"), &element);
        }
        if pointer.bytes() < bytes {
            return wrong(format!("must hold {bytes} bytes"), &pointer.bytes());
        }
        let address = pointer.address();
        // No slot needs more, and names need not be looked up then.
        if bytes == 0 || address.is_multiple_of(ROWS_ALIGN) {
            return Ok(());
        }
        match self.plan.alignment(slot) {
            Some(align) if !address.is_multiple_of(align) => wrong(
                format!("must lie at a multiple of {align} bytes{}", remedy(slot, align)),
                &format!("at {address:#x}"),
            ),
            _ => Ok(()),
        }
    }

    fn workspace_address(&self, workspace: &DeviceMut) -> Result<u64, InvalidProblem> {
        let needed = self.workspace_bytes();
        let wrong =
            |rule: String, value: String| Err(InvalidProblem::new("workspace", rule, value));
        let PlaceMut::Cuda(pointer, ..) = &workspace.place else { return Ok(0) };
        if pointer.bytes() < needed {
            return wrong(format!("must hold {needed} bytes"), pointer.bytes().to_string());
        }
        if needed > 0 && !pointer.address().is_multiple_of(WORKSPACE_ALIGN) {
            let rule = format!("must lie at a multiple of {WORKSPACE_ALIGN} bytes");
            return wrong(rule, format!("at {:#x}", pointer.address()));
        }
        Ok(pointer.address())
    }
}

/// How a tensor that does not lie at a multiple of `align` can be read after all.
fn remedy(slot: Slot, align: u64) -> &'static str {
    match align >= 8 && !slot.is_output() {
        true => " (`PlanOptions::any_address` copies it in every call)",
        false => "",
    }
}

/// The memory of a GPU for a slot.
fn find(buffers: &DeviceBuffers, slot: Slot) -> Option<(cuda::DevicePtr, Element)> {
    if slot.is_output() {
        let (_, tensor) = buffers.outputs.iter().find(|(s, _)| *s == slot)?;
        return match &tensor.place {
            PlaceMut::Cuda(pointer, element, _) => Some((*pointer, *element)),
            _ => None,
        };
    }
    let (_, tensor) = buffers.inputs.iter().find(|(s, _)| *s == slot)?;
    match tensor.place {
        Place::Cuda(pointer, element) => Some((pointer, element)),
        Place::Host(_) => None,
    }
}

/// Tensors in host memory, as buffers.
fn on_host(buffers: DeviceBuffers<'_>) -> Result<HostBuffers<'_>, InvalidProblem> {
    let mut host = HostBuffers::new();
    for (slot, tensor) in buffers.inputs {
        if let Place::Host(memory) = tensor.place {
            host = host.input(slot, memory);
        }
    }
    for (slot, tensor) in buffers.outputs {
        match tensor.place {
            PlaceMut::Host(memory) => host = host.output(slot, memory),
            PlaceMut::Refused(element) | PlaceMut::Cuda(_, element, _) => {
                return Err(InvalidProblem::new(slot, "must hold floats", element));
            }
        }
    }
    Ok(host)
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executable({}: {})", self.plan.device, self.plan.summary())
    }
}

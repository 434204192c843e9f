//! Running a plan on tensors of its device.

use crate::device::Kind;
use crate::tensor::{DeviceBuffers, Pending, Place, PlaceMut};
use crate::{Error, Plan};
use cuda::{DevicePtr, Loaded};
use problem::{HostBuffers, InvalidProblem, Problem, Slot};
use program::Access;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

/// A plan's program on its GPU, loaded by the first launch.
#[derive(Clone, Default)]
pub(crate) struct Ready(Arc<OnceLock<Loaded>>);

impl Ready {
    fn get(&self, device: &cuda::Device, program: &program::Program) -> Result<Loaded, Error> {
        if let Some(loaded) = self.0.get() {
            return Ok(loaded.clone());
        }
        let loaded = device.load(program)?;
        Ok(self.0.get_or_init(|| loaded).clone())
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "loaded" } else { "not loaded" })
    }
}

impl Plan {
    /// Computes on tensors of the plan's device. A GPU only queues the work, on its default stream; all
    /// others have done it on return.
    ///
    /// # Errors
    /// If a slot has no tensor, or one that is too small, of another type or another device's; if the
    /// device fails.
    pub fn launch<'a>(&self, buffers: DeviceBuffers<'a>) -> Result<Pending<'a>, Error> {
        self.check_devices(&buffers)?;
        match (&self.device.0, &self.emitted) {
            (Kind::Cuda { device, .. }, Some(plan)) => {
                let mut pointers = pointers(&self.problem, &buffers)?;
                let wanted = plan.program.buffers.iter();
                let scratch = wanted.filter(|buffer| buffer.access == Access::Workspace);
                let workspace = scratch
                    .map(|buffer| device.alloc(buffer.bytes as usize))
                    .collect::<Result<Vec<_>, _>>()?;
                pointers.extend(workspace.iter().map(cuda::DeviceBuffer::pointer));
                let stream = device.default_stream();
                self.ready.get(device, &plan.program)?.launch(&stream, &pointers)?;
                Ok(Pending { stream: Some(stream), _workspace: workspace, tensors: PhantomData })
            }
            _ => {
                self.run(&mut on_host(buffers)?)?;
                Ok(Pending { stream: None, _workspace: Vec::new(), tensors: PhantomData })
            }
        }
    }

    fn check_devices(&self, buffers: &DeviceBuffers) -> Result<(), InvalidProblem> {
        let here = self.device.memory_name();
        let inputs = buffers.inputs.iter().map(|(slot, tensor)| (slot, tensor.device));
        let outputs = buffers.outputs.iter().map(|(slot, tensor)| (slot, tensor.device));
        for (slot, device) in inputs.chain(outputs) {
            let there = device.memory_name();
            if there != here {
                return Err(InvalidProblem::new(slot, format!("must lie on {here}"), there));
            }
        }
        Ok(())
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

/// The address of every slot's tensor, in order.
fn pointers(problem: &Problem, buffers: &DeviceBuffers) -> Result<Vec<DevicePtr>, InvalidProblem> {
    let pointer = |slot: Slot| {
        let missing = || InvalidProblem::new(slot, "needs memory", "missing");
        let (pointer, element) = match slot.is_output() {
            true => match buffers.outputs.iter().find(|(s, _)| *s == slot).map(|(_, t)| &t.place) {
                Some(PlaceMut::Cuda(pointer, element, _)) => (*pointer, *element),
                _ => return Err(missing()),
            },
            false => match buffers.inputs.iter().find(|(s, _)| *s == slot).map(|(_, t)| t.place) {
                Some(Place::Cuda(pointer, element)) => (pointer, element),
                _ => return Err(missing()),
            },
        };
        let wanted = problem.slot_element(slot);
        match wanted.is_held_by(element) {
            true => Ok(pointer),
            false => Err(InvalidProblem::new(slot, format!("must hold {wanted}"), element)),
        }
    };
    problem.slots().into_iter().map(pointer).collect()
}

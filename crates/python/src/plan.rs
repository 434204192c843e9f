//! A planned problem, and what a caller must know to run it.

use crate::memory::{CPU, Memory, Need, Needs, slot_number};
use crate::{Request, host};
use problem::{Problem, Slot};
use serde::Serialize;
use sixwarp::{Device, Error, Executable, PlanOptions, Stream};
use std::ffi::{CStr, CString};

/// A problem planned for one device.
pub struct Plan {
    executable: Executable,
    needs: Needs,
    info: CString,
}

#[derive(Serialize)]
struct Info {
    slots: Vec<SlotInfo>,
    workspace_bytes: u64,
    summary: String,
    device: String,
    flops: f64,
}

/// A slot, by its name and by the number that [`Memory`] names it with.
#[derive(Serialize)]
struct SlotInfo {
    name: String,
    number: u32,
    element: String,
    bytes: u64,
    written: bool,
}

impl From<&Need> for SlotInfo {
    fn from(need: &Need) -> Self {
        SlotInfo {
            name: need.slot.to_string(),
            number: slot_number(need.slot),
            element: need.element.to_string(),
            bytes: need.bytes,
            written: need.slot.is_output(),
        }
    }
}

impl Plan {
    /// Plans for GPU `device`, or the CPU if it is -1.
    ///
    /// # Errors
    /// If the device is not there or cannot do it.
    pub fn new(request: &Request, device: i32) -> Result<Self, Error> {
        let Request { problem, split, .. } = request;
        let (on, split) = (request.on(opened(device)?)?, *split);
        let options = on.plan_options().map(|usual| PlanOptions { split, ..usual });
        let plan = sixwarp::plan_with(problem, &on, options)?;
        let executable = plan.prepare()?;
        let needs = needs(problem, executable.workspace_bytes(), device);
        let info = Info {
            slots: needs.slots.iter().map(SlotInfo::from).collect(),
            workspace_bytes: needs.workspace_bytes,
            summary: plan.summary(),
            device: plan.device().to_string(),
            flops: problem.flops(),
        };
        let info = serde_json::to_string(&info).map_err(|e| Error::Device(e.to_string()))?;
        let info = CString::new(info).unwrap_or_default();
        Ok(Self { executable, needs, info })
    }

    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    pub(crate) fn host_plan(&self) -> &sixwarp::Plan {
        self.executable.plan()
    }

    /// Runs on memory that the caller describes: on the CPU before returning, on a GPU by queueing on
    /// `stream`.
    ///
    /// # Safety
    /// Descriptions must be true; the memory must stay until the work has ended, and what is written
    /// must not be accessed by anyone else until then.
    pub(crate) unsafe fn run(
        &self,
        given: &[Memory],
        workspace: Option<&Memory>,
        stream: usize,
    ) -> Result<(), Error> {
        let addresses = self.needs.addresses(given, workspace)?;
        // SAFETY: each address is that of memory that is large enough, as the caller vouches.
        unsafe { self.run_at(&addresses, stream) }
    }

    /// Runs on addresses: those of the slots in their order, then that of the workspace.
    ///
    /// # Safety
    /// Each must be that of memory of the plan's device that holds what the plan needs; otherwise as
    /// [`Plan::run`].
    pub(crate) unsafe fn run_at(&self, addresses: &[u64], stream: usize) -> Result<(), Error> {
        self.needs.check_places(addresses)?;
        if self.needs.device == CPU {
            // SAFETY: as the caller says; places were checked.
            return unsafe { host::run(self, addresses) };
        }
        let slots = &self.needs.slots;
        let address = |slot: Slot| {
            let at = slots.iter().position(|need| need.slot == slot);
            at.map_or(0, |at| addresses[at])
        };
        let workspace = addresses.get(slots.len()).copied().unwrap_or(0);
        // SAFETY: as the caller says.
        unsafe {
            let stream = Stream::from_raw(self.host_plan().device(), stream)?;
            self.executable.launch_at(&stream, address, workspace)
        }
    }

    /// What a caller must know, as JSON.
    pub fn info(&self) -> &CStr {
        &self.info
    }
}

/// The device of a number.
pub(crate) fn opened(device: i32) -> Result<Device, Error> {
    match u32::try_from(device) {
        Ok(ordinal) => Device::cuda(ordinal),
        Err(_) if device == CPU => Ok(Device::cpu()),
        Err(_) => Err(Error::NoDevice(format!("there is no GPU {device}"))),
    }
}

/// What running `problem` needs of a caller.
fn needs(problem: &Problem, workspace_bytes: u64, device: i32) -> Needs {
    let need =
        |slot| Need { slot, element: problem.slot_element(slot), bytes: problem.slot_bytes(slot) };
    Needs { slots: problem.slots().into_iter().map(need).collect(), workspace_bytes, device }
}

//! A planned problem, and what a caller must know to run it.

use crate::Description;
use crate::gpu::Gpu;
use problem::{Problem, Slot};
use serde::Serialize;
use sixwarp::{Device, Error, PlanOptions};
use std::ffi::{CStr, CString};

/// A problem planned for one device.
pub struct Plan {
    plan: sixwarp::Plan,
    pub(crate) slots: Vec<Slot>,
    gpu: Option<Gpu>,
    info: CString,
}

#[derive(Serialize)]
struct Info {
    /// Slots in the order their addresses are given.
    slots: Vec<String>,
    /// Bytes of each.
    bytes: Vec<u64>,
    workspace_bytes: u64,
    summary: String,
    device: String,
    flops: f64,
}

/// The CPU, where GPUs count from 0.
const CPU: i32 = -1;

impl Plan {
    /// Plans for GPU `device`, or the CPU if it is -1.
    ///
    /// # Errors
    /// If the problem is not valid, or the device is not there or cannot do it.
    pub fn new(description: &Description, device: i32) -> Result<Self, Error> {
        let problem = description.problem()?;
        let (plan, gpu) = match device {
            CPU => (sixwarp::plan(&problem, &Device::cpu())?, None),
            _ => {
                let ordinal = u32::try_from(device)
                    .map_err(|_| Error::NoDevice(format!("there is no GPU {device}")))?;
                let device = Device::cuda(ordinal)?;
                let split = description.split();
                let options = device.plan_options().map(|usual| PlanOptions { split, ..usual });
                let plan = sixwarp::plan_with(&problem, &device, options)?;
                let opened = cuda::Device::open(ordinal)?;
                let gpu = plan.program().map(|program| Gpu::new(opened, program)).transpose()?;
                (plan, gpu)
            }
        };
        let slots = problem.slots();
        let workspace_bytes = gpu.as_ref().map_or(0, Gpu::workspace_bytes);
        let info = Info {
            slots: slots.iter().map(Slot::to_string).collect(),
            bytes: slots.iter().map(|slot| problem.slot_bytes(*slot)).collect(),
            workspace_bytes,
            summary: plan.summary(),
            device: plan.device().to_string(),
            flops: problem.flops(),
        };
        let info = serde_json::to_string(&info).map_err(|e| Error::Device(e.to_string()))?;
        let info = CString::new(info).unwrap_or_default();
        Ok(Self { plan, slots, gpu, info })
    }

    pub(crate) fn problem(&self) -> &Problem {
        self.plan.problem()
    }

    pub(crate) fn host_plan(&self) -> &sixwarp::Plan {
        &self.plan
    }

    pub(crate) fn gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref()
    }

    /// What a caller must know, as JSON.
    pub fn info(&self) -> &CStr {
        &self.info
    }
}

use crate::device::Kind;
use crate::memory::ensure_memory;
use crate::{Device, Error, PlanOptions, programs};
use problem::{DType, HostBuffers, Inputs, Problem, Slot};

/// How a problem will be computed on a device; can be run many times.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) problem: Problem,
    pub(crate) device: Device,
    /// The emitted program, where the device runs one.
    pub(crate) emitted: Option<kernels::Plan>,
}

/// Plans `problem` for `device`.
///
/// # Errors
/// [`Error::Unsupported`] if the device cannot do it; [`Error::TooLarge`] if its memory does not
/// hold the problem.
pub fn plan(problem: &Problem, device: &Device) -> Result<Plan, Error> {
    plan_with(problem, device, device.plan_options())
}

/// As [`plan`], with choices for the kernel planner, which the CPU and the oracle do not have.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(
    problem: &Problem,
    device: &Device,
    options: Option<PlanOptions>,
) -> Result<Plan, Error> {
    let emitted = match device.arch() {
        None => None,
        Some(arch) => {
            let options = options.or_else(|| device.plan_options());
            let options = options.unwrap_or_else(|| PlanOptions::for_arch(arch));
            Some(kernels::plan(problem, arch, &options)?)
        }
    };
    let plan = Plan { problem: problem.clone(), device: device.clone(), emitted };
    plan.check_memory()?;
    Ok(plan)
}

/// Computes `problem` on host tensors, once.
///
/// # Errors
/// As [`plan`] and [`Plan::run`].
pub fn attention(
    problem: &Problem,
    buffers: &mut HostBuffers,
    device: &Device,
) -> Result<(), Error> {
    plan(problem, device)?.run(buffers)
}

impl Plan {
    /// The problem.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The program that will run, where the device runs one.
    pub fn program(&self) -> Option<&program::Program> {
        self.emitted.as_ref().map(|plan| &plan.program)
    }

    /// Which kernel was chosen and why, for people.
    pub fn summary(&self) -> String {
        match (&self.emitted, &self.device.0) {
            (Some(plan), _) => plan.summary.clone(),
            (None, _) if self.is_by_definition() => "f64 from the definition".to_string(),
            (None, _) => format!("tiles of keys under an online softmax, {:?}", cpu::Isa::best()),
        }
    }

    /// Scratch memory the device needs beyond the problem's tensors.
    pub fn workspace_bytes(&self) -> u64 {
        match (&self.emitted, &self.device.0) {
            (Some(plan), _) => plan.program.workspace_bytes(),
            (None, _) if self.is_by_definition() => oracle_bytes(&self.problem),
            (None, _) => 0,
        }
    }

    /// What the address of a slot must be a multiple of, in bytes: 16 for rows on a GPU, unless the plan was made for
    /// [any address](PlanOptions::any_address), else the size of an element. `None` if the problem has no such slot.
    pub fn alignment(&self, slot: Slot) -> Option<u64> {
        if !self.problem.slots().contains(&slot) {
            return None;
        }
        let buffer = |program: &program::Program| {
            program.buffer(&slot.to_string()).map(|id| program.buffers[id.0].align)
        };
        let found = self.program().and_then(buffer);
        found.or_else(|| Some(self.problem.slot_element(slot).bytes()))
    }

    /// Whether the oracle computes it: for its own device, and f64 on the CPU.
    fn is_by_definition(&self) -> bool {
        matches!(self.device.0, Kind::Oracle) || self.problem.dtype() == DType::F64
    }

    fn check_memory(&self) -> Result<(), Error> {
        let bytes = self.problem.slots().into_iter().map(|slot| self.problem.slot_bytes(slot));
        let tensors = bytes.fold(0, u64::saturating_add);
        match &self.device.0 {
            Kind::Cuda { device, .. } => {
                let needed = tensors.saturating_add(self.workspace_bytes());
                let available = device.info().memory_bytes;
                if needed > available {
                    let what = format!("this problem on {}", self.device);
                    return Err(Error::TooLarge { what, needed, available });
                }
                Ok(())
            }
            // The simulator works on copies: what goes in, what it holds, what comes out.
            Kind::Simulated { .. } => {
                let needed = tensors.saturating_mul(3).saturating_add(self.workspace_bytes());
                ensure_memory(&format!("this problem on {}", self.device), needed)
            }
            _ => ensure_memory(&format!("this problem on {}", self.device), self.workspace_bytes()),
        }
    }

    /// Computes on host tensors.
    ///
    /// # Errors
    /// If a slot has no memory, too little or of the wrong type, if lengths, pages or indices are
    /// impossible, or if the device fails.
    pub fn run(&self, buffers: &mut HostBuffers) -> Result<(), Error> {
        if self.emitted.is_some() {
            // Kernels believe what they read.
            Inputs::new(&self.problem, buffers)?;
        }
        match (&self.device.0, &self.emitted) {
            (Kind::Cuda { device, .. }, Some(plan)) => {
                let mut bytes = programs::gather(&self.problem, &plan.program, buffers)?;
                device.run_host(&plan.program, &mut bytes)?;
                programs::scatter(&self.problem, &plan.program, bytes, &[], buffers);
                Ok(())
            }
            (Kind::Simulated { options, .. }, Some(plan)) => {
                let bytes = programs::gather(&self.problem, &plan.program, buffers)?;
                let report = sim::run(&plan.program, &bytes, options)?;
                let (bytes, unwritten) = (report.buffers, &report.unwritten);
                programs::scatter(&self.problem, &plan.program, bytes, unwritten, buffers);
                Ok(())
            }
            (Kind::Oracle, _) => Ok(cpu::oracle::answer(&self.problem, buffers)?),
            _ => Ok(cpu::attention(&self.problem, buffers)?),
        }
    }
}

/// The oracle keeps its result and one sequence's rows in f64.
fn oracle_bytes(problem: &Problem) -> u64 {
    let results = problem.lse_len().saturating_mul(problem.value_dim() + 1);
    let keys = problem.segments.iter().map(|s| s.longest()).fold(0, u64::saturating_add);
    let rows = keys.saturating_mul(problem.key_dim() + problem.value_dim());
    results.saturating_add(rows).saturating_mul(8)
}

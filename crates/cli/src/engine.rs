//! Devices by name, as engines of the case table.

use cases::{CaseData, EngineError, Outputs};
use sixwarp::{Arch, Device, DeviceName, Error, Plan, Problem};

/// The device called `name`, with the kernels of `arch` if that is asked for.
pub fn open(name: DeviceName, arch: Option<Arch>) -> Result<Device, Error> {
    let device = Device::open(name)?;
    arch.map_or(Ok(device.clone()), |arch| device.with_arch(arch))
}

/// Computes a case's problem on its data, with fresh outputs.
pub fn compute(
    device: &Device,
    problem: &Problem,
    data: &CaseData,
) -> Result<Outputs, EngineError> {
    run(&sixwarp::plan(problem, device).map_err(failure)?, data)
}

/// Runs a plan of the case's problem on its data, with fresh outputs.
pub fn run(plan: &Plan, data: &CaseData) -> Result<Outputs, EngineError> {
    let (result, out, lse) = data.with_outputs(|mut buffers| plan.run(&mut buffers));
    result.map_err(failure)?;
    Ok(Outputs { out, lse })
}

fn failure(error: Error) -> EngineError {
    match error {
        Error::Unsupported(unsupported) => EngineError::Unsupported(unsupported),
        other => EngineError::Failed(other.to_string()),
    }
}

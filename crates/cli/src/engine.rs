//! Devices by name, as engines of the case table.

use cases::{CaseData, EngineError, Outputs};
use sixwarp::{Device, Error, Plan, Problem};

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

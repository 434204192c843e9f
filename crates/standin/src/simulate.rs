//! A launch on the simulator, in every mode that is asked for.

use crate::driver::Driver;
use crate::job::KernelLaunch;
use crate::memory::{Reached, reach};
use crate::report::Launch as Reported;
use crate::result::{CudaResult, Outcome};
use crate::settings::settings;
use program::{Access, Argument, Buffer, Launch, Program};
use sim::{Error, Options, Placement, Rule};
use std::collections::HashSet;

/// Runs a launch, reports what is wrong with it, and writes its memory back.
///
/// Rules that a kernel can survive are reported and passed over, so that the program goes on. Memory is what the
/// first mode made of it; the others only look for more.
pub fn run(launch: &KernelLaunch, driver: &Driver) -> Outcome {
    let module = &launch.module;
    let before = {
        let state = driver.state();
        // SAFETY: a program keeps registered memory until launches that can reach it have ended.
        unsafe { reach(&state.memory, &launch.params, module.variables.values().copied())? }
    };
    let (program, buffers) = (program_of(launch, &before), contents(&before));
    let addresses: Vec<u64> = before.iter().map(|reached| reached.base).collect();
    let placement = Placement { addresses: &addresses, variables: &module.variables };
    let reported = Reported { launch, program: &program, memory: &before };
    driver.reporter.begin(&reported);
    let mut after = Ok(Vec::new());
    for (number, (mode, options)) in settings().modes.iter().enumerate() {
        let options = Options { allow: Rule::ALL.to_vec(), ..options.clone() };
        let mut outcome = sim::outcome_at(&program, &buffers, &placement, &options);
        let contents = std::mem::take(&mut outcome.report.buffers);
        driver.reporter.take(&reported, number == 0, (mode, options.seed), &outcome);
        if number == 0 {
            after = outcome.error.as_ref().map_or(Ok(contents), |error| Err(result_of(error)));
        }
    }
    write_back(driver, &before, after?)
}

fn program_of(launch: &KernelLaunch, memory: &[Reached]) -> Program {
    let mut names = HashSet::new();
    let buffer = |reached: &Reached| {
        let mut name = reached.name.clone();
        while !names.insert(name.clone()) {
            name += &format!(" at {:#x}", reached.base);
        }
        let access = match (reached.read_only, reached.written || !settings().uninitialised) {
            (true, _) => Access::Read,
            (false, true) => Access::ReadWrite,
            (false, false) => Access::Write,
        };
        Buffer::new(name, reached.bytes.len() as u64, 1, access)
    };
    let argument = |bytes: &Vec<u8>| Argument::Bytes(bytes.clone(), vec![]);
    Program {
        module: launch.module.ptx.clone(),
        buffers: memory.iter().map(buffer).collect(),
        launches: vec![Launch {
            kernel: launch.kernel.clone(),
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            shared_bytes: launch.shared_bytes,
            args: launch.params.iter().map(argument).collect(),
            overlaps_previous: false,
        }],
    }
}

fn contents(memory: &[Reached]) -> Vec<Vec<u8>> {
    memory.iter().map(|reached| reached.bytes.clone()).collect()
}

/// Puts what has changed where it belongs; what the launch did not change may be the host's meanwhile.
fn write_back(driver: &Driver, before: &[Reached], after: Vec<Vec<u8>>) -> Outcome {
    let mut state = driver.state();
    for (reached, bytes) in before.iter().zip(after) {
        if reached.read_only || reached.bytes == bytes {
            continue;
        }
        // SAFETY: as for reading.
        unsafe { state.memory.write(reached.base, &bytes)? };
    }
    Ok(())
}

/// What the program gets when a launch cannot go on.
fn result_of(error: &Error) -> CudaResult {
    match error {
        Error::Invalid(_) | Error::Load(_) => CudaResult::LAUNCH_OUT_OF_RESOURCES,
        Error::Stopped(_) => CudaResult::LAUNCH_TIMEOUT,
        _ => CudaResult::LAUNCH_FAILED,
    }
}

//! Host tensors in and out of a [`Program`]'s buffers.

use crate::Error;
use problem::{HostBuffers, InvalidProblem, Problem, Slot};
use program::Program;

/// Bytes for each of the program's buffers: the problem's slots in order, then workspaces, which
/// stay empty for the engine to allocate.
pub(crate) fn gather(
    problem: &Problem,
    program: &Program,
    buffers: &mut HostBuffers,
) -> Result<Vec<Vec<u8>>, Error> {
    let slots = problem.slots();
    let mut bytes = vec![Vec::new(); program.buffers.len()];
    for (slot, bytes) in slots.into_iter().zip(&mut bytes) {
        *bytes = slot_bytes(problem, slot, buffers)?;
    }
    Ok(bytes)
}

fn slot_bytes(
    problem: &Problem,
    slot: Slot,
    buffers: &mut HostBuffers,
) -> Result<Vec<u8>, InvalidProblem> {
    let found = match slot.is_output() {
        true => buffers.get_mut(slot).map(|memory| memory.as_ref().to_bytes()),
        false => buffers.get(slot).map(|memory| memory.to_bytes()),
    };
    let bytes = found.ok_or_else(|| InvalidProblem::new(slot, "needs memory", "missing"))?;
    let needed = problem.slot_bytes(slot);
    if (bytes.len() as u64) < needed {
        let rule = format!("must hold {needed} bytes");
        return Err(InvalidProblem::new(slot, rule, bytes.len()));
    }
    Ok(bytes)
}

/// Copies what the program wrote back to the host tensors.
pub(crate) fn scatter(problem: &Problem, bytes: &[Vec<u8>], buffers: &mut HostBuffers) {
    for (slot, bytes) in problem.slots().into_iter().zip(bytes) {
        if let Some(memory) = buffers.get_mut(slot) {
            memory.copy_from_bytes(bytes);
        }
    }
}

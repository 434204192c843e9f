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

/// Copies what the program wrote back to the host tensors. Elements that are all ones were not
/// written (that is what simulated memory holds before) and keep what the host has.
pub(crate) fn scatter(problem: &Problem, bytes: &[Vec<u8>], buffers: &mut HostBuffers) {
    for (slot, bytes) in problem.slots().into_iter().zip(bytes) {
        let Some(memory) = buffers.get_mut(slot) else { continue };
        let before = memory.as_ref().to_bytes();
        let size = before.len() / memory.as_ref().len().max(1);
        let mut after = bytes.clone();
        for (new, old) in after.chunks_exact_mut(size.max(1)).zip(before.chunks_exact(size.max(1)))
        {
            if new.iter().all(|byte| *byte == 0xff) {
                new.copy_from_slice(old);
            }
        }
        memory.copy_from_bytes(&after);
    }
}
